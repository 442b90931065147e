//! Placeholder.
pub mod kafka;
