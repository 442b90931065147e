//! Carries out the core's requests, one after the other.

use std::time::Duration;

use relay::{
    Code, Failure,
    held::{HeldAnswer, HeldRequest},
};

use super::{
    close, insert, load,
    pipeline::Pipeline,
    release,
    session::{Session, Sql, Takes, drive},
    skip,
    stream::HeldStream,
};
use crate::monitor::Connect;

/// How long a request may take, with connecting: a write of the largest row to a slow disk, or a
/// lock that a migration holds. The core gives a session up sooner whose first reading takes long.
const REQUEST_LIMIT: Duration = Duration::from_secs(20);

/// Whether the connection stays open between requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// It does: an event may become a dead letter at any time, and until then the lock shows that
    /// nobody else writes.
    Always,
    /// Only while something is held: nothing else can follow from it.
    WhileHeld,
}

/// The table, as one router uses it.
pub struct HeldStore<C> {
    connect: C,
    pipeline: Pipeline,
    keep: Keep,
    session: Option<Session>,
    /// The server process of the last connection, which may be at work still.
    last_backend: Option<i32>,
}

impl<C: Connect> HeldStore<C> {
    /// Opens no connection yet.
    pub const fn new(connect: C, pipeline: Pipeline, keep: Keep) -> Self {
        Self { connect, pipeline, keep, session: None, last_backend: None }
    }

    /// Carries out a request for a stream that holds the slot. After an error, or if the answer is
    /// not awaited, the next request has a new connection.
    ///
    /// # Errors
    /// The table does not exist, or may not be used (P036); the server cannot be reached or does
    /// not answer in time (P001), or is another one; the stream does not hold the slot (P012).
    pub async fn answer(
        &mut self,
        request: &HeldRequest,
        stream: &HeldStream,
    ) -> Result<HeldAnswer, Failure> {
        // The session is put back only after an answer.
        let open = self.session.take();
        let work = async {
            let mut session = self.session_for(open, request, stream).await?;
            self.last_backend = Some(session.pid());
            let (sql, driver) = session.parts();
            let answer = drive(driver, carry_out(sql, &self.pipeline, stream, request)).await?;
            Ok((session, answer))
        };
        let (session, answer) =
            tokio::time::timeout(REQUEST_LIMIT, work).await.unwrap_or_else(|_| {
                let seconds = REQUEST_LIMIT.as_secs();
                let what = format!("outbox_router.held: no answer within {seconds} s");
                Err(Failure::new(Code::ServerUnreachable, what))
            })?;
        if self.keeps(&answer) {
            self.session = Some(session);
        }
        Ok(answer)
    }

    async fn session_for(
        &mut self,
        open: Option<Session>,
        request: &HeldRequest,
        stream: &HeldStream,
    ) -> Result<Session, Failure> {
        let is_first = matches!(request, HeldRequest::Load { .. });
        // A session's first request gets a connection whose server was compared with the stream's.
        if let Some(mut session) = open
            && !is_first
            && !session.is_closed().await
        {
            return Ok(session);
        }
        let takes = if is_first { Takes::All } else { Takes::Own(self.last_backend) };
        let open = self.connect.connect().await?;
        Session::begin(open, &self.pipeline, &stream.history, takes).await
    }

    fn keeps(&self, answer: &HeldAnswer) -> bool {
        match answer {
            HeldAnswer::Absent => false,
            HeldAnswer::Loaded(loaded) => self.keep == Keep::Always || !loaded.keys.is_empty(),
            HeldAnswer::Inserted(_)
            | HeldAnswer::Decided(_)
            | HeldAnswer::Next(_)
            | HeldAnswer::Closed(_) => true,
            HeldAnswer::Skipped(_) => self.keep == Keep::Always,
        }
    }
}

async fn carry_out(
    mut sql: Sql<'_>,
    pipeline: &Pipeline,
    stream: &HeldStream,
    request: &HeldRequest,
) -> Result<HeldAnswer, Failure> {
    // Another holder would begin by ending this connection, so the check stays true until the
    // request is carried out or ended.
    stream.check_holds_slot(&mut sql, pipeline).await?;
    match request {
        HeldRequest::Load { since, open } => {
            load::load(sql, pipeline, stream, (*since, *open)).await
        }
        HeldRequest::Insert(events) => {
            insert::insert(sql, pipeline, stream, events).await.map(HeldAnswer::Inserted)
        }
        HeldRequest::ReadDecided => release::decided(sql, pipeline).await.map(HeldAnswer::Decided),
        HeldRequest::ReadNext { keys, events, bytes } => {
            let limits = release::BatchLimits { events: *events, bytes: *bytes };
            release::next(sql, pipeline, keys, limits).await.map(HeldAnswer::Next)
        }
        HeldRequest::ReadSkip { id, event_id, table } => {
            skip::read(sql, pipeline, *id, (event_id.as_deref(), table)).await
        }
        HeldRequest::Close { leaving, after } => {
            close::close(sql, pipeline, leaving, *after).await.map(HeldAnswer::Closed)
        }
    }
}
