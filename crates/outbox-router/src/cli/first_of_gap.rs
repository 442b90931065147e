//! The first transaction that may have committed in gaps, by what the server shows now.

use relay::{
    delivered::{
        FullXid,
        compared::{FirstOfGap, ServerNow},
    },
    source::{Gap, SlotHealth},
    witness::Witness,
};
use tokio_postgres::Client;

use crate::{retention::NEXT, shell::SourceReading};

/// The first transaction of the gaps, or of what is not acknowledged where there is no gap; and an
/// id that no transaction has yet.
///
/// # Errors
/// The connection breaks.
pub(super) async fn first_of_gap(
    client: &Client,
    (witness, gaps): (&Witness, &[Gap]),
    reading: &SourceReading,
) -> Result<(Option<FirstOfGap>, FullXid), tokio_postgres::Error> {
    let next: String = client.query_one(&format!("select {NEXT}::text"), &[]).await?.try_get(0)?;
    let next = FullXid::from_u64(next.parse().unwrap_or(0));
    let now = ServerNow {
        history: &reading.server.history,
        slot: reading.slot_reading.slot.as_ref().and_then(SlotHealth::horizon),
        next,
    };
    Ok((FirstOfGap::of(witness, gaps, now), next))
}
