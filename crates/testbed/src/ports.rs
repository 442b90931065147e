//! Free ports for servers that are killed and started again on the same port.
//!
//! Ports are taken from below the range in which the kernel picks the local port of an outgoing
//! connection: a port of that range may be taken by such a connection while its server is down.

use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::Context;

const FIRST: u16 = 15_000;
const COUNT: u16 = 15_000;

static HANDED_OUT: AtomicU16 = AtomicU16::new(0);

/// A port of the loopback address on which nothing listens; this process never returns it twice.
///
/// # Errors
///
/// Fails when all ports of the range are taken.
pub fn free_port() -> anyhow::Result<u16> {
    // Concurrent processes start at different places.
    let start = u16::try_from(std::process::id().wrapping_mul(97) % u32::from(COUNT))?;
    (0..COUNT)
        .map(|_| HANDED_OUT.fetch_add(1, Ordering::Relaxed))
        .map(|step| FIRST + (start.wrapping_add(step)) % COUNT)
        // Checked by connecting and not by binding: a bound socket would be inherited for a moment
        // by every child process that another thread starts, and would keep the port from its
        // server.
        .find(|port| TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_err())
        .context("no free port on the loopback address")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_returned_twice() {
        let ports: std::collections::HashSet<_> = (0..50).map(|_| free_port().unwrap()).collect();
        assert_eq!(ports.len(), 50);
    }
}
