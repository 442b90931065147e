//! Servers that lie on purpose. Whatever they do, both connections refuse it with the same error,
//! within the time limit and without a panic, and the password stays where it is.

mod certificate;
mod disorder;
mod proof;
mod reach;
mod scram;
mod server;
mod theft;
