//! `switch` is killed between each two of its writes, by the failpoints of a router that is built
//! with them: `scripts/crash-test.sh --switch`. Everything arrives in order, and nothing comes
//! twice but one batch that was sent and not marked.
//!
//! Each round goes to the stream and back, while writers go on. The command dies at a place on the
//! way there, and at one on the way back; then the same command is typed again, or the other one.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;

use e2e::Interruptions;
use testbed::checker::CheckResult;
use testbed::load::RunningLoad;
use testbed::postgres::DatabaseSession;
use tokio::time::timeout;

use super::{super::DEADLINE, *};

/// The environment variable that arms the router.
const VARIABLE: &str = "OUTBOX_ROUTER_FAILPOINT";
const SIGKILL: i32 = 9;

/// The command dies when it reaches a place for the n-th time.
type Kill = (&'static str, u32);

/// What is typed after `switch stream` was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The same command, after which a router streams.
    Again,
    /// `switch polling`, which is killed there, and the same command after all.
    AgainAfter(Kill),
    /// `switch polling`.
    Back,
}

/// To the stream and back. The kills of one way follow each other.
struct Round {
    to_stream: &'static [Kill],
    then: Then,
    to_polling: &'static [Kill],
}

const fn again(to_stream: &'static [Kill], to_polling: &'static [Kill]) -> Round {
    Round { to_stream, then: Then::Again, to_polling }
}

const fn back(to_stream: &'static [Kill], to_polling: &'static [Kill]) -> Round {
    Round { to_stream, then: Then::Back, to_polling }
}

/// Before the pending rows are sent.
const BEFORE_ROWS: [Round; 6] = [
    again(
        &[
            ("stream-role-made", 1),
            ("stream-topic-made", 1),
            ("tables-made", 1),
            ("stream-closed", 1),
        ],
        &[("polling-marking", 1)],
    ),
    again(&[("stream-workers-gone", 1)], &[("polling-marked", 1)]),
    again(
        &[("stream-publication-noted", 1), ("stream-publication-made", 1)],
        &[("polling-marked-noted", 1)],
    ),
    again(&[("stream-former-slot-dropped", 1)], &[("polling-slot-dropped", 1)]),
    // Now there is a former slot, and there are rows that it has seen.
    again(
        &[("stream-slot-made", 1), ("stream-former-slot-dropped", 1), ("stream-rows-noted", 1)],
        &[("polling-witness-deleted", 1)],
    ),
    again(
        &[("stream-rows-noted", 1), ("stream-rows-forgotten", 1)],
        &[("polling-publication-dropped", 1)],
    ),
];

/// From then on.
const AFTER_ROWS: [Round; 6] = [
    again(&[("stream-sent", 1)], &[("polling-rows-forgotten", 1)]),
    again(&[("stream-sent-noted", 1)], &[("polling-opened", 1)]),
    again(&[("stream-witness-written", 1)], &[("polling-stream-noted", 1)]),
    again(&[("stream-handed-over", 1)], &[("polling-marked-noted", 1), ("polling-marked", 1)]),
    again(&[("stream-complete", 1)], &[]),
    Round {
        to_stream: &[("stream-slot-made", 1)],
        then: Then::AgainAfter(("polling-publication-dropped", 1)),
        to_polling: &[],
    },
];

/// Every place on the way there but one, and what cancels it is killed as well.
const CANCELLED: [Round; 15] = [
    back(&[("stream-closed", 1)], &[("tables-made", 1)]),
    back(&[("stream-role-made", 1)], &[]),
    back(&[("stream-workers-gone", 1)], &[("polling-rows-forgotten", 1)]),
    back(&[("stream-publication-noted", 1)], &[("polling-opened", 1)]),
    back(&[("stream-publication-made", 1)], &[("polling-publication-dropped", 1)]),
    back(&[("stream-topic-made", 1)], &[]),
    back(&[("stream-former-slot-dropped", 1)], &[]),
    back(&[("stream-rows-forgotten", 1)], &[]),
    back(&[("stream-slot-made", 1)], &[("polling-slot-dropped", 1)]),
    back(&[("stream-rows-noted", 1)], &[("polling-slot-dropped", 1)]),
    back(&[("stream-sent", 1)], &[("polling-shards-made", 1)]),
    back(&[("stream-sent-noted", 1)], &[("polling-slot-dropped", 1)]),
    back(&[("stream-witness-written", 1)], &[("polling-witness-deleted", 1)]),
    back(&[("stream-handed-over", 1)], &[("polling-slot-dropped", 1)]),
    back(&[("stream-complete", 1)], &[]),
];

/// While rows are sent. The marks of the second batch are held, so this is reached when that batch
/// is in Kafka, and not marked.
const SENDING: Kill = ("stream-sending", 15);

/// Tables that were streamed from the beginning have none of what a switch needs.
const FROM_THE_BEGINNING: [Kill; 5] = [
    ("tables-made", 1),
    ("polling-stream-noted", 1),
    ("polling-marking", 1),
    // There are more rows than are marked at a time.
    ("polling-marking", 2),
    ("polling-marked-noted", 1),
];

/// A worker, writers, and a router that streams when it is started.
struct Stage {
    fixture: Fixture,
    running: RunningLoad,
    streamer: RouterProcess,
}

impl Stage {
    async fn begin() -> Self {
        let (fixture, configurations) = begun().await;
        let streamer = RouterProcess::with_config(&configurations.stream.to_string()).unwrap();
        let running = fixture.load(Load { writers: 4, ..load() });
        wait_committed(&running, 50).await.unwrap();
        Self { fixture, running, streamer }
    }

    async fn round(&mut self, round: &Round) {
        let Round { to_stream, then, to_polling } = round;
        for kill in *to_stream {
            self.kill("stream", *kill).await;
        }
        if let Then::AgainAfter(kill) = then {
            self.kill("polling", *kill).await;
        }
        match then {
            Then::Again | Then::AgainAfter(_) => {
                switched(&self.fixture, "stream").await;
                self.stream().await;
            }
            Then::Back => {}
        }
        for kill in *to_polling {
            self.kill("polling", *kill).await;
        }
        switched(&self.fixture, "polling").await;
        assert_nothing_is_left(&self.fixture).await;
        wait_polling(&mut self.fixture.router).await;
        wait_committed(&self.running, 30).await.unwrap();
    }

    async fn kill(&mut self, to: &str, kill: Kill) {
        killed(&mut self.fixture, to, kill).await;
        wait_committed(&self.running, 20).await.unwrap();
    }

    /// What the stream left out would be polled after it, so it has to deliver something.
    async fn stream(&mut self) {
        self.streamer.start_again().unwrap();
        self.streamer.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
        wait_committed(&self.running, 50).await.unwrap();
        self.fixture.wait_delivered(DEADLINE).await.unwrap();
        stop(&mut self.streamer).await;
    }

    async fn end(self) -> (Fixture, CheckResult) {
        let Self { mut fixture, running, .. } = self;
        fixture.note(running.stop().await.unwrap());
        wait_published(&fixture).await;
        let result = fixture.check().await.unwrap().clean().unwrap();
        (fixture, result)
    }
}

/// The command dies there, and nowhere else.
async fn killed(fixture: &mut Fixture, to: &str, (place, times): Kill) {
    let line = line(fixture, to);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let armed = format!("switch-{place}:{times}");
    fixture.router.set_env(VARIABLE, Some(&armed));
    let run = timeout(DEADLINE, fixture.router.command(&line)).await;
    fixture.router.set_env(VARIABLE, None);
    let output = run.unwrap().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let is_there = err.contains(&format!("failpoint switch-{place} reached {times} times"));
    let signal = output.status.signal();
    assert!(is_there && signal == Some(SIGKILL), "{armed} was never reached: {out}{err}");
}

async fn assert_nothing_is_left(fixture: &Fixture) {
    let query = "select (select count(*) from outbox_router.switch) \
        + (select count(*) from outbox_router.switch_row) \
        + (select count(*) from pg_publication) + (select count(*) from pg_replication_slots)";
    let session = fixture.session().await.unwrap();
    let left: i64 = session.query_one(query, &[]).await.unwrap().get(0);
    assert_eq!(left, 0, "states, noted rows, publications and slots");
}

/// Returns what the checker has found.
async fn nothing_comes_twice(rounds: &[Round]) -> String {
    let mut stage = Stage::begin().await;
    for round in rounds {
        stage.round(round).await;
    }
    let (_fixture, result) = stage.end().await;
    assert_eq!(result.duplicates, 0, "{result}");
    result.to_string()
}

#[tokio::test]
#[ignore = "needs a router with failpoints"]
async fn killed_before_rows_are_sent_the_switch_goes_on_and_nothing_comes_twice() {
    println!("{}", nothing_comes_twice(&BEFORE_ROWS).await);
}

#[tokio::test]
#[ignore = "needs a router with failpoints"]
async fn killed_after_rows_are_sent_the_switch_goes_on_and_nothing_comes_twice() {
    println!("{}", nothing_comes_twice(&AFTER_ROWS).await);
}

#[tokio::test]
#[ignore = "needs a router with failpoints"]
async fn killed_anywhere_the_switch_is_cancelled_and_nothing_comes_twice() {
    println!("{}", nothing_comes_twice(&CANCELLED).await);
}

#[tokio::test]
#[ignore = "needs a router with failpoints"]
async fn killed_while_rows_are_sent_one_batch_comes_twice_at_most() {
    let mut stage = Stage::begin().await;
    let mut kills = Interruptions::default();
    for then in [Then::Again, Then::Back] {
        // Nobody polls from now on, so rows wait to be sent.
        stage.kill("stream", ("stream-slot-made", 1)).await;
        let waiting = u64::try_from(3 * BATCH).unwrap();
        wait_committed(&stage.running, waiting).await.unwrap();
        let session = stage.fixture.session().await.unwrap();
        hold_marks_behind_a_batch(&session).await;
        stage.kill("stream", SENDING).await;
        end_the_marks(&session).await;
        kills.note(&stage.fixture).await.unwrap();
        stage.round(&Round { to_stream: &[], then, to_polling: &[] }).await;
    }
    let (fixture, result) = stage.end().await;
    let duplicates = kills.duplicates(&fixture.seen().await.unwrap());
    println!("{result}\nduplicates after each kill: {duplicates:?}");
    let [before, after @ ..] = duplicates.as_slice() else { panic!("no interruption") };
    assert_eq!(*before, 0, "{result}");
    assert!(after.iter().all(|count| (1..=BATCH).contains(count)), "{duplicates:?}: {result}");
}

/// The first batch is marked, and the marks of the second one wait.
async fn hold_marks_behind_a_batch(session: &DatabaseSession) {
    let query = format!(
        "select n from outbox where published_at is null order by n offset {BATCH} limit 1"
    );
    let first: i64 = session.query_one(&query, &[]).await.unwrap().get(0);
    // A lock of the session: one of a transaction would keep the slot from being made.
    let hold = format!(
        "select pg_advisory_lock(1); \
         create or replace function public.hold() returns trigger language plpgsql as \
           $$ begin perform pg_advisory_xact_lock(1); return new; end $$; \
         create trigger hold before update of published_at on outbox \
           for each row when (old.n >= {first}) execute function public.hold()"
    );
    session.batch_execute(&hold).await.unwrap();
}

/// The server has not noticed yet that the command is dead, and would write the marks.
async fn end_the_marks(session: &DatabaseSession) {
    let end = "select pg_terminate_backend(pid) from pg_locks \
        where locktype = 'advisory' and not granted";
    let ended = session.query(end, &[]).await.unwrap();
    assert_eq!(ended.len(), 1, "marks were not waiting: the run is invalid");
    let release = "drop trigger hold on outbox; select pg_advisory_unlock(1)";
    session.batch_execute(release).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a router with failpoints"]
async fn killed_again_and_again_tables_that_were_always_streamed_are_polled_in_the_end() {
    let mut fixture = Fixture::builder().start().await.unwrap();
    fixture.late_replays = LateReplays::Allowed;
    fixture.session().await.unwrap().batch_execute(COLUMNS).await.unwrap();
    let running = fixture.load(load());
    wait_committed(&running, 1_500).await.unwrap();
    fixture.wait_delivered(DEADLINE).await.unwrap();
    stop(&mut fixture.router).await;
    // Its slot was made without `setup`, which writes where the pipeline begins.
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let accept = ["accept", "--yes", "--admin-url", &url];
    let accepted = fixture.router.command(&accept).await.unwrap();
    assert!(accepted.status.success(), "{}", String::from_utf8_lossy(&accepted.stderr));
    let stream = fixture.config.clone();
    fixture
        .config
        .set("postgres.source", "polling")
        .set("polling.batch", BATCH)
        .set_outbox("order_by", vec!["n"]);
    fixture.rewrite_config().unwrap();
    for kill in FROM_THE_BEGINNING {
        killed(&mut fixture, "polling", kill).await;
    }
    // Rows are marked, and the slot is there: no router takes it any more.
    let mut streaming = RouterProcess::start(&stream.to_string()).unwrap();
    streaming.wait_status("refused", SHORT_DEADLINE, is_refused).await.unwrap();
    stop(&mut streaming).await;
    switched(&fixture, "polling").await;
    set_up(&fixture, &[]).await.unwrap();
    fixture.router.start_again().unwrap();
    wait_polling(&mut fixture.router).await;
    wait_committed(&running, 100).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    wait_published(&fixture).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert_eq!(result.duplicates, 0, "{result}");
}

#[tokio::test]
#[ignore = "needs a router with failpoints"]
async fn the_switch_is_killed_at_every_place_there_is() {
    let mut router = RouterProcess::with_config("").unwrap();
    router.set_env(VARIABLE, Some("list"));
    let output = router.command(&["check"]).await.unwrap();
    let names = String::from_utf8(output.stdout).unwrap();
    let theirs: BTreeSet<&str> =
        names.lines().filter_map(|name| name.strip_prefix("switch-")).collect();
    let rounds = BEFORE_ROWS.iter().chain(&AFTER_ROWS).chain(&CANCELLED);
    let of_rounds = rounds.flat_map(|round| round.to_stream.iter().chain(round.to_polling));
    let kills = of_rounds.chain([&SENDING]).chain(&FROM_THE_BEGINNING);
    let ours: BTreeSet<&str> = kills.map(|(place, _)| *place).collect();
    assert_eq!(theirs, ours);
}
