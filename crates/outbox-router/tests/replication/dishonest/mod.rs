//! Servers that lie on purpose. Whatever they do, both connections refuse it with the same error,
//! within the time limit and without a panic, and the password stays where it is.

mod certificate;
mod malformed;
mod password;
mod proof;
mod scram;
mod server;
mod stolen_certificate;
