//! How large the segments were in which the server sent: the state of the congestion window.
//!
//! A walsender calls `send` for every message. While the window is open, each becomes a segment of
//! its own; while it is not, they gather to segments of up to 64 KiB. So the mean size of a segment
//! tells the two states apart.

use serde::Serialize;

use super::connections::Connections;
use crate::figures::float;

/// The connection on which most was received between two looks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct MainConnection {
    pub(crate) congestion: String,
    /// Bytes of data per segment.
    pub(crate) segment_bytes: f64,
}

/// The main connection of some looks, the first of which is only what the others are compared with.
///
/// A reader may have several connections, and one of them may hardly be read: they are not added
/// up. One that is opened later begins at nothing, and one that is closed keeps its last figures.
pub(crate) fn main_connection<'a>(
    looks: impl IntoIterator<Item = &'a Connections>,
) -> Option<MainConnection> {
    let mut looks = looks.into_iter();
    let first = looks.next()?;
    let mut last = Connections::new();
    looks.for_each(|look| last.extend(look.iter().map(|(port, seen)| (*port, seen.clone()))));
    let received = last.into_iter().map(|(port, seen)| {
        let before = first.get(&port).map_or((0, 0), |before| (before.bytes, before.segments));
        let bytes = seen.bytes.saturating_sub(before.0);
        (bytes, seen.segments.saturating_sub(before.1), seen.congestion)
    });
    let (bytes, segments, congestion) =
        received.filter(|(_, segments, _)| *segments > 0).max_by_key(|(bytes, ..)| *bytes)?;
    Some(MainConnection { congestion, segment_bytes: float(bytes) / float(segments) })
}

#[cfg(test)]
mod tests {
    use super::super::connections::Connection;
    use super::*;

    fn look(connections: &[(u16, u64, u64)]) -> Connections {
        let connection = |&(port, bytes, segments)| {
            (port, Connection { bytes, segments, congestion: format!("of {port}") })
        };
        connections.iter().map(connection).collect()
    }

    fn segment_bytes(looks: &[Connections]) -> Option<(String, f64)> {
        main_connection(looks).map(|main| (main.congestion, main.segment_bytes))
    }

    #[test]
    fn only_what_came_after_the_first_look_counts() {
        let looks = [look(&[(1, 9000, 900)]), look(&[(1, 10_000, 910)]), look(&[(1, 19_000, 920)])];
        assert_eq!(segment_bytes(&looks), Some(("of 1".to_owned(), 500.0)));
    }

    #[test]
    fn the_connection_with_most_bytes_counts_alone() {
        let looks = [look(&[(1, 0, 0)]), look(&[(1, 500, 100), (2, 64_000, 2)])];
        assert_eq!(segment_bytes(&looks), Some(("of 2".to_owned(), 32_000.0)));
    }

    #[test]
    fn a_connection_that_was_closed_keeps_its_last_figures() {
        let looks = [look(&[]), look(&[(1, 6000, 3)]), look(&[(2, 10, 1)])];
        assert_eq!(segment_bytes(&looks), Some(("of 1".to_owned(), 2000.0)));
    }

    #[test]
    fn without_data_there_is_no_mean() {
        assert_eq!(segment_bytes(&[]), None);
        assert_eq!(segment_bytes(&[look(&[(1, 10, 1)])]), None);
        assert_eq!(segment_bytes(&[look(&[(1, 10, 1)]), look(&[(1, 10, 1)])]), None);
    }
}
