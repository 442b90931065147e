//! The server that answers the steps of a connection. Every connection has a number, and the test
//! knows whether it is still open.

use std::sync::{Arc, Mutex, Weak};

use relay::{
    Failure,
    source::{Catalog, History, Server, SlotReading, TimelineHistory},
    testing::Source,
};

use super::{
    COLUMNS, OUTBOX,
    requests::{Bell, Desk, verdict},
    walsender::{Ends, Walsender},
};
use crate::shell::{Postgres, Started};

/// A request, and the connection on which it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    Open,
    Timelines(usize),
    Slot(usize),
    SlotBeside,
    Catalog(usize),
    Start(usize),
    Watch,
}

/// The steps of a connection that is made for the first time.
pub(super) const STEPS: [fn(&Ask) -> bool; 4] = [
    |ask| matches!(ask, Ask::Open),
    |ask| matches!(ask, Ask::Slot(_)),
    |ask| matches!(ask, Ask::Catalog(_)),
    |ask| matches!(ask, Ask::Start(_)),
];

#[derive(Clone)]
pub(super) struct ScriptedPostgres(Arc<Script>);

struct Script {
    desk: Desk<Ask>,
    source: Mutex<Source>,
    timeline: Mutex<u32>,
    holder: Mutex<Option<i32>>,
    ends: Mutex<Ends>,
    connections: Mutex<Vec<Weak<usize>>>,
    walsenders: Mutex<Vec<Walsender>>,
}

impl ScriptedPostgres {
    pub(super) fn new(bell: Bell) -> Self {
        Self(Arc::new(Script {
            desk: Desk::new(bell),
            source: Mutex::new(Source::of("outbox", OUTBOX, &COLUMNS)),
            timeline: Mutex::new(1),
            holder: Mutex::new(None),
            ends: Mutex::new(Ends { read_buffer: 64 * 1024, is_narrow: false }),
            connections: Mutex::default(),
            walsenders: Mutex::default(),
        }))
    }

    pub(super) fn desk(&self) -> &Desk<Ask> {
        &self.0.desk
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

    fn look_now(&self) -> SlotReading {
        let mut source = self.source();
        let told = self.0.walsenders.lock().unwrap().iter().map(Walsender::told).max();
        source.slot_at = source.slot_at.max(told.unwrap_or_default());
        source.slot_reading()
    }

    async fn asked(&self, question: Ask) -> Result<(), Failure> {
        verdict(self.0.desk.ask(question).await)
    }
}

impl Postgres for ScriptedPostgres {
    type Connection = Arc<usize>;

    async fn open(&self) -> Result<(Arc<usize>, Server), Failure> {
        self.asked(Ask::Open).await?;
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
        self.asked(Ask::Timelines(*open)).await?;
        assert_eq!(timeline, *self.0.timeline.lock().unwrap());
        let left = |before: u32| format!("{before}\t0/FFFFFFF\tno recovery target specified\n");
        Ok((open, TimelineHistory::parse(&(1..timeline).map(left).collect::<String>())?))
    }

    async fn read_slot(&self, open: Arc<usize>) -> Result<(Arc<usize>, SlotReading), Failure> {
        self.asked(Ask::Slot(*open)).await?;
        Ok((open, self.look_now()))
    }

    async fn read_slot_beside(&self, history: &History) -> Result<SlotReading, Failure> {
        self.asked(Ask::SlotBeside).await?;
        assert_eq!(history.timeline, *self.0.timeline.lock().unwrap(), "that of the stream");
        Ok(self.look_now())
    }

    async fn catalog(
        &self,
        open: Arc<usize>,
        _remembered: Option<&Catalog>,
    ) -> Result<(Arc<usize>, Catalog), Failure> {
        self.asked(Ask::Catalog(*open)).await?;
        Ok((open, self.source().catalog()))
    }

    async fn start(&self, open: Arc<usize>) -> Result<Started, Failure> {
        self.asked(Ask::Start(*open)).await?;
        if let Some(holder) = *self.0.holder.lock().unwrap() {
            return Ok(Started::Held(Some(holder)));
        }
        let (stream, walsender) = Walsender::connected(*self.0.ends.lock().unwrap());
        self.0.walsenders.lock().unwrap().push(walsender);
        Ok(Started::Streaming(Box::new(stream), None))
    }

    async fn watch_slot(&self) -> Result<(), Failure> {
        self.asked(Ask::Watch).await?;
        *self.0.holder.lock().unwrap() = None;
        Ok(())
    }
}
