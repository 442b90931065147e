//! Tells the streaming task that the server is stopping, once per stop.

use relay::{Code, Failure, State};

use super::{Monitor, MonitorEvent, StopReported};

impl<C> Monitor<C> {
    /// Reports a stopping server: 57P03 to a router that had a stream means that the server is
    /// shutting down, since it was up a moment ago. The streaming task decides whether something
    /// holds the server up, and for how long.
    pub(super) fn stopping(&mut self, failure: &Failure) {
        let had_stream = match self.snapshot().condition.state {
            State::Streaming | State::Blocked | State::Draining | State::Failed => true,
            State::Starting | State::Standby => false,
        };
        if failure.code != Code::ServerNotReady || !had_stream {
            self.stop = None;
        } else if self.stop.is_none()
            && self.channels.events.try_send(MonitorEvent::ServerStopping).is_ok()
        {
            self.stop = Some(StopReported);
        }
    }
}
