//! The page's server-sent events: once a second the blocks that have changed, and then the time, by
//! which the script knows that the router answers.
//!
//! A connection to the endpoint lasts ten seconds at most, and there are few of them. So a stream
//! ends by itself after a few events, and the browser connects again after a second; to a reader
//! the events still come once a second. Only some pages may keep a stream open at a time: the
//! others get one event for each connection, and ask again a while later. So open pages, however
//! many, leave room for probes and scrapes. Nothing is rendered while no page is open.

use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::response::sse::Event;
use futures_core::Stream;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Interval, MissedTickBehavior, interval},
};

use super::{
    format,
    rendered::{Rendered, Renders},
};

/// Streams that are open at a time.
pub(super) const SEATS: usize = 8;

const PERIOD: Duration = Duration::from_secs(1);

/// Events of one stream; it is over after four seconds. The connection may be seconds old when its
/// request comes: browsers connect in advance.
const EVENTS: u8 = 5;

/// When a page without a seat asks again.
const LATER: Duration = Duration::from_secs(4);

/// The events of one connection.
pub(super) struct Live<P> {
    page: P,
    /// Given back when the stream ends, or its reader goes.
    _seat: Option<OwnedSemaphorePermit>,
    again: Duration,
    ticks: Interval,
    left: u8,
    /// What was sent last, of each block.
    sent: BTreeMap<&'static str, String>,
    queue: VecDeque<Event>,
}

impl<P: Renders> Live<P> {
    pub(super) fn new(page: P, seats: &Arc<Semaphore>) -> Self {
        let seat = Arc::clone(seats).try_acquire_owned().ok();
        let (left, again) = if seat.is_some() { (EVENTS, PERIOD) } else { (1, LATER) };
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (sent, queue) = (BTreeMap::new(), VecDeque::new());
        Self { page, _seat: seat, again, ticks, left, sent, queue }
    }

    /// Renders the page, and keeps what has changed.
    fn look(&mut self) {
        let Rendered { now, blocks, .. } = self.page.render();
        for block in blocks {
            let html = block.html.into_string();
            if self.sent.get(block.id) != Some(&html) {
                self.queue.push_back(Event::default().event(block.id).data(&html));
                self.sent.insert(block.id, html);
            }
        }
        let at = format::time(now, now);
        self.queue.push_back(Event::default().event("at").retry(self.again).data(at));
    }
}

impl<P: Renders> Stream for Live<P> {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            let Some(left) = self.left.checked_sub(1) else { return Poll::Ready(None) };
            ready!(self.ticks.poll_tick(cx));
            self.left = left;
            self.look();
        }
    }
}
