//! The wire layer against a real PostgreSQL: every way in, and what comes over a running stream.
//!
//! The server's binaries are taken from `PATH` or Debian's directories. A missing server fails the
//! tests: skipping them would look like success.

#![allow(clippy::wildcard_enum_match_arm, reason = "a test names the one event it waits for")]

#[cfg(test)]
mod authentication;
#[cfg(test)]
mod backlog;
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod dishonest;
#[cfg(test)]
mod encryption;
#[cfg(test)]
mod reader;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod snapshot;
#[cfg(test)]
mod streaming;
