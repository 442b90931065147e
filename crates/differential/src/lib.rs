//! The same rows through the real Debezium and through the router: what differs, and why.
//!
//! A [`case`] is a table, rows and a configuration of Debezium's `EventRouter`. [`record`] lets the
//! real Debezium route the rows, and keeps its records, with what the server sent of every row, as
//! the case's [`golden`]. [`ours`] translates the same configuration with `migrate` and lets the
//! router's core route what the server sent; it needs neither Java nor a server, so the default
//! tests compare ([`compare`]) every case with its golden. A row whose records differ says why in
//! its case, or the test fails; so it does where a reason is given and nothing differs. [`live`]
//! gives the rows that Debezium has just routed to the real router, with its `compare` and its
//! `run`. [`fresh`] does all of that with random rows, of which there is no golden.

pub mod case;
pub mod compare;
pub mod fresh;
pub mod golden;
pub mod live;
pub mod ours;
pub mod page;
pub mod record;

mod bytes;
mod connect;
mod kafka;
mod postgres;
mod random;
mod refusal;
