//! Coalesces reads of WAL: after a read the thread sleeps, and takes what has gathered in one read.
//!
//! A walsender sends each message by itself and wakes a reader that waits for it. With single-row
//! transactions that is more than half of the walsender's work, and as much of the router's. So
//! after a read the thread sleeps while the kernel's buffer fills, and then hands on everything
//! that has gathered. That also forms the batches for Kafka: all records of one read reach the
//! producer together, without `linger.ms`. When nothing has gathered, a pause gains nothing, and
//! the next read waits for the socket.
//!
//! After a read that filled the read buffer there is more, which is read at once. The core sets the
//! length of the pause ([`relay::ReadPace`]), in a backlog what was measured does (`pacing`); the
//! transport limits how long the socket may go unread ([`ReplicationStream::max_unread`]). Where
//! that limit is shorter, the socket is emptied several times within one pause.

use std::time::Duration;

use tokio::time::Instant;

use crate::postgres::{Fill, ReplicationStream};

/// The longest that the thread sleeps. In a longer pause it waits for other events, so that
/// acknowledgements and status updates go on.
const SLEEP_MAX: Duration = Duration::from_millis(4);

/// The state of the pause between two reads.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coalesce {
    /// No pause: what arrives is read at once.
    #[default]
    AtOnce,
    /// Bytes were read and are being handed on.
    Taken,
    /// A pause of this length begins when everything is handed on and no other event is ready.
    Due(Duration),
    /// The pause: bytes gather, and no frame is handed on.
    Pausing { until: Instant },
}

impl Coalesce {
    pub(super) fn is_due(self) -> bool {
        matches!(self, Self::Due(_))
    }

    pub(super) fn is_pausing(self) -> bool {
        matches!(self, Self::Pausing { .. })
    }

    /// Until when nothing is read while other events are waited for, in a long pause.
    pub(super) fn waits_until(self, stream: &ReplicationStream) -> Option<Instant> {
        let Self::Pausing { until } = self else { return None };
        let left = until.saturating_duration_since(Instant::now());
        (left.min(stream.max_unread()) > SLEEP_MAX).then_some(until)
    }

    /// No other event is ready: begins the pause that is due.
    pub(super) fn begin_pause(&mut self, now: Instant) {
        if let Self::Due(length) = *self {
            *self = Self::Pausing { until: now + length };
        }
    }

    /// Bytes were read. A pause whose time is not up goes on.
    pub(super) fn took(&mut self, now: Instant) {
        match *self {
            Self::Pausing { until } if now < until => {}
            Self::AtOnce | Self::Taken | Self::Due(_) | Self::Pausing { .. } => *self = Self::Taken,
        }
    }

    /// Bytes were read, and the buffer had no room for the rest: it is read without a pause.
    pub(super) fn overflowed(&mut self) {
        *self = Self::AtOnce;
    }

    /// What was read has been handed on, as far as one pass allows.
    pub(super) fn handed_on(&mut self, pause: Option<Duration>) {
        if *self == Self::Taken {
            *self = pause.map_or(Self::AtOnce, Self::Due);
        }
    }

    /// Within a pause: sleeps as long as the socket may go unread, and reads what has arrived.
    /// `None` where there is no pause, or nothing was read.
    pub(super) fn pause_and_read(&mut self, stream: &mut ReplicationStream) -> Option<Fill> {
        let Self::Pausing { until } = *self else { return None };
        let left = until.saturating_duration_since(Instant::now());
        std::thread::sleep(stream.max_unread().min(left));
        match stream.fill_now() {
            0 => {
                // The server has no more, the buffer has no room, or (TLS) only the runtime can
                // tell. What was read must not wait any longer, and the next read waits for the
                // socket.
                *self = Self::AtOnce;
                None
            }
            count => Some(Fill::Bytes(count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::postgres::frames::FrameLimits;

    /// A stream, and the server's end of its socket.
    fn connected() -> (ReplicationStream, UnixStream) {
        let (client, server) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        let client = tokio::net::UnixStream::from_std(client).unwrap();
        (ReplicationStream::over(client, FRAMES), server)
    }

    const FRAMES: FrameLimits = FrameLimits { read_buffer: 64 * 1024, row_bytes: 64 * 1024 };

    fn open_for(length: Duration) -> Coalesce {
        Coalesce::Pausing { until: Instant::now() + length }
    }

    #[tokio::test]
    async fn an_open_read_takes_what_has_arrived_however_often_the_socket_must_be_emptied() {
        let (mut stream, mut server) = connected();
        let mut coalesce = open_for(Duration::from_secs(3600));
        for count in [10, 2000] {
            server.write_all(&vec![b'd'; count]).unwrap();
            assert_eq!(coalesce.pause_and_read(&mut stream), Some(Fill::Bytes(count)));
            coalesce.took(Instant::now());
            assert!(coalesce.is_pausing());
        }
        assert_eq!(coalesce.pause_and_read(&mut stream), None);
        assert_eq!(coalesce, Coalesce::AtOnce, "a server that has no more is not waited for");
    }

    #[tokio::test]
    async fn a_read_whose_time_is_up_still_takes_what_is_there() {
        let (mut stream, mut server) = connected();
        let mut coalesce = open_for(Duration::ZERO);
        server.write_all(b"dddd").unwrap();
        assert_eq!(coalesce.pause_and_read(&mut stream), Some(Fill::Bytes(4)));
        coalesce.took(Instant::now());
        assert_eq!(coalesce, Coalesce::Taken);
        assert_eq!(
            coalesce.pause_and_read(&mut stream),
            None,
            "and nothing more before it was handed on"
        );
    }

    #[tokio::test]
    async fn the_end_of_the_stream_is_left_to_the_next_poll() {
        let (mut stream, server) = connected();
        drop(server);
        let mut coalesce = open_for(LENGTH);
        assert_eq!(coalesce.pause_and_read(&mut stream), None);
        assert_eq!(coalesce, Coalesce::AtOnce);
        let end = std::future::poll_fn(|cx| stream.poll_fill(cx)).await.unwrap();
        assert_eq!(end, Fill::Closed);
    }

    #[tokio::test]
    async fn a_long_pause_waits_for_other_events_and_leaves_the_socket_unread() {
        let waits =
            |length, stream: &ReplicationStream| open_for(length).waits_until(stream).is_some();
        let (unix, _server) = connected();
        assert!(!waits(LENGTH * 5, &unix), "it has to be emptied meanwhile");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tcp = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let tcp = ReplicationStream::over_tcp(tcp, FRAMES);
        assert!(waits(LENGTH * 5, &tcp));
        assert!(!waits(LENGTH, &tcp), "the thread sleeps");
        assert!(!waits(Duration::ZERO, &tcp), "its time is up");
        assert!(Coalesce::Due(LENGTH * 5).waits_until(&tcp).is_none());
    }

    const LENGTH: Duration = Duration::from_millis(4);

    #[test]
    fn the_rest_of_a_transaction_is_read_at_once() {
        let mut coalesce = Coalesce::default();
        coalesce.took(Instant::now());
        coalesce.handed_on(None);
        assert_eq!(coalesce, Coalesce::AtOnce);
    }

    #[test]
    fn a_pause_gathers_until_its_time_is_up() {
        let (mut coalesce, now) = (Coalesce::default(), Instant::now());
        coalesce.took(now);
        coalesce.handed_on(Some(LENGTH));
        assert_eq!(coalesce, Coalesce::Due(LENGTH));
        coalesce.begin_pause(now);
        coalesce.took(now + LENGTH / 2);
        coalesce.handed_on(None);
        assert!(coalesce.is_pausing(), "what has gathered says nothing yet");
        coalesce.took(now + LENGTH);
        assert_eq!(coalesce, Coalesce::Taken);
        coalesce.handed_on(Some(LENGTH / 2));
        assert_eq!(
            coalesce,
            Coalesce::Due(LENGTH / 2),
            "each is as long as the pace says before it"
        );
    }

    #[test]
    fn what_is_there_is_read_without_a_wait() {
        let (mut coalesce, now) = (Coalesce::Due(LENGTH), Instant::now());
        coalesce.begin_pause(now);
        coalesce.overflowed();
        coalesce.handed_on(Some(LENGTH));
        assert_eq!(coalesce, Coalesce::AtOnce, "the next read takes it at once");
    }

    #[test]
    fn no_pause_follows_where_nothing_was_read() {
        let mut coalesce = Coalesce::default();
        coalesce.handed_on(Some(LENGTH));
        assert_eq!(coalesce, Coalesce::AtOnce);
    }
}
