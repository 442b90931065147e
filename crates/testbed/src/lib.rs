//! Throw-away real servers, faults, load, and a checker of every promise the product makes.
//!
//! The proof stands beside the product and knows nothing of its code: what is judged here is judged
//! from the database and from Kafka alone. A server that is missing makes a test *fail*.
//!

pub mod kafka;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod router;
pub mod wait;

mod http;
mod scripts;
