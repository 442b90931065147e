//! Servers that are down, or do not answer.

use std::{net::TcpListener, time::Duration};

use outbox_router::cli::Exit;

use super::{
    found::{doctor, type_line},
    ledger::Ledger,
    pair::TOPIC,
    place::STATE,
};
use crate::server::{CommandOutput, Server};
use testbed::kafka::{KafkaCluster, KafkaOptions};
use tokio::time::Instant;

fn line(url: &str, servers: &str, words: &[&str]) -> Vec<String> {
    let settings = [
        format!("postgres.url={url}"),
        format!("kafka.bootstrap_servers={servers}"),
        format!("kafka.state_topic={STATE}"),
    ];
    let mut line: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    line.extend(settings.into_iter().flat_map(|setting| ["--set".to_owned(), setting]));
    line
}

/// Nobody listens there.
const NOBODY: &str = "127.0.0.1:1";

/// What a test here proves, each.
pub(super) const CODES_OF_KAFKA: &[&str] = &["K001"];
pub(super) const CODES_OF_POSTGRES: &[&str] = &["P001"];

#[tokio::test]
pub(super) async fn a_kafka_that_is_down_hides_nothing_of_postgres() {
    let server = Server::with_settings("max_slot_wal_keep_size = '10GB'");
    let line = line(&server.url("postgres"), NOBODY, &["doctor", "--json"]);
    let found = doctor(None, &line).await;
    let ledger = Ledger::default();
    ledger.expect_all(&["D003", "K001", "P010", "P020"], "Kafka is down", &found);
    ledger.assert_proved(CODES_OF_KAFKA);
}

#[tokio::test]
pub(super) async fn a_postgres_that_is_down_hides_nothing_of_kafka() {
    let kafka = KafkaCluster::start(KafkaOptions::default()).await.expect("Kafka");
    kafka.create_topic(TOPIC, 1, &[("cleanup.policy", "compact")]).await.expect("a topic");
    kafka.create_topic(STATE, 1, &[("cleanup.policy", "compact")]).await.expect("a topic");
    let url = format!("postgres://router@{NOBODY}/shop");
    let line = line(&url, &kafka.bootstrap(), &["doctor", "--json"]);
    let found = doctor(None, &line).await;
    let ledger = Ledger::default();
    ledger.expect_all(&["D033", "K022", "P001"], "PostgreSQL is down", &found);
    ledger.assert_proved(CODES_OF_POSTGRES);
    assert_ne!(found.part("not_run"), 0);
}

/// A program that looks for one code must not take silence for health.
#[tokio::test]
async fn where_no_check_could_be_run_the_exit_code_says_so() {
    let url = format!("postgres://router@{NOBODY}/shop");
    let found = doctor(None, &line(&url, NOBODY, &["doctor", "--json", "--only", "D010"])).await;
    assert_ne!(found.part("not_run"), 0);
    assert_eq!(found.part("findings").as_array().expect("findings").len(), 0);
    assert_eq!(found.exit, Exit::Failure);
}

/// The kernel accepts the connections, and nobody ever answers.
#[tokio::test]
async fn servers_that_never_answer_are_given_up_in_time() {
    let silent = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let [postgres, kafka] = silent.each_ref().map(|one| one.local_addr().expect("an address"));
    let url = format!("postgres://router@{postgres}/shop?connect_timeout=2&sslmode=disable");
    let line = line(&url, &kafka.to_string(), &["doctor"]);
    let began = Instant::now();
    let CommandOutput { exit, out, err } = type_line(None, &line).await;
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(exit, Exit::Failure, "{out}{err}");
    assert!(out.starts_with("error    P001: "), "{out}");
    assert!(out.contains("\nerror    K001: "), "{out}");
    assert!(out.contains("not run: P001: "), "{out}");
    assert!(out.contains("not run: K001: "), "{out}");
}
