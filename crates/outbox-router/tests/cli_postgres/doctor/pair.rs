//! A PostgreSQL and a Kafka that the faults of a test share.

use std::{collections::BTreeSet, io};

use outbox_router::{
    cli::{self, Audience, Cli, Command, Exit, Terminal},
    config::Environment,
};
use serde_json::Value;
use testbed::kafka::{KafkaCluster, KafkaOptions};

use crate::server::{Server, run_command_at};

/// The topic of the events that a test would send.
pub(super) const TOPIC: &str = "outbox.event.order";
pub(super) const STATE: &str = "outbox-router.state";

/// Both servers.
pub(super) struct Pair {
    pub(super) server: Server,
    pub(super) kafka: KafkaCluster,
}

/// What a run of `doctor` has found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) exit: Exit,
    pub(super) report: Value,
    pub(super) err: String,
}

impl Found {
    /// The codes of a severity.
    fn codes(&self, severity: &str) -> Vec<String> {
        let findings = self.report["findings"].as_array().expect("findings");
        let of = findings.iter().filter(|finding| finding["severity"] == severity);
        of.map(|finding| finding["code"].as_str().expect("a code").to_owned()).collect()
    }

    /// The codes of errors and warnings.
    pub(super) fn serious(&self) -> BTreeSet<String> {
        self.codes("error").into_iter().chain(self.codes("warning")).collect()
    }

    pub(super) fn errors(&self) -> usize {
        self.codes("error").len()
    }

    /// The finding of a code.
    #[track_caller]
    pub(super) fn finding(&self, code: &str) -> &Value {
        let findings = self.report["findings"].as_array().expect("findings");
        let found = findings.iter().find(|finding| finding["code"] == code);
        found.unwrap_or_else(|| panic!("{code} is not in {:#}", self.report))
    }

    /// What to type about it.
    #[track_caller]
    pub(super) fn remedy(&self, code: &str) -> &str {
        self.finding(code)["remedy"].as_str().expect("a remedy")
    }
}

impl Pair {
    pub(super) async fn start() -> Self {
        let server = Server::with_settings("max_slot_wal_keep_size = '10GB'\nautovacuum = off");
        let kafka = KafkaCluster::start(KafkaOptions::default().with_acls()).await.expect("Kafka");
        kafka.create_topic(TOPIC, 3, &[]).await.expect("a topic");
        Self { server, kafka }
    }

    /// A database of this name, set up by `setup --apply --create-table`.
    pub(super) async fn database(&self, name: &'static str) -> Database<'_> {
        self.database_with(name, &[]).await
    }

    /// The same, with more settings for `setup` and `doctor`.
    pub(super) async fn database_with(
        &self,
        name: &'static str,
        settings: &[&str],
    ) -> Database<'_> {
        drop(self.empty_database(name, settings));
        self.set_up(name, settings).await
    }

    /// Sets up what is in a database already.
    pub(super) async fn database_with_existing(&self, name: &'static str) -> Database<'_> {
        self.set_up(name, &[]).await
    }

    async fn set_up(&self, name: &'static str, settings: &[&str]) -> Database<'_> {
        let database = self.of(name, settings);
        let line = database.line(&["setup", "--apply", "--create-table", "--role", "router"]);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let made = run_command_at(&database.url("postgres"), &line, "").await;
        assert_eq!(made.exit, Exit::Done, "{made:?}");
        database
    }

    /// A database without anything.
    pub(super) fn empty_database(&self, name: &'static str, settings: &[&str]) -> Database<'_> {
        self.server.sql(&format!("create database {name}"));
        self.of(name, settings)
    }

    fn of(&self, name: &'static str, settings: &[&str]) -> Database<'_> {
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        Database { pair: self, name, settings }
    }
}

/// The database of one fault. Dropping it drops its slot, which would be another database's other
/// slot.
pub(super) struct Database<'p> {
    pair: &'p Pair,
    pub(super) name: &'static str,
    settings: Vec<String>,
}

impl Database<'_> {
    pub(super) fn url(&self, user: &str) -> String {
        let url = self.pair.server.url(user);
        format!("{}{}", url.strip_suffix("postgres").expect("a database"), self.name)
    }

    /// A command, with what leads to both servers.
    fn line(&self, words: &[&str]) -> Vec<String> {
        let mut line: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let settings = [
            format!("kafka.bootstrap_servers={}", self.pair.kafka.bootstrap()),
            format!("kafka.state_topic={STATE}"),
            format!("postgres.slot={}", self.name),
        ];
        for setting in settings.iter().chain(&self.settings) {
            line.extend(["--set".to_owned(), setting.clone()]);
        }
        line
    }

    /// Runs SQL in this database, as the superuser.
    #[track_caller]
    pub(super) fn sql(&self, text: &str) {
        self.pair.server.script(&format!("\\connect {}\n{text};\n", self.name));
    }

    /// Examines both servers as the router's role.
    pub(super) async fn doctor(&self, words: &[&str]) -> Found {
        self.doctor_as("router", words).await
    }

    pub(super) async fn doctor_as(&self, user: &str, words: &[&str]) -> Found {
        let words = [&["doctor", "--json"], words].concat();
        let mut line = vec!["--set".to_owned(), format!("postgres.url={}", self.url(user))];
        line.extend(self.line(&words));
        doctor(None, &line).await
    }

    /// What is found after a fault was planted has this code and no other one.
    pub(super) async fn assert_named(&self, code: &str, words: &[&str]) -> Found {
        let found = self.doctor(words).await;
        found.assert_alone(code, self.name);
        found
    }
}

impl Found {
    #[track_caller]
    pub(super) fn assert_alone(&self, code: &str, place: &str) {
        let expected: BTreeSet<String> = [code.to_owned()].into();
        assert_eq!(self.serious(), expected, "{place}: {:#}", self.report);
        let expected = if self.errors() > 0 { Exit::Failure } else { Exit::Done };
        assert_eq!(self.exit, expected, "{place}");
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        let name = self.name;
        self.pair.server.sql(&format!(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots \
             where slot_name = '{name}' and not active"
        ));
    }
}

/// Types `doctor --json` and more, with this configuration file.
pub(super) async fn doctor(file: Option<&std::path::Path>, line: &[String]) -> Found {
    let (exit, out, err) = type_line(file, line).await;
    let report = serde_json::from_str(&out).unwrap_or(Value::Null);
    Found { exit, report, err }
}

/// Types a line, and returns what it printed.
pub(super) async fn type_line(
    file: Option<&std::path::Path>,
    line: &[String],
) -> (Exit, String, String) {
    let file = file.map_or_else(|| "/dev/null".to_owned(), |file| file.display().to_string());
    let head = ["outbox-router".to_owned(), "--config".to_owned(), file];
    let cli = Cli::read(head.iter().chain(line)).expect("a command line");
    let environment = Environment::default();
    let config = cli::load_config(&cli, &environment).expect("a configuration");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut terminal = Terminal {
        out: &mut out,
        err: &mut err,
        input: &mut io::empty(),
        audience: Audience::Machine,
    };
    let Command::Task(task) = &cli.command else { panic!("no task") };
    let exit = cli::execute(&cli, task, &config, &environment, &mut terminal).await;
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (exit, text(out), text(err))
}
