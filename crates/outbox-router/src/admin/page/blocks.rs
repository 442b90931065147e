//! The blocks of the page, in its order.

use maud::Markup;

use super::{flow, head, latency, shown::Shown, slot, stuck, timeline, to_do, topics, verdict};

/// One block: the id of its element, and what renders it.
pub(super) struct Block {
    pub(super) id: &'static str,
    pub(super) render: fn(&Shown<'_>) -> Markup,
}

/// Every block. `document` places them; `live` sends those that have changed.
pub(super) const BLOCKS: [Block; 9] = [
    Block { id: "head", render: head::block },
    Block { id: "verdict", render: verdict::block },
    Block { id: "to-do", render: to_do::block },
    Block { id: "flow", render: flow::block },
    Block { id: "slot", render: slot::block },
    Block { id: "stuck", render: stuck::block },
    Block { id: "latency", render: latency::block },
    Block { id: "topics", render: topics::block },
    Block { id: "timeline", render: timeline::block },
];
