//! What is remembered from one reading of the figures around the slot to the next: what the role
//! may read, and when `pg_wal` is listed again.

use std::time::Duration;

use tokio::time::Instant;

use crate::monitor::{
    polled::Polled,
    watch::{
        denied::{Denied, Rights},
        figures::WalDirectory,
        reading::FiguresAnswer,
        statement::WalListing,
    },
};

/// Between two listings of `pg_wal`: its size matters by the minute, and a listing asks the file
/// system about each file.
const LISTING_INTERVAL: Duration = Duration::from_secs(60);

/// Until the next listing after a statement with one has failed: some servers have the function and
/// refuse it, and the other figures must not fail with it each minute.
const LISTING_RETRY: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
pub(super) struct FiguresMemory {
    /// What the role may read; `None`: to be asked.
    pub(super) rights: Option<Rights>,
    /// When `pg_wal` is to be listed again; `None`: now.
    listing_due: Option<Instant>,
    /// Whether the statement under way lists it.
    listing: Option<WalListing>,
    /// Its size, as it was last read.
    pub(super) wal_directory: Option<WalDirectory>,
    /// What was logged as denied.
    announced: Vec<Denied>,
    /// To be taken by who waits for the next reading.
    pub(super) broke: Option<ConnectionBroke>,
}

/// The connection ended during the statement, so that the next reading should not wait for its
/// time: the slot may no longer be seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionBroke;

impl FiguresMemory {
    /// Whether the statement that begins now lists `pg_wal`.
    pub(super) fn listing(&mut self, now: Instant) -> WalListing {
        let is_due = self.listing_due.is_none_or(|due| due <= now);
        let listing = if is_due { WalListing::Wanted } else { WalListing::LeftOut };
        self.listing = Some(listing);
        listing
    }

    /// Called when the statement has failed.
    pub(super) fn failed(&mut self, now: Instant) {
        // They may be the reason.
        self.rights = None;
        if self.listing.take() == Some(WalListing::Wanted) {
            self.listing_due = Some(now + LISTING_RETRY);
        }
    }

    /// Called with what the statement has returned.
    pub(super) fn take(&mut self, answer: &FiguresAnswer, read: Polled) {
        if let Some(bytes) = answer.wal_directory_bytes {
            self.wal_directory = Some(WalDirectory { bytes, read });
            self.listing_due = Some(read.at + LISTING_INTERVAL);
        } else if !answer.rights.may_list_wal() {
            (self.wal_directory, self.listing_due) = (None, None);
        }
        self.rights = Some(answer.rights.clone());
    }

    /// What of `denied` was not announced yet; it is from now on.
    pub(super) fn announce(&mut self, denied: &[Denied]) -> Vec<Denied> {
        let known = std::mem::replace(&mut self.announced, denied.to_owned());
        denied.iter().filter(|denied| !known.contains(denied)).cloned().collect()
    }
}
