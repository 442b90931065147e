//! The commands against a real PostgreSQL: what they make, what they refuse, and what they say.
//! Each test has a server of its own, because making a slot waits for every transaction of the
//! cluster.

mod accept;
mod adopt;
mod cleanup;
mod cleanup_proof;
mod dead_letters;
mod delivered;
mod doctor;
mod give_back;
mod held;
mod kafka;
mod left_out_kept;
mod left_out_rows;
mod open_events;
mod partitions;
mod polled;
mod polled_ids;
mod polling_status;
mod record;
mod replay;
mod retention_beside_workers;
mod security;
mod server;
mod setup;
mod setup_polled;
mod setup_roles;
mod skip;
mod status;
mod switch;
mod take_over;
mod teardown;
mod teardown_beside_others;
mod unsendable;
mod where_is;
mod with_behind;
