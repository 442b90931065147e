//! Access control lists, changed by Kafka's own tool, as a person does.

use anyhow::{Context, ensure};
use tokio::process::Command;

use super::KafkaCluster;
use super::broker::java_arguments;

impl KafkaCluster {
    /// What every client of a cluster without authentication is called, the router and this crate's
    /// own clients alike.
    pub const PRINCIPAL: &'static str = "User:ANONYMOUS";

    /// Runs `kafka-acls.sh` with these arguments. The cluster has to be started
    /// [`with_acls`](super::KafkaOptions::with_acls).
    ///
    /// # Errors
    ///
    /// Fails when the tool does.
    pub async fn change_acls(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let output = Command::new("java")
            .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"])
            .args(java_arguments(&self.jars))
            .arg("org.apache.kafka.tools.AclCommand")
            .args(arguments)
            .output()
            .await
            .context("cannot run java")?;
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        // The tool prints what was refused, and ends as if it had worked.
        ensure!(
            output.status.success() && !out.contains("Error while"),
            "kafka-acls.sh {}: {out}{err}",
            arguments.join(" ")
        );
        Ok(())
    }
}
