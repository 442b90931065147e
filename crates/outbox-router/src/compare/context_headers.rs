//! The headers that Debezium 3 adds to every record unless `extended.headers.enabled` is false: the
//! connector's logical name, its task, its own name, and the id of its run. They name the process
//! that wrote the record, so they differ between any two writers, and are compared on neither side.

/// What their names begin with.
const PREFIX: &str = "__debezium.context.";

/// Takes them out. Returns whether there were any.
pub(super) fn take_out(headers: &mut Vec<(String, Option<Vec<u8>>)>) -> bool {
    let before = headers.len();
    headers.retain(|(name, _)| !name.starts_with(PREFIX));
    headers.len() < before
}
