//! The page at `/`, for people: verdict, flow with the blame, slot, latency, topics, what is stuck,
//! and the verdicts before. It shows what `/status.json` has, from the same document, so the two
//! cannot disagree; of events it shows counts, and no content.
//!
//! The server renders all of it: [`document`] is complete without a script. The page consists of
//! blocks, each an element with an id, and a stream of server-sent events ([`live`]) sends the
//! blocks that have changed. So there is one renderer, and the script only replaces elements.
//!
//! The script is a file of its own, because the policy of the page ([`answers`]) allows nothing
//! inline but the style, and nothing from elsewhere. Lines and bars are SVG with attributes only.

mod answers;
mod blocks;
mod bounds;
mod document;
pub(crate) mod figure;
mod flow;
pub(crate) mod format;
pub(crate) mod head;
mod histogram;
mod judged;
mod lag_bar;
pub(crate) mod latency;
mod live;
mod rendered;
pub(crate) mod shape;
mod shown;
mod slot;
mod sparkline;
pub(crate) mod station;
mod stuck;
#[cfg(test)]
mod tests;
pub(crate) mod timeline;
pub(crate) mod to_do;
pub(crate) mod topics;
pub(crate) mod verdict;

pub(crate) use answers::routes;
pub(in crate::admin) use blocks::StreamPage;
pub(crate) use judged::Judged;
pub(crate) use rendered::{Rendered, RenderedBlock, Renders};
