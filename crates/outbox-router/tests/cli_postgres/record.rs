//! `setup` makes the witness, `teardown` deletes it: with a state topic beside a real PostgreSQL.

use outbox_router::cli::Exit;
use relay::{
    Code, Failure, Lsn,
    source::{Gap, Interval, Mark},
    witness::{OpenFinding, Witness},
};
use testbed::kafka::{KafkaCluster, KafkaOptions};

use crate::{
    kafka::{self, STATE, StateCluster},
    server::{CommandOutput, Server, run_command_at},
};

const WRITE: &str =
    "insert into outbox (aggregate_type, aggregate_id, event_type) values ('a', 'b', 'c')";
const SETUP: [&str; 3] = ["setup", "--apply", "--create-table"];
const TEARDOWN: [&str; 3] = ["teardown", "--apply", "--yes"];

struct Fixture {
    server: Server,
    kafka: StateCluster,
}

impl Fixture {
    fn start() -> Self {
        Self { server: Server::start(), kafka: StateCluster::start() }
    }

    async fn run_command(&self, line: &[&str]) -> CommandOutput {
        let line = self.kafka.with(line);
        self.server.run_command(&line.iter().map(String::as_str).collect::<Vec<_>>()).await
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

fn done(output: &CommandOutput) -> &str {
    assert_eq!((output.exit, output.err.as_str()), (Exit::Done, ""), "{}", output.out);
    &output.out
}

#[tokio::test]
async fn setup_creates_the_first_record_and_then_keeps_it() {
    let fixture = Fixture::start();
    let made = fixture.run_command(&SETUP).await;
    let created = format!("witness: created in {STATE}, everything after {}", fixture.confirmed());
    assert!(done(&made).contains(&created), "{}", made.out);
    let first = fixture.kafka.record().await.expect("a record");
    assert_eq!((first.generation, first.position), (1, fixture.confirmed()));
    assert_eq!((first.open_findings(), first.last, first.accepted.clone()), (vec![], None, vec![]));
    assert_eq!(first.history.as_ref().unwrap().timeline, 1);
    assert_eq!((first.catalog.relations.len(), first.tables.len()), (1, 1));

    let again = fixture.run_command(&SETUP).await;
    let known = format!("witness: exists already, everything before {} is ack", first.position);
    assert!(done(&again).contains(&known), "{}", again.out);
    assert!(!again.out.contains("is open"), "{}", again.out);
    assert_eq!(fixture.kafka.record().await, Some(first));
}

/// The slot may have been moved or made again, and a gap forgotten, while there was no witness.
#[tokio::test]
async fn a_record_created_for_an_older_slot_states_that_the_slot_is_older() {
    let fixture = Fixture::start();
    done(&fixture.server.run_command(&SETUP).await);
    let made = fixture.run_command(&SETUP).await;
    let first = fixture.kafka.record().await.expect("a record");
    let name = format!("K022@{}", fixture.confirmed());
    let open: Vec<String> = first.open_findings().iter().map(OpenFinding::name).collect();
    assert_eq!(open, std::slice::from_ref(&name));
    assert_eq!((first.generation, first.position), (1, fixture.confirmed()));
    let expected = format!("  {name} is open: the pipeline began at {} (", fixture.confirmed());
    let closes = format!(
        ") without a witness: whether anything that was committed before that time is missing in \
         Kafka is not known\n    hint: compare the ids in the outbox table with the ids in the topics, and \
         insert the missing rows again (docs/recover.md, \"By hand\"); then outbox-router \
         accept --gap {name}\n"
    );
    let created = format!("witness: created in {STATE}, what happens from now on is noticed\n");
    assert!(done(&made).contains(&created), "{}", made.out);
    assert!(made.out.contains(&expected) && made.out.contains(&closes), "{}", made.out);

    // An init container types it before every start.
    let again = fixture.run_command(&SETUP).await;
    assert!(done(&again).contains("witness: exists already, "), "{}", again.out);
    assert!(again.out.contains(&expected) && again.out.contains(&closes), "{}", again.out);
    assert_eq!(fixture.kafka.record().await, Some(first));
    let accepted = fixture.run_command(&["accept", "--yes", "--by", "ann"]).await;
    assert!(done(&accepted).contains(&format!("accepted {name} by ann\n")), "{}", accepted.out);
    assert!(!done(&fixture.run_command(&SETUP).await).contains("is open"));
}

/// Whoever makes the slot again must hear that rows may be missing.
#[tokio::test]
async fn setup_reports_what_is_open_and_how_it_is_closed() {
    let fixture = Fixture::start();
    done(&fixture.run_command(&SETUP).await);
    let first = fixture.kafka.record().await.expect("a record");
    fixture.drop_slot();
    fixture.server.sql(WRITE);
    let again = fixture.run_command(&SETUP).await;
    let name = format!("P014@{}", first.position);
    let expected = format!("  {name} is open: slot \"outbox_router\" stands at ");
    let closes = format!("; or outbox-router accept --gap {name} gives them up\n");
    assert!(done(&again).contains(&expected) && again.out.contains(&closes), "{}", again.out);
    // The rows are there.
    let next = "next: outbox-router recover --admin-url postgres://ADMIN@HOST:PORT/DATABASE sends \
                the missing rows and closes the gap; or outbox-router accept gives them up; only \
                then: outbox-router run\n";
    assert!(again.out.ends_with(next), "{}", again.out);
    fixture.kafka.put("router", &first.with_gaps(&[gap(Code::SlotMissing)])).await;
    let again = fixture.run_command(&SETUP).await;
    assert!(done(&again).contains("  P010@0/9 is open: "), "{}", again.out);
    done(&fixture.run_command(&["accept", "--yes"]).await);
    let again = fixture.run_command(&SETUP).await;
    assert!(!done(&again).contains("is open"), "{}", again.out);
}

/// A slot without a witness would keep WAL, and the router would begin with a warning.
#[tokio::test]
async fn without_kafka_setup_makes_nothing_in_postgresql_either() {
    let server = Server::start();
    let line = kafka::with("127.0.0.1:1", &SETUP);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let failed = server.run_command(&line).await;
    assert_eq!((failed.exit, failed.out.as_str()), (Exit::Failure, ""), "{failed:?}");
    let expected = "error: K001: nothing was made, because Kafka cannot be used (--skip-kafka sets \
                    PostgreSQL up alone): ";
    assert!(failed.err.starts_with(expected), "{}", failed.err);
    assert!(failed.err.contains("\n  hint: "), "{}", failed.err);
    let made = "select (select count(*) from pg_replication_slots) \
                + (select count(*) from pg_publication) \
                + (select count(*) from pg_class where relname = 'outbox')";
    assert_eq!(server.sql(made), "0");

    let skipped = server.run_command(&[&line[..], &["--skip-kafka"]].concat()).await;
    assert!(done(&skipped).contains("witness: left out; the router begins without one"));
}

#[tokio::test]
async fn the_record_of_a_retired_pipeline_is_deleted_with_its_slot() {
    let fixture = Fixture::start();
    done(&fixture.run_command(&SETUP).await);
    fixture.kafka.put("router", &fixture.kafka.record().await.expect("a record")).await;
    // What is in WAL and not published is nobody's to deliver.
    fixture.server.sql("create table other (id int); insert into other values (1)");
    let skipped = fixture.run_command(&["teardown"]).await;
    assert!(done(&skipped).contains("-- the witness in Kafka is deleted by --apply alone\n"));
    let dropped = fixture.run_command(&TEARDOWN).await;
    assert!(done(&dropped).contains("slot outbox_router: dropped\n"), "{}", dropped.out);
    assert!(dropped.out.contains("witness: deleted\n"), "{}", dropped.out);
    assert_eq!(fixture.kafka.record().await, None);
    let again = fixture.run_command(&TEARDOWN).await;
    assert!(done(&again).contains("witness: does not exist\n"), "{}", again.out);
}

#[tokio::test]
async fn a_record_of_rows_that_may_be_missing_is_kept() {
    let fixture = Fixture::start();
    for kept in [
        "K022: ",
        "P010: ",
        "P014: ",
        "P015: ",
        "P022: ",
        "P010: the slot outbox_router did not exist: whether it had delivered every committed row \
         is not known",
    ] {
        done(&fixture.run_command(&SETUP).await);
        // What the round before has left open.
        done(&fixture.run_command(&["accept", "--yes"]).await);
        let accepted = fixture.kafka.record().await.expect("a record");
        let mut record = Witness { generation: accepted.generation + 1, ..accepted };
        match kept {
            "K022: " => record.began_without.clone_from(&record.checked),
            "P010: " => record = record.with_gaps(&[gap(Code::SlotMissing)]),
            "P014: " => record.position = Lsn::from_u64(7),
            // The server was restored, and a router that runs would say so; none does.
            "P015: " => record.position = Lsn::from_u64(1 << 50),
            "P022: " => {
                fixture.server.sql("alter publication outbox_router set (publish = 'update')");
            }
            _ => fixture.drop_slot(),
        }
        fixture.kafka.put("router", &record).await;
        let dropped = fixture.run_command(&TEARDOWN).await;
        let expected = format!("witness: kept, so that this is not forgotten: {kept}");
        assert!(done(&dropped).contains(&expected), "{expected} in {}", dropped.out);
        assert!(dropped.out.contains("or outbox-router accept gives them up\n"), "{}", dropped.out);
        let forget = "  if the pipeline is given up: outbox-router teardown --apply --forget\n";
        assert!(dropped.out.contains(forget), "{}", dropped.out);
        let left = fixture.kafka.record().await.expect("a record");
        assert_eq!(
            (left.generation, left.open_findings()),
            (record.generation, record.open_findings())
        );
    }
}

/// Who gives a pipeline up needs no slot for it.
#[tokio::test]
async fn a_record_is_deleted_if_forget_is_given() {
    let fixture = Fixture::start();
    done(&fixture.run_command(&SETUP).await);
    let first = fixture.kafka.record().await.expect("a record");
    let record = Witness { generation: 2, ..first }.with_gaps(&[gap(Code::SlotMoved)]);
    fixture.kafka.put("router", &record).await;
    assert!(done(&fixture.run_command(&TEARDOWN).await).contains("witness: kept"));
    let forget = [&TEARDOWN[..], &["--forget"]].concat();
    let forgotten = fixture.run_command(&forget).await;
    let expected =
        "witness: deleted, and this is forgotten with it: P014: something happened; rows";
    assert!(done(&forgotten).contains(expected), "{}", forgotten.out);
    assert_eq!(fixture.kafka.record().await, None);
    assert!(done(&fixture.run_command(&forget).await).contains("witness: does not exist\n"));
}

/// A server before version 15 sends two messages of every transaction of another table; any server
/// sends what else is published. However much that is, it is no row.
#[tokio::test]
async fn the_record_of_a_slot_with_a_backlog_without_rows_is_deleted_with_it() {
    let fixture = Fixture::start();
    let much = "update outbox set event_type = 'd'";
    let elsewhere = "do $$ begin for n in 1..2500 loop insert into other values (n); commit; \
                     end loop; end $$";
    fixture.server.sql("create table other (id int)");
    for row in ["", WRITE] {
        done(&fixture.run_command(&SETUP).await);
        fixture.server.sql("alter publication outbox_router set (publish = 'insert, update')");
        fixture.server.sql(&WRITE.replace(
            "values ('a', 'b', 'c')",
            "select 'a', n, 'c' from generate_series(1, 2500) n",
        ));
        fixture
            .server
            .sql("select pg_replication_slot_advance('outbox_router', pg_current_wal_lsn())");
        let made = fixture.kafka.record().await.expect("a record");
        let record =
            Witness { position: fixture.confirmed(), generation: made.generation + 1, ..made };
        fixture.kafka.put("router", &record).await;
        fixture.server.sql(much);
        fixture.server.sql(elsewhere);
        fixture.server.sql(row);
        let dropped = fixture.run_command(&TEARDOWN).await;
        let (expected, left) = match row {
            "" => ("witness: deleted\n", None),
            _ => ("P010: the slot outbox_router was dropped before it had", Some(record)),
        };
        assert!(done(&dropped).contains(expected), "{}", dropped.out);
        assert_eq!(fixture.kafka.record().await, left);
    }
}

/// What the slot has not delivered is not delivered by any other.
#[tokio::test]
async fn the_record_of_a_slot_that_has_not_delivered_everything_is_kept() {
    let fixture = Fixture::start();
    done(&fixture.run_command(&SETUP).await);
    let first = fixture.kafka.record().await.expect("a record");
    fixture.server.sql(WRITE);
    let line = fixture.kafka.with(&["teardown", "--apply"]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let expected = "the slot outbox_router has committed rows that were not delivered: \
                outbox-router run delivers them first\nwhat it has not delivered will be lost; \
                type ";
    let refused = fixture.server.run_command_answering(&line, "").await;
    assert!(refused.out.contains(expected), "{}", refused.out);
    let dropped = fixture.server.run_command_answering(&line, "outbox_router\n").await;
    let kept = "witness: kept, so that this is not forgotten: P010: the slot outbox_router was \
                dropped before it had delivered every committed row: the rest is missing in Kafka\n";
    assert!(done(&dropped).contains(expected) && dropped.out.contains(kept), "{}", dropped.out);
    assert_eq!(fixture.kafka.record().await, Some(first.clone()));
    let again = fixture.run_command(&SETUP).await;
    let open = format!("  P014@{} is open: slot ", first.position);
    assert!(done(&again).contains(&open), "{}", again.out);
}

#[tokio::test]
async fn the_record_of_a_slot_whose_backlog_cannot_be_read_is_kept() {
    let fixture = Fixture::start();
    done(&fixture.run_command(&SETUP).await);
    fixture.server.sql(
        "create role router login replication; alter publication outbox_router owner to router; \
         revoke execute on function pg_logical_slot_peek_binary_changes from public",
    );
    let first = fixture.kafka.record().await;
    let line = fixture.kafka.with(&TEARDOWN);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let dropped = run_command_at(&fixture.server.url("router"), &line, "").await;
    let unknown = "whether the slot outbox_router has delivered every committed row is not known: \
                   P002: PostgreSQL said permission denied";
    assert!(done(&dropped).contains(unknown), "{}", dropped.out);
    let kept = format!("witness: kept, so that this is not forgotten: P010: {unknown}");
    assert!(dropped.out.contains(&kept), "{}", dropped.out);
    assert_eq!(fixture.kafka.record().await, first);
}

#[tokio::test]
async fn without_kafka_the_slot_is_still_dropped() {
    let server = Server::start();
    done(&server.run_command(&SETUP).await);
    let line = kafka::with("127.0.0.1:1", &TEARDOWN);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let failed = server.run_command(&line).await;
    assert_eq!(failed.exit, Exit::Failure, "{failed:?}");
    assert!(failed.out.contains("slot outbox_router: dropped\n"), "{}", failed.out);
    let there = "error: K001: what was in PostgreSQL is dropped, but the witness in Kafka is still";
    assert!(failed.err.starts_with(there), "{}", failed.err);
    assert_eq!(failed.err.matches("kafka-broker-api-versions.sh").count(), 1, "{}", failed.err);
    assert_eq!(server.sql("select count(*) from pg_replication_slots"), "0");
}

/// The mock cluster makes no topic.
#[tokio::test]
async fn on_a_real_kafka_the_topic_is_created_and_a_gap_is_closed() {
    let server = Server::start();
    let kafka = KafkaCluster::start(KafkaOptions::default()).await.expect("a Kafka");
    let run_command = async |line: &[&str]| {
        let line = kafka::with(&kafka.bootstrap(), line);
        server.run_command(&line.iter().map(String::as_str).collect::<Vec<_>>()).await
    };
    done(&run_command(&SETUP).await);
    let first = kafka::record(&kafka.bootstrap()).await.expect("a record");
    assert_eq!(first.cluster.len(), 22, "a random id in base64: {}", first.cluster);
    server.sql("select pg_drop_replication_slot('outbox_router')");
    done(&run_command(&SETUP).await);
    let accepted = run_command(&["accept", "--yes", "--by", "ann"]).await;
    assert!(done(&accepted).contains(&format!("accepted P014@{} by ann\n", first.position)));
    let after = kafka::record(&kafka.bootstrap()).await.expect("a record");
    assert_eq!(
        (after.generation, after.open_findings(), after.cluster),
        (2, vec![], first.cluster)
    );
    assert!(done(&run_command(&TEARDOWN).await).contains("witness: deleted\n"));
    assert_eq!(kafka::record(&kafka.bootstrap()).await, None);
}

/// Rows that wait in the former slot would be sent by none.
#[tokio::test]
async fn a_pipeline_takes_no_other_slot_while_it_has_one_that_no_router_reads() {
    let fixture = Fixture::start();
    done(&fixture.run_command(&SETUP).await);
    let renamed = [&SETUP[..], &["--set", "postgres.slot=renamed"]].concat();
    let refused = fixture.run_command(&renamed).await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    let what = "P013: the pipeline outbox-router had slot outbox_router in this database, which is \
                there, and which no router reads";
    assert!(refused.err.contains(what), "{}", refused.err);
    assert!(refused.err.contains("set postgres.slot to outbox_router, and run"), "{}", refused.err);
    // Another pipeline has rows of its own.
    for other in [["--set", "name=other"], ["--set", "outbox.0.table=public.other"]] {
        let other = [&renamed[..], &other].concat();
        done(&fixture.run_command(&other).await);
        fixture.server.sql("select pg_drop_replication_slot('renamed')");
    }
    // While a router reads it, the other one is made beside it, so that no row is in neither.
    let reader = fixture.server.read_slot("outbox_router", "outbox_router");
    done(&fixture.run_command(&renamed).await);
    drop(reader);
}

/// Rows from behind the former slot's last one would be sent by none, and nothing would be open.
#[tokio::test]
async fn a_pipeline_takes_no_other_slot_while_the_witness_of_one_that_is_gone_is_there() {
    for (gone, make_gone) in [
        ("not there any more", "select pg_drop_replication_slot('outbox_router')"),
        ("lost", "select pg_switch_wal()"),
    ] {
        let server = Server::with_settings("max_slot_wal_keep_size = '1MB'");
        let fixture = Fixture { server, kafka: StateCluster::start() };
        done(&fixture.run_command(&SETUP).await);
        let position = fixture.kafka.record().await.expect("a record").position;
        for statement in [make_gone, "checkpoint"] {
            fixture.server.sql(statement);
        }
        let rest = "select count(*) from pg_replication_slots where wal_status <> 'lost'";
        assert_eq!(fixture.server.sql(rest), "0", "{gone}");
        let renamed = [&SETUP[..], &["--set", "postgres.slot=renamed"]].concat();
        let refused = fixture.run_command(&renamed).await;
        assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
        let what = format!(
            "P013: the pipeline outbox-router had slot outbox_router in this database, which is \
             {gone}: its rows are delivered up to {position}, and no slot has those"
        );
        assert!(refused.err.contains(&what), "{}", refused.err);
        let hint = "outbox-router teardown --apply --forget --set postgres.slot=outbox_router";
        assert!(refused.err.contains(hint), "{}", refused.err);
        // Under another name, too; the same slot is refused for itself where it is lost.
        let both = ["--set", "name=other", "--set", "postgres.slot=renamed"];
        for other in if gone == "lost" { vec![&both[..]] } else { vec![&both[..], &both[..2]] } {
            let refused = fixture.run_command(&[&SETUP[..], other].concat()).await;
            assert!(refused.err.contains(&what), "{refused:?}");
            let flags = "--set name=outbox-router --set postgres.slot=outbox_router";
            for command in ["recover", "teardown --apply --forget"] {
                let hint = format!("outbox-router {command} {flags}");
                assert!(refused.err.contains(&hint), "{hint} is not in {}", refused.err);
            }
        }
        assert_eq!(fixture.server.sql(rest), "0", "{gone}");
        let forget = ["--forget", "--set", "postgres.slot=outbox_router"];
        let forgotten = fixture.run_command(&[&TEARDOWN[..], &forget].concat()).await;
        let deleted = "witness: deleted, and this is forgotten with it: ";
        assert!(done(&forgotten).contains(deleted), "{forgotten:?}");
        done(&fixture.run_command(&renamed).await);
    }
}
