//! The real binary with the configuration that its own `migrate` makes of a case's.

use anyhow::ensure;
use testbed::kafka::KafkaCluster;
use testbed::router::RouterProcess;

use super::{Servers, Subject};
use crate::postgres::SlotOf;

/// Translates a case's configuration, and prepares the router to read one of the case's slots.
pub(super) async fn migrated(
    servers: &Servers,
    subject: &Subject,
    kafka: &KafkaCluster,
    slot: SlotOf,
) -> anyhow::Result<RouterProcess> {
    let router = RouterProcess::with_config("")?
        .env("POSTGRES_PASSWORD", "unused")
        .env("OUTBOX_ROUTER__POSTGRES__SLOT", &slot.name(&subject.case));
    let file = router.dir().join("connector.properties");
    std::fs::write(&file, subject.case.properties(servers.postgres.port()))?;
    let bootstrap = kafka.bootstrap();
    let file = file.to_string_lossy();
    let command = ["migrate", "debezium", &file, "--bootstrap-servers", &bootstrap];
    let output = router.command(&command).await?;
    let says = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "migrate refuses the configuration: {says}");
    router.set_config(std::str::from_utf8(&output.stdout)?)?;
    Ok(router)
}
