//! What the flags select, as parameters of a statement.

use tokio_postgres::types::ToSql;

use super::args::{EventRef, NamedArgs, Place, SelectArgs};

/// Parameters for [`MATCHES`]; what is absent selects everything.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    keys: Option<Vec<Vec<u8>>>,
    ids: Option<Vec<String>>,
    places: Places,
    /// A time that PostgreSQL has written.
    since: Option<String>,
    codes: Option<Vec<&'static str>>,
    /// As `held.table_name` has it.
    table: Option<String>,
}

/// Whether a row of `outbox_router.held` is selected, by the parameters `$3` to `$9`.
pub(super) const MATCHES: &str = "\
    ($3::bytea[] is null or key = any($3)) \
    and ($4::text[] is null or event_id = any($4) or (commit_lsn, event_index) in \
      (select lsn::pg_lsn, index from unnest($5::text[], $6::int8[]) as typed (lsn, index))) \
    and ($7::text is null or committed_at >= $7::text::timestamptz) \
    and ($8::text[] is null or code = any($8)) \
    and ($9::text is null or table_name = $9)";

impl Selection {
    /// By key, id and table.
    pub(super) fn named(args: &NamedArgs) -> Self {
        let typed = args.keys.iter().map(|key| key.as_bytes().to_vec());
        let keys: Vec<_> = typed.chain(args.hex_keys.iter().map(|key| key.0.clone())).collect();
        Self {
            keys: (!keys.is_empty()).then_some(keys),
            table: args.table.as_ref().map(ToString::to_string),
            ..Self::of_ids(&args.ids)
        }
    }

    /// By these ids alone, of the same table.
    pub(super) fn only_ids(&self, ids: &[EventRef]) -> Self {
        Self { table: self.table.clone(), ..Self::of_ids(ids) }
    }

    /// By id; without ids, everything.
    fn of_ids(ids: &[EventRef]) -> Self {
        let texts: Vec<_> = ids.iter().map(|id| id.text.clone()).collect();
        Self {
            keys: None,
            ids: (!texts.is_empty()).then_some(texts),
            places: ids.iter().filter_map(|id| id.place).collect(),
            since: None,
            codes: None,
            table: None,
        }
    }

    /// The table, where one is selected.
    pub(super) fn table(&self) -> Option<&str> {
        self.table.as_deref()
    }

    /// Whether everything is selected.
    pub(super) const fn is_all(&self) -> bool {
        self.keys.is_none()
            && self.ids.is_none()
            && self.since.is_none()
            && self.codes.is_none()
            && self.table.is_none()
    }

    /// By everything; `since` was read by PostgreSQL.
    pub(super) fn of(args: &SelectArgs, since: Option<String>) -> Self {
        let codes: Vec<_> = args.codes.iter().map(|code| code.as_str()).collect();
        let codes = (!codes.is_empty()).then_some(codes);
        Self { since, codes, ..Self::named(&args.named) }
    }

    /// `$3` to `$9`.
    pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 7] {
        let Self { keys, ids, places: Places { lsns, indexes }, since, codes, table } = self;
        [keys, ids, lsns, indexes, since, codes, table]
    }
}

/// Places, as two arrays for `unnest`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) lsns: Vec<String>,
    pub(super) indexes: Vec<i64>,
}

impl FromIterator<Place> for Places {
    fn from_iter<T: IntoIterator<Item = Place>>(places: T) -> Self {
        let places = places.into_iter().map(|place| (place.commit_lsn.to_string(), place.index));
        let (lsns, indexes) = places.unzip();
        Self { lsns, indexes }
    }
}

#[cfg(test)]
mod tests {
    use relay::{Code, TableName};

    use super::*;

    #[test]
    fn what_is_not_given_selects_everything() {
        assert_eq!(Selection::of(&SelectArgs::default(), None), Selection::default());
    }

    #[test]
    fn keys_of_both_spellings_and_ids_and_places_are_one_selection() {
        let table = TableName { schema: "public".to_owned(), name: "outbox".to_owned() };
        let named = NamedArgs {
            keys: vec!["a".to_owned()],
            hex_keys: vec!["ff".parse().unwrap()],
            ids: vec!["7".parse().unwrap(), "0/1:2".parse().unwrap()],
            table: Some(table),
        };
        let codes = vec![Code::RowTooLarge];
        let args = SelectArgs { named, codes, ..SelectArgs::default() };
        let expected = Selection {
            keys: Some(vec![b"a".to_vec(), vec![0xff]]),
            ids: Some(vec!["7".to_owned(), "0/1:2".to_owned()]),
            places: Places { lsns: vec!["0/1".to_owned()], indexes: vec![2] },
            since: Some("2026-01-01".to_owned()),
            codes: Some(vec!["R005"]),
            table: Some("public.outbox".to_owned()),
        };
        assert_eq!(Selection::of(&args, Some("2026-01-01".to_owned())), expected);
    }
}
