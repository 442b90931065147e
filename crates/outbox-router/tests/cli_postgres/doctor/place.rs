//! A database and a Kafka that one fault is planted in.

use outbox_router::cli::Exit;

use super::{
    found::{Found, doctor},
    ledger::Ledger,
};
use crate::server::run_command_at;

pub(super) const STATE: &str = "outbox-router.state";

/// See the module's header.
pub(super) struct Place<'l> {
    pub(super) ledger: &'l Ledger,
    /// With its port.
    host: String,
    pub(super) name: String,
    /// More parameters of the connection string.
    parameters: String,
    settings: Vec<String>,
}

impl<'l> Place<'l> {
    /// The database on this host (with its port), and the Kafka of these servers.
    pub(super) fn new(ledger: &'l Ledger, host: &str, name: &str, servers: &str) -> Self {
        let settings =
            [format!("kafka.bootstrap_servers={servers}"), format!("kafka.state_topic={STATE}")];
        let (host, name) = (host.to_owned(), name.to_owned());
        Self { ledger, host, name, parameters: String::new(), settings: settings.into() }
    }

    /// With more settings, which may say otherwise.
    pub(super) fn with(mut self, settings: &[&str]) -> Self {
        self.settings.extend(settings.iter().map(|&setting| setting.to_owned()));
        self
    }

    /// The same database by another way: `?sslmode=require`, for example.
    pub(super) fn by(&self, host: &str, parameters: &str) -> Self {
        let (name, settings) = (self.name.clone(), self.settings.clone());
        Self {
            ledger: self.ledger,
            host: host.to_owned(),
            name,
            parameters: parameters.to_owned(),
            settings,
        }
    }

    pub(super) fn url(&self, user: &str) -> String {
        format!("postgres://{user}@{}/{}{}", self.host, self.name, self.parameters)
    }

    /// A command, with what leads to both servers; what follows it may say otherwise.
    fn line(&self, command: &[&str]) -> Vec<String> {
        let mut line: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
        for setting in &self.settings {
            line.extend(["--set".to_owned(), setting.clone()]);
        }
        line
    }

    /// Sets the database up, as a person does.
    pub(super) async fn set_up(&self) {
        let line = self.line(&["setup", "--apply", "--create-table", "--role", "router"]);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let made = run_command_at(&self.url("postgres"), &line, "").await;
        assert_eq!(made.exit, Exit::Done, "{made:?}");
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
        self.ledger.expect(code, &self.name, &found);
        found
    }

    /// Nothing should be found.
    pub(super) async fn expect_nothing(&self, why: &str, words: &[&str]) -> Found {
        let found = self.doctor(words).await;
        self.ledger.expect_nothing(why, &found);
        found
    }
}
