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
    /// The latest of the most informative errors.
    reason: Option<(Tells, Failure)>,
    reach: Reach,
}

/// How much an error explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tells {
    /// That nobody answers.
    Silence,
    /// What happened to a connection. It explains why nobody answers, and not the reverse.
    Connection,
    /// Who refuses the credentials, which explains an unreachable cluster.
    Credentials,
}

impl Tells {
    fn of(failure: &Failure, otherwise: Self) -> Self {
        if failure.code == Code::KafkaAuthentication { Self::Credentials } else { otherwise }
    }
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
        let is_silence = error == RDKafkaErrorCode::AllBrokersDown;
        if is_silence {
            self.reach = Reach::None;
        }
        self.explain(if is_silence { Tells::Silence } else { Tells::Connection }, failure);
    }

    /// Records that a request was not answered.
    pub(super) fn unanswered(&mut self, failure: Failure) {
        self.reach = Reach::None;
        self.explain(Tells::Silence, failure);
    }

    /// Records that Kafka answered a request or acknowledged a record.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn health(&self) -> Health<'_> {
        match (&self.reason, self.reach) {
            (None, _) => Health::Well,
            (Some(_), Reach::Some) => Health::Suspect,
            (Some((_, reason)), Reach::None) => Health::Down(reason),
        }
    }

    fn explain(&mut self, otherwise: Tells, failure: Failure) {
        let tells = Tells::of(&failure, otherwise);
        if self.reason.as_ref().is_none_or(|(known, _)| *known <= tells) {
            self.reason = Some((tells, failure));
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

    /// The count that librdkafka gives includes the bootstrap address, and a request only says that
    /// it was not answered.
    #[test]
    fn the_last_connection_error_is_the_reason_and_not_that_nobody_answers() {
        let mut client_errors = ClientErrors::default();
        let said = |what: &str| Failure::new(Code::KafkaUnreachable, what);
        client_errors.add(RDKafkaErrorCode::AllBrokersDown, said("0/2 brokers are down"));
        assert_eq!(client_errors.health(), Health::Down(&said("0/2 brokers are down")));
        client_errors.add(RDKafkaErrorCode::BrokerTransportFailure, said("reset"));
        client_errors.add(RDKafkaErrorCode::BrokerTransportFailure, said("Connection refused"));
        client_errors.add(RDKafkaErrorCode::AllBrokersDown, said("2/2 brokers are down"));
        client_errors.unanswered(said("BrokerTransportFailure"));
        assert_eq!(client_errors.health(), Health::Down(&said("Connection refused")));
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
