//! How many brokers to start, and how they are configured.

use crate::cache::Identity;

/// How the brokers' JVM is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jvm {
    /// Starts quickly and stays small.
    Quick,
    /// As for a measurement: the optimising compiler and a larger heap.
    Fast,
}

/// How many brokers to start, and how they are configured.
#[derive(Debug, Clone)]
pub struct KafkaOptions {
    pub(super) brokers: usize,
    pub(super) advertise: Vec<String>,
    pub(super) properties: Vec<(String, String)>,
    pub(super) jvm: Jvm,
    pub(super) identity: Identity,
}

impl Default for KafkaOptions {
    fn default() -> Self {
        Self {
            brokers: 1,
            advertise: Vec::new(),
            properties: Vec::new(),
            jvm: Jvm::Quick,
            identity: Identity::Usual,
        }
    }
}

impl KafkaOptions {
    /// A cluster of several brokers, with ids from 1.
    #[must_use]
    pub fn brokers(mut self, count: usize) -> Self {
        self.brokers = count;
        self
    }

    /// The `host:port` that the next broker (first 1, then 2, …) advertises on its second listener.
    #[must_use]
    pub fn advertise(mut self, address: impl Into<String>) -> Self {
        self.advertise.push(address.into());
        self
    }

    /// A property of `server.properties`, for every broker.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.properties.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Lets access control lists decide, where a resource has any
    /// ([`KafkaCluster::change_acls`](super::KafkaCluster::change_acls)).
    #[must_use]
    pub fn with_acls(self) -> Self {
        self.set("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
            .set("allow.everyone.if.no.acl.found", "true")
    }

    /// Gives it another cluster id than all other clusters have.
    #[must_use]
    pub fn another_identity(mut self) -> Self {
        self.identity = Identity::Other;
        self
    }

    /// Flags of the JVM.
    #[must_use]
    pub fn jvm(mut self, jvm: Jvm) -> Self {
        self.jvm = jvm;
        self
    }
}
