//! A broker that refuses one event until it is mended: every retry may repeat that event's transaction, and nothing else.

use super::{STEPS, World, broker};
use crate::{Code, Failure, Input, testing::Lane};

/// An event that the broker refuses until it is mended.
pub(super) struct Refused {
    number: usize,
    /// Whether this router knows of it.
    known: Known,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    No,
    Yes,
}

impl World {
    /// Some event that is to come is refused from now on.
    pub(super) fn begin_to_refuse(&mut self) {
        let (first, _) = self.server.unconfirmed();
        let to_come = self.server.events.len() - first;
        if to_come > 0 {
            let number = first + self.random.index(to_come);
            self.refused = Some(Refused { number, known: Known::No });
        }
    }

    pub(super) fn forget_refusal(&mut self) {
        if let Some(refused) = &mut self.refused {
            refused.known = Known::No;
        }
    }

    pub(super) fn is_refused(&self, lane: Lane) -> bool {
        match (&self.refused, self.sink.next(lane)) {
            (Some(refused), Some(record)) => broker::number(record) == refused.number,
            _ => false,
        }
    }

    pub(super) fn refuse(&mut self, lane: Lane) {
        let Some(refused) = &mut self.refused else { return };
        let transaction = self.server.transaction_of(refused.number);
        if refused.known == Known::Yes && self.server.is_connected() {
            self.refused_again += 1;
            let (first_unconfirmed, _) = self.server.unconfirmed();
            assert_eq!(first_unconfirmed, transaction.start, "what precedes it is confirmed");
            let session = self.sink.produced().get(self.produced_before..).unwrap_or_default();
            let behind = session.iter().find(|record| broker::number(record) >= transaction.end);
            assert_eq!(behind, None, "taken with what is refused again");
        }
        refused.known = Known::Yes;
        let transaction = self.sink.fail(lane);
        self.interrupted();
        let failure = Failure::new(Code::TopicForbidden, "refused");
        self.handle(Input::DeliveryFailed { transaction, failure });
    }

    /// For a while nothing else is wrong than that an event is refused.
    pub(super) fn insist(&mut self) {
        for _ in 0..10 {
            self.server.write(&mut self.random);
        }
        self.begin_to_refuse();
        for _ in 0..STEPS {
            self.progress();
            self.judge();
        }
        self.refused = None;
    }
}
