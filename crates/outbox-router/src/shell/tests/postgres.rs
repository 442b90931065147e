//! The server that answers the steps of a connection. Every connection has a number, and the test
//! knows whether it is still open.

use std::sync::{Arc, Mutex, Weak};

use relay::{
    BacklogFrom, Failure,
    source::{Catalog, History, Server, SlotReading, TimelineHistory},
    testing::Source,
};

use super::{
    COLUMNS, OUTBOX,
    held::ScriptedHeld,
    requests::{Requests, TestWaker, permission},
    walsender::{Ends, Walsender},
};
use crate::shell::{Postgres, Started};

/// A request, and the connection on which it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Connect,
    Timelines(usize),
    Slot(usize),
    SlotBeside,
    Catalog(usize),
    Start(usize),
    Watch,
}

/// The steps of a connection that is made for the first time.
pub(super) const STEPS: [fn(&Request) -> bool; 4] = [
    |request| matches!(request, Request::Connect),
    |request| matches!(request, Request::Slot(_)),
    |request| matches!(request, Request::Catalog(_)),
    |request| matches!(request, Request::Start(_)),
];

#[derive(Clone)]
pub(super) struct ScriptedPostgres(Arc<Script>);

struct Script {
    requests: Requests<Request>,
    source: Mutex<Source>,
    timeline: Mutex<u32>,
    holder: Mutex<Option<i32>>,
    ends: Mutex<Ends>,
    connections: Mutex<Vec<Weak<usize>>>,
    walsenders: Mutex<Vec<Walsender>>,
}

impl ScriptedPostgres {
    pub(super) fn new(test_waker: TestWaker) -> Self {
        Self(Arc::new(Script {
            requests: Requests::new(test_waker),
            source: Mutex::new(Source::of("outbox", OUTBOX, &COLUMNS)),
            timeline: Mutex::new(1),
            holder: Mutex::new(None),
            ends: Mutex::new(Ends { read_buffer: 64 * 1024, is_narrow: false }),
            connections: Mutex::default(),
            walsenders: Mutex::default(),
        }))
    }

    pub(super) fn requests(&self) -> &Requests<Request> {
        &self.0.requests
    }

    pub(super) fn walsenders(&self) -> usize {
        self.0.walsenders.lock().unwrap().len()
    }

    pub(super) fn walsender(&self) -> Walsender {
        self.0.walsenders.lock().unwrap().last().unwrap().clone()
    }

    /// Whether any connection is open that is to become a stream.
    pub(super) fn is_connected(&self) -> bool {
        self.0.connections.lock().unwrap().iter().any(|weak| weak.strong_count() > 0)
    }

    /// Another process streams from the slot.
    pub(super) fn hold_slot(&self, holder: i32) {
        *self.0.holder.lock().unwrap() = Some(holder);
    }

    /// What future streams are like.
    pub(super) fn set_ends(&self, ends: Ends) {
        *self.0.ends.lock().unwrap() = ends;
    }

    /// The server was promoted.
    pub(super) fn promote(&self, timeline: u32) {
        *self.0.timeline.lock().unwrap() = timeline;
    }

    fn source(&self) -> Source {
        self.0.source.lock().unwrap().clone()
    }

    fn read_slot_now(&self) -> SlotReading {
        let mut source = self.source();
        let confirmed = self.0.walsenders.lock().unwrap().iter().map(Walsender::confirmed).max();
        source.slot_at = source.slot_at.max(confirmed.unwrap_or_default());
        source.slot_reading()
    }

    async fn permitted(&self, request: Request) -> Result<(), Failure> {
        permission(self.0.requests.make(request).await)
    }
}

impl Postgres for ScriptedPostgres {
    type Connection = Arc<usize>;
    type HeldTable = ScriptedHeld;

    async fn open(&self) -> Result<(Arc<usize>, Server), Failure> {
        self.permitted(Request::Connect).await?;
        let mut connections = self.0.connections.lock().unwrap();
        let open = Arc::new(connections.len());
        connections.push(Arc::downgrade(&open));
        let mut server = self.source().server();
        server.history.timeline = *self.0.timeline.lock().unwrap();
        Ok((open, server))
    }

    async fn timelines(
        &self,
        open: Arc<usize>,
        timeline: u32,
    ) -> Result<(Arc<usize>, TimelineHistory), Failure> {
        self.permitted(Request::Timelines(*open)).await?;
        assert_eq!(timeline, *self.0.timeline.lock().unwrap());
        let left = |before: u32| format!("{before}\t0/FFFFFFF\tno recovery target specified\n");
        Ok((open, TimelineHistory::parse(&(1..timeline).map(left).collect::<String>())?))
    }

    async fn read_slot(&self, open: Arc<usize>) -> Result<(Arc<usize>, SlotReading), Failure> {
        self.permitted(Request::Slot(*open)).await?;
        Ok((open, self.read_slot_now()))
    }

    async fn read_slot_beside(&self, history: &History) -> Result<SlotReading, Failure> {
        self.permitted(Request::SlotBeside).await?;
        assert_eq!(history.timeline, *self.0.timeline.lock().unwrap(), "that of the stream");
        Ok(self.read_slot_now())
    }

    async fn catalog(
        &self,
        open: Arc<usize>,
        _remembered: Option<&Catalog>,
    ) -> Result<(Arc<usize>, Catalog), Failure> {
        self.permitted(Request::Catalog(*open)).await?;
        Ok((open, self.source().catalog()))
    }

    async fn start(&self, open: Arc<usize>, _: BacklogFrom) -> Result<Started, Failure> {
        self.permitted(Request::Start(*open)).await?;
        if let Some(holder) = *self.0.holder.lock().unwrap() {
            return Ok(Started::Held(Some(holder)));
        }
        let (stream, walsender) = Walsender::connected(*self.0.ends.lock().unwrap());
        self.0.walsenders.lock().unwrap().push(walsender);
        Ok(Started::Streaming(Box::new(stream), None))
    }

    async fn watch_slot(&self) -> Result<(), Failure> {
        self.permitted(Request::Watch).await?;
        *self.0.holder.lock().unwrap() = None;
        Ok(())
    }
}
