//! `setup` makes the first record, `teardown` deletes it: with a state topic beside a real
//! PostgreSQL.

use outbox_router::cli::Exit;
use relay::{
    Code, Failure, Lsn,
    source::{Gap, Interval, Mark},
    witness::{OpenFinding, Witness},
};
use testbed::kafka::{KafkaCluster, KafkaOptions};

use crate::{
    kafka::{self, STATE, StateCluster},
    server::{Said, Server, said},
};

const WRITE: &str =
    "insert into outbox (aggregate_type, aggregate_id, event_type) values ('a', 'b', 'c')";
const SETUP: [&str; 3] = ["setup", "--apply", "--create-table"];
const TEARDOWN: [&str; 3] = ["teardown", "--apply", "--yes"];

struct Scene {
    server: Server,
    kafka: StateCluster,
}

impl Scene {
    fn start() -> Self {
        Self { server: Server::start(), kafka: StateCluster::start() }
    }

    async fn typed(&self, line: &[&str]) -> Said {
        let line = self.kafka.with(line);
        self.server.typed(&line.iter().map(String::as_str).collect::<Vec<_>>()).await
    }

    #[track_caller]
    fn confirmed(&self) -> Lsn {
        let confirmed = self.server.sql("select confirmed_flush_lsn from pg_replication_slots");
        confirmed.parse().expect("an LSN")
    }

    fn drop_slot(&self) {
        self.server.sql("select pg_drop_replication_slot('outbox_router')");
    }
}

fn gap(code: Code) -> Gap {
    let to = Mark { lsn: Lsn::from_u64(9), at: None };
    Gap::new(Failure::new(code, "something happened"), Interval { from: None, to })
}

fn done(said: &Said) -> &str {
    assert_eq!((said.exit, said.err.as_str()), (Exit::Done, ""), "{}", said.out);
    &said.out
}

#[tokio::test]
async fn setup_creates_the_first_record_and_then_keeps_it() {
    let scene = Scene::start();
    let made = scene.typed(&SETUP).await;
    let created = format!("record: created in {STATE}, everything after {}", scene.confirmed());
    assert!(done(&made).contains(&created), "{}", made.out);
    let first = scene.kafka.record().await.expect("a record");
    assert_eq!((first.generation, first.position), (1, scene.confirmed()));
    assert_eq!((first.open(), first.last, first.accepted.clone()), (vec![], None, vec![]));
    assert_eq!(first.history.as_ref().unwrap().timeline, 1);
    assert_eq!((first.catalog.relations.len(), first.tables.len()), (1, 1));

    let again = scene.typed(&SETUP).await;
    let known = format!("record: there already, everything before {} is ack", first.position);
    assert!(done(&again).contains(&known), "{}", again.out);
    assert!(!again.out.contains("is open"), "{}", again.out);
    assert_eq!(scene.kafka.record().await, Some(first));
}

/// The slot may have been moved or made again, and a gap forgotten, while there was no record.
#[tokio::test]
async fn a_record_created_for_an_older_slot_states_that_the_slot_is_older() {
    let scene = Scene::start();
    done(&scene.server.typed(&SETUP).await);
    let made = scene.typed(&SETUP).await;
    let first = scene.kafka.record().await.expect("a record");
    let name = format!("K022@{}", scene.confirmed());
    let open: Vec<String> = first.open().iter().map(OpenFinding::name).collect();
    assert_eq!(open, std::slice::from_ref(&name));
    assert_eq!((first.generation, first.position), (1, scene.confirmed()));
    let told = format!("  {name} is open: the pipeline began at {} (", scene.confirmed());
    let closes = format!(
        ") without a record: whether anything before that is missing in kafka is not known\n    \
         hint: compare the outbox table with the topics, then outbox-router accept --gap {name}\n"
    );
    assert!(done(&made).contains("record: created in "), "{}", made.out);
    assert!(made.out.contains(&told) && made.out.contains(&closes), "{}", made.out);

    // An init container types it before every start.
    let again = scene.typed(&SETUP).await;
    assert!(done(&again).contains("record: there already, "), "{}", again.out);
    assert!(again.out.contains(&told) && again.out.contains(&closes), "{}", again.out);
    assert_eq!(scene.kafka.record().await, Some(first));
    let accepted = scene.typed(&["accept", "--yes", "--by", "ann"]).await;
    assert!(done(&accepted).contains(&format!("accepted {name} by ann\n")), "{}", accepted.out);
    assert!(!done(&scene.typed(&SETUP).await).contains("is open"));
}

/// Whoever makes the slot again must hear that rows may be missing.
#[tokio::test]
async fn setup_reports_what_is_open_and_how_it_is_closed() {
    let scene = Scene::start();
    done(&scene.typed(&SETUP).await);
    let first = scene.kafka.record().await.expect("a record");
    scene.drop_slot();
    scene.server.sql(WRITE);
    let again = scene.typed(&SETUP).await;
    let name = format!("P014@{}", first.position);
    let told = format!("  {name} is open: slot \"outbox_router\" stands at ");
    let closes = format!("from the table, then outbox-router accept --gap {name}\n");
    assert!(done(&again).contains(&told) && again.out.contains(&closes), "{}", again.out);
    scene.kafka.put("router", &first.with_gaps(&[gap(Code::SlotMissing)])).await;
    let again = scene.typed(&SETUP).await;
    assert!(done(&again).contains("  P010@0/9 is open: "), "{}", again.out);
    done(&scene.typed(&["accept", "--yes"]).await);
    let again = scene.typed(&SETUP).await;
    assert!(!done(&again).contains("is open"), "{}", again.out);
}

#[tokio::test]
async fn without_kafka_setup_does_its_part_and_reports_what_is_missing() {
    let server = Server::start();
    let line = kafka::with("127.0.0.1:1", &SETUP);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let failed = server.typed(&line).await;
    assert_eq!(failed.exit, Exit::Failure, "{failed:?}");
    assert!(failed.out.contains("slot outbox_router: created at "), "{}", failed.out);
    assert!(!failed.out.contains("next: "), "{}", failed.out);
    let told = "error: K022: postgresql is set up, but the first record is missing in the state \
                topic outbox-router.state: K001: ";
    assert!(failed.err.starts_with(told), "{}", failed.err);
    assert!(failed.err.contains("outbox-router setup --apply again, before the router is started"));
    assert!(failed.err.contains("then outbox-router accept closes K022"), "{}", failed.err);

    let skipped = server.typed(&[&line[..], &["--skip-kafka"]].concat()).await;
    assert!(done(&skipped).contains("record: left out; the router begins without one"));
}

#[tokio::test]
async fn the_record_of_a_retired_pipeline_is_deleted_with_its_slot() {
    let scene = Scene::start();
    done(&scene.typed(&SETUP).await);
    scene.kafka.put("router", &scene.kafka.record().await.expect("a record")).await;
    // What is in WAL and not published is nobody's to deliver.
    scene.server.sql("create table other (id int); insert into other values (1)");
    let skipped = scene.typed(&["teardown"]).await;
    assert!(done(&skipped).contains("-- the record in kafka is deleted by --apply alone\n"));
    let dropped = scene.typed(&TEARDOWN).await;
    assert!(done(&dropped).contains("slot outbox_router: dropped\n"), "{}", dropped.out);
    assert!(dropped.out.contains("record: deleted\n"), "{}", dropped.out);
    assert_eq!(scene.kafka.record().await, None);
    let again = scene.typed(&TEARDOWN).await;
    assert!(done(&again).contains("record: not there\n"), "{}", again.out);
}

#[tokio::test]
async fn a_record_of_rows_that_may_be_missing_is_kept() {
    let scene = Scene::start();
    for kept in [
        "K022: ",
        "P010: ",
        "P014: ",
        "P015: ",
        "P022: ",
        "P010: the slot outbox_router was not there: whether it had delivered every committed row \
         is not known",
    ] {
        done(&scene.typed(&SETUP).await);
        // What the round before has left open.
        done(&scene.typed(&["accept", "--yes"]).await);
        let accepted = scene.kafka.record().await.expect("a record");
        let mut record = Witness { generation: accepted.generation + 1, ..accepted };
        match kept {
            "K022: " => record.began_without.clone_from(&record.checked),
            "P010: " => record = record.with_gaps(&[gap(Code::SlotMissing)]),
            "P014: " => record.position = Lsn::from_u64(7),
            // The server was restored, and a router that runs would say so; none does.
            "P015: " => record.position = Lsn::from_u64(1 << 50),
            "P022: " => {
                scene.server.sql("alter publication outbox_router set (publish = 'update')");
            }
            _ => scene.drop_slot(),
        }
        scene.kafka.put("router", &record).await;
        let dropped = scene.typed(&TEARDOWN).await;
        let told = format!("record: kept, so that this is not forgotten: {kept}");
        assert!(done(&dropped).contains(&told), "{told} in {}", dropped.out);
        assert!(dropped.out.contains("then outbox-router accept\n"), "{}", dropped.out);
        let forget = "  if the pipeline is given up: outbox-router teardown --apply --forget\n";
        assert!(dropped.out.contains(forget), "{}", dropped.out);
        let left = scene.kafka.record().await.expect("a record");
        assert_eq!((left.generation, left.open()), (record.generation, record.open()));
    }
}

/// Who gives a pipeline up needs no slot for it.
#[tokio::test]
async fn a_record_is_deleted_if_forget_is_given() {
    let scene = Scene::start();
    done(&scene.typed(&SETUP).await);
    let first = scene.kafka.record().await.expect("a record");
    let record = Witness { generation: 2, ..first }.with_gaps(&[gap(Code::SlotMoved)]);
    scene.kafka.put("router", &record).await;
    assert!(done(&scene.typed(&TEARDOWN).await).contains("record: kept"));
    let forget = [&TEARDOWN[..], &["--forget"]].concat();
    let forgotten = scene.typed(&forget).await;
    let told = "record: deleted, and this is forgotten with it: P014: something happened; rows";
    assert!(done(&forgotten).contains(told), "{}", forgotten.out);
    assert_eq!(scene.kafka.record().await, None);
    assert!(done(&scene.typed(&forget).await).contains("record: not there\n"));
}

/// A server before version 15 sends two messages of every transaction of another table; any server
/// sends what else is published. However much that is, it is no row.
#[tokio::test]
async fn the_record_of_a_slot_with_a_backlog_without_rows_is_deleted_with_it() {
    let scene = Scene::start();
    let much = "update outbox set event_type = 'd'";
    let elsewhere = "do $$ begin for n in 1..2500 loop insert into other values (n); commit; \
                     end loop; end $$";
    scene.server.sql("create table other (id int)");
    for row in ["", WRITE] {
        done(&scene.typed(&SETUP).await);
        scene.server.sql("alter publication outbox_router set (publish = 'insert, update')");
        scene.server.sql(&WRITE.replace(
            "values ('a', 'b', 'c')",
            "select 'a', n, 'c' from generate_series(1, 2500) n",
        ));
        scene
            .server
            .sql("select pg_replication_slot_advance('outbox_router', pg_current_wal_lsn())");
        let made = scene.kafka.record().await.expect("a record");
        let record =
            Witness { position: scene.confirmed(), generation: made.generation + 1, ..made };
        scene.kafka.put("router", &record).await;
        scene.server.sql(much);
        scene.server.sql(elsewhere);
        scene.server.sql(row);
        let dropped = scene.typed(&TEARDOWN).await;
        let (told, left) = match row {
            "" => ("record: deleted\n", None),
            _ => ("P010: the slot outbox_router was dropped before it had", Some(record)),
        };
        assert!(done(&dropped).contains(told), "{}", dropped.out);
        assert_eq!(scene.kafka.record().await, left);
    }
}

/// What the slot has not delivered is not delivered by any other.
#[tokio::test]
async fn the_record_of_a_slot_that_has_not_delivered_everything_is_kept() {
    let scene = Scene::start();
    done(&scene.typed(&SETUP).await);
    let first = scene.kafka.record().await.expect("a record");
    scene.server.sql(WRITE);
    let line = scene.kafka.with(&["teardown", "--apply"]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let told = "the slot outbox_router has committed rows that were not delivered: outbox-router \
                run delivers them first\nwhat it has not delivered will be lost; type ";
    let refused = scene.server.answered(&line, "").await;
    assert!(refused.out.contains(told), "{}", refused.out);
    let dropped = scene.server.answered(&line, "outbox_router\n").await;
    let kept = "record: kept, so that this is not forgotten: P010: the slot outbox_router was \
                dropped before it had delivered every committed row: the rest is missing in kafka\n";
    assert!(done(&dropped).contains(told) && dropped.out.contains(kept), "{}", dropped.out);
    assert_eq!(scene.kafka.record().await, Some(first.clone()));
    let again = scene.typed(&SETUP).await;
    let open = format!("  P014@{} is open: slot ", first.position);
    assert!(done(&again).contains(&open), "{}", again.out);
}

#[tokio::test]
async fn the_record_of_a_slot_whose_backlog_cannot_be_read_is_kept() {
    let scene = Scene::start();
    done(&scene.typed(&SETUP).await);
    scene.server.sql(
        "create role router login replication; alter publication outbox_router owner to router; \
         revoke execute on function pg_logical_slot_peek_binary_changes from public",
    );
    let first = scene.kafka.record().await;
    let line = scene.kafka.with(&TEARDOWN);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let dropped = said(&scene.server.url("router"), &line, "").await;
    let unknown = "whether the slot outbox_router has delivered every committed row is not known: \
                   P002: PostgreSQL said permission denied";
    assert!(done(&dropped).contains(unknown), "{}", dropped.out);
    let kept = format!("record: kept, so that this is not forgotten: P010: {unknown}");
    assert!(dropped.out.contains(&kept), "{}", dropped.out);
    assert_eq!(scene.kafka.record().await, first);
}

#[tokio::test]
async fn without_kafka_the_slot_is_still_dropped() {
    let server = Server::start();
    done(&server.typed(&SETUP).await);
    let line = kafka::with("127.0.0.1:1", &TEARDOWN);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let failed = server.typed(&line).await;
    assert_eq!(failed.exit, Exit::Failure, "{failed:?}");
    assert!(failed.out.contains("slot outbox_router: dropped\n"), "{}", failed.out);
    let there = "error: K001: what was in postgresql is dropped, but the record in kafka is still";
    assert!(failed.err.starts_with(there), "{}", failed.err);
    assert_eq!(failed.err.matches("kafka-broker-api-versions.sh").count(), 1, "{}", failed.err);
    assert_eq!(server.sql("select count(*) from pg_replication_slots"), "0");
}

/// The mock cluster makes no topic.
#[tokio::test]
async fn on_a_real_kafka_the_topic_is_created_and_a_gap_is_closed() {
    let server = Server::start();
    let kafka = KafkaCluster::start(KafkaOptions::default()).await.expect("a Kafka");
    let typed = async |line: &[&str]| {
        let line = kafka::with(&kafka.bootstrap(), line);
        server.typed(&line.iter().map(String::as_str).collect::<Vec<_>>()).await
    };
    done(&typed(&SETUP).await);
    let first = kafka::record(&kafka.bootstrap()).await.expect("a record");
    assert_eq!(first.cluster.len(), 22, "a random id in base64: {}", first.cluster);
    server.sql("select pg_drop_replication_slot('outbox_router')");
    done(&typed(&SETUP).await);
    let accepted = typed(&["accept", "--yes", "--by", "ann"]).await;
    assert!(done(&accepted).contains(&format!("accepted P014@{} by ann\n", first.position)));
    let after = kafka::record(&kafka.bootstrap()).await.expect("a record");
    assert_eq!((after.generation, after.open(), after.cluster), (2, vec![], first.cluster));
    assert!(done(&typed(&TEARDOWN).await).contains("record: deleted\n"));
    assert_eq!(kafka::record(&kafka.bootstrap()).await, None);
}
