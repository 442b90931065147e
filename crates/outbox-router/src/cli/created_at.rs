//! When a row was written, by a column of its table.

/// Names of that column in outbox tables that we have seen; the name that `setup` uses is first.
pub(super) const CREATED_AT: [&str; 7] =
    ["created_at", "occurred_at", "inserted_at", "createdat", "occurredat", "created", "timestamp"];
