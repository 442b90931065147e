//! [`Ticket`]: what travels with a record to the broker and back, in the 64 bits of a producer's
//! opaque pointer.
//!
//! ```text
//! 63      56 55                        20 19                  0
//! [session  ][transaction               ][size in 64 B units   ]
//! ```
//! The session number keeps a late acknowledgement of an earlier session out of the present ledger.
//! 8 bits are enough: at most one earlier session has records in flight, since the core replaces
//! the sink before there are two. The highest number stands for records of held events, whose
//! batches take the place of transactions. The transaction number counts ledger entries and is
//! compared modulo 2³⁶. The size lets the window shrink by exactly what it grew, without a table of
//! records in flight; it saturates at 64 MiB.

const SIZE_BITS: u32 = 20;
const TRANSACTION_BITS: u32 = 36;
const SIZE_MAX: u64 = (1 << SIZE_BITS) - 1;
pub(crate) const TRANSACTION_MASK: u64 = (1 << TRANSACTION_BITS) - 1;
/// Bytes in one unit of a ticket's size.
pub(crate) const SIZE_UNIT: u64 = 64;

/// A record's claim on its transaction in the ledger. There is one per record. Only the ledger
/// makes it, it is neither `Clone` nor `Copy`, and it is consumed when the record is acknowledged.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a ticket that is dropped leaves its transaction unacknowledged for ever"]
pub struct Ticket(u64);

/// The transaction that a ticket belongs to: session and place in that session's ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionRef {
    /// The session whose ledger issued the ticket.
    pub(crate) session: SessionId,
    /// The number of the ledger's entry, modulo 2³⁶.
    pub(crate) number: u64,
}

/// Numbers sessions, wrapping at 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionId(pub(crate) u8);

impl SessionId {
    /// Stands for no session: records of held events, which no ledger counts.
    const RELEASE: Self = Self(u8::MAX);

    /// The session after this one.
    pub(crate) fn next(self) -> Self {
        let next = Self(self.0.wrapping_add(1));
        if next == Self::RELEASE { Self(0) } else { next }
    }
}

impl TransactionRef {
    /// Whether these are records of held events.
    pub(crate) fn is_release(self) -> bool {
        self.session == SessionId::RELEASE
    }

    /// Whether these are records of held events, of this batch.
    pub(crate) fn is_of_release(self, batch: u64) -> bool {
        self.is_release() && self.number == batch & TRANSACTION_MASK
    }
}

impl Ticket {
    pub(crate) fn new(session: SessionId, number: u64, size: u64) -> Self {
        let size = size.min(SIZE_MAX);
        Self(
            u64::from(session.0) << (SIZE_BITS + TRANSACTION_BITS)
                | (number & TRANSACTION_MASK) << SIZE_BITS
                | size,
        )
    }

    /// For a record of held events, of this batch.
    pub(crate) fn of_release(batch: u64, units: u64) -> Self {
        Self::new(SessionId::RELEASE, batch, units)
    }

    /// The size of a record of `bytes` in the window, in units: rounded up, saturating.
    pub(crate) fn units(bytes: usize) -> u64 {
        u64::try_from(bytes).map_or(SIZE_MAX, |bytes| bytes.div_ceil(SIZE_UNIT).min(SIZE_MAX))
    }

    /// For the producer's opaque pointer. Pair with [`Ticket::from_opaque`].
    pub fn into_opaque(self) -> u64 {
        self.0
    }

    /// The ticket that a delivery report carries. Only a sink may call this, and once per report:
    /// here the compiler cannot see that a ticket is not used twice.
    pub fn from_opaque(opaque: u64) -> Self {
        Self(opaque)
    }

    /// The record's size in the window, in bytes, rounded up: at least what the record takes in a
    /// batch, up to 64 MiB, where it saturates.
    #[inline]
    pub fn held_bytes(&self) -> u64 {
        (self.0 & SIZE_MAX) * SIZE_UNIT
    }

    /// The transaction, without consuming the ticket: to name the transaction of a failed delivery.
    pub fn transaction(&self) -> TransactionRef {
        TransactionRef {
            session: SessionId(u8::try_from(self.0 >> (SIZE_BITS + TRANSACTION_BITS)).unwrap_or(0)),
            number: (self.0 >> SIZE_BITS) & TRANSACTION_MASK,
        }
    }

    /// Consumes the ticket and returns its transaction and its size in units.
    pub(crate) fn redeem(self) -> (TransactionRef, u64) {
        (self.transaction(), self.0 & SIZE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_the_journey_through_an_opaque_pointer() {
        let ticket = Ticket::new(SessionId(255), TRANSACTION_MASK, SIZE_MAX);
        let (transaction, size) = Ticket::from_opaque(ticket.into_opaque()).redeem();
        assert_eq!(
            transaction,
            TransactionRef { session: SessionId(255), number: TRANSACTION_MASK }
        );
        assert_eq!(size, SIZE_MAX);
    }

    #[test]
    fn transaction_numbers_wrap_without_touching_the_session() {
        let ticket = Ticket::new(SessionId(7), TRANSACTION_MASK + 3, 1);
        assert_eq!(ticket.transaction(), TransactionRef { session: SessionId(7), number: 2 });
    }

    #[test]
    fn sizes_round_up_and_saturate() {
        assert_eq!(Ticket::units(1), 1);
        assert_eq!(Ticket::units(65), 2);
        assert_eq!(Ticket::units(usize::MAX), SIZE_MAX);
        assert_eq!(Ticket::new(SessionId(255), TRANSACTION_MASK, 3).held_bytes(), 192);
    }
}
