//! Every end-to-end scenario, in groups. A missing server is a failure, never a skipped test.

#![expect(
    clippy::unwrap_used,
    reason = "functions of a test fail by panicking, as the test itself does"
)]

mod alerts;
mod backfill;
mod backlog;
mod bad_rows;
mod brokers;
mod compare;
mod ddl;
mod dead_letters;
mod delivery;
mod dry_run;
mod facts;
mod faults;
mod gaps;
mod hostile_clients;
mod kills;
mod lost_topics;
mod page;
mod polling;
mod positions;
mod recover;
mod replay;
mod retention;
mod service;
mod setup;
mod shutdown;
mod standbys;
mod statistics;
mod tables;
mod take_over;
mod tap;
mod where_is;
