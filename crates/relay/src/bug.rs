//! Seeded bugs: what a hurried hand might write instead, one at a time, to see whether the tests notice.
//!
//! Without the feature `seeded-bugs` [`is`] is a constant `false`, and every branch that asks it is compiled away. Each
//! bug is one small change at the place where it would be made; what it breaks and which invariant catches it is in
//! docs/testing.md.

macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal;)*) => {
        /// A bug that can be planted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Bug { $($(#[doc = $doc])+ $name,)* }

        impl Bug {
            /// Every one there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// As given on a command line.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// What is wrong with it.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+),)* }
            }
        }
    };
}

bugs! {
    /// A record counts as acknowledged when it is enqueued.
    ConfirmOnEnqueue = "confirm-on-enqueue";
    /// The position follows the newest settled transaction, not the contiguous prefix.
    ConfirmMaximum = "confirm-maximum";
    /// The position is one past the end of the transaction, as the manual's "last byte + 1" suggests.
    ConfirmPlusOne = "confirm-plus-one";
    /// The position is the start of the commit record, not its end.
    ConfirmCommitLsn = "confirm-commit-lsn";
    /// A transaction counts while one record of it is unacknowledged.
    ConfirmOneShort = "confirm-one-short";
    /// A keepalive's position is confirmed while transactions before it are unacknowledged.
    KeepaliveWhilePending = "keepalive-while-pending";
    /// A keepalive's position is confirmed while a transaction is open.
    KeepaliveWhileOpen = "keepalive-while-open";
    /// A keepalive below the position at which the slot stood is confirmed.
    KeepaliveBelowSlot = "keepalive-below-slot";
    /// On resume a transaction that commits exactly at the slot's position is taken for an old one.
    SkipEqualOnResume = "skip-equal-on-resume";
    /// A position is told to the server before the witness with it is acknowledged.
    ConfirmBeforeWitness = "confirm-before-witness";
    /// The witness says a position that was received, but is not acknowledged.
    WitnessAheadOfAcks = "witness-ahead-of-acks";
    /// All sessions write the witness under one key, so that the last write counts, however late.
    OneWitnessKey = "one-witness-key";
    /// Of two sessions' records the one with the greater position counts, whoever held the slot last.
    RankByPosition = "rank-by-position";
    /// What the witness covers is skipped although its last transaction did not come by again.
    SkipOnFaith = "skip-on-faith";
    /// What the witness covers is confirmed before its last transaction came by again.
    ConfirmOnFaith = "confirm-on-faith";
    /// A slot that was made again since it was looked at is taken for the same.
    TrustFirstLook = "trust-first-look";
    /// Whoever streams does not look what others write to the state topic.
    NeverLook = "never-look";
    /// Records are produced before the witness says how many partitions their topic has.
    ProduceUnvouched = "produce-unvouched";
    /// An open gap is not written into the witness.
    ForgetGap = "forget-gap";
    /// The second of two rows with one LSN is taken for a repetition.
    DropTwinRow = "drop-twin-row";
    /// A row that finds the producer's queue full waits beside it, and the next goes first.
    PassOnFull = "pass-on-full";
    /// After a failed delivery the record counts as done and the session goes on.
    GoOnAfterFailure = "go-on-after-failure";
    /// After a failed delivery the producer is kept.
    KeepFailedSink = "keep-failed-sink";
    /// PostgreSQL 18's warning that a publication is missing is passed over.
    IgnoreWarning = "ignore-warning";
    /// A slot that is missing is made. (Planted in the simulation's shell: the core has no way to make one.)
    RecreateSlot = "recreate-slot";
    /// A gap that is found while connecting is only looked at again.
    GoOnAfterGap = "go-on-after-gap";
    /// A slot that stands past the witness is taken as it is.
    TrustMovedSlot = "trust-moved-slot";
    /// A server whose history is not that of the witness is taken as it is.
    TrustOtherHistory = "trust-other-history";
    /// A process that stood still goes on with what it held.
    IgnoreStandstill = "ignore-standstill";
    /// A publication that was made anew counts as the old one.
    TrustNewPublication = "trust-new-publication";
    /// A new partition count takes effect while records of the old one are in flight.
    RepinAtOnce = "repin-at-once";
    /// A new partition count is never used.
    NeverRepin = "never-repin";
    /// The sign of the key's hash is kept.
    SignedHash = "signed-hash";
    /// The window has no limit.
    NoWindow = "no-window";
    /// An acknowledgement of an earlier session counts in this one.
    CreditStaleAck = "credit-stale-ack";
    /// A record that was not enqueued stays in the window.
    ForgetWithdrawal = "forget-withdrawal";
    /// A row that cannot become a record is passed over.
    SkipHeldRow = "skip-held-row";
    /// A table's new shape is ignored: its columns are read by their old places.
    IgnoreNewShape = "ignore-new-shape";
    /// A table is recognised by the name in its Relation message alone.
    BindByNameOnly = "bind-by-name-only";
    /// No status update while reading stands still.
    SilentWhileFull = "silent-while-full";
    /// A stopping server is never let go of.
    NeverLetGo = "never-let-go";
    /// Every question of the server is answered at once.
    ReplyAtOnce = "reply-at-once";
    /// A silent server is waited for.
    TrustSilence = "trust-silence";
    /// A topic that was not found is not looked up again.
    LookUpOnce = "look-up-once";
    /// There is no wait between two attempts to connect.
    NoBackoff = "no-backoff";
    /// A kilobyte is lost with every record.
    Leak = "leak";
}

#[cfg(feature = "seeded-bugs")]
mod planted {
    use super::Bug;
    use pgoutput::Lsn;
    use std::cell::{Cell, RefCell};

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
        static LEAKED: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
        static ASIDE: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
        static LAST_ROW: Cell<Lsn> = const { Cell::new(Lsn::ZERO) };
    }

    /// Plants one bug in this thread, or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
        LEAKED.take();
        ASIDE.take();
    }

    /// Whether this bug is planted in this thread.
    #[inline]
    pub fn is(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    pub(crate) fn leak() {
        if is(Bug::Leak) {
            LEAKED.with_borrow_mut(|leaked| leaked.push(vec![0; 1024]));
        }
    }

    /// Whether a row has the position of the last one, for [`Bug::DropTwinRow`].
    pub(crate) fn is_twin(position: Lsn) -> bool {
        is(Bug::DropTwinRow) && LAST_ROW.replace(position) == position
    }

    /// Puts a frame aside, for [`Bug::PassOnFull`].
    pub(crate) fn put_aside(frame: &[u8]) {
        ASIDE.set(Some(frame.to_vec()));
    }

    pub(crate) fn take_aside() -> Option<Vec<u8>> {
        ASIDE.take()
    }
}

#[cfg(feature = "seeded-bugs")]
pub use planted::{is, plant};
#[cfg(feature = "seeded-bugs")]
pub(crate) use planted::{is_twin, leak, put_aside, take_aside};

/// Whether this bug is planted: never.
#[cfg(not(feature = "seeded-bugs"))]
#[inline]
pub const fn is(_bug: Bug) -> bool {
    false
}

#[cfg(not(feature = "seeded-bugs"))]
pub(crate) const fn leak() {}

#[cfg(not(feature = "seeded-bugs"))]
pub(crate) const fn is_twin(_position: pgoutput::Lsn) -> bool {
    false
}
