//! A page, as a source renders it.

use std::time::SystemTime;

use maud::Markup;

use crate::status::Word;

/// The page of one moment.
pub(crate) struct Rendered {
    /// `name` of the configuration.
    pub(crate) name: String,
    /// The verdict's word.
    pub(crate) word: Word,
    /// When the page was made.
    pub(crate) now: SystemTime,
    /// The blocks, in their order.
    pub(crate) blocks: Vec<RenderedBlock>,
}

/// One block.
pub(crate) struct RenderedBlock {
    /// The id of its element.
    pub(crate) id: &'static str,
    /// The element.
    pub(crate) html: Markup,
}

/// Renders the page anew for each reader. It is the same page each time: the same blocks in the
/// same order.
pub(crate) trait Renders: Clone + Send + Sync + Unpin + 'static {
    /// The page of this moment.
    fn render(&self) -> Rendered;
}
