//! The configuration of the polling source, and the commands that have no meaning with it.

mod commands;
mod keys;
