//! Versions of polled rows that a broker has acknowledged.

use crate::{
    delivered::SentVersion,
    polling::PendingRow,
    ports::Acks,
    progress::ticket::{SessionId, Ticket},
    routing::record::TopicId,
};

/// A row as it was read, once its record is acknowledged.
///
/// # Panics
/// Never: the record that is acknowledged is that of the row.
pub fn sent(row: &PendingRow) -> SentVersion {
    let ticket = Ticket::new(SessionId::default(), 0, 1);
    let in_flight = row.row_at().sent_as(ticket.transaction());
    let mut acks = Acks::default();
    acks.push(ticket, TopicId::from_index(0).expect("the first topic"));
    let run = acks.runs().first().expect("one acknowledgement");
    in_flight.acked(run).expect("its own record")
}
