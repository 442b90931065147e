//! Where the witness is kept, which decides what it shows and when a position is confirmable.

/// Where the witness is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WitnessStore {
    /// In the state topic. Every router writes the witness before it confirms, so no router moves
    /// the slot past it, and a settled position is confirmable when the witness names it.
    Kafka,
    /// In this process only, because no state topic is configured. Another router may have moved
    /// the slot without a trace, and a settled position is confirmable at once.
    #[default]
    Memory,
}
