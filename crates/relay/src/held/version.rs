//! Whether the table is the one that this pipeline has written to.
//!
//! An event in the table is confirmed, so nothing but the table has it. Its row is in the WAL
//! *behind* the event: a standby that is promoted without the last WAL, or a backup, may have the
//! event and not its row, and then neither slot nor WAL positions show that the event is lost. So
//! every write to the table increments a count in the same transaction, and the witness keeps the
//! count that its position relies on. The same transaction counts the open events, which shows
//! whether somebody has removed some.

/// Which writes of this pipeline a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableVersion {
    /// Chosen at random by the first write, so that a table that was made again is recognised
    /// however often it was written.
    pub origin: u128,
    /// How many writes are committed.
    pub writes: u64,
}

impl TableVersion {
    /// Whether everything that was written by the time of `earlier` is in the table.
    pub(crate) fn includes(self, earlier: Self) -> bool {
        self.origin == earlier.origin && self.writes >= earlier.writes
    }
}

/// What the writes of this pipeline have made of the table, as they have recorded it there; the
/// witness keeps it, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableMark {
    /// Its version; `None` before the first write.
    pub version: Option<TableVersion>,
    /// How many events are open.
    pub open: u64,
}

impl TableMark {
    /// Whether the table lacks writes that it had at the mark `earlier`. If neither has an open
    /// event, nothing can be missing or come out of order: every closed event is in Kafka, or
    /// dropped.
    pub fn lacks(self, earlier: Self) -> bool {
        let Some(written) = earlier.version else { return false };
        let has_all = self.version.is_some_and(|version| version.includes(written));
        !has_all && (self.open > 0 || earlier.open > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_with_fewer_writes_or_another_origin_lacks_some_unless_nothing_is_or_was_open() {
        let mark = |origin, writes, open| TableMark {
            version: Some(TableVersion { origin, writes }),
            open,
        };
        let none = TableMark::default();
        assert!(mark(1, 4, 1).lacks(mark(1, 5, 2)));
        assert!(mark(2, 6, 2).lacks(mark(1, 5, 2)), "the table was made again");
        assert!(none.lacks(mark(1, 5, 2)), "and was not written yet");
        assert!(mark(1, 4, 2).lacks(mark(1, 5, 0)), "what was closed is open again");
        assert!(!none.lacks(mark(1, 5, 0)));
        assert!(!mark(1, 5, 2).lacks(mark(1, 5, 2)));
        assert!(!mark(1, 6, 0).lacks(mark(1, 5, 2)));
        assert!(!mark(1, 1, 1).lacks(none));
    }
}
