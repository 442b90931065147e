//! What is disturbed while a round goes on.

use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::StdRng;
use testbed::postgres::ShutdownMode;
use testbed::proxy::{Direction, ProxyMode};
use tokio::time::sleep;

use crate::pipeline::Pipeline;
use crate::servers::Servers;

const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// A kind of disturbance. Each is over when its call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// SIGKILL, and a start.
    KillRouter,
    /// SIGSTOP, and SIGCONT after a while.
    FreezeRouter,
    /// Immediate stop, and a start.
    StopPostgres,
    /// SIGKILL, and a start.
    KillBroker,
    /// A stop in order, and a start.
    StopBroker,
    /// The router's sessions are ended by the server.
    EndSessions,
    /// Connections to PostgreSQL are cut.
    CutPostgres,
    /// Connections to Kafka are cut.
    CutKafka,
    /// The broker's responses are held back for a while.
    HoldAnswers,
    /// Nothing of the router reaches the broker for a while.
    PauseKafka,
}

impl Fault {
    pub(crate) const ALL: [Self; 10] = [
        Self::KillRouter,
        Self::FreezeRouter,
        Self::StopPostgres,
        Self::KillBroker,
        Self::StopBroker,
        Self::EndSessions,
        Self::CutPostgres,
        Self::CutKafka,
        Self::HoldAnswers,
        Self::PauseKafka,
    ];

    /// Does it, and undoes it.
    pub(crate) async fn play(
        self,
        servers: &mut Servers,
        pipeline: &mut Pipeline,
        random: &mut StdRng,
    ) -> anyhow::Result<()> {
        let while_it_lasts = Duration::from_millis(random.random_range(200..2500));
        match self {
            Self::KillRouter => {
                pipeline.router.kill9().await?;
                sleep(while_it_lasts / 4).await;
                pipeline.router.start_again()?;
            }
            Self::FreezeRouter => {
                pipeline.router.pause()?;
                sleep(while_it_lasts).await;
                pipeline.router.resume()?;
            }
            Self::StopPostgres => {
                servers.postgres.stop(ShutdownMode::Immediate, STOP_DEADLINE).await?;
                servers.postgres.start_again().await?;
            }
            Self::KillBroker => {
                servers.kafka.kill9().await?;
                servers.kafka.start_again().await?;
            }
            Self::StopBroker => {
                servers.kafka.stop().await?;
                servers.kafka.start_again().await?;
            }
            Self::EndSessions => {
                let session = servers.postgres.connect().await?;
                let ended = "select pg_terminate_backend(pid) from pg_stat_activity \
                             where usename = $1";
                session.execute(ended, &[&crate::table::ROLE]).await?;
            }
            Self::CutPostgres => servers.postgres_proxy.cut(),
            Self::CutKafka => servers.kafka_proxy.cut(),
            Self::HoldAnswers => {
                servers.kafka_proxy.set(ProxyMode::HoldAnswers).await?;
                sleep(while_it_lasts).await;
                servers.kafka_proxy.set(ProxyMode::Forward).await?;
            }
            Self::PauseKafka => {
                servers.kafka_proxy.set(ProxyMode::Pause(Direction::Requests)).await?;
                sleep(while_it_lasts).await;
                servers.kafka_proxy.set(ProxyMode::Forward).await?;
            }
        }
        Ok(())
    }
}
