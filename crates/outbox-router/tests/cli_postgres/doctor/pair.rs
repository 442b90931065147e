//! A PostgreSQL and a Kafka that the faults of a test share.

use std::{cell::RefCell, collections::BTreeSet, io};

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
    /// The planted faults, by place and code.
    planted: RefCell<Vec<String>>,
    /// What was found of other faults than the planted ones, or not found of those.
    mismatches: RefCell<Vec<String>>,
}

/// What a run of `doctor` has found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) exit: Exit,
    pub(super) report: Value,
    pub(super) err: String,
}

impl Found {
    /// A member of the report.
    pub(super) fn part(&self, key: &str) -> &Value {
        self.report.get(key).unwrap_or(&Value::Null)
    }

    /// The codes of a severity.
    fn codes(&self, severity: &str) -> Vec<String> {
        let findings = self.part("findings").as_array().expect("findings");
        let of = findings
            .iter()
            .filter(|finding| finding.get("severity").is_some_and(|one| one == severity));
        of.filter_map(|finding| Some(finding.get("code")?.as_str()?.to_owned())).collect()
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
        let findings = self.part("findings").as_array().expect("findings");
        let found =
            findings.iter().find(|finding| finding.get("code").is_some_and(|one| one == code));
        found.unwrap_or_else(|| panic!("{code} is not in {:#}", self.report))
    }

    /// How bad it is.
    #[track_caller]
    pub(super) fn severity(&self, code: &str) -> &Value {
        self.finding(code).get("severity").expect("a severity")
    }

    /// What to type about it.
    #[track_caller]
    pub(super) fn remedy(&self, code: &str) -> &str {
        self.finding(code).get("remedy").and_then(Value::as_str).expect("a remedy")
    }
}

impl Pair {
    pub(super) async fn start() -> Self {
        let server = Server::with_settings("max_slot_wal_keep_size = '10GB'\nautovacuum = off");
        let kafka = KafkaCluster::start(KafkaOptions::default().with_acls()).await.expect("Kafka");
        kafka.create_topic(TOPIC, 3, &[]).await.expect("a topic");
        Self { server, kafka, planted: RefCell::default(), mismatches: RefCell::default() }
    }

    /// Notes whether what was found has this code and no other of an error or a warning. All of
    /// them are reported at the end, because the servers take long to start.
    pub(super) fn expect(&self, code: &str, place: &str, found: &Found) {
        self.planted.borrow_mut().push(format!("{place} {code}"));
        let expected: BTreeSet<String> = [code.to_owned()].into();
        let exit = if found.errors() > 0 { Exit::Failure } else { Exit::Done };
        if found.serious() != expected || found.exit != exit {
            let Found { err, exit, .. } = found;
            let (findings, not_run) = (found.part("findings"), found.part("not_run"));
            let what = format!("{place} {code}: {exit:?} {findings:#} {not_run} {err}");
            self.mismatches.borrow_mut().push(what);
        }
    }

    /// Nothing is wrong, as far as errors and warnings go.
    pub(super) fn expect_nothing(&self, place: &str, found: &Found) {
        if !found.serious().is_empty() || found.exit != Exit::Done {
            let what = format!("{place}: {:#} {}", found.part("findings"), found.err);
            self.mismatches.borrow_mut().push(what);
        }
    }

    /// Every planted fault was named, and nothing else.
    #[track_caller]
    pub(super) fn assert_named(&self, at_least: usize) {
        let mismatches = self.mismatches.borrow();
        assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
        let planted = self.planted.borrow();
        assert!(planted.len() >= at_least, "only {} were planted: {planted:?}", planted.len());
    }

    /// A database of this name, set up by `setup --apply --create-table`.
    pub(super) async fn database(&self, name: &'static str) -> Database<'_> {
        drop(self.empty_database(name));
        self.set_up(name, &[]).await
    }

    /// Sets up what is in a database already, with more settings for `setup` and `doctor`.
    pub(super) async fn database_with_existing(
        &self,
        name: &'static str,
        settings: &[&str],
    ) -> Database<'_> {
        self.set_up(name, settings).await
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
    pub(super) fn empty_database(&self, name: &'static str) -> Database<'_> {
        self.server.sql(&format!("create database {name}"));
        self.of(name, &[])
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

    /// A command, with what leads to both servers; what follows it may say otherwise.
    fn line(&self, command: &[&str]) -> Vec<String> {
        let mut line: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
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
        let mut line = self.line(&["doctor", "--json"]);
        line.extend(["--set".to_owned(), format!("postgres.url={}", self.url(user))]);
        line.extend(words.iter().map(|&word| word.to_owned()));
        doctor(None, &line).await
    }

    /// What is found after a fault was planted should have this code and no other one.
    pub(super) async fn expect(&self, code: &str, words: &[&str]) -> Found {
        let found = self.doctor(words).await;
        self.pair.expect(code, self.name, &found);
        found
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
