//! Which rows the slot holds, from a temporary copy of it: what their tables find them again by,
//! and nothing else of them.

use std::{collections::HashMap, time::Duration};

use pgoutput::{Begin, Frame, Message, Relation, TupleData, Xid};
use relay::{Case, Code, Failure, Lsn, source::Oid, witness::LastTransaction};

use super::{command_stream::CommandFrame, connect::Source, slot_copy::SlotCopy};
use crate::postgres::content;

/// How long one wait for bytes lasts.
const WAIT: Duration = Duration::from_secs(1);

/// See the module's header.
pub(crate) struct SlotRows {
    copy: SlotCopy,
    /// Whose rows are looked for.
    tables: Vec<RowsOf>,
    /// Where the identity stands in the rows of a relation.
    known: HashMap<Oid, Known>,
    /// The transaction that is being sent.
    open: Option<Begin>,
}

/// A table whose rows are looked for.
pub(crate) struct RowsOf {
    /// Its OID, and those of its partitions: as long as these were published by themselves, or were
    /// tables of their own, their rows have come under theirs. A table that was renamed has the
    /// former name in rows from before.
    pub(crate) oids: Vec<Oid>,
    /// The columns by which a row is found again.
    pub(crate) identity: Vec<String>,
    /// The column of `where`.
    pub(crate) filtered_by: Option<String>,
    /// Its other columns, too, in the order in which [`RowOfSlot::content`] has them.
    pub(crate) columns: Vec<String>,
}

/// A relation, as the rows of it are to be read.
enum Known {
    /// One that is looked for.
    Table(Places),
    /// Another one, of this name.
    Unknown(String),
}

/// Where the columns of a table stand in its rows.
struct Places {
    /// The place of the table among those that are looked for.
    table: usize,
    identity: Vec<usize>,
    filtered_by: Option<usize>,
    /// Those of [`RowsOf::columns`]; `None` where rows lack one.
    columns: Option<Vec<usize>>,
}

/// A row of the slot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RowOfSlot {
    /// The place of its table among those that are looked for.
    pub(crate) table: usize,
    /// Under which table it has come: this one, or a partition of it.
    pub(crate) relation: Oid,
    pub(crate) id: Vec<String>,
    /// The text of the column of `where` when the row was inserted; `None` where it was NULL, or
    /// there is no `where`.
    pub(crate) said: Option<String>,
    /// A hash of its columns ([`content`]); `None` where the row lacks one.
    pub(crate) content: Option<String>,
    /// Where the commit record of its transaction begins.
    pub(crate) commit_at: Lsn,
    /// Its transaction.
    pub(crate) xid: Xid,
}

/// What the slot sends of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OfSlot {
    /// A row.
    Row(RowOfSlot),
    /// A row of a table that is not looked for, and where its transaction commits.
    Unknown { table: String, commit_at: Lsn },
    /// The transaction of the rows before it.
    Committed(LastTransaction),
}

/// What a frame says.
enum Step {
    Of(OfSlot),
    /// Everything that was committed before this position was sent.
    Passed(Lsn),
    Other,
}

impl Source {
    /// Copies the slot, and reads the rows of these tables from the copy.
    ///
    /// # Errors
    /// The server cannot be reached or refuses; the slot is missing, lost, or of another plugin.
    pub(crate) async fn slot_rows(&self, tables: Vec<RowsOf>) -> Result<SlotRows, Failure> {
        let (copy, _) = self.copy_slot().await?;
        Ok(SlotRows { copy, tables, known: HashMap::new(), open: None })
    }
}

impl SlotRows {
    /// The next row that was committed before `until`, or the end of its transaction; `None`: there
    /// is no other.
    ///
    /// # Errors
    /// The connection breaks; a row is larger than `limits.row_bytes` (R005); a relation lacks a
    /// column of its identity.
    pub(crate) async fn next(&mut self, until: Lsn) -> Result<Option<OfSlot>, Failure> {
        loop {
            let Self { copy, tables, known, open } = &mut *self;
            let step = match copy.stream.peek()? {
                None => {
                    copy.stream.fill(WAIT).await?;
                    continue;
                }
                Some(CommandFrame::Whole(payload)) => {
                    Reading { tables, known, open }.frame(payload)?
                }
                Some(CommandFrame::Oversized { announced, prefix }) => {
                    oversized(announced, prefix)?
                }
            };
            copy.stream.consume();
            match step {
                Step::Of(OfSlot::Row(RowOfSlot { commit_at, .. }))
                | Step::Of(OfSlot::Unknown { commit_at, .. })
                    if commit_at >= until =>
                {
                    return Ok(None);
                }
                Step::Of(OfSlot::Committed(transaction)) => {
                    copy.stream.pass(transaction.end_lsn);
                    let is_before = transaction.commit_lsn < until;
                    return Ok(is_before.then_some(OfSlot::Committed(transaction)));
                }
                Step::Of(row) => return Ok(Some(row)),
                Step::Passed(position) => {
                    copy.stream.pass(position);
                    if position >= until {
                        return Ok(None);
                    }
                }
                Step::Other => {}
            }
        }
    }
}

/// What a frame changes.
struct Reading<'r> {
    tables: &'r [RowsOf],
    known: &'r mut HashMap<Oid, Known>,
    open: &'r mut Option<Begin>,
}

impl Reading<'_> {
    fn frame(self, payload: &[u8]) -> Result<Step, Failure> {
        let data = match Frame::parse(payload)? {
            // While a transaction is being sent, it says nothing about that one.
            Frame::Keepalive(_) if self.open.is_some() => return Ok(Step::Other),
            Frame::Keepalive(keepalive) => return Ok(Step::Passed(keepalive.wal_end)),
            Frame::XLogData(data) => data.data,
        };
        match Message::parse(data)? {
            Message::Begin(begin) => *self.open = Some(begin),
            Message::Commit(commit) => {
                let begin = self.open.take().ok_or_else(outside)?;
                let transaction = LastTransaction::between(&begin, commit.end_lsn);
                return Ok(Step::Of(OfSlot::Committed(transaction)));
            }
            Message::Relation(relation) => {
                let known = describe(self.tables, &relation)?;
                match known {
                    Some(known) => self.known.insert(relation.id, known),
                    None => self.known.remove(&relation.id),
                };
            }
            Message::Insert(insert) => {
                let begin = self.open.as_ref().ok_or_else(outside)?;
                let commit_at = begin.final_lsn;
                let places = match self.known.get(&insert.relation) {
                    None => return Ok(Step::Other),
                    Some(Known::Unknown(name)) => {
                        let table = name.clone();
                        return Ok(Step::Of(OfSlot::Unknown { table, commit_at }));
                    }
                    Some(Known::Table(places)) => places,
                };
                let columns: Vec<TupleData<'_>> = insert.tuple.iter().collect();
                let row = places.row((insert.relation, begin), &columns)?;
                return Ok(Step::Of(OfSlot::Row(row)));
            }
            Message::Origin(_)
            | Message::Type(_)
            | Message::Update(_)
            | Message::Delete(_)
            | Message::Truncate(_)
            | Message::Logical(_)
            | Message::StreamAbort(_) => {}
        }
        Ok(Step::Other)
    }
}

impl Places {
    fn row(
        &self,
        (relation, begin): (Oid, &Begin),
        columns: &[TupleData<'_>],
    ) -> Result<RowOfSlot, Failure> {
        let text = |place: usize| match columns.get(place) {
            Some(TupleData::Text(bytes)) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        };
        let of_identity = |place: &usize| {
            let missing = || Failure::new(Code::Protocol, "a row without its identity");
            text(*place).ok_or_else(missing)
        };
        Ok(RowOfSlot {
            table: self.table,
            relation,
            id: self.identity.iter().map(of_identity).collect::<Result<_, _>>()?,
            said: self.filtered_by.and_then(text),
            content: self.content(columns),
            commit_at: begin.final_lsn,
            xid: begin.xid,
        })
    }

    fn content(&self, columns: &[TupleData<'_>]) -> Option<String> {
        let mut texts = Vec::new();
        for place in self.columns.as_ref()? {
            texts.push(match columns.get(*place)? {
                TupleData::Null => None,
                TupleData::Text(text) => Some(*text),
                TupleData::UnchangedToast | TupleData::Binary(_) => return None,
            });
        }
        Some(content(texts.into_iter()))
    }
}

fn outside() -> Failure {
    Failure::new(Code::Protocol, "a row or a commit without the beginning of its transaction")
}

/// What the relation is; `None`: it is one of this program's own.
fn describe(tables: &[RowsOf], relation: &Relation<'_>) -> Result<Option<Known>, Failure> {
    let known = tables.iter().enumerate().find(|(_, table)| table.oids.contains(&relation.id));
    let Some((table, RowsOf { identity, filtered_by, columns, .. })) = known else {
        if relation.namespace == b"outbox_router" {
            return Ok(None);
        }
        let [schema, name] = [relation.namespace, relation.name].map(String::from_utf8_lossy);
        return Ok(Some(Known::Unknown(format!("{schema}.{name}"))));
    };
    let place = |column: &String| {
        relation.columns().position(|known| known.name == column.as_bytes()).ok_or_else(|| {
            let what = format!(
                "the slot has rows without the column {column}, which was renamed or added since"
            );
            Failure::of(Case::SwitchUnsent, what)
        })
    };
    let identity = identity.iter().map(place).collect::<Result<_, _>>()?;
    let filtered_by = filtered_by.as_ref().map(place).transpose()?;
    let columns = columns.iter().map(|column| place(column).ok()).collect();
    Ok(Some(Known::Table(Places { table, identity, filtered_by, columns })))
}

/// Only an INSERT says which row it is.
fn oversized(announced: usize, prefix: &[u8]) -> Result<Step, Failure> {
    match Frame::parse(prefix)? {
        Frame::XLogData(data) if data.data.first() == Some(&b'I') => {
            let what = format!(
                "the slot has a row of {announced} bytes, more than limits.row_bytes allows to read"
            );
            Err(Failure::new(Code::RowTooLarge, what))
        }
        Frame::XLogData(_) | Frame::Keepalive(_) => Ok(Step::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wal(parts: &[&[u8]]) -> Vec<u8> {
        [b"w", [0; 24].as_slice(), &parts.concat()].concat()
    }

    fn keepalive(at: u64) -> Vec<u8> {
        [b"k", at.to_be_bytes().as_slice(), &[0; 9]].concat()
    }

    fn begin(at: u64) -> Vec<u8> {
        wal(&[b"B", &at.to_be_bytes(), &[0; 12]])
    }

    fn commit(at: u64) -> Vec<u8> {
        wal(&[b"C\0", &at.to_be_bytes(), &(at + 1).to_be_bytes(), &[0; 8]])
    }

    fn relation(oid: u8, name: &[u8]) -> Vec<u8> {
        let column = [0, 0, 0, 25, 0xff, 0xff, 0xff, 0xff];
        let head = [b"R\0\0\0", [oid].as_slice(), b"public\0", name, b"\0d\0\x02"].concat();
        wal(&[&head, b"\0payload\0", &column, b"\x01id\0", &column])
    }

    fn insert(oid: u8) -> Vec<u8> {
        wal(&[b"I\0\0\0", &[oid], b"N\0\x02t\0\0\0\x01xt\0\0\0\x0242"])
    }

    fn looked_for(oids: &[u32], column: &str) -> RowsOf {
        let oids = oids.iter().map(|oid| Oid::from_u32(*oid)).collect();
        RowsOf {
            oids,
            identity: vec![column.to_owned()],
            filtered_by: Some("payload".to_owned()),
            columns: vec![column.to_owned(), "payload".to_owned()],
        }
    }

    fn steps(frames: &[Vec<u8>]) -> Vec<String> {
        let tables = [looked_for(&[6, 7], "id")];
        let (mut known, mut open) = (HashMap::new(), None);
        let steps = frames.iter().map(|frame| {
            let reading = Reading { tables: &tables, known: &mut known, open: &mut open };
            match reading.frame(frame).unwrap() {
                Step::Of(OfSlot::Row(row)) => {
                    let said = row.said.unwrap_or_default();
                    format!("{}, {said}, at {}", row.id.join(" "), row.commit_at)
                }
                Step::Of(OfSlot::Unknown { table, commit_at }) => format!("{table} at {commit_at}"),
                Step::Of(OfSlot::Committed(transaction)) => {
                    format!("{} to {}", transaction.commit_lsn, transaction.end_lsn)
                }
                Step::Passed(position) => format!("passed {position}"),
                Step::Other => "other".to_owned(),
            }
        });
        steps.collect()
    }

    #[test]
    fn a_row_is_told_by_its_identity_and_its_commit_whatever_its_table_was_called() {
        for name in [b"outbox".as_slice(), b"its former name"] {
            let frames = [begin(16), relation(7, name), insert(7), commit(16)];
            assert_eq!(steps(&frames), ["other", "other", "42, x, at 0/10", "0/10 to 0/11"]);
        }
    }

    /// It may be a partition that was detached: the slot is the only place that a reader looks at.
    #[test]
    fn a_row_of_a_table_that_is_not_looked_for_is_named() {
        let frames = [begin(16), relation(8, b"outbox"), insert(8)];
        assert_eq!(steps(&frames), ["other", "other", "public.outbox at 0/10"]);
    }

    /// The transaction may be committed before a position that the server names meanwhile.
    #[test]
    fn a_keepalive_within_a_transaction_ends_nothing() {
        let frames = [keepalive(8), begin(16), keepalive(32), commit(16), keepalive(32)];
        let expected = ["passed 0/8", "other", "other", "0/10 to 0/11", "passed 0/20"];
        assert_eq!(steps(&frames), expected);
    }

    #[test]
    fn a_relation_without_the_identity_is_refused() {
        let tables = [looked_for(&[7], "number")];
        let (mut known, mut open) = (HashMap::new(), None);
        let reading = Reading { tables: &tables, known: &mut known, open: &mut open };
        let failure = reading.frame(&relation(7, b"outbox")).err().unwrap();
        assert_eq!(failure.case, Some(Case::SwitchUnsent));
    }
}
