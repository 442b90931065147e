//! `migrate debezium --give-back`: what PostgreSQL, the state topic and Kafka Connect's answers
//! decide about it. A real connector is in the end-to-end scenarios.

use std::{convert::Infallible, io};

use outbox_router::cli::Exit;
use relay::{
    Code, Failure, Lsn,
    source::{Gap, Interval, Mark},
    witness::Witness,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::{
    kafka::StateCluster,
    server::{CommandOutput, Server},
    take_over::{CONNECTOR, SLOT, TABLE, step, whole_step},
};

const GIVE_BACK: [&str; 5] = ["migrate", "debezium", "-", "--give-back", "--json"];

/// Slot and publication of a router, on a server of its own.
fn server() -> Server {
    let server = Server::start();
    server.sql(TABLE);
    server.sql(SLOT);
    server
}

pub(crate) async fn give_back(server: &Server, flags: &[&str]) -> CommandOutput {
    server.run_command_answering(&[&GIVE_BACK[..], flags].concat(), CONNECTOR).await
}

/// The same with a state topic.
async fn give_back_with(server: &Server, kafka: &StateCluster) -> CommandOutput {
    let flags = kafka.with(&[]);
    let line: Vec<&str> = flags.iter().map(String::as_str).chain(GIVE_BACK).collect();
    server.run_command_answering(&line, CONNECTOR).await
}

/// The names of the steps, each with its state.
fn states(output: &CommandOutput) -> Vec<String> {
    let whole: Value = serde_json::from_str(&output.out).expect("JSON");
    let steps = whole.get("steps").and_then(Value::as_array).expect("steps").iter();
    let text =
        |step: &Value, key: &str| step.get(key).and_then(Value::as_str).expect("a text").to_owned();
    steps.map(|step| format!("{}: {}", text(step, "name"), text(step, "state"))).collect()
}

/// What Kafka Connect answers about the connector.
struct Worker {
    listener: TcpListener,
    /// `None` where it has no such connector.
    status: Option<Value>,
    offsets: Value,
    config: Value,
}

impl Worker {
    /// A connector that is stopped, has no offset, and has this configuration.
    async fn with(config: Value) -> Self {
        Self {
            listener: TcpListener::bind("127.0.0.1:0").await.expect("a port"),
            status: Some(json!({ "connector": { "state": "STOPPED" }, "tasks": [] })),
            offsets: json!({ "offsets": [] }),
            config,
        }
    }

    fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().expect("an address"))
    }

    async fn answer(&self) -> io::Result<Infallible> {
        loop {
            let (mut stream, _) = self.listener.accept().await?;
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await?;
            request.truncate(length);
            let request = String::from_utf8_lossy(&request).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default();
            let found = match path.strip_prefix("/connectors/c/") {
                _ if self.status.is_none() => None,
                Some("status") => self.status.clone(),
                Some("offsets") => Some(self.offsets.clone()),
                Some("config") => Some(self.config.clone()),
                Some("topics") => Some(json!({})),
                _ => panic!("{request}"),
            };
            let head = if found.is_some() { "200 OK" } else { "404 Not Found" };
            let body = found.unwrap_or_default();
            stream.write_all(format!("HTTP/1.0 {head}\r\n\r\n{body}").as_bytes()).await?;
        }
    }

    /// Asks it while it answers.
    async fn give_back(&self, server: &Server) -> CommandOutput {
        let url = self.url();
        let flags = ["--connect-url", &*url];
        tokio::select! {
            output = give_back(server, &flags) => output,
            stopped = self.answer() => panic!("{stopped:?}"),
        }
    }
}

/// As the connector must be configured.
fn config() -> Value {
    json!({
        "slot.name": "outbox_router", "publication.name": "outbox_router",
        "snapshot.mode": "no_data"
    })
}

#[tokio::test]
async fn with_a_free_slot_only_the_connectors_steps_are_left() {
    let (server, kafka) = (server(), StateCluster::start());
    kafka.create_topic("outbox.event.order", 1);
    server.sql("insert into outbox values (1, 'order', 'o', 't', '{}')");
    let position: Lsn = server.sql("select pg_current_wal_lsn()").parse().expect("an LSN");
    server.sql("insert into outbox values (2, 'order', 'o', 't', '{}')");
    kafka.put("router", &Witness::at(position)).await;
    let output = give_back_with(&server, &kafka).await;
    assert_eq!(output.exit, Exit::Failure, "{output:?}");
    let wanted = [
        "configuration: ok",
        "slot: ok",
        "publication: ok",
        "position: ok",
        "offsets: not checked",
        "connector: not checked",
    ];
    assert_eq!(states(&output), wanted, "{output:?}");
    // The state topic says that the first one is delivered.
    let (_, position) = step(&output, "position");
    assert!(position.ends_with("1 of 2 waiting events come twice"), "{position}");
    assert_eq!(whole_step(&output, "position")["twice"], 1);
    let left = "select count(*) from pg_replication_slots";
    assert_eq!(server.sql(left), "1", "the copy of the slot is left");
}

#[tokio::test]
async fn a_slot_that_the_router_holds_is_to_be_freed_by_ending_the_router() {
    let server = server();
    let _reader = server.read_slot("outbox_router", "outbox_router");
    let output = give_back(&server, &[]).await;
    assert_eq!(output.exit, Exit::Failure, "{output:?}");
    let slot = whole_step(&output, "slot");
    assert_eq!(slot["state"], "to do");
    assert!(slot["text"].as_str().is_some_and(|who| who.ends_with("pg_recvlogical")), "{slot}");
    assert!(slot["details"][0].as_str().is_some_and(|how| how.contains("SIGTERM")), "{slot}");
    assert_eq!(step(&output, "position").0, "not checked");
    assert_eq!(step(&output, "publication").0, "ok");
}

/// The router stopped at it, so what follows was not delivered; the connector would pass it.
#[tokio::test]
async fn a_gap_that_nobody_has_accepted_is_a_failed_step() {
    let (server, kafka) = (server(), StateCluster::start());
    let to = Mark { lsn: Lsn::from_u64(9), at: None };
    let failure = Failure::new(Code::SlotMoved, "the slot was moved");
    let gap = Gap::new(failure, Interval { from: None, to });
    kafka.put("router", &Witness::at(Lsn::from_u64(7)).with_gaps(&[gap])).await;
    let output = give_back_with(&server, &kafka).await;
    assert_eq!(output.exit, Exit::Failure, "{output:?}");
    let (position, why) = step(&output, "position");
    assert_eq!(position, "failed", "{output:?}");
    assert!(why.starts_with("P014"), "{why}");
}

#[tokio::test]
async fn a_stopped_connector_that_begins_at_the_slot_is_ready() {
    let server = server();
    let worker = Worker::with(config()).await;
    let output = worker.give_back(&server).await;
    assert_eq!(output.exit, Exit::Done, "{output:?}");
    let whole: Value = serde_json::from_str(&output.out).expect("JSON");
    assert_eq!(whole["ready"], true);
    assert_eq!(whole["then"], format!("curl -X PUT {}/connectors/c/resume", worker.url()));
}

#[tokio::test]
async fn an_offset_from_before_the_router_and_a_snapshot_are_to_be_removed() {
    let server = server();
    let mut worker = Worker::with(json!({ "publication.name": "outbox_router" })).await;
    worker.offsets = json!({ "offsets": [{ "partition": {}, "offset": { "lsn": 33_792_128 } }] });
    let output = worker.give_back(&server).await;
    assert_eq!(output.exit, Exit::Failure, "{output:?}");
    let url = format!("{}/connectors/c", worker.url());
    let offsets = whole_step(&output, "offsets");
    assert_eq!(offsets["state"], "to do");
    assert_eq!(offsets["text"], "0/203A080 is stored, from before the router");
    assert_eq!(offsets["commands"], json!([format!("curl -X DELETE {url}/offsets")]));
    let connector = whole_step(&output, "connector");
    assert_eq!(connector["state"], "to do");
    assert_eq!(connector["text"], "to be set: slot.name, snapshot.mode");
    let set = r#"jq '."slot.name"="outbox_router" | ."snapshot.mode"="no_data"'"#;
    let command = connector["commands"][0].as_str().expect("a command");
    assert!(command.contains(set) && command.ends_with(&format!("{url}/config")), "{command}");
}

#[tokio::test]
async fn a_connector_that_is_up_or_absent_is_stopped_or_created_first() {
    let server = server();
    let mut worker = Worker::with(config()).await;
    let task = json!([{ "state": "RUNNING" }]);
    worker.status = Some(json!({ "connector": { "state": "RUNNING" }, "tasks": task }));
    let up = worker.give_back(&server).await;
    assert_eq!(up.exit, Exit::Failure, "{up:?}");
    let offsets = whole_step(&up, "offsets");
    assert_eq!((&offsets["state"], step(&up, "connector").0.as_str()), (&json!("to do"), "ok"));
    assert_eq!(offsets["text"], "the connector is RUNNING, its task RUNNING");
    let stop = format!("curl -X PUT {}/connectors/c/stop", worker.url());
    assert_eq!(offsets["commands"], json!([stop]));
    worker.status = None;
    let absent = worker.give_back(&server).await;
    assert_eq!(absent.exit, Exit::Failure, "{absent:?}");
    let (offsets, why) = step(&absent, "offsets");
    assert_eq!((&*offsets, &*why), ("to do", "Kafka Connect has no such connector"));
    assert_eq!(step(&absent, "connector").0, "not checked");
}
