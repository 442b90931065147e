//! The table of held events: one request at a time, in their order; and the production of what
//! leaves it.

use relay::{
    Failure, Input,
    held::{HeldAnswer, HeldRequest},
};

use super::{
    Shell,
    job::Done,
    ports::{HeldTable, Kafka, Postgres},
};
use crate::held::HeldStream;

impl<P: Postgres, K: Kafka> Shell<P, K> {
    /// Asks the table, as soon as the request that runs has ended.
    pub(super) fn ask_held(&mut self, number: u64, request: HeldRequest) {
        // The core asks after it has connected, so there is a server to compare with.
        let Some(history) = self.history.clone() else { return };
        let stream = HeldStream { history, walsender: self.walsender };
        let Some(mut table) = self.held.table.take() else {
            self.held.waiting = Some((number, request));
            return;
        };
        self.jobs.spawn(async move {
            let answer = table.answer(&request, &stream).await;
            Done::Held(table, number, answer)
        });
    }

    pub(super) fn held_answered(
        &mut self,
        table: Box<P::HeldTable>,
        number: u64,
        answer: Result<HeldAnswer, Failure>,
    ) {
        self.held.table = Some(table);
        if let Some((number, request)) = self.held.waiting.take() {
            self.ask_held(number, request);
        }
        if let Err(failure) = &answer {
            tracing::debug!(code = %failure.code, "{failure:#}");
        }
        self.input(Input::Held(number, answer));
    }

    /// Produces what leaves the table, as far as the sink takes it.
    pub(super) fn release(&mut self) {
        if !self.relay.has_release() {
            return;
        }
        let now = self.clock.now();
        let Some(sink) = &mut self.sink else { return };
        self.tap.refresh();
        if self.tap.is_idle() {
            self.relay.release(now, sink);
        } else {
            self.tap.release(&mut self.relay, now, sink);
        }
    }
}
