//! `accept` on a real PostgreSQL with a state topic beside it.

use outbox_router::cli::{Audience, Exit};
use relay::{
    Code, Failure, Lsn,
    source::{Gap, History, Interval, Mark},
    witness::Witness,
};

use crate::{
    kafka::StateCluster,
    server::{CommandOutput, Server, run_command_at, run_command_for, run_line},
};

const LONG_AGO: &str = "2020-01-01T00:00:00Z";
const LATER: &str = "2020-01-02T00:00:00Z";

fn mark(lsn: u64, at: &str) -> Mark {
    Mark { lsn: Lsn::from_u64(lsn), at: Some(at.to_owned()) }
}

fn gap(code: Code, from: u64) -> Gap {
    let interval = Interval { from: Some(mark(from, LONG_AGO)), to: mark(from + 9, LATER) };
    Gap::new(Failure::new(code, "something happened"), interval)
}

/// A record of a router that found these gaps.
fn stopped(gaps: Vec<Gap>) -> Witness {
    Witness { generation: 3, gaps, ..Witness::at(Lsn::from_u64(7)) }
}

struct Fixture {
    server: Server,
    kafka: StateCluster,
}

impl Fixture {
    /// What `setup` leaves, and this record.
    async fn with(record: &Witness) -> Self {
        let fixture = Self { server: Server::start(), kafka: StateCluster::start() };
        let made = fixture.server.run_command(&["setup", "--apply", "--create-table"]).await;
        assert_eq!(made.exit, Exit::Done, "{made:?}");
        fixture.kafka.put("router", record).await;
        fixture
    }

    /// Types `accept` and more.
    async fn accept(&self, more: &[&str]) -> CommandOutput {
        self.accept_as(Audience::Machine, "postgres", more, "").await
    }

    async fn accept_as(
        &self,
        who: Audience,
        user: &str,
        more: &[&str],
        answer: &str,
    ) -> CommandOutput {
        let line = self.kafka.with(&[&["accept"], more].concat());
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        run_command_for(who, &self.server.url(user), &line, answer).await
    }

    async fn record(&self) -> Witness {
        self.kafka.record().await.expect("a record")
    }

    fn confirmed(&self) -> Lsn {
        let confirmed = self.server.sql("select confirmed_flush_lsn from pg_replication_slots");
        confirmed.parse().expect("an LSN")
    }
}

const WRITE: &str =
    "insert into outbox (aggregate_type, aggregate_id, event_type, created_at) values ";

#[tokio::test]
async fn everything_open_is_closed_by_a_baseline_as_of_now() {
    let mut before = stopped(vec![gap(Code::SlotMissing, 5), gap(Code::SlotMoved, 6)]);
    before.began_without = Some(mark(1, LONG_AGO));
    before.partitions.insert("orders".to_owned(), 6);
    let fixture = Fixture::with(&before).await;
    for day in ["2019-12-31", "2020-01-01 12:00Z", "2020-01-01 18:00Z", "2020-02-01"] {
        fixture.server.sql(&format!("{WRITE} ('a', 'b', 'c', '{day}')"));
    }
    let accepted = fixture.accept(&["--yes", "--by", "ann"]).await;
    assert_eq!((accepted.exit, &*accepted.err), (Exit::Done, ""), "{}", accepted.out);
    for expected in [
        "pipeline  outbox-router, database postgres, slot outbox_router\n",
        "open      P010@0/5\nwhat      something happened; rows committed after",
        "from      0/5 (2020-01-01T00:00:00Z)\nto        the next slot; found at 0/E (2020-01-02T00:00:00Z)\n",
        "rows      3 in public.outbox with created_at since then\n",
        "from      0/6 (2020-01-01T00:00:00Z)\nto        0/F (2020-01-02T00:00:00Z)\n",
        "rows      2 in public.outbox with created_at in that time, 3 until now\n",
        "open      K022@0/1\n",
        "accepted P010@0/5 by ann\naccepted P014@0/6 by ann\naccepted K022@0/1 by ann\n",
    ] {
        assert!(accepted.out.contains(expected), "{expected}\nin {}", accepted.out);
    }

    let record = fixture.record().await;
    assert_eq!((record.generation, record.position), (4, fixture.confirmed()));
    assert_eq!((record.open_findings(), record.last), (vec![], None));
    let system_id = fixture.server.sql("select system_identifier from pg_control_system()");
    assert_eq!(record.history, Some(History { system_id, timeline: 1 }));
    let oid = fixture.server.sql("select oid from pg_publication");
    assert_eq!(record.catalog.publication.as_ref().unwrap().oid.to_string(), oid);
    let table = fixture.server.sql("select 'public.outbox'::regclass::oid");
    assert_eq!(record.tables.iter().map(ToString::to_string).collect::<Vec<_>>(), [table]);
    assert_eq!(record.partitions, before.partitions);
    assert!(!record.cluster.is_empty());
    assert_eq!(record.accepted.len(), 3);

    let again = fixture.accept(&[]).await;
    assert_eq!(again.exit, Exit::Done, "{again:?}");
    assert!(again.out.starts_with("nothing is open: everything before "), "{}", again.out);

    // What is behind the slot may be another history's, of a server that was restored with it.
    let now = fixture.server.sql("select pg_current_wal_insert_lsn()").parse().expect("an LSN");
    let ahead = Witness { generation: record.generation + 1, position: now, ..record };
    assert!(fixture.confirmed() < now);
    fixture.kafka.put("router", &ahead).await;
    let again = fixture.accept(&[]).await;
    let unsent = format!("a router that starts compares what the slot sends again before {now}");
    assert!(again.out.contains(&unsent), "{again:?}");

    // A router that streams reads the publication every few seconds only.
    let reader = fixture.server.read_slot_as("outbox-router", "outbox_router", "outbox_router");
    let again = fixture.accept(&[]).await;
    assert!(
        again.out.starts_with(&format!("nothing is open: everything before {now}")),
        "{again:?}"
    );
    fixture.server.sql("alter publication outbox_router drop table outbox");
    let again = fixture.accept(&[]).await;
    assert_eq!(again.exit, Exit::Failure, "{again:?}");
    assert!(again.err.contains("P021: table public.outbox is not in publication"), "{again:?}");
    drop(reader);
}

/// `recover` cannot compare with another cluster's records, so nobody is sent there and back.
#[tokio::test]
async fn another_kafka_is_accepted_and_then_the_rows_are_sent_again() {
    const REPLAY: &str =
        "outbox-router replay --all --admin-url postgres://ADMIN@HOST:PORT/DATABASE";
    let fixture = Fixture::with(&stopped(vec![gap(Code::ClusterChanged, 5)])).await;
    // So that nothing else is open.
    let position = fixture.confirmed();
    let record = Witness { position, ..stopped(vec![gap(Code::ClusterChanged, 5)]) };
    fixture.kafka.put("router", &record).await;
    let line = fixture.kafka.with(&["recover", "--since", "2h", "--yes"]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let refused =
        run_command_for(Audience::Machine, &fixture.server.url("postgres"), &line, "").await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    for expected in ["outbox-router accept --gap K021@0/5; then", REPLAY] {
        assert!(refused.err.contains(expected), "{expected} in {}", refused.err);
    }
    let accepted = fixture.accept(&["--yes"]).await;
    assert_eq!(accepted.exit, Exit::Done, "{accepted:?}");
    assert!(accepted.out.contains(REPLAY), "{}", accepted.out);
    assert!(!accepted.out.contains("outbox-router recover"), "{}", accepted.out);

    let gaps = vec![gap(Code::SlotMissing, 5)];
    fixture.kafka.put("router", &Witness { generation: 9, ..stopped(gaps) }).await;
    let lost = fixture.accept(&[]).await;
    assert!(lost.out.contains("outbox-router recover sends what is missing"), "{}", lost.out);
    assert!(!lost.out.contains(REPLAY), "{}", lost.out);
}

#[tokio::test]
async fn one_gap_can_be_accepted_alone() {
    let record = stopped(vec![gap(Code::SlotMissing, 5), gap(Code::SlotMoved, 6)]);
    let fixture = Fixture::with(&record).await;
    let unknown = fixture.accept(&["--yes", "--gap", "P010@0/6"]).await;
    assert_eq!(
        (unknown.exit, &*unknown.err),
        (
            Exit::Usage,
            "error: P010@0/6 is not open\n  open: P010@0/5\n  open: P014@0/6\n  hint: name one of \
             these by --gap, or accept all of them without --gap\n"
        )
    );
    assert_eq!(fixture.record().await, record);

    let one = fixture.accept(&["--yes", "--gap", "p014@0/00000006"]).await;
    assert_eq!(one.exit, Exit::Done, "{one:?}");
    assert!(one.out.ends_with("still open: P010@0/5\n"), "{}", one.out);
    let left = fixture.record().await;
    assert_eq!(left.open_findings(), stopped(vec![gap(Code::SlotMissing, 5)]).open_findings());
    assert_eq!((left.generation, left.accepted.len()), (4, 1));
}

#[tokio::test]
async fn nothing_is_accepted_before_the_slots_name_is_typed() {
    let record = stopped(vec![gap(Code::SlotMissing, 5)]);
    let fixture = Fixture::with(&record).await;
    let unanswered = fixture.accept(&[]).await;
    assert_eq!(unanswered.exit, Exit::Usage, "{unanswered:?}");
    assert!(unanswered.out.contains("open      P010@0/5\n"), "{}", unanswered.out);
    assert!(unanswered.err.contains("hint: outbox-router accept --gap P010@0/5 --yes\n"));
    for answer in ["", "yes\n"] {
        let refused = fixture.accept_as(Audience::Person, "postgres", &[], answer).await;
        let outcome = (refused.exit, refused.err.as_str());
        assert_eq!(outcome, (Exit::Failure, "nothing was accepted\n"));
    }
    assert_eq!(fixture.record().await, record);

    let accepted = fixture.accept_as(Audience::Person, "postgres", &[], "outbox_router\n").await;
    assert_eq!(accepted.exit, Exit::Done, "{accepted:?}");
    let by = fixture.record().await.accepted.pop().expect("an acceptance").by;
    let (user, host) = by.split_once('@').expect("user and host");
    assert!(!user.is_empty() && user != "unknown" && !host.is_empty(), "{by}");
}

/// What a stream could not start from is no baseline.
#[tokio::test]
async fn a_source_with_a_present_defect_is_refused_with_the_remedy() {
    let record = stopped(vec![gap(Code::SlotMissing, 5)]);
    let fixture = Fixture::with(&record).await;
    let refused = async |expected: &[&str]| {
        let refused = fixture.accept(&["--yes"]).await;
        assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
        for expected in expected {
            assert!(refused.err.contains(expected), "{expected} in {}", refused.err);
        }
        assert_eq!(fixture.record().await, record);
    };
    // What it acknowledges after the look would not be in the witness.
    let reader = fixture.server.read_slot("outbox_router", "outbox_router");
    refused(&["P012: the slot outbox_router is in use by pid", "stop that router first"]).await;
    drop(reader);
    fixture.server.wait_until("select not active from pg_replication_slots");
    fixture.server.sql("alter publication outbox_router set (publish = 'update')");
    refused(&["P022: ", "publish = 'insert'"]).await;
    fixture.server.sql("alter publication outbox_router set (publish = 'insert')");
    fixture.server.sql("select pg_drop_replication_slot('outbox_router')");
    refused(&["P010: slot \"outbox_router\" does not exist", "outbox-router setup --apply"]).await;
}

/// Rows are published by the interval that is told, so it is told once: the slot has moved on since
/// all was seen to be well.
#[tokio::test]
async fn a_gap_that_is_not_repaired_is_refused_as_it_was_shown() {
    let fixture = Fixture::with(&stopped(Vec::new())).await;
    assert_eq!(fixture.accept(&["--yes"]).await.exit, Exit::Done);
    let accepted = fixture.record().await;
    let checked = accepted.checked.clone().expect("a look").lsn;
    let filter = "alter publication outbox_router set table outbox where (event_type <> 'c')";
    fixture.server.sql(&format!("{filter}; {WRITE} ('a', 'b', 'c', now())"));
    fixture.server.sql("select pg_replication_slot_advance('outbox_router', pg_current_wal_lsn())");
    let position = fixture.confirmed();
    let generation = accepted.generation + 1;
    fixture.kafka.put("router", &Witness { position, generation, ..accepted }).await;
    for more in [&["--yes"][..], &["--yes", "--gap", &format!("P023@{checked}")]] {
        let refused = fixture.accept(more).await;
        assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
        assert!(refused.out.contains(&format!("open      P023@{checked}\n")), "{}", refused.out);
        let expected = format!("error: P023: P023@{checked} is not repaired yet: publication ");
        assert!(refused.err.starts_with(&expected), "{}", refused.err);
        let rows = format!("; rows committed after {checked} ");
        assert!(refused.err.contains(&rows), "{}", refused.err);
        assert!(!refused.err.contains(&format!("after {position}")), "{}", refused.err);
        assert!(refused.err.contains("drop table only"), "{}", refused.err);
    }
}

impl Fixture {
    /// Two outboxes of which the publication alone says that they are, and no gap.
    async fn with_other() -> Self {
        let fixture = Self::with(&stopped(Vec::new())).await;
        fixture.server.sql(
            "create table other (like outbox including all); \
             alter publication outbox_router add table other",
        );
        assert_eq!(fixture.accept(&["--yes"]).await.exit, Exit::Done);
        fixture
    }

    /// It is refused with all of this, and the record stays as it is.
    async fn refuses(&self, more: &[&str], expected: &[&str]) {
        let record = self.record().await;
        let refused = self.accept(more).await;
        assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
        for expected in expected {
            assert!(refused.err.contains(expected), "{expected} in {}", refused.err);
        }
        assert_eq!(self.record().await, record);
    }
}

const WRITE_OTHER: &str =
    "insert into other (aggregate_type, aggregate_id, event_type) values ('a', 'b', 'c')";

/// A baseline as of now would not know the table: what is written until it is published again would
/// be in no stream and in no gap.
#[tokio::test]
async fn a_table_that_is_still_out_of_the_publication_is_accepted_only_by_its_name() {
    let fixture = Fixture::with_other().await;
    let checked = fixture.record().await.checked.expect("a look").lsn;
    fixture.server.sql("alter publication outbox_router drop table other");
    fixture.server.sql(WRITE_OTHER);
    let gap = format!("P021@{checked}");
    let unrepaired =
        format!("error: P021: {gap} is not repaired yet: table public.other is not in");
    let give_up =
        "if it is no outbox any more, outbox-router accept --give-up public.other gives up";
    let add = "alter publication \"outbox_router\" add table only \"public\".\"other\"";
    for more in [&["--yes"][..], &["--yes", "--gap", &gap]] {
        fixture.refuses(more, &[&unrepaired, give_up, add]).await;
    }
    let wrong = fixture.accept(&["--yes", "--give-up", "public.outbox"]).await;
    assert_eq!(wrong.exit, Exit::Usage, "{wrong:?}");
    assert!(wrong.err.contains("left: public.other"), "{}", wrong.err);
    let unanswered = fixture.accept(&["--give-up", "other"]).await;
    let hint = format!("outbox-router accept --gap {gap} --give-up public.other --yes");
    assert!(unanswered.err.contains(&hint), "{unanswered:?}");
    let accepted = fixture.accept(&["--yes", "--give-up", "other"]).await;
    assert_eq!(accepted.exit, Exit::Done, "{accepted:?}");
    for expected in [
        "rows      1 in public.other with created_at",
        "public.other is no outbox any more: no row of it is sent that was written since it left",
    ] {
        assert!(accepted.out.contains(expected), "{expected}\nin {}", accepted.out);
    }
    let again = fixture.accept(&["--yes"]).await;
    assert!(again.out.starts_with("nothing is open"), "{again:?}");
}

#[tokio::test]
async fn a_table_that_was_put_back_is_accepted_without_more() {
    let fixture = Fixture::with_other().await;
    fixture.server.sql("alter publication outbox_router drop table other");
    fixture.server.sql(WRITE_OTHER);
    fixture.server.sql("alter publication outbox_router add table other");
    let wrong = fixture.accept(&["--yes", "--give-up", "public.other"]).await;
    assert_eq!(wrong.exit, Exit::Usage, "{wrong:?}");
    let accepted = fixture.accept(&["--yes"]).await;
    assert_eq!(accepted.exit, Exit::Done, "{accepted:?}");
    assert!(accepted.out.contains("was taken out of publication"), "{}", accepted.out);
}

#[tokio::test]
async fn a_table_with_the_name_of_an_outbox_is_refused_while_it_is_not_published() {
    let fixture = Fixture::with_other().await;
    fixture.server.sql("alter table other rename to older; create table other (like outbox)");
    let add = "alter publication \"outbox_router\" add table only \"public\".\"other\"";
    fixture.refuses(&["--yes"], &["P027@", "is not repaired yet: table public.other", add]).await;
    fixture.server.sql("alter publication outbox_router add table other");
    let accepted = fixture.accept(&["--yes"]).await;
    assert_eq!(accepted.exit, Exit::Done, "{accepted:?}");
}

/// A configured table is looked for whatever was known of it before.
#[tokio::test]
async fn a_configured_table_that_is_still_out_of_the_publication_is_refused() {
    let fixture = Fixture::with_other().await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    let configured = ["outbox", "other"].map(|table| format!("[[outbox]]\ntable = \"{table}\"\n"));
    std::fs::write(file.path(), configured.concat()).expect("written");
    fixture.server.sql("alter publication outbox_router drop table other");
    let url = format!("postgres.url={}", fixture.server.url("postgres"));
    let accept = async |more: &[&str]| {
        let named = file.path().to_str().expect("UTF-8");
        let line = [&["--config", named, "accept", "--yes", "--set", &url], more].concat();
        run_line(Audience::Machine, &fixture.kafka.with(&line), "").await
    };
    let refused = accept(&[]).await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    for expected in ["error: P021: P021@", "is not repaired yet", "add table only"] {
        assert!(refused.err.contains(expected), "{expected} in {}", refused.err);
    }
    let wrong = accept(&["--give-up", "public.other"]).await;
    assert_eq!(wrong.exit, Exit::Usage, "{wrong:?}");
}

/// WAL from before the publication was made again is decoded without it.
#[tokio::test]
async fn a_slot_that_is_older_than_the_publication_is_refused() {
    let fixture = Fixture::with(&stopped(Vec::new())).await;
    let system_id = fixture.server.sql("select system_identifier from pg_control_system()");
    fixture.server.sql("drop publication outbox_router");
    let seen = fixture.server.sql("select pg_current_wal_lsn()").parse().expect("an LSN");
    let mut found = gap(Code::PublicationMissing, 5);
    found.interval.to.lsn = seen;
    let history = Some(History { system_id, timeline: 1 });
    let record = Witness { history, generation: 4, ..stopped(vec![found]) };
    fixture.kafka.put("router", &record).await;
    fixture
        .server
        .sql("create publication outbox_router for table outbox with (publish = 'insert')");
    let refused = fixture.accept(&["--yes"]).await;
    assert!(refused.err.starts_with("error: P026: the slot stands at "), "{refused:?}");
    assert!(refused.err.contains(", outbox-router setup --apply --admin-url"), "{refused:?}");

    fixture.server.sql("select pg_drop_replication_slot('outbox_router')");
    let made = fixture.server.run_command(&["setup", "--apply"]).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    let accepted = fixture.accept(&["--yes"]).await;
    assert_eq!(accepted.exit, Exit::Done, "{accepted:?}");
}

/// A router that runs goes on writing, so only what it does not write is added.
#[tokio::test]
async fn a_start_without_a_record_is_accepted_while_a_router_runs() {
    let record = Witness { began_without: Some(mark(1, LONG_AGO)), ..stopped(Vec::new()) };
    let fixture =
        Fixture::with(&Witness { position: Lsn::from_u64(1 << 40), ..record.clone() }).await;
    let _reader = fixture.server.read_slot("outbox_router", "outbox_router");
    let accepted = fixture.accept(&["--yes"]).await;
    assert_eq!(accepted.exit, Exit::Done, "{accepted:?}");
    let expected = "what      the pipeline began at 0/1 (2020-01-01T00:00:00Z) without a witness";
    assert!(accepted.out.contains(expected), "{}", accepted.out);
    let after = fixture.record().await;
    assert_eq!((after.generation, after.open_findings()), (3, vec![]));
    assert_eq!(after.position, Lsn::from_u64(1 << 40));
}

/// What a router would find at its next start.
#[tokio::test]
async fn a_slot_past_the_record_is_open_too() {
    let fixture = Fixture::with(&stopped(Vec::new())).await;
    let accepted = fixture.accept(&["--yes"]).await;
    assert_eq!(accepted.exit, Exit::Done, "{accepted:?}");
    assert!(accepted.out.contains("open      P014@0/7\n"), "{}", accepted.out);
    let rows =
        "rows      of public.outbox cannot be counted: it is not known at what time it begins";
    assert!(accepted.out.contains(rows), "{}", accepted.out);
    assert_eq!(fixture.record().await.position, fixture.confirmed());
}

#[tokio::test]
async fn rows_that_cannot_be_counted_are_reported_with_the_reason() {
    let fixture = Fixture::with(&stopped(vec![gap(Code::SlotMissing, 5)])).await;
    fixture.server.sql("create role router login replication");
    let user = fixture.accept_as(Audience::Machine, "router", &[], "").await;
    let expected =
        "rows      of public.outbox cannot be counted: this role may not read it; see --admin-url";
    assert!(user.out.contains(expected), "{user:?}");
    let admin = fixture.server.url("postgres");
    let more = ["--admin-url", admin.as_str()];
    let admin = fixture.accept_as(Audience::Machine, "router", &more, "").await;
    assert!(admin.out.contains("rows      0 in public.outbox"), "{admin:?}");
    fixture.server.sql("alter table outbox drop column created_at");
    let none = fixture.accept(&[]).await;
    assert!(
        none.out.contains("it has no column with the time at which a row was written"),
        "{none:?}"
    );
}

#[tokio::test]
async fn without_a_record_there_is_nothing_to_accept() {
    let fixture = Fixture::with(&stopped(Vec::new())).await;
    let other = fixture.accept(&["--set", "name=another"]).await;
    assert_eq!(other.exit, Exit::Failure, "{other:?}");
    let expected =
        "error: K022: the state topic outbox-router.state has no witness of this pipeline";
    assert!(other.err.starts_with(expected), "{}", other.err);
    let remedy = "outbox-router setup --apply creates the first witness, then outbox-router accept \
                  closes K022";
    assert!(other.err.contains(remedy), "{}", other.err);
    let off = run_command_at(&fixture.server.url("postgres"), &["accept", "--yes"], "").await;
    assert_eq!(off.exit, Exit::Failure);
    assert!(off.err.contains("every restart of the router closes every gap"), "{}", off.err);
    fixture.server.sql("create database elsewhere");
    let admin = format!("postgres://postgres@127.0.0.1:{}/elsewhere", fixture.server.port);
    let elsewhere = fixture.accept(&["--admin-url", &admin]).await;
    assert!(elsewhere.err.contains("name the database postgres in --admin-url"), "{elsewhere:?}");
}

/// Found at three, repaired at five: what was written at four is in no slot. The router begins
/// anew, so what it would have told at its next start is told now.
#[tokio::test]
async fn rows_left_out_until_the_repair_are_reported_and_so_are_alterations_meanwhile() {
    let fixture = Fixture::with(&stopped(Vec::new())).await;
    assert_eq!(fixture.accept(&["--yes"]).await.exit, Exit::Done);
    let mut record = fixture.record().await;
    let found = record.checked.clone().unwrap();
    let interval = Interval { from: Some(found.clone()), to: found };
    record.gaps = vec![Gap::new(Failure::new(Code::PublicationLacksTable, "it was out"), interval)];
    record.generation += 1;
    fixture.kafka.put("router", &record).await;
    fixture.server.sql("alter publication outbox_router set (publish = 'insert, update')");
    fixture.server.sql(&format!("{WRITE} ('a', 'b', 'c', now())"));
    let end: Lsn = fixture.server.sql("select pg_current_wal_lsn()").parse().expect("an LSN");
    let accepted = fixture.accept(&["--yes"]).await;
    assert_eq!(accepted.exit, Exit::Done, "{accepted:?}");
    let to = accepted.out.lines().find_map(|line| line.strip_prefix("to ")).expect("an end");
    let to: Lsn = to.split_whitespace().next().unwrap().parse().expect("an LSN");
    assert!(to >= end, "{}", accepted.out);
    for expected in [
        "rows      1 in public.outbox with created_at in that time",
        "also      P032: publication \"outbox_router\" was altered between two readings",
        "until that was repaired are in no slot",
    ] {
        assert!(accepted.out.contains(expected), "{expected}\nin {}", accepted.out);
    }
}
