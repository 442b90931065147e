//! How long a backlog that is read by SQL may stand still.

use std::time::Duration;

use tokio::time::Instant;

/// The statement that reads a batch holds back VACUUM until the batch is taken. So where Kafka
/// takes nothing for this long, the batch is given up, and what is left is read anew.
const PATIENCE: Duration = Duration::from_secs(60);

/// The server takes no longer than this for a batch within its limits. So behind a longer silence
/// there is a larger transaction, of which it would keep the whole: the walsender sends that as it
/// decodes it.
const SILENCE: Duration = Duration::from_secs(30);

/// Watches a backlog that is read by SQL; no other limit ends it.
#[derive(Debug, Default)]
pub(super) struct BacklogWatch {
    /// Since when the core takes nothing of it.
    waits_since: Option<Instant>,
    /// Since when the core waits for it, and nothing comes.
    silent_since: Option<Instant>,
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy)]
pub(super) enum WaitsFor {
    /// The server's: there is room for what it sends.
    Server,
    /// Kafka's: nothing is read until it acknowledges.
    Kafka,
}

/// What is wrong with a backlog.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// Nothing of it was taken for [`PATIENCE`].
    NotTaken,
    /// The server has sent nothing for [`SILENCE`].
    Silent,
}

impl BacklogWatch {
    /// Bytes of it have come.
    pub(super) fn heard(&mut self) {
        self.silent_since = None;
    }

    /// What is wrong now.
    pub(super) fn look(&mut self, waits_for: WaitsFor, now: Instant) -> Option<Overdue> {
        let (runs, stands, limit, overdue) = match waits_for {
            WaitsFor::Server => {
                (&mut self.silent_since, &mut self.waits_since, SILENCE, Overdue::Silent)
            }
            WaitsFor::Kafka => {
                (&mut self.waits_since, &mut self.silent_since, PATIENCE, Overdue::NotTaken)
            }
        };
        *stands = None;
        let since = *runs.get_or_insert(now);
        (now >= since + limit).then_some(overdue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn a_silent_server_is_waited_for_half_a_minute_and_kafka_for_a_minute() {
        let start = Instant::now();
        let mut watch = BacklogWatch::default();
        assert_eq!(watch.look(WaitsFor::Server, start), None);
        assert_eq!(watch.look(WaitsFor::Server, start + SILENCE - SECOND), None);
        assert_eq!(watch.look(WaitsFor::Server, start + SILENCE), Some(Overdue::Silent));
        watch.heard();
        assert_eq!(watch.look(WaitsFor::Server, start + SILENCE), None);
        assert_eq!(watch.look(WaitsFor::Kafka, start + 2 * SILENCE), None, "nothing is waited for");
        assert_eq!(watch.look(WaitsFor::Kafka, start + 2 * SILENCE + PATIENCE - SECOND), None);
        let late = start + 2 * SILENCE + PATIENCE;
        assert_eq!(watch.look(WaitsFor::Kafka, late), Some(Overdue::NotTaken));
        assert_eq!(watch.look(WaitsFor::Server, late), None, "it is taken again");
        assert_eq!(watch.look(WaitsFor::Kafka, late), None);
    }
}
