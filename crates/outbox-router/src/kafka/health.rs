//! Derives from the client's errors whether Kafka answers. One broker of several may be restarting
//! or behind a firewall while the others work, so an error about a single broker is only a
//! suspicion.

use rdkafka::types::RDKafkaErrorCode;
use relay::{Code, Failure};

/// What the client's errors say about the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health<'h> {
    /// No error since Kafka last answered.
    Well,
    /// There was an error. A request shows whether Kafka answers.
    Suspect,
    /// No broker answers, for this reason.
    Down(&'h Failure),
}

/// The client's errors since Kafka last answered.
#[derive(Debug, Default)]
pub(super) struct ClientErrors {
    /// The most informative error: refused credentials explain an unreachable cluster, and not the
    /// reverse.
    reason: Option<Failure>,
    reach: Reach,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Reach {
    #[default]
    Some,
    None,
}

impl ClientErrors {
    /// Records an error event of the client.
    pub(super) fn add(&mut self, error: RDKafkaErrorCode, failure: Failure) {
        if error == RDKafkaErrorCode::AllBrokersDown {
            self.reach = Reach::None;
        }
        self.explain(failure);
    }

    /// Records that a request was not answered.
    pub(super) fn unanswered(&mut self, failure: Failure) {
        self.reach = Reach::None;
        self.explain(failure);
    }

    /// Records that Kafka answered a request or acknowledged a record.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn health(&self) -> Health<'_> {
        match (&self.reason, self.reach) {
            (None, _) => Health::Well,
            (Some(_), Reach::Some) => Health::Suspect,
            (Some(reason), Reach::None) => Health::Down(reason),
        }
    }

    fn explain(&mut self, failure: Failure) {
        let explained =
            self.reason.as_ref().is_some_and(|known| known.code == Code::KafkaAuthentication);
        if !explained || failure.code == Code::KafkaAuthentication {
            self.reason = Some(failure);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: Code) -> Failure {
        Failure::new(code, "said so")
    }

    #[test]
    fn an_error_of_one_broker_is_a_suspicion() {
        let mut client_errors = ClientErrors::default();
        client_errors.add(RDKafkaErrorCode::SSL, failure(Code::KafkaAuthentication));
        assert_eq!(client_errors.health(), Health::Suspect);
        client_errors.clear();
        assert_eq!(client_errors.health(), Health::Well);
    }

    #[test]
    fn a_refused_credential_is_the_reason_why_no_broker_answers() {
        let mut client_errors = ClientErrors::default();
        client_errors.add(RDKafkaErrorCode::Authentication, failure(Code::KafkaAuthentication));
        client_errors.add(RDKafkaErrorCode::AllBrokersDown, failure(Code::KafkaUnreachable));
        assert_eq!(client_errors.health(), Health::Down(&failure(Code::KafkaAuthentication)));
    }

    #[test]
    fn an_unanswered_request_confirms_the_suspicion() {
        let mut client_errors = ClientErrors::default();
        client_errors
            .add(RDKafkaErrorCode::BrokerTransportFailure, failure(Code::KafkaUnreachable));
        assert_eq!(client_errors.health(), Health::Suspect);
        client_errors.unanswered(failure(Code::KafkaUnreachable));
        assert_eq!(client_errors.health(), Health::Down(&failure(Code::KafkaUnreachable)));
    }
}
