//! The record as it is stored in Kafka: JSON with a format version, so that later routers can read
//! the records of earlier ones, and earlier routers refuse records that they do not understand.

use std::{collections::BTreeMap, sync::Arc};

use pgoutput::{Lsn, Oid, PgTimestamp, Xid};
use serde::{Deserialize, Serialize};

use self::{
    catalog::{DetachedText, PublicationText, RelationText},
    since::SinceText,
    text::{MarkText, VERSION, lsn},
    topics::{LostText, TopicText},
};
use super::{
    Acceptance, Former, LastTransaction, Notes, Recovered, Witness, record::PARTITIONS_MAX,
};
use crate::{
    delivered::{FullXid, Horizon},
    failure::{Case, Code, Failure, Name},
    held::{TableMark, TableVersion},
    routing::table::TableName,
    source::{Catalog, FilterLabels, Gap, History, Interval, ServerMoment},
};

mod catalog;
mod since;
mod text;
mod topics;

pub use text::Unreadable;

#[derive(Serialize, Deserialize)]
struct Versioned {
    v: u32,
}

#[derive(Serialize, Deserialize)]
struct WitnessText {
    v: u32,
    generation: u64,
    held: Option<HeldText>,
    history: Option<HistoryText>,
    cluster: String,
    position: String,
    last: Option<LastText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    horizon: Option<HorizonText>,
    checked: Option<MarkText>,
    partitions: BTreeMap<String, i32>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    topics: BTreeMap<String, TopicText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    lost_topics: Vec<LostText>,
    publication: Option<PublicationText>,
    relations: Vec<RelationText>,
    tables: Vec<u32>,
    #[serde(default)]
    added: BTreeMap<u32, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    since: Vec<SinceText>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    former: BTreeMap<u32, FormerText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    detached: Vec<DetachedText>,
    gaps: Vec<GapText>,
    accepted: Vec<AcceptanceText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held_table: Option<HeldTableText>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    left_out: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left_out_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    skips_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notes: Option<u64>,
    began_without: Option<MarkText>,
}

#[derive(Serialize, Deserialize)]
struct HeldText {
    wal_end: String,
    clock_micros: i64,
}

#[derive(Serialize, Deserialize)]
struct HistoryText {
    system_id: String,
    timeline: u32,
}

#[derive(Serialize, Deserialize)]
struct LastText {
    commit_lsn: String,
    end_lsn: String,
    xid: u32,
    /// Microseconds since 2000-01-01, as in the replication protocol.
    committed_at: i64,
}

#[derive(Serialize, Deserialize)]
struct HorizonText {
    xmin: u64,
    lsn: String,
}

#[derive(Serialize, Deserialize)]
struct FormerText {
    schema: String,
    name: String,
    #[serde(rename = "heir")]
    successor: u32,
    until: String,
}

#[derive(Serialize, Deserialize)]
struct GapText {
    code: String,
    message: String,
    /// A record without case and names has the usual remedy of its code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    case: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    names: BTreeMap<String, String>,
    from: Option<MarkText>,
    to: MarkText,
}

#[derive(Serialize, Deserialize)]
struct HeldTableText {
    /// Hexadecimal.
    origin: String,
    writes: u64,
    open: u64,
}

#[derive(Serialize, Deserialize)]
struct AcceptanceText {
    code: String,
    lsn: String,
    by: String,
    at: String,
    #[serde(default)]
    generation: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recovered: Option<RecoveredText>,
}

#[derive(Serialize, Deserialize)]
struct RecoveredText {
    rows: u64,
    records: u64,
}

impl Witness {
    /// The record's value.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let text = WitnessText {
            v: VERSION,
            generation: self.generation,
            held: self.held.map(|held| HeldText {
                wal_end: held.wal_end.to_string(),
                clock_micros: held.clock_micros,
            }),
            history: self.history.as_ref().map(|history| HistoryText {
                system_id: history.system_id.clone(),
                timeline: history.timeline,
            }),
            cluster: self.cluster.clone(),
            position: self.position.to_string(),
            last: self.last.map(|last| LastText {
                commit_lsn: last.commit_lsn.to_string(),
                end_lsn: last.end_lsn.to_string(),
                xid: last.xid.as_u32(),
                committed_at: last.committed_at.as_micros(),
            }),
            horizon: self.horizon.map(|horizon| HorizonText {
                xmin: horizon.xmin.as_u64(),
                lsn: horizon.lsn.to_string(),
            }),
            checked: self.checked.as_ref().map(MarkText::of),
            partitions: self
                .partitions
                .iter()
                .take(PARTITIONS_MAX)
                .map(|(topic, count)| (topic.clone(), *count))
                .collect(),
            topics: TopicText::all(&self.topics),
            lost_topics: LostText::all(&self.lost_topics),
            publication: self.catalog.publication.as_ref().map(PublicationText::of),
            relations: RelationText::all(&self.catalog.relations),
            tables: self.tables.iter().map(|oid| oid.as_u32()).collect(),
            added: self.added.iter().map(|(oid, since)| (*oid, since.to_string())).collect(),
            since: SinceText::all(&self.since),
            former: self.former.iter().map(|(oid, it)| (*oid, FormerText::of(it))).collect(),
            detached: DetachedText::all(&self.detached),
            gaps: self.gaps.iter().map(GapText::of).collect(),
            accepted: self.accepted.iter().map(AcceptanceText::of).collect(),
            held_table: HeldTableText::of(self.held_table),
            left_out: self.notes.any_left_out,
            left_out_by: (self.notes.by > Lsn::ZERO).then(|| self.notes.by.to_string()),
            skips_by: None,
            notes: (self.notes.writes > 0).then_some(self.notes.writes),
            began_without: self.began_without.as_ref().map(MarkText::of),
        };
        // This cannot fail: all map keys are strings or integers, and there are no floats.
        serde_json::to_vec(&text).unwrap_or_default()
    }

    /// Reads a record's value.
    ///
    /// # Errors
    /// [`Unreadable::Version`]: it has another format version. [`Unreadable::Malformed`]: it is not
    /// a record of a router.
    pub fn decode(value: &[u8]) -> Result<Self, Unreadable> {
        let malformed = |error: serde_json::Error| Unreadable::Malformed(error.to_string());
        let Versioned { v } = serde_json::from_slice(value).map_err(malformed)?;
        if v != VERSION {
            return Err(Unreadable::Version(v));
        }
        let text: WitnessText = serde_json::from_slice(value).map_err(malformed)?;
        Ok(Self {
            generation: text.generation,
            held: text.held.map(HeldText::read).transpose()?,
            history: text.history.map(|history| History {
                system_id: history.system_id,
                timeline: history.timeline,
            }),
            cluster: text.cluster,
            position: lsn(&text.position)?,
            last: text.last.map(LastText::read).transpose()?,
            horizon: text.horizon.map(HorizonText::read).transpose()?,
            checked: text.checked.map(MarkText::read).transpose()?,
            partitions: text.partitions,
            topics: TopicText::read_all(text.topics),
            lost_topics: text
                .lost_topics
                .into_iter()
                .map(LostText::read)
                .collect::<Result<_, _>>()?,
            catalog: Catalog {
                publication: text.publication.map(PublicationText::read),
                relations: text.relations.into_iter().map(RelationText::read).collect(),
                next: None,
                altering: None,
                labels: FilterLabels::default(),
            },
            tables: text.tables.into_iter().map(Oid::from_u32).collect(),
            added: text
                .added
                .into_iter()
                .map(|(oid, since)| Ok((oid, lsn(&since)?)))
                .collect::<Result<_, Unreadable>>()?,
            since: Arc::new(text.since.into_iter().map(SinceText::read).collect()),
            former: text
                .former
                .into_iter()
                .map(|(oid, former)| Ok((oid, former.read()?)))
                .collect::<Result<_, Unreadable>>()?,
            detached: text
                .detached
                .into_iter()
                .map(DetachedText::read)
                .collect::<Result<_, _>>()?,
            gaps: text.gaps.into_iter().map(GapText::read).collect::<Result<_, _>>()?,
            accepted: text
                .accepted
                .into_iter()
                .map(AcceptanceText::read)
                .collect::<Result<_, _>>()?,
            held_table: text.held_table.map(HeldTableText::read).transpose()?.unwrap_or_default(),
            notes: Notes {
                any_left_out: text.left_out,
                // An earlier version has written that of skips beside it, or neither.
                by: noted_by(text.left_out_by)?.max(noted_by(text.skips_by)?),
                writes: text.notes.unwrap_or(0),
            },
            began_without: text.began_without.map(MarkText::read).transpose()?,
        })
    }
}

fn noted_by(text: Option<String>) -> Result<Lsn, Unreadable> {
    text.map_or(Ok(Lsn::ZERO), |by| lsn(&by))
}

impl HeldText {
    fn read(self) -> Result<ServerMoment, Unreadable> {
        Ok(ServerMoment { wal_end: lsn(&self.wal_end)?, clock_micros: self.clock_micros })
    }
}

impl HorizonText {
    fn read(self) -> Result<Horizon, Unreadable> {
        Ok(Horizon { xmin: FullXid::from_u64(self.xmin), lsn: lsn(&self.lsn)? })
    }
}

impl HeldTableText {
    fn of(TableMark { version, open }: TableMark) -> Option<Self> {
        let TableVersion { origin, writes } = version?;
        Some(Self { origin: format!("{origin:x}"), writes, open })
    }

    fn read(self) -> Result<TableMark, Unreadable> {
        let Self { origin, writes, open } = self;
        let origin = u128::from_str_radix(&origin, 16)
            .map_err(|_| Unreadable::Malformed(format!("{origin:?} is no origin of a table")))?;
        Ok(TableMark { version: Some(TableVersion { origin, writes }), open })
    }
}

impl LastText {
    fn read(self) -> Result<LastTransaction, Unreadable> {
        Ok(LastTransaction {
            commit_lsn: lsn(&self.commit_lsn)?,
            end_lsn: lsn(&self.end_lsn)?,
            xid: Xid::from_u32(self.xid),
            committed_at: PgTimestamp::from_micros(self.committed_at),
        })
    }
}

impl FormerText {
    fn of(former: &Former) -> Self {
        let TableName { schema, name } = former.table.clone();
        let (successor, until) = (former.successor.as_u32(), former.until.to_string());
        Self { schema, name, successor, until }
    }

    fn read(self) -> Result<Former, Unreadable> {
        let table = TableName { schema: self.schema, name: self.name };
        Ok(Former { table, successor: Oid::from_u32(self.successor), until: lsn(&self.until)? })
    }
}

impl GapText {
    fn of(gap: &Gap) -> Self {
        Self {
            code: gap.failure.code.as_str().to_owned(),
            message: gap.failure.message.clone(),
            case: gap.failure.case.map(|case| case.as_str().to_owned()),
            names: gap
                .failure
                .names
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), value.to_owned()))
                .collect(),
            from: gap.interval.from.as_ref().map(MarkText::of),
            to: MarkText::of(&gap.interval.to),
        }
    }

    fn read(self) -> Result<Gap, Unreadable> {
        let code = Code::parse(&self.code)
            .ok_or_else(|| Unreadable::Malformed(format!("unknown code {:?}", self.code)))?;
        let interval =
            Interval { from: self.from.map(MarkText::read).transpose()?, to: self.to.read()? };
        let mut failure = Failure::new(code, self.message);
        // A later version may know more cases and names. Without them the remedy is less exact.
        failure.case = self.case.as_deref().and_then(Case::parse);
        for (name, value) in self.names {
            if let Some(name) = Name::parse(&name) {
                failure.names.set(name, value);
            }
        }
        Ok(Gap::with_message(failure, interval))
    }
}

impl AcceptanceText {
    fn of(acceptance: &Acceptance) -> Self {
        Self {
            code: acceptance.code.clone(),
            lsn: acceptance.lsn.to_string(),
            by: acceptance.by.clone(),
            at: acceptance.at.clone(),
            generation: acceptance.generation,
            recovered: acceptance
                .recovered
                .map(|Recovered { rows, records }| RecoveredText { rows, records }),
        }
    }

    fn read(self) -> Result<Acceptance, Unreadable> {
        let Self { code, by, at, generation, recovered, .. } = self;
        let recovered =
            recovered.map(|RecoveredText { rows, records }| Recovered { rows, records });
        Ok(Acceptance { code, lsn: lsn(&self.lsn)?, by, at, generation, recovered })
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::{
        delivered::{AgeColumn, EventsSince, OlderRows, Place},
        source::{Mark, samples},
        witness::{Detached, KnownTopic, LostTopic, TopicUuid},
    };

    fn place(oid: u32, attached_by: Option<u32>) -> Place {
        Place { oid: Oid::from_u32(oid), attached_by }
    }

    fn since(xid: u64, older: Option<i64>) -> EventsSince {
        let by = AgeColumn::Column { number: 7, type_oid: 1_114, is_never_null: true };
        let older = older.map(|at| OlderRows { at: PgTimestamp::from_micros(at), by });
        EventsSince { xid: FullXid::from_u64(xid), older }
    }

    fn gone(oid: u32, until: Option<Lsn>) -> (u32, Detached) {
        (oid, Detached { root: Oid::from_u32(10), until })
    }

    fn full() -> Witness {
        let mark = |lsn| Mark { lsn: Lsn::from_u64(lsn), at: Some("2026-01-01T00:00:00Z".into()) };
        let interval = Interval { from: Some(mark(7)), to: mark(9) };
        let failure = Failure::of(Case::PutBack, "table public.outbox was taken out")
            .naming(Name::Table, "public.outbox");
        let version = Some(TableVersion { origin: u128::MAX - 9, writes: 12 });
        let mut catalog = samples::healthy();
        for table in &mut catalog.publication.as_mut().unwrap().tables {
            table.columns.clear();
        }
        for relation in &mut catalog.relations {
            relation.columns.clear();
            relation.formerly = vec![samples::name("before")];
        }
        Witness {
            generation: 3,
            held: Some(ServerMoment { wal_end: Lsn::from_u64(7), clock_micros: 8 }),
            history: Some(History { system_id: "7312".into(), timeline: 2 }),
            cluster: "abc".into(),
            position: Lsn::from_u64(u64::MAX),
            last: Some(LastTransaction {
                commit_lsn: Lsn::from_u64(1),
                end_lsn: Lsn::from_u64(2),
                xid: Xid::from_u32(3),
                committed_at: PgTimestamp::from_micros(-4),
            }),
            horizon: Some(Horizon { xmin: FullXid::from_u64(1 << 33), lsn: Lsn::from_u64(4) }),
            checked: Some(mark(5)),
            partitions: BTreeMap::from([("outbox.event.order".to_owned(), 6)]),
            topics: BTreeMap::from([
                ("a".to_owned(), KnownTopic { uuid: Some(TopicUuid::new("A")), changes: 0 }),
                ("b".to_owned(), KnownTopic { uuid: None, changes: 3 }),
            ]),
            lost_topics: vec![LostTopic {
                topic: "b".to_owned(),
                was: TopicUuid::new("B"),
                now: None,
                noticed: mark(6),
            }],
            catalog,
            tables: vec![Oid::from_u32(10)],
            added: BTreeMap::from([(10, Lsn::from_u64(9))]),
            since: Arc::new(BTreeMap::from([
                (place(10, None), EventsSince::FIRST_ROW),
                (place(11, None), since(1 << 40, Some(-7))),
                (place(12, Some(1)), EventsSince::FIRST_ROW),
                (place(13, Some(2)), since(900, None)),
            ])),
            former: BTreeMap::from([(
                11,
                Former {
                    table: samples::name("outbox"),
                    successor: Oid::from_u32(10),
                    until: Lsn::from_u64(8),
                },
            )]),
            detached: BTreeMap::from([gone(14, Some(Lsn::from_u64(9))), gone(15, None)]),
            gaps: vec![Gap::new(failure, interval)],
            accepted: vec![Acceptance {
                code: "P014".into(),
                lsn: Lsn::from_u64(1),
                by: "ann@desk".into(),
                at: "2026-01-02T00:00:00Z".into(),
                generation: 3,
                recovered: Some(Recovered { rows: 5_000, records: 4_999 }),
            }],
            held_table: TableMark { version, open: 3 },
            notes: Notes { any_left_out: true, by: Lsn::from_u64(20), writes: 3 },
            began_without: Some(mark(1)),
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for witness in [full(), Witness::at(Lsn::ZERO)] {
            assert_eq!(Witness::decode(&witness.encode()), Ok(witness));
        }
    }

    #[test]
    fn what_another_version_or_another_program_wrote_is_refused() {
        assert_eq!(Witness::decode(br#"{"v":2,"other":1}"#), Err(Unreadable::Version(2)));
        for bytes in [&b""[..], b"null", b"{}", b"\xff", br#"{"v":1}"#, br#"{"v":-1}"#] {
            assert!(matches!(Witness::decode(bytes), Err(Unreadable::Malformed(_))), "{bytes:?}");
        }
        let spoiled = String::from_utf8(full().encode()).unwrap();
        let no_lsn = spoiled.replace("FFFFFFFF/FFFFFFFF", "x");
        let no_code = spoiled.replace("P021", "P999");
        for text in [no_lsn, no_code] {
            assert!(matches!(Witness::decode(text.as_bytes()), Err(Unreadable::Malformed(_))));
        }
    }

    #[test]
    fn a_case_that_a_later_version_knows_is_left_out() {
        let text = String::from_utf8(full().encode()).unwrap();
        let later =
            text.replace("\"put_back\"", "\"a_later_case\"").replace("\"table\":", "\"it\":");
        assert_ne!(text, later);
        let failure = Witness::decode(later.as_bytes()).unwrap().gaps.remove(0).failure;
        assert_eq!((failure.code, failure.case), (Code::PublicationLacksTable, None));
        assert_eq!(failure.names.get(Name::Table), None);
    }

    #[test]
    fn partition_counts_of_more_topics_than_fit_are_left_out() {
        let partitions = (0..2_000).map(|n| (format!("topic-{n}"), 1)).collect();
        let witness = Witness { partitions, ..Witness::at(Lsn::ZERO) };
        let read = Witness::decode(&witness.encode()).unwrap();
        assert_eq!(read.partitions.len(), PARTITIONS_MAX);
    }
}
