//! The blocks of the page, in its order.

use std::sync::Arc;

use maud::Markup;

use super::{
    flow, head, latency,
    rendered::{Rendered, RenderedBlock, Renders},
    shown::Shown,
    slot, stuck, timeline, to_do, topics, verdict,
};
use crate::admin::{AdminSettings, Sources, view::View};

/// The page of a router that follows a slot.
#[derive(Clone)]
pub(in crate::admin) struct StreamPage {
    pub(in crate::admin) settings: Arc<AdminSettings>,
    pub(in crate::admin) sources: Sources,
}

impl Renders for StreamPage {
    fn render(&self) -> Rendered {
        rendered(&Shown::of(&View::of(&self.settings, &self.sources)))
    }
}

/// The page of one moment.
pub(super) fn rendered(shown: &Shown<'_>) -> Rendered {
    let block = |Block { id, render }: &Block| RenderedBlock { id, html: render(shown) };
    let blocks = BLOCKS.iter().map(block).collect();
    Rendered { name: shown.status.name.clone(), word: shown.word, now: shown.now, blocks }
}

/// One block: the id of its element, and what renders it.
pub(super) struct Block {
    pub(super) id: &'static str,
    pub(super) render: fn(&Shown<'_>) -> Markup,
}

/// Every block.
pub(super) const BLOCKS: [Block; 9] = [
    Block { id: "head", render: |shown| head::block(&shown.judged()) },
    Block { id: "verdict", render: |shown| verdict::block(&shown.judged()) },
    Block { id: "to-do", render: |shown| to_do::block(&shown.judged()) },
    Block { id: "flow", render: flow::block },
    Block { id: "slot", render: slot::block },
    Block { id: "stuck", render: stuck::block },
    Block { id: "latency", render: latency::block },
    Block { id: "topics", render: |shown| topics::block(&shown.view.relay.snapshot.topics) },
    Block { id: "timeline", render: |shown| timeline::block(&shown.judged()) },
];
