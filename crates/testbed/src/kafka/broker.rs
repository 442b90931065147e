//! One broker: its properties, its storage, its process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::process::Signal;
use tokio::net::TcpStream;
use tokio::process::Command;

use super::options::{Jvm, KafkaOptions};
use crate::cache::{self, Identity};
use crate::ports::free_port;
use crate::process::{Process, ProcessSpec};
use crate::wait::until_ok;

/// All clusters but those with another identity share one id, so that storage formatted once serves
/// every start. They never meet.
const fn cluster_id(identity: Identity) -> &'static str {
    match identity {
        Identity::Usual => "b3V0Ym94LXJvdXRlci10YQ",
        Identity::Other => "b3V0Ym94LXJvdXRlci10Yg",
    }
}

pub(super) const START_DEADLINE: Duration = Duration::from_secs(90);
const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// Short sessions and elections; the reason is in the parent module's documentation. Nothing is
/// deleted for its age: records bear the times of rows, which may be months ago, and a broker would
/// look for such half a minute after its start.
const DEFAULTS: &[(&str, &str)] = &[
    ("controller.listener.names", "CONTROLLER"),
    ("inter.broker.listener.name", "DIRECT"),
    ("listener.security.protocol.map", "CONTROLLER:PLAINTEXT,DIRECT:PLAINTEXT,PROXIED:PLAINTEXT"),
    ("auto.create.topics.enable", "false"),
    ("log.retention.ms", "-1"),
    ("broker.session.timeout.ms", "2000"),
    ("broker.heartbeat.interval.ms", "500"),
    ("controlled.shutdown.enable", "true"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("offsets.topic.num.partitions", "1"),
    ("offsets.topic.replication.factor", "1"),
    ("transaction.state.log.num.partitions", "1"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("message.max.bytes", "33554432"),
    ("replica.fetch.max.bytes", "33554432"),
];

/// One broker of a cluster.
#[derive(Debug)]
pub struct Broker {
    process: Option<Process>,
    id: i32,
    identity: Identity,
    port: u16,
    proxied_port: Option<u16>,
    dir: PathBuf,
    command: ProcessSpec,
}

/// Writes the properties of every broker of a cluster, and starts none. `classes` is the flag by
/// which a JVM uses the file of [`super::classes`], or writes it.
pub(super) fn plan(
    options: &KafkaOptions,
    jars: &Path,
    classes: &str,
    dir: &Path,
) -> anyhow::Result<Vec<Broker>> {
    ensure!(options.advertise.len() <= options.brokers, "more addresses advertised than brokers");
    let controller = free_port()?;
    let java = [flags(options.jvm, classes), java_arguments(jars).into()].concat();
    (0..options.brokers)
        .map(|index| {
            let id = i32::try_from(index)? + 1;
            let advertise = options.advertise.get(index).map(String::as_str);
            let dir = dir.join(id.to_string());
            Broker::plan(id, controller, advertise, options, &java, dir)
        })
        .collect()
}

impl Broker {
    fn plan(
        id: i32,
        controller: u16,
        advertise: Option<&str>,
        options: &KafkaOptions,
        java: &[String],
        dir: PathBuf,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&dir)?;
        let port = free_port()?;
        let proxied_port = advertise.map(|_| free_port()).transpose()?;
        let mut listeners = vec![format!("DIRECT://127.0.0.1:{port}")];
        let mut advertised = listeners.clone();
        if let (Some(port), Some(address)) = (proxied_port, advertise) {
            listeners.push(format!("PROXIED://127.0.0.1:{port}"));
            advertised.push(format!("PROXIED://{address}"));
        }
        let roles = if id == 1 {
            listeners.push(format!("CONTROLLER://127.0.0.1:{controller}"));
            "broker,controller"
        } else {
            "broker"
        };
        let own = [
            ("process.roles", roles.to_owned()),
            ("node.id", id.to_string()),
            ("controller.quorum.voters", format!("1@127.0.0.1:{controller}")),
            ("listeners", listeners.join(",")),
            ("advertised.listeners", advertised.join(",")),
            ("log.dirs", dir.join("data").display().to_string()),
        ];
        let text: String = DEFAULTS
            .iter()
            .map(|(name, value)| (*name, *value))
            .chain(own.iter().map(|(name, value)| (*name, value.as_str())))
            .chain(options.properties.iter().map(|(name, value)| (name.as_str(), value.as_str())))
            .map(|(name, value)| format!("{name}={value}\n"))
            .collect();
        let properties = dir.join("server.properties");
        std::fs::write(&properties, text)?;
        let command = ProcessSpec::new("java", dir.join("log"))
            .args(java.iter().cloned())
            .args(["kafka.Kafka", &properties.to_string_lossy()]);
        Ok(Self { process: None, id, identity: options.identity, port, proxied_port, dir, command })
    }

    /// Its `node.id`.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// `127.0.0.1:PORT` of the listener that no proxy stands before.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The target for the proxy whose address this broker advertises.
    ///
    /// # Errors
    ///
    /// Fails when the broker advertises no proxy.
    pub fn proxied_address(&self) -> anyhow::Result<String> {
        let port = self.proxied_port.context("this broker was started without `advertise`")?;
        Ok(format!("127.0.0.1:{port}"))
    }

    /// Its process.
    ///
    /// # Errors
    ///
    /// Fails when it does not run.
    pub fn process(&self) -> anyhow::Result<&Process> {
        self.process.as_ref().with_context(|| format!("broker {} does not run", self.id))
    }

    /// Gives it formatted storage: a copy of what Kafka's own tool wrote once for this id and
    /// cluster.
    pub(super) async fn format(&self, jars: &Path) -> anyhow::Result<()> {
        let name = jars.file_name().context("no name")?.to_string_lossy().into_owned();
        let template =
            cache::dir()?.join(format!("{name}-{}-{}", self.identity.of("storage"), self.id));
        let data = self.dir.join("data");
        if !template.is_dir() {
            let output = Command::new("java")
                .args(java_arguments(jars))
                .args(["kafka.tools.StorageTool", "format", "-t", cluster_id(self.identity), "-c"])
                .arg(self.dir.join("server.properties"))
                .output()
                .await
                .context("cannot run java")?;
            ensure!(
                output.status.success(),
                "formatting storage failed: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            let work = tempfile::Builder::new().prefix(".storage-").tempdir_in(cache::dir()?)?;
            let copied = work.path().join("data");
            copy(&data, &copied)?;
            return cache::keep(&copied, &template);
        }
        copy(&template, &data)
    }

    /// Gives it the empty storage of a cluster with another id. It must not run.
    pub(super) async fn exchange(&mut self, jars: &Path) -> anyhow::Result<()> {
        std::fs::remove_dir_all(self.dir.join("data"))?;
        self.identity = Identity::Other;
        self.format(jars).await
    }

    /// Starts its process unless it runs.
    pub(super) fn launch(&mut self) -> anyhow::Result<()> {
        if self.process.is_none() {
            self.process = Some(Process::start(&self.command)?);
        }
        Ok(())
    }

    /// Waits until its port is open.
    pub(super) async fn listens(&mut self, deadline: Duration) -> anyhow::Result<()> {
        let (id, address) = (self.id, self.address());
        let process = self.process.as_mut().context("the broker does not run")?;
        let open = until_ok(deadline, format!("broker {id} on {address}"), async || {
            Ok(TcpStream::connect(&address).await.map(drop)?)
        });
        tokio::select! {
            open = open => open.with_context(|| format!("log {}", self.dir.join("log").display())),
            status = process.wait_exit(deadline) => {
                bail!("broker {id} ended while starting ({}): {}", status?, process.output()?)
            }
        }
    }

    /// Starts it again with the same ports and data, and returns when its port is open.
    ///
    /// # Errors
    ///
    /// Fails when it does not come up.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        self.launch()?;
        self.listens(START_DEADLINE).await
    }

    /// Stops it in order: its leaderships move first. Does nothing when it does not run.
    ///
    /// # Errors
    ///
    /// Fails when it does not end.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        if let Some(mut process) = self.process.take() {
            process.signal(Signal::TERM)?;
            process.wait_exit(STOP_DEADLINE).await?;
        }
        Ok(())
    }

    /// Kills it with SIGKILL. Does nothing when it does not run.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be killed.
    pub async fn kill9(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            Some(mut process) => process.kill9().await,
            None => Ok(()),
        }
    }

    /// Copies its disk, in place of an earlier copy, while it does not run.
    ///
    /// # Errors
    ///
    /// Fails when it runs, or the files cannot be copied.
    pub fn copy_disk(&self) -> anyhow::Result<()> {
        self.replace_disk("copy", "data")
    }

    /// Puts the disk back to its copy, while it does not run.
    ///
    /// # Errors
    ///
    /// As [`Self::copy_disk`].
    pub fn put_disk_back(&self) -> anyhow::Result<()> {
        self.replace_disk("data", "copy")
    }

    fn replace_disk(&self, to: &str, from: &str) -> anyhow::Result<()> {
        ensure!(self.process.is_none(), "broker {} runs", self.id);
        let [to, from] = [to, from].map(|name| self.dir.join(name));
        if to.exists() {
            std::fs::remove_dir_all(&to)?;
        }
        let copied = std::process::Command::new("cp").arg("-a").args([&from, &to]).status()?;
        ensure!(copied.success(), "{} cannot be copied", from.display());
        Ok(())
    }

    /// Stops it with SIGSTOP: connections stay open, and nothing answers.
    ///
    /// # Errors
    ///
    /// Fails when it does not run.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.running()?.signal(Signal::STOP)
    }

    /// Continues it after [`pause`](Self::pause).
    ///
    /// # Errors
    ///
    /// Fails when it does not run.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.running()?.signal(Signal::CONT)
    }

    fn running(&mut self) -> anyhow::Result<&mut Process> {
        let id = self.id;
        self.process.as_mut().with_context(|| format!("broker {id} does not run"))
    }
}

fn flags(jvm: Jvm, classes: &str) -> Vec<String> {
    let quick =
        ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", classes];
    let fast = ["-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"];
    let flags = match jvm {
        Jvm::Quick => quick.as_slice(),
        Jvm::Fast => fast.as_slice(),
    };
    flags.iter().map(|&flag| flag.to_owned()).collect()
}

pub(super) fn java_arguments(jars: &Path) -> [String; 3] {
    [
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn".to_owned(),
        "-cp".to_owned(),
        format!("{}/*", jars.display()),
    ]
}

/// Formatted storage is a directory of a few small files.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))
            .with_context(|| format!("cannot copy {}", entry.path().display()))?;
    }
    Ok(())
}
