//! `doctor` on a real PostgreSQL and a real Kafka: every planted fault is named by its code and by
//! no other, and a pair that is set up well has none.
//!
//! Each fault has a database and a slot of its own, because the witness remembers what was altered
//! and altered back.

mod down;
mod kafka_faults;
mod pair;
mod postgres_faults;
mod quiet;
