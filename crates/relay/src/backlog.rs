//! How a backlog is read that a session begins with, and how far by SQL.

use pgoutput::Lsn;

use crate::failure::{Code, Failure};

/// How what the slot has when a session begins is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BacklogFrom {
    /// As every later row: the walsender sends it.
    Stream,
    /// By SQL, if the server allows it. That costs the server less for small transactions.
    Sql,
}

/// How a long backlog is read, and which is long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BacklogSettings {
    /// How a long one is read. A shorter one comes as a stream.
    pub from: BacklogFrom,
    /// A backlog of so many bytes of WAL is long.
    pub long_bytes: u64,
}

impl BacklogSettings {
    /// A long backlog is one for which the stream needs seconds: by SQL the server decodes in
    /// batches, each from the slot's `restart_lsn` on, and keeps a batch until it is sent.
    pub const fn of(from: BacklogFrom) -> Self {
        Self { from, long_bytes: 32 << 20 }
    }
}

/// A commit record is no longer: it would have millions of subtransactions or invalidations.
pub const LONGEST_RECORD: u64 = 16 << 20;

/// How far the server's WAL may be read by SQL, which waits for no standby: all of it read in one
/// statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlReach {
    /// The end of what is flushed; on a standby, of what is replayed.
    pub flushed: Lsn,
    /// The standbys for which the walsender of the slot waits: those that
    /// `synchronized_standby_slots` names, if the slot has `failover`.
    pub standbys: Vec<NamedStandby>,
    /// How long a commit record may be. The last record that a standby has received may have
    /// arrived in part; SQL reads a record that begins before its end to the end.
    pub longest_record: u64,
}

/// A slot that `synchronized_standby_slots` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedStandby {
    /// Its name.
    pub slot: String,
    /// Its `restart_lsn`: what the standby has flushed. `None` for a slot that is missing, logical
    /// or invalidated, or has never been used.
    pub received: Option<Lsn>,
}

impl SqlReach {
    /// Where a backlog that begins at `begins_at` ends, so far as it is read by SQL: not past what
    /// every named standby has received. A walsender sends no more either, so after a failover to
    /// one of them Kafka has no event that the database lacks.
    ///
    /// # Errors
    /// Nothing may be read by SQL.
    pub fn until(&self, begins_at: Lsn) -> Result<Lsn, Failure> {
        let mut until = self.flushed;
        for NamedStandby { slot, received } in &self.standbys {
            let Some(received) = received else {
                let what = format!(
                    "synchronized_standby_slots names {slot}, and it is not known what the standby \
                     of this slot has received"
                );
                return Err(Failure::new(Code::Backlog, what));
            };
            let whole = Lsn::from_u64(received.as_u64().saturating_sub(self.longest_record));
            if whole <= begins_at {
                let what = format!(
                    "synchronized_standby_slots names {slot}, and the standby of this slot has \
                     received WAL up to {received}: what lies past {begins_at} is near it or past \
                     it"
                );
                return Err(Failure::new(Code::Backlog, what));
            }
            until = until.min(whole);
        }
        Ok(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(received: &[Option<u64>]) -> Result<Lsn, Code> {
        let standbys = received.iter().map(|received| NamedStandby {
            slot: "standby".to_owned(),
            received: received.map(Lsn::from_u64),
        });
        let reach = SqlReach {
            flushed: Lsn::from_u64(900 << 20),
            standbys: standbys.collect(),
            longest_record: LONGEST_RECORD,
        };
        reach.until(Lsn::from_u64(100 << 20)).map_err(|failure| failure.code)
    }

    #[test]
    fn without_standbys_everything_that_is_flushed_is_read_by_sql() {
        assert_eq!(reach(&[]), Ok(Lsn::from_u64(900 << 20)));
        assert_eq!(reach(&[Some(2_000 << 20)]), Ok(Lsn::from_u64(900 << 20)));
    }

    #[test]
    fn the_standby_that_has_received_least_is_the_border() {
        // The last record that it has received may be one half.
        assert_eq!(reach(&[Some(900 << 20)]), Ok(Lsn::from_u64(884 << 20)));
        let least = reach(&[Some(700 << 20), Some(300 << 20), Some(800 << 20)]);
        assert_eq!(least, Ok(Lsn::from_u64(284 << 20)));
    }

    #[test]
    fn nothing_is_read_by_sql_where_a_standby_has_nothing_of_it_or_is_not_known() {
        for received in [None, Some(0), Some(100 << 20), Some(116 << 20)] {
            assert_eq!(reach(&[Some(900 << 20), received]), Err(Code::Backlog), "{received:?}");
        }
    }
}
