//! What `outbox-router tap` is shown: events of the running router, as they are routed.
//!
//! ```text
//! streaming task: Tap ─try_send→ Listener (bounded) → Taps: /tap ─lines→ outbox-router tap
//!                     ←──── watch: who listens ─────┘
//! ```
//! Where rows are polled, the worker is the streaming task's like: it looks once for up to 256
//! rows, and while somebody listens it copies the same of each record as it is produced.
//!
//! It can never slow the router. While nobody listens, the streaming task looks once for up to 64
//! frames whether that has changed: one atomic load, and one comparison for a frame. While somebody
//! listens, it routes each event a second time, which costs less than a microsecond, and copies a
//! few numbers and names of those that are to be shown into a channel of a fixed size; what finds
//! no room there is counted and not shown. Lines are written on the main thread, and a listener
//! that asks without pause is given a full channel ten times a second at most, so what they cost is
//! bounded, whatever passes.
//!
//! Nothing of an event's content is copied unless `admin.tap` allows it and the listener wants it.
//!
//! * `filter`: which events a listener wants.
//! * `listener`: the channel to one listener.
//! * `watching`: the streaming task's side.
//! * `taps`: the listeners that are open, and what they are answered.
//! * `routed`: an event on its way through the channel; `line` is what becomes of it.

mod content;
mod filter;
mod line;
mod listener;
mod outcome;
mod routed;
mod taps;
#[cfg(test)]
mod tests;
mod watching;

pub use content::{HEADERS_MAX, KEY_SHOWN_MAX, VALUE_SHOWN_MAX};
pub use filter::Filter;
pub(crate) use line::{EventLine, Line, Part};
pub use taps::{Taps, Unlistened, taps};
pub use watching::Tap;

/// The header of a request that no web page sends; see `admin/pages.rs`.
pub const ASKED_BY_COMMAND: &str = "x-outbox-router";

/// `admin.tap`: what a listener may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapShows {
    /// Nothing of an event's content.
    Metadata,
    /// Keys, values and headers, too.
    Content,
}

/// Whether a listener wants to be shown content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    /// Metadata alone.
    Metadata,
    /// Keys, values and headers, too.
    Content,
}
