//! Events go into the table.

use std::borrow::Cow;

use relay::{
    Failure,
    held::{HeldEvent, Letter, TableMark},
};

use super::{
    failure::held_failure,
    pipeline::Pipeline,
    session::{Encoding, Sql},
    stream::HeldStream,
    values::{Timestamptz, lsn},
    version,
};

/// One statement, so that all are written or none. Those that are in the table already stay as
/// they are.
const INSERT: &str = "\
    with new as ( \
      insert into outbox_router.held (pipeline, slot, commit_lsn, event_index, committed_at, \
        key, key_hash, event_id, table_name, messages, code, error) \
      select $1, $2, e.* from unnest($3::pg_lsn[], $4::int8[], $5::timestamptz[], $6::bytea[], \
        $7::bytea[], $8::text[], $9::text[], $10::bytea[], $11::text[], $12::text[]) as e \
      on conflict do nothing returning 1) \
    insert into outbox_router.held_version as v (pipeline, slot, system_id, writes, open) \
    select $1, $2, $13, 1, count(*) from new \
    on conflict (pipeline, slot) do update \
      set writes = v.writes + 1, open = v.open + excluded.open \
    returning uuid_send(origin) as origin, writes, open";

pub(super) async fn insert(
    mut sql: Sql<'_>,
    Pipeline { name, slot }: &Pipeline,
    stream: &HeldStream,
    events: &[HeldEvent],
) -> Result<TableMark, Failure> {
    let encoding = sql.backend.encoding;
    let lsns: Vec<_> = events.iter().map(|event| lsn(event.id.commit_lsn)).collect();
    let indexes: Vec<_> = events.iter().map(|event| i64::from(event.id.index)).collect();
    let committed: Vec<_> = events.iter().map(|event| Timestamptz(event.committed_at)).collect();
    let keys: Vec<_> = events.iter().map(|event| event.key.as_deref()).collect();
    let hashes: Vec<_> = events.iter().map(|event| event.hash.0.as_slice()).collect();
    let ids: Vec<_> = events.iter().map(|event| event.event_id.as_deref()).collect();
    let tables: Vec<_> = events.iter().map(|event| event.table.as_str()).collect();
    let messages: Vec<_> = events.iter().map(|event| event.messages.as_slice()).collect();
    let letters = || events.iter().map(|event| event.letter.as_ref());
    let codes: Vec<_> = letters().map(|letter| letter.map(|l| l.code.as_str())).collect();
    let errors: Vec<_> = letters().map(|letter| letter.map(|l| error_text(l, encoding))).collect();
    let insert = async {
        let statement = sql.prepared(INSERT).await?;
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 13] = [
            name,
            slot,
            &lsns,
            &indexes,
            &committed,
            &keys,
            &hashes,
            &ids,
            &tables,
            &messages,
            &codes,
            &errors,
            &stream.history.system_id,
        ];
        sql.client.query_one(&statement, &values).await
    };
    match insert.await {
        Ok(row) => version::mark(&row),
        Err(error) => Err(held_failure(error, &sql.backend.role)),
    }
}

/// A failure's message as the database can store it. The rest of a row came from the database.
pub(super) fn error_text(letter: &Letter, encoding: Encoding) -> Cow<'_, str> {
    let is_storable = |c: char| c != '\0' && (encoding == Encoding::Any || c.is_ascii());
    if letter.message.chars().all(is_storable) {
        return Cow::Borrowed(&letter.message);
    }
    Cow::Owned(letter.message.chars().map(|c| if is_storable(c) { c } else { '?' }).collect())
}

#[cfg(test)]
mod tests {
    use relay::Code;

    use super::*;

    #[test]
    fn a_message_that_the_database_cannot_store_is_stored_without_those_characters() {
        let letter = |message: &str| Letter { code: Code::NotJson, message: message.to_owned() };
        assert_eq!(error_text(&letter("a…b"), Encoding::Any), "a…b");
        assert_eq!(error_text(&letter("a…b"), Encoding::Narrow), "a?b");
        assert_eq!(error_text(&letter("a\0b"), Encoding::Any), "a?b");
    }
}
