//! What the pipeline's witness, the record in the state topic, says: from the router, if it answers
//! and has read the witness, else from Kafka. Then also what a router would find open at its next
//! start, since no router is there that could have.

use std::{io, time::Duration};

use relay::{
    Code, Failure,
    source::Interval,
    witness::{OpenFinding, Recovered, Witness},
};
use serde_json::{Value, json};

use super::{finding::hint_json, router};
use crate::{
    cli::{
        connect::Access,
        witness::{self, Records},
    },
    codes::{Hint, to_type_of_open},
    config::Config,
    prepare,
    wording::count,
};

/// PostgreSQL's answer should not wait for Kafka's.
const KAFKA_TIMEOUT: Duration = Duration::from_secs(4);
/// How long to look for what a router would find: slot, server and tables are read for it, and the
/// witness again.
const FIND_TIMEOUT: Duration = Duration::from_secs(6);

/// What is known of the witness.
pub(super) enum Recorded {
    /// No witness is kept: `kafka.state_topic` is empty.
    Off,
    /// The state topic has no witness of this pipeline.
    Absent,
    /// The witness could not be read, and why.
    Unknown(String),
    /// The witness exists.
    Known(ShownRecord),
}

/// The witness, as far as it is shown.
#[derive(Default)]
pub(super) struct ShownRecord {
    /// Everything before this LSN is acknowledged; `nothing` where the router has not read the
    /// topic yet.
    pub(super) position: String,
    /// What is not accepted yet, the gaps first.
    pub(super) open: Vec<OpenEntry>,
    /// What was accepted, the latest last.
    pub(super) accepted: Vec<AcceptedEntry>,
    /// Whether all that is open is in the witness.
    pub(super) written: Written,
}

/// Whether all that is open is in the witness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Written {
    #[default]
    Yes,
    /// The router could not write it yet.
    NotYet,
    /// This command has found it, and no router has.
    FoundNow,
}

/// A gap, a beginning without a witness, or a lost topic, that waits for a person.
pub(super) struct OpenEntry {
    /// `CODE@LSN`.
    pub(super) name: String,
    pub(super) message: String,
    pub(super) hint: Option<Hint>,
    /// When what is at risk was committed; `None` for what is no gap.
    pub(super) at_risk: Option<AtRisk>,
}

/// The interval of a gap, by the server's clock; `None` is a moment that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct AtRisk {
    pub(in crate::cli) from: Option<String>,
    pub(in crate::cli) to: Option<String>,
}

impl AtRisk {
    fn of(interval: &Interval) -> Self {
        let from = interval.from.as_ref().and_then(|from| from.at.clone());
        Self { from, to: interval.to.at.clone() }
    }

    /// From the router's `/status.json`.
    fn read(gap: &Value) -> Option<Self> {
        let interval = gap.get("interval")?;
        let at = |end: &str| Some(interval.get(end)?.get("at")?.as_str()?.to_owned());
        Some(Self { from: at("from"), to: at("to") })
    }
}

/// A gap or beginning that was accepted.
pub(super) struct AcceptedEntry {
    name: String,
    by: String,
    at: String,
    recovered: Option<Recovered>,
}

impl AcceptedEntry {
    /// One recovery closes all gaps that it finds, and has one number of rows: it is shown once,
    /// after the last of them.
    fn text(&self, next: Option<&Self>, out: &mut (dyn io::Write + Send)) -> io::Result<()> {
        let Self { name, by, at, recovered } = self;
        let Some(Recovered { rows, records }) = recovered else {
            return writeln!(out, "accepted  {name} by {by}, {at}");
        };
        writeln!(out, "recovered {name} by {by}, {at}")?;
        let is_same = |next: &Self| (&next.by, &next.at, &next.recovered) == (by, at, recovered);
        if next.is_some_and(is_same) {
            return Ok(());
        }
        let counted = |number: u64, noun| count(i64::try_from(number).unwrap_or(i64::MAX), noun);
        let verb = if *rows == 1 { "was" } else { "were" };
        let (rows, records) = (counted(*rows, "row"), counted(*records, "record"));
        writeln!(out, "          {rows} {verb} missing, {records} sent")
    }

    fn json(&self) -> Value {
        let Self { name, by, at, recovered } = self;
        match recovered {
            None => json!({ "name": name, "by": by, "at": at }),
            Some(Recovered { rows, records }) => {
                let recovered = json!({ "rows": rows, "records": records });
                json!({ "name": name, "by": by, "at": at, "recovered": recovered })
            }
        }
    }
}

/// Whether events flow while this is open: the pipeline began without a witness, or a topic is
/// lost.
pub(super) fn stops_nothing(code: &str) -> bool {
    [Code::WitnessMissing, Code::TopicLost].map(Code::as_str).contains(&code)
}

impl OpenEntry {
    pub(super) fn code(&self) -> &str {
        self.name.split('@').next().unwrap_or_default()
    }

    /// The pipeline began without a witness.
    fn beginning(name: String, lsn: &str, at: Option<&str>) -> Self {
        let at = at.map(|at| format!(" ({at})")).unwrap_or_default();
        Self::of(name, witness::began_without(&format!("{lsn}{at}")), None)
    }

    fn of(name: String, failure: Failure, at_risk: Option<AtRisk>) -> Self {
        Self { hint: to_type_of_open(&failure, &name), name, message: failure.message, at_risk }
    }
}

/// Asks the router, else Kafka.
pub(super) async fn find(config: &Config, access: Access<'_>, router: Option<&Value>) -> Recorded {
    if let Some(from_router) = router.and_then(|router| by_router(router.get("witness")?)) {
        return from_router;
    }
    let records = match Records::of(config, access) {
        Ok(Some(records)) => records,
        Ok(None) => return Recorded::Off,
        Err(failure) => return Recorded::Unknown(format!("{failure:#}")),
    };
    match tokio::time::timeout(KAFKA_TIMEOUT, records.read()).await {
        Ok(Ok(stored)) => match stored.witness {
            Some(witness) => {
                let found = found_now(config, access, &records);
                // A role may read the witness and no source, as one without REPLICATION.
                let found = tokio::time::timeout(FIND_TIMEOUT, Box::pin(found)).await;
                Recorded::Known(found.ok().flatten().unwrap_or_else(|| ShownRecord::of(&witness)))
            }
            None => Recorded::Absent,
        },
        Ok(Err(failure)) => Recorded::Unknown(format!("{failure:#}")),
        Err(_) => {
            Recorded::Unknown(format!("Kafka did not answer within {} s", KAFKA_TIMEOUT.as_secs()))
        }
    }
}

/// The witness, with what a router would find; `None` where that cannot be read.
async fn found_now(config: &Config, access: Access<'_>, records: &Records) -> Option<ShownRecord> {
    let source = prepare::source(config, access.endpoint("status").ok()?);
    let (reading, stored) = witness::read_together(records, &source).await.ok()?;
    let recorded = stored.witness?;
    let found = witness::with_gaps_found(config, &recorded, &stored.cluster, &reading);
    let written =
        if found.gaps.len() > recorded.gaps.len() { Written::FoundNow } else { Written::Yes };
    Some(ShownRecord { written, ..ShownRecord::of(&found) })
}

/// What the router reports of the witness; `None` where the router has not read it yet.
fn by_router(witness: &Value) -> Option<Recorded> {
    let text = |value: &Value, key: &str| Some(value.get(key)?.as_str()?.to_owned());
    let each = |key: &str| witness.get(key).and_then(Value::as_array).into_iter().flatten();
    if text(witness, "kept")? == "off" && each("gaps").next().is_none() {
        return Some(Recorded::Off);
    }
    let mut open: Vec<OpenEntry> = each("gaps")
        .filter_map(|gap| {
            let (name, message) = (text(gap, "name")?, text(gap, "message")?);
            // Without a hint the remedy of the code is better than none.
            let usual = |code| to_type_of_open(&Failure::new(code, ""), &name);
            let hint =
                router::hint(gap).or_else(|| Code::parse(name.split('@').next()?).and_then(usual));
            Some(OpenEntry { name, message, hint, at_risk: AtRisk::read(gap) })
        })
        .collect();
    open.extend(witness.get("began_without").and_then(|mark| {
        let lsn = text(mark, "lsn")?;
        let name = format!("{}@{lsn}", Code::WitnessMissing);
        Some(OpenEntry::beginning(name, &lsn, mark.get("at").and_then(Value::as_str)))
    }));
    open.extend(each("lost_topics").filter_map(|lost| {
        let (name, message) = (text(lost, "name")?, text(lost, "message")?);
        Some(OpenEntry { name, message, hint: router::hint(lost), at_risk: None })
    }));
    let accepted = each("accepted")
        .filter_map(|accepted| {
            let [name, by, at] = ["name", "by", "at"].map(|key| text(accepted, key));
            let recovered = accepted.get("recovered").and_then(|recovered| {
                let count = |key| recovered.get(key).and_then(Value::as_u64);
                Some(Recovered { rows: count("rows")?, records: count("records")? })
            });
            Some(AcceptedEntry { name: name?, by: by?, at: at?, recovered })
        })
        .collect();
    let written = match witness.get("gaps_recorded").and_then(Value::as_bool) {
        Some(false) => Written::NotYet,
        Some(true) | None => Written::Yes,
    };
    let position = match text(witness, "position") {
        Some(position) => position,
        // The router has not read the topic yet, and has found no gap itself.
        None if open.is_empty() => return None,
        None => "nothing".to_owned(),
    };
    Some(Recorded::Known(ShownRecord { position, open, accepted, written }))
}

impl ShownRecord {
    fn of(witness: &Witness) -> Self {
        let open = witness.open_findings();
        let open = open.iter().map(|open| {
            let at_risk = match open {
                OpenFinding::Gap(gap) => Some(AtRisk::of(&gap.interval)),
                OpenFinding::Beginning(_) | OpenFinding::Topic(_) => None,
            };
            OpenEntry::of(open.name(), witness::failure_of(open), at_risk)
        });
        let accepted = witness.accepted.iter().map(|accepted| AcceptedEntry {
            name: accepted.name(),
            by: accepted.by.clone(),
            at: accepted.at.clone(),
            recovered: accepted.recovered,
        });
        Self {
            position: witness.position.to_string(),
            open: open.collect(),
            accepted: accepted.collect(),
            written: Written::Yes,
        }
    }
}

impl Recorded {
    /// What is open.
    pub(super) fn open(&self) -> &[OpenEntry] {
        match self {
            Self::Known(record) => &record.open,
            Self::Off | Self::Absent | Self::Unknown(_) => &[],
        }
    }

    /// The lines of the text output; `switching` is what `switch` has to do first.
    pub(super) fn text(
        &self,
        config: &Config,
        switching: &[Failure],
        out: &mut (dyn io::Write + Send),
    ) -> io::Result<()> {
        let topic = config.kafka.state_topic.as_ref().map_or("", |topic| topic.as_str());
        match self {
            Self::Off => writeln!(out, "witness   none is kept: kafka.state_topic is empty"),
            Self::Absent if !switching.is_empty() => writeln!(out, "witness   none in {topic}"),
            Self::Absent => writeln!(
                out,
                "witness   none in {topic}: outbox-router setup --apply creates it, then \
                 outbox-router accept closes K022"
            ),
            Self::Unknown(why) => {
                writeln!(out, "witness   unknown, and so is what is open: {why}")
            }
            Self::Known(record) => {
                let position = &record.position;
                writeln!(out, "witness   everything before {position} is acknowledged")?;
                for open in &record.open {
                    writeln!(out, "open      {}", open.name)?;
                }
                match record.written {
                    Written::Yes => {}
                    Written::NotYet => {
                        writeln!(out, "          not in the witness yet: a restart forgets it")?;
                    }
                    Written::FoundNow => {
                        writeln!(out, "          found now; no router has written it down")?;
                    }
                }
                for (nth, entry) in record.accepted.iter().enumerate() {
                    entry.text(record.accepted.get(nth + 1), out)?;
                }
                Ok(())
            }
        }
    }

    /// The member `record` of the JSON output: its name is a contract, and it shows the witness.
    pub(super) fn json(&self) -> Value {
        let (known, why) = match self {
            Self::Off => ("off", None),
            Self::Absent => ("absent", None),
            Self::Unknown(why) => ("unknown", Some(why)),
            Self::Known(_) => ("known", None),
        };
        let record = match self {
            Self::Known(record) => Some(record),
            Self::Off | Self::Absent | Self::Unknown(_) => None,
        };
        let open = self
            .open()
            .iter()
            .map(|open| {
                let (hint, commands) = hint_json(open.hint.as_ref());
                json!({ "name": open.name, "message": open.message, "hint": hint, "commands": commands })
            });
        let accepted =
            record.into_iter().flat_map(|record| &record.accepted).map(AcceptedEntry::json);
        json!({
            "known": known,
            "why": why,
            "position": record.map(|record| &record.position),
            "open": open.collect::<Vec<_>>(),
            "written": record.map(|record| record.written == Written::Yes),
            "accepted": accepted.collect::<Vec<_>>(),
        })
    }
}
