//! One row of the batch, in place: COPY's binary form of `(lsn, xid, data)` becomes the XLogData
//! that a walsender would have sent.
//!
//! Before `data` a row has more bytes than XLogData has before its message, so the header of
//! XLogData is written over them, and nothing is copied. The column `xid` is read for these bytes
//! alone. Both forms are PostgreSQL's: manual, COPY, section "Binary Format", and section
//! "Streaming Replication Protocol".

use pgoutput::PgTimestamp;

/// What COPY sends once, before the first row: signature, flags, and the length of an extension.
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
const FILE_HEADER_BYTES: usize = SIGNATURE.len() + 8;
/// The number of columns, `lsn` with its length, `xid` with its length, and the length of `data`.
const ROW_HEADER_BYTES: usize = 2 + 12 + 8 + 4;
/// `w`, two positions and a time.
const XLOG_DATA_HEADER_BYTES: usize = 25;

/// What a CopyData message of the batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Row {
    /// A row; its XLogData begins at this byte of the message.
    Change { begins_at: usize },
    /// The end of the rows.
    Trailer,
}

/// A message that is no row of the batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoRow;

/// Rewrites a row. Of one that is larger than was kept, the beginning is enough: `announced` is the
/// length of the whole.
pub(super) fn rewrite(
    body: &mut [u8],
    announced: usize,
    sent_at: PgTimestamp,
) -> Result<Row, NoRow> {
    let skipped = if body.starts_with(SIGNATURE) { FILE_HEADER_BYTES } else { 0 };
    let row = body.get(skipped..).ok_or(NoRow)?;
    if *row == (-1_i16).to_be_bytes() {
        return Ok(Row::Trailer);
    }
    let lsn = position(row, announced.saturating_sub(skipped)).ok_or(NoRow)?;
    let begins_at = skipped + ROW_HEADER_BYTES - XLOG_DATA_HEADER_BYTES;
    let header = body.get_mut(begins_at..skipped + ROW_HEADER_BYTES).ok_or(NoRow)?;
    let parts = [&b"w"[..], &lsn, &lsn, &sent_at.as_micros().to_be_bytes()];
    for (to, from) in header.iter_mut().zip(parts.into_iter().flatten()) {
        *to = *from;
    }
    Ok(Row::Change { begins_at })
}

/// The row's position, if the row has the three columns that were asked for, and this length.
fn position(row: &[u8], announced: usize) -> Option<[u8; 8]> {
    let (columns, rest) = row.split_first_chunk::<2>()?;
    let (lsn_length, rest) = rest.split_first_chunk::<4>()?;
    let (lsn, rest) = rest.split_first_chunk::<8>()?;
    let (xid_length, rest) = rest.split_first_chunk::<4>()?;
    let (_xid, rest) = rest.split_first_chunk::<4>()?;
    let (data_length, _) = rest.split_first_chunk::<4>()?;
    let data = usize::try_from(i32::from_be_bytes(*data_length)).ok()?;
    let is_asked_for = *columns == 3_i16.to_be_bytes()
        && *lsn_length == 8_i32.to_be_bytes()
        && *xid_length == 4_i32.to_be_bytes()
        && announced == ROW_HEADER_BYTES + data;
    is_asked_for.then_some(*lsn)
}

#[cfg(test)]
mod tests {
    use pgoutput::{Frame, Lsn, XLogData};
    use proptest::prelude::*;

    use super::*;

    fn row(lsn: u64, data: &[u8]) -> Vec<u8> {
        let mut row = 3_i16.to_be_bytes().to_vec();
        row.extend(8_i32.to_be_bytes());
        row.extend(lsn.to_be_bytes());
        row.extend(4_i32.to_be_bytes());
        row.extend(750_u32.to_be_bytes());
        row.extend(i32::try_from(data.len()).unwrap().to_be_bytes());
        row.extend(data);
        row
    }

    fn rewritten(mut body: Vec<u8>) -> Result<Vec<u8>, Option<Row>> {
        let announced = body.len();
        match rewrite(&mut body, announced, PgTimestamp::from_micros(7)) {
            Ok(Row::Change { begins_at }) => Ok(body.split_off(begins_at)),
            Ok(Row::Trailer) => Err(Some(Row::Trailer)),
            Err(NoRow) => Err(None),
        }
    }

    #[test]
    fn a_row_becomes_the_frame_of_a_walsender() {
        let file = [SIGNATURE, &[0; 8]].concat();
        for before in [Vec::new(), file.clone()] {
            let frame = rewritten([before, row(0x1_2345, b"C....")].concat()).unwrap();
            let at = Lsn::from_u64(0x1_2345);
            let sent_at = PgTimestamp::from_micros(7);
            let expected = XLogData { wal_start: at, wal_end: at, sent_at, data: b"C...." };
            assert_eq!(Frame::parse(&frame).unwrap(), Frame::XLogData(expected));
        }
        for before in [Vec::new(), file] {
            assert_eq!(rewritten([before, vec![255; 2]].concat()), Err(Some(Row::Trailer)));
        }
    }

    #[test]
    fn the_beginning_of_a_row_is_enough() {
        let mut body = row(9, &[b'I'; 1_000]);
        let announced = body.len();
        body.truncate(100);
        let row = rewrite(&mut body, announced, PgTimestamp::from_micros(7)).unwrap();
        let Row::Change { begins_at } = row else { panic!("{row:?}") };
        assert!(matches!(Frame::parse(&body[begins_at..]), Ok(Frame::XLogData(_))));
    }

    #[test]
    fn what_was_not_asked_for_is_refused() {
        let mut two_columns = row(9, b"C");
        two_columns[1] = 2;
        let mut null = row(9, b"C");
        null[2..6].copy_from_slice(&(-1_i32).to_be_bytes());
        let mut longer = row(9, b"C");
        longer.push(0);
        for body in [two_columns, null, longer, row(9, b"C")[..20].to_vec(), Vec::new()] {
            assert_eq!(rewritten(body), Err(None));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_row_or_refused(body in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(frame) = rewritten(body) {
                prop_assert_eq!(frame[0], b'w');
            }
        }
    }
}
