//! A frame larger than `limits.row_bytes`, of which only the beginning was kept.

use pgoutput::{Frame, Oid, parse_insert_prefix};

use super::{Session, SessionPhase, SessionSettings, held::Surroundings, held_row::HeldRow};
use crate::{
    failure::{Code, Failure},
    ports::RecordSink,
    protocol::FrameOutcome,
};

impl Session {
    /// Takes the prefix of a frame of `announced` bytes. A row of another table is ignored,
    /// whatever its size; at a row of an outbox the session waits.
    ///
    /// # Errors
    /// The prefix cannot be decoded, or the frame is a keepalive or out of order (P007). A value
    /// has an unexpected form (R010).
    pub(crate) fn oversized<S: RecordSink>(
        &mut self,
        announced: usize,
        prefix: &[u8],
        settings: &SessionSettings,
        around: Surroundings<'_, S>,
    ) -> Result<FrameOutcome, Failure> {
        let now = around.now;
        self.feedback.received_frame(now.at);
        if self.phase == SessionPhase::Finishing {
            return Ok(FrameOutcome::Taken);
        }
        let data = match Frame::parse(prefix)? {
            Frame::XLogData(data) => data.data,
            Frame::Keepalive(_) => {
                return Err(Failure::new(
                    Code::Protocol,
                    format!("a keepalive of {announced} bytes"),
                ));
            }
        };
        match *data {
            // The manual's Update begins with the tag and the relation's OID.
            [b'U', a, b, c, d, ..] if !self.is_within_covered() => {
                return self.take_update(Oid::from_u32(u32::from_be_bytes([a, b, c, d])), now);
            }
            // The others are ignored, as they are when they arrive whole.
            [b'U', ..] => self.rows_ignored.update += 1,
            [b'D', ..] => self.rows_ignored.delete += 1,
            [b'T', ..] => self.rows_ignored.truncate += 1,
            [b'M', ..] => {}
            _ => return self.oversized_row(announced, data, settings, around),
        }
        Ok(FrameOutcome::Taken)
    }

    fn oversized_row<S: RecordSink>(
        &mut self,
        announced: usize,
        data: &[u8],
        settings: &SessionSettings,
        around: Surroundings<'_, S>,
    ) -> Result<FrameOutcome, Failure> {
        let row = parse_insert_prefix(data)?;
        if self.is_within_covered() {
            self.cover_row(row.relation)?;
            return Ok(FrameOutcome::Taken);
        }
        let Some(failure) = self.rows.refuse_oversized(announced, &row, settings.row_bytes)? else {
            self.rows_ignored.insert += 1;
            self.inserts += 1;
            return Ok(FrameOutcome::Taken);
        };
        self.take_cut_row(failure, HeldRow::Cut(&row), around)
    }
}
