//! The table of held events, and what the shell does with it.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use relay::{
    ErrorPolicy, HeldSettings, OnError,
    held::{Decision, EventId, HeldAnswer, HeldRequest},
    testing::{HeldState, HeldTable},
};

use super::{
    requests::{Requests, permission},
    *,
};
use crate::{held::HeldStream, shell::ports};

/// What is asked of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Load,
    Insert(usize),
    ReadDecided,
    ReadNext,
    ReadSkip,
    Close(usize),
}

/// The table in memory, with its requests.
#[derive(Clone)]
pub(super) struct ScriptedHeld(Arc<HeldScript>);

struct HeldScript {
    requests: Requests<Asked>,
    table: Mutex<HeldTable>,
    /// Requests that are carried out now.
    running: AtomicUsize,
}

impl ScriptedHeld {
    pub(super) fn new(test_waker: TestWaker) -> Self {
        Self(Arc::new(HeldScript {
            requests: Requests::new(test_waker),
            table: Mutex::default(),
            running: AtomicUsize::new(0),
        }))
    }

    pub(super) fn requests(&self) -> &Requests<Asked> {
        &self.0.requests
    }

    fn states(&self) -> Vec<HeldState> {
        self.0.table.lock().unwrap().rows().map(|row| row.state).collect()
    }

    fn requeue(&self, id: EventId) {
        self.0.table.lock().unwrap().decide(id, Decision::Deliver);
    }
}

impl ports::HeldTable for ScriptedHeld {
    async fn answer(
        &mut self,
        request: &HeldRequest,
        stream: &HeldStream,
    ) -> Result<HeldAnswer, Failure> {
        assert_eq!(self.0.running.fetch_add(1, SeqCst), 0, "one at a time");
        assert_eq!(stream.history.timeline, 1, "that of the stream");
        let asked = match request {
            HeldRequest::Load { .. } => Asked::Load,
            HeldRequest::Insert(events) => Asked::Insert(events.len()),
            HeldRequest::ReadDecided => Asked::ReadDecided,
            HeldRequest::ReadNext { .. } => Asked::ReadNext,
            HeldRequest::ReadSkip { .. } => Asked::ReadSkip,
            HeldRequest::Close { leaving, .. } => Asked::Close(leaving.len()),
        };
        let permitted = permission(self.0.requests.make(asked).await);
        self.0.running.fetch_sub(1, SeqCst);
        permitted.map(|()| self.0.table.lock().unwrap().answer(request.clone()))
    }
}

fn dead_letters() -> RelaySettings {
    let policy = ErrorPolicy { unroutable: OnError::DeadLetter, ..ErrorPolicy::default() };
    RelaySettings { held: HeldSettings { policy, ..HeldSettings::default() }, ..settings() }
}

/// Its topic's name is not legal.
fn poison(key: &str) -> Vec<u8> {
    row_of("no topic!", key, "{}")
}

fn transaction_of(at: u64, rows: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut frames = vec![wire::begin(at, 0)];
    frames.extend(rows);
    frames.push(wire::commit(at, at + 8));
    frames
}

/// Streaming; the poisoned `a` and what follows it are held, at 100:0 and 100:2.
async fn holding() -> Fixture {
    let mut fixture = Fixture::streaming(dead_letters()).await;
    let rows = vec![poison("a"), row("b"), row("a")];
    fixture.world.walsender().send(&transaction_of(100, rows));
    fixture.produced(1).await;
    fixture.world.producer().ack_all();
    let confirmed = |world: &mut World| world.walsender().confirmed() == 108;
    fixture.until("the confirmation", confirmed).await;
    assert_eq!(fixture.world.held.states(), [HeldState::Held; 2]);
    fixture
}

/// The table is read on the stream's server when the slot is this router's, before any row.
#[tokio::test(start_paused = true)]
async fn a_session_begins_when_the_table_has_been_read() {
    let mut fixture = Fixture::begun(dead_letters());
    fixture.world.held.requests().hold(|asked| *asked == Asked::Load);
    let asked = |world: &mut World| !world.held.requests().waiting().is_empty();
    fixture.until("the request", asked).await;
    fixture.pass_time(Duration::from_secs(3)).await;
    assert_eq!(fixture.state().0, State::Starting);
    assert_eq!(fixture.world.postgres.walsenders(), 1, "it streams, and nothing is read");
    fixture.world.held.requests().answer(Ok(()));
    fixture.stream().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_confirmed_before_the_table_has_what_is_held() {
    let mut fixture = Fixture::streaming(dead_letters()).await;
    fixture.world.held.requests().hold(|asked| matches!(asked, Asked::Insert(_)));
    fixture.world.walsender().send(&transaction_of(100, vec![poison("a")]));
    let asked = |world: &mut World| world.held.requests().waiting() == [Asked::Insert(1)];
    fixture.until("the write", asked).await;
    fixture.pass_time(Duration::from_secs(5)).await;
    assert_eq!(fixture.confirmed(), 16);
    fixture.world.held.requests().answer(Ok(()));
    let confirmed = |world: &mut World| world.walsender().confirmed() == 108;
    fixture.until("the confirmation", confirmed).await;
}

/// What is read for release is produced in the turn that gets the answer, although no row comes.
#[tokio::test(start_paused = true)]
async fn what_is_released_is_produced_without_a_row_of_the_stream() {
    let mut fixture = holding().await;
    // A second poison lets the released one be refused again, and its follower stays behind it.
    fixture.world.held.requeue(EventId { commit_lsn: relay::Lsn::from_u64(100), index: 0 });
    let closed = |world: &mut World| world.held.requests().count(&Asked::Close(1)) == 1;
    fixture.until("the dead letter's second refusal", closed).await;
    fixture
        .world
        .held
        .0
        .table
        .lock()
        .unwrap()
        .decide(EventId { commit_lsn: relay::Lsn::from_u64(100), index: 0 }, Decision::Drop);
    fixture.produced(1).await;
    assert_eq!(fixture.world.held.requests().count(&Asked::Close(2)), 0, "not acknowledged yet");
    fixture.world.producer().ack_all();
    let closed = |world: &mut World| world.held.requests().count(&Asked::Close(2)) == 1;
    fixture.until("the close of both", closed).await;
    assert_eq!(fixture.world.held.states(), [HeldState::Dropped, HeldState::Delivered]);
    let snapshot = fixture.shell.relay.snapshot(fixture.shell.clock.now().at);
    assert_eq!((snapshot.held.totals.delivered, snapshot.held.totals.dropped), (1, 1));
    fixture.deliver(200, &["a"]).await;
}

/// The next session asks only when the request of the one before it has ended.
#[tokio::test(start_paused = true)]
async fn a_request_that_runs_when_its_session_ends_is_waited_for() {
    let mut fixture = Fixture::streaming(dead_letters()).await;
    fixture.world.held.requests().hold(|asked| matches!(asked, Asked::Insert(_)));
    fixture.world.walsender().send(&transaction_of(100, vec![poison("a")]));
    let asked = |world: &mut World| world.held.requests().waiting() == [Asked::Insert(1)];
    fixture.until("the write", asked).await;
    fixture.world.walsender().hang_up();
    let streams = |world: &mut World| world.postgres.walsenders() == 2;
    fixture.until("another stream", streams).await;
    fixture.pass_time(Duration::from_secs(3)).await;
    assert_eq!(fixture.world.held.requests().count(&Asked::Load), 1, "that of the first session");
    assert!(fixture.world.held.requests().answer(Ok(())), "nobody has given it up");
    let loaded = |world: &mut World| world.held.requests().count(&Asked::Load) == 2;
    fixture.until("the next session's reading", loaded).await;
    // The server sends the row again, and the table has it.
    fixture.world.walsender().send(&described());
    fixture.world.walsender().send(&transaction_of(100, vec![poison("a")]));
    let confirmed = |world: &mut World| world.walsender().confirmed() == 108;
    fixture.until("the confirmation", confirmed).await;
    assert_eq!(fixture.world.held.states(), [HeldState::Held]);
    assert_eq!(fixture.world.held.requests().count(&Asked::Insert(1)), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_fails_is_made_again() {
    let mut fixture = Fixture::streaming(dead_letters()).await;
    fixture.world.held.requests().hold(|asked| matches!(asked, Asked::Insert(_)));
    fixture.world.walsender().send(&transaction_of(100, vec![poison("a")]));
    for failing in [Some(Code::ServerUnreachable), None] {
        let asked = |world: &mut World| world.held.requests().waiting() == [Asked::Insert(1)];
        fixture.until("the write", asked).await;
        fixture.world.held.requests().answer(failing.map_or(Ok(()), |code| Err(failure(code))));
    }
    let confirmed = |world: &mut World| world.walsender().confirmed() == 108;
    fixture.until("the confirmation", confirmed).await;
}
