//! The Kafka of a fixture: one that scenarios share, or one of its own for a scenario that disturbs
//! it.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use anyhow::bail;
use testbed::kafka::{KafkaCluster, KafkaOptions};
use tokio::sync::Mutex;

/// A cluster, shared or not.
#[derive(Debug)]
pub enum FixtureKafka {
    /// Used by other scenarios at the same time.
    Shared(Arc<KafkaCluster>),
    /// For one scenario alone, which may do with it what it likes.
    Own(Box<KafkaCluster>),
}

impl FixtureKafka {
    /// The cluster that scenarios share: the first one starts it, and it is stopped when the last
    /// one drops it, also in a panic, so that no JVM outlives the tests.
    ///
    /// # Errors
    ///
    /// Fails when it does not come up.
    pub async fn shared() -> anyhow::Result<Self> {
        // An asynchronous mutex, because others wait here while Kafka starts; it is bound to no
        // runtime, and every scenario has its own.
        static SHARED: Mutex<Weak<KafkaCluster>> = Mutex::const_new(Weak::new());
        let mut shared = SHARED.lock().await;
        let kafka = match shared.upgrade() {
            Some(kafka) => kafka,
            None => Arc::new(KafkaCluster::start(KafkaOptions::default()).await?),
        };
        *shared = Arc::downgrade(&kafka);
        Ok(Self::Shared(kafka))
    }

    pub(crate) async fn own(options: KafkaOptions) -> anyhow::Result<Self> {
        Ok(Self::Own(Box::new(KafkaCluster::start(options).await?)))
    }

    /// The cluster, to be killed, paused or stopped.
    ///
    /// # Errors
    ///
    /// Fails when it is shared.
    pub fn owned(&mut self) -> anyhow::Result<&mut KafkaCluster> {
        match self {
            Self::Own(kafka) => Ok(kafka),
            Self::Shared(_) => bail!("this Kafka is shared: call `own_kafka` on the builder"),
        }
    }
}

impl Deref for FixtureKafka {
    type Target = KafkaCluster;

    fn deref(&self) -> &KafkaCluster {
        match self {
            Self::Shared(kafka) => kafka,
            Self::Own(kafka) => kafka,
        }
    }
}

/// A prefix of topic names that no other scenario of this process has.
pub(crate) fn topic_prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("t{}.", NEXT.fetch_add(1, Ordering::Relaxed))
}
