//! The monitor and preflight on a real PostgreSQL: what they see, what they tell, and what they keep to themselves.

mod bench;
mod gaps;
mod numbers;
mod postgres;
mod preflight;
mod stopping;
