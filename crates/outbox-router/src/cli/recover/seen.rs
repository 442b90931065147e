//! The table of the records that topics have, of the session that compares.

use std::hash::BuildHasher as _;

use foldhash::quality::RandomState;

use crate::owned_record::OwnedRecord;

/// The temporary table.
pub(super) const SEEN: &str = "pg_temp.outbox_router_seen";

/// Makes it. Nothing can be created in the transaction that reads the rows.
pub(super) const MAKE_SEEN: &str = "create temp table outbox_router_seen \
     (number int2 not null, topic int4 not null, id text not null, at int8 not null, \
      content int8 not null)";

/// Tells records of one id apart, for as long as one comparison lasts: a row that was inserted
/// again has the id of a former one, and another record.
#[derive(Debug, Clone, Default)]
pub(super) struct Contents(RandomState);

impl Contents {
    /// The hash of a record's key, value and headers; what Kafka adds to them does not count.
    pub(super) fn of_parts(
        &self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(String, Option<Vec<u8>>)],
    ) -> i64 {
        self.0.hash_one((key, value, headers)).cast_signed()
    }

    /// The same of a record that a row gives.
    pub(super) fn of_record(&self, record: &OwnedRecord) -> i64 {
        self.of_parts(Some(&record.key), record.value.as_deref(), &record.headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_differ_by_key_value_or_headers() {
        let contents = Contents::default();
        let headers = |id: &str| vec![("id".to_owned(), Some(id.as_bytes().to_vec()))];
        let record = |key: &'static [u8], value: Option<&'static [u8]>, id| {
            contents.of_parts(Some(key), value, &headers(id))
        };
        let one = record(b"k", Some(b"v"), "1");
        assert_eq!(one, record(b"k", Some(b"v"), "1"));
        let others = [
            record(b"l", Some(b"v"), "1"),
            record(b"k", Some(b"w"), "1"),
            record(b"k", None, "1"),
            record(b"k", Some(b"v"), "2"),
            contents.of_parts(Some(b"k"), Some(b"v"), &[]),
        ];
        assert!(!others.contains(&one));
    }
}
