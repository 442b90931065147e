//! `doctor` on a real PostgreSQL and a real Kafka: every planted fault is named by its code and by
//! no other, and a pair that is set up well has none. [`covered`] sees that no code is left out.
//!
//! Each fault has a database and a slot of its own, because the witness remembers what was altered
//! and altered back.

mod clusters;
mod covered;
mod down;
mod found;
mod kafka_faults;
mod ledger;
mod other_servers;
mod pair;
mod place;
mod polled_faults;
mod postgres_faults;
mod quiet;
mod table_faults;
