//! The commands, as a new user types them.
