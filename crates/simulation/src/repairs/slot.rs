//! The slot.

use std::collections::BTreeSet;

/// Who streams from the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// A router.
    Router,
    /// A command, by its number.
    Command(u32),
}

/// The slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// `confirmed_flush_lsn`.
    pub confirmed: u64,
    /// `catalog_xmin`.
    pub catalog_xmin: u64,
    /// Both as the last checkpoint has saved them.
    pub saved: (u64, u64),
    /// It can send nothing any more.
    pub is_lost: bool,
    /// Who streams from it.
    pub holder: Option<Holder>,
}

/// Why a command does not hold the slot that it has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotHeld {
    /// It is gone, or another process streams from it.
    InUse,
    /// It was moved, or made again, since it was made.
    Moved,
}

/// A slot that waits for transactions to end.
#[derive(Debug, Clone)]
pub struct Creation {
    /// Who makes it.
    pub by: u32,
    /// The transactions, by their own ids.
    pub waits_for: BTreeSet<u64>,
    /// The slot's first `catalog_xmin`.
    pub catalog_xmin: u64,
}
