//! Tests on hand-made bytes; those on captured streams are in `tests/captured_streams/main.rs`.

mod frames;
mod malformed;
mod messages;
mod prefix;
mod properties;
mod wire;
