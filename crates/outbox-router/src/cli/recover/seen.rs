//! The table of the ids that topics have, of the session that compares.

/// The temporary table.
pub(super) const SEEN: &str = "pg_temp.outbox_router_seen";

/// Makes it. Nothing can be created in the transaction that reads the rows.
pub(super) const MAKE_SEEN: &str = "create temp table outbox_router_seen \
     (number int2 not null, topic int4 not null, id text not null, at int8 not null)";
