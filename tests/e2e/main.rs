//! Every end-to-end scenario, in groups. A missing server is a failure, never a skipped test.

mod bad_rows;
mod ddl;
mod delivery;
mod faults;
mod gaps;
mod kills;
mod setup;
mod shutdown;
