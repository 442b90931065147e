//! How far the brokers are, which decides how many requests a connection has in flight.
//!
//! A broker processes one request of a connection at a time, and takes the next when it has
//! responded (`SocketServer` of Kafka mutes the connection meanwhile). So with `n` requests in
//! flight a record waits for up to `n - 1` others before its own, and what more than one gain is
//! that the broker does not wait for the network: two are enough where the network is faster than
//! the broker. Behind a slower network, more are needed to keep the broker busy.

use std::{
    net::{TcpStream, ToSocketAddrs},
    sync::mpsc,
    thread,
    time::Duration,
};

use tokio::time::Instant;

/// librdkafka's name of the property.
pub(super) const IN_FLIGHT: &str = "max.in.flight.requests.per.connection";
/// Its value for brokers that are near; for others it stays as it is by default.
pub(super) const IN_FLIGHT_NEAR: &str = "2";

/// What a broker needs for a request, at least (docs/performance-log.md, "Targets that are not
/// met"); with replicas it waits for these, too.
const NEAR: Duration = Duration::from_micros(300);
/// The shortest of so many round trips counts: this machine may be busy.
const ROUND_TRIPS: usize = 3;
/// A connect that takes longer is not awaited: this broker is far.
const CONNECT_LIMIT: Duration = Duration::from_millis(5);
/// Resolving a name can take seconds, for which the producer must not wait.
const LIMIT: Duration = Duration::from_millis(100);

/// How far the brokers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Distance {
    /// Every bootstrap server that answers does so sooner than a broker processes a request.
    Near,
    /// Some are farther, or none answers.
    Far,
}

impl Distance {
    /// Measures how long a TCP connect takes. Blocks, but not for long.
    pub(super) fn of(bootstrap_servers: &str) -> Self {
        let servers: Vec<String> =
            bootstrap_servers.split(',').map(|server| server.trim().to_owned()).collect();
        let (result, measured) = mpsc::sync_channel(1);
        let measure = move || {
            let round_trips = servers.iter().filter_map(|server| round_trip(server));
            // Nobody waits for a result that comes late.
            let _late = result.try_send(Self::from_round_trip(round_trips.max()));
        };
        let thread = thread::Builder::new().name("distance".to_owned()).spawn(measure);
        thread.map_or(Self::Far, |_| measured.recv_timeout(LIMIT).unwrap_or(Self::Far))
    }

    fn from_round_trip(longest: Option<Duration>) -> Self {
        match longest {
            Some(longest) if longest <= NEAR => Self::Near,
            Some(_) | None => Self::Far,
        }
    }
}

/// The shortest time in which a connection to the server is made. `None` where none is.
fn round_trip(server: &str) -> Option<Duration> {
    let address = server.rsplit('/').next()?.to_socket_addrs().ok()?.next()?;
    let mut shortest: Option<Duration> = None;
    for _ in 0..ROUND_TRIPS {
        let begun = Instant::now();
        let connected = TcpStream::connect_timeout(&address, CONNECT_LIMIT);
        let elapsed = begun.elapsed();
        let is_an_answer = connected.is_ok() || elapsed >= CONNECT_LIMIT;
        if !is_an_answer {
            return None;
        }
        shortest = Some(shortest.map_or(elapsed, |shortest| shortest.min(elapsed)));
    }
    shortest
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_that_answers_is_measured_and_one_that_does_not_is_left_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = listener.local_addr().unwrap().to_string();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        assert!(round_trip(&near).is_some());
        assert!(round_trip(&format!("PLAINTEXT://{near}")).is_some());
        for server in [closed.as_str(), "localhost", "no-such-host.invalid:9092", ""] {
            assert_eq!(round_trip(server), None, "{server}");
        }
        assert_eq!(Distance::of(&closed), Distance::Far);
        assert_eq!(Distance::of(""), Distance::Far);
    }

    #[test]
    fn the_longest_round_trip_decides() {
        assert_eq!(Distance::from_round_trip(Some(NEAR)), Distance::Near);
        assert_eq!(Distance::from_round_trip(Some(NEAR * 2)), Distance::Far);
        assert_eq!(Distance::from_round_trip(None), Distance::Far);
    }
}
