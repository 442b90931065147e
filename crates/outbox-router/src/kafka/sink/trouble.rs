//! Why a sink is closed, and when that can be told.

use rdkafka::types::RDKafkaErrorCode;
use relay::{Failure, TopicId, TransactionRef};

use crate::kafka::errors::is_collateral;

/// Why the sink is closed: the first failure, told once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryTrouble {
    /// The transaction of the record that failed; `None` when the producer as a whole did.
    pub transaction: Option<TransactionRef>,
    /// The topic that the record was for.
    pub topic: Option<TopicId>,
    /// What happened.
    pub failure: Failure,
}

/// From the first failure on the sink is closed; what remains is to say why.
pub(super) enum Phase {
    Open,
    /// Bystanders have failed. The culprit's own report is on its way, unless there is none: then
    /// this is told when everything is accounted for.
    Unexplained(DeliveryTrouble),
    Explained(DeliveryTrouble),
    Told,
}

impl Phase {
    /// Notes a failure, whose trouble is put into words only if it is the one to be told.
    pub(super) fn fail(
        &mut self,
        error: RDKafkaErrorCode,
        trouble: impl FnOnce() -> DeliveryTrouble,
    ) {
        match (&self, is_collateral(error)) {
            (Self::Open, true) => *self = Self::Unexplained(trouble()),
            (_, false) => self.explain(trouble),
            (Self::Unexplained(_) | Self::Explained(_) | Self::Told, true) => {}
        }
    }

    /// Notes what closes the sink, unless that is known already.
    pub(super) fn explain(&mut self, trouble: impl FnOnce() -> DeliveryTrouble) {
        if matches!(self, Self::Open | Self::Unexplained(_)) {
            *self = Self::Explained(trouble());
        }
    }
}
