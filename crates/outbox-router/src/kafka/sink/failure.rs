//! Why a sink is closed, and when the cause is known.

use rdkafka::types::RDKafkaErrorCode;
use relay::{Failure, TopicId, TransactionRef};

use crate::kafka::errors::is_collateral;

/// Why the sink is closed: the first failure, reported once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryFailure {
    /// The transaction of the record that failed; `None` when the producer as a whole did.
    pub transaction: Option<TransactionRef>,
    /// The topic that the record was for.
    pub topic: Option<TopicId>,
    /// What failed.
    pub failure: Failure,
}

/// Whether the sink is open. From the first failure on it is closed, and the other phases lead to
/// reporting why.
pub(super) enum SinkPhase {
    Open,
    /// Only records that failed because of another one were reported. The report of the record that
    /// caused it is expected; if there is none, this failure is reported once every record in
    /// flight is.
    Unexplained(DeliveryFailure),
    Explained(DeliveryFailure),
    Reported,
}

impl SinkPhase {
    /// Records a failure. `failure` is called only if this failure is to be reported.
    pub(super) fn fail(
        &mut self,
        error: RDKafkaErrorCode,
        failure: impl FnOnce() -> DeliveryFailure,
    ) {
        match (&self, is_collateral(error)) {
            (Self::Open, true) => *self = Self::Unexplained(failure()),
            (_, false) => self.explain(failure),
            (Self::Unexplained(_) | Self::Explained(_) | Self::Reported, true) => {}
        }
    }

    /// Records the cause that closes the sink, unless a cause is known already.
    pub(super) fn explain(&mut self, failure: impl FnOnce() -> DeliveryFailure) {
        if matches!(self, Self::Open | Self::Unexplained(_)) {
            *self = Self::Explained(failure());
        }
    }
}
