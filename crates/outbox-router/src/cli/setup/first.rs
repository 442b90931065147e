//! The first witness of a pipeline. It is created together with the slot, so that the router never
//! begins without one. From then on it is noticed if the slot is advanced, dropped or re-created.
//! For a slot that is older than its witness, nothing shows whether that has happened before: a
//! person has to accept this (`outbox-router accept`).

use std::io;

use relay::{
    Case, Code, Failure, Name, TableName, TopicName,
    delivered::compared::altered,
    source::{Catalog, Oid},
    witness::{Notes, OpenFinding, ProducedTo, Witness, WitnessKey},
};
use tokio_postgres::Client;

use crate::{
    cli::{
        RecordPart, TaskError,
        connect::{Access, with_connection},
        witness::{self, PipelineRecords, Records},
    },
    codes::hint_of_open,
    config::Config,
    monitor::server,
    polling::sql::named_oids,
    prepare,
    republish::left_out,
    shell::SourceReading,
};

type Out<'o> = &'o mut (dyn io::Write + Send);

/// What to type after `setup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Run,
    /// Rows may be missing that are in the tables.
    RecoverFirst,
    /// Something is open. A router that runs before it is accepted writes down where it found the
    /// publication, and from then on the slot looks older than the publication.
    AcceptFirst,
}

/// When the slot was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum SlotOrigin {
    /// This command has created it.
    Now,
    /// It existed already: only a witness shows what happened to it before.
    Before,
}

/// The slot that the witness is created for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot<'a> {
    pub(super) origin: SlotOrigin,
    /// The walsender by which this command holds it.
    pub(super) holder: Option<i32>,
    /// The tables of which every row that is older than the slot was sent.
    pub(super) sent: &'a [TableName],
    /// Of a slot that has divided rows.
    pub(super) divided: Option<Divided<'a>>,
    /// The topics that rows were sent to before.
    pub(super) produced_to: &'a ProducedTo,
}

/// A reading from before a slot divided rows, for the witness that begins there: a table that was
/// altered since may have rows in neither.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct Divided<'a> {
    /// Publication and tables, read before the slot was made.
    pub(in crate::cli) before: &'a Catalog,
    /// The failure.
    pub(in crate::cli) altered: Case,
}

impl Divided<'_> {
    /// # Errors
    /// Publication, tables or partitions are not as they were.
    pub(in crate::cli) fn check(self, now: &Catalog) -> Result<(), Failure> {
        altered(self.before, now).map_or(Ok(()), |what| Err(self.failure(&what)))
    }

    /// The failure that something was altered.
    pub(in crate::cli) fn failure(self, what: &str) -> Failure {
        Failure::of(self.altered, format!("{what} while rows were divided"))
    }
}

/// Reads the state topic, if a witness is kept, to see that Kafka answers before anything is made.
pub(super) async fn check_kafka(
    part: RecordPart,
    config: &Config,
    access: Access<'_>,
) -> Result<(), Failure> {
    let Some(records) = records(part, config, access)? else { return Ok(()) };
    records.read().await.map(drop).map_err(|mut failure| {
        failure.message = format!(
            "nothing was made, because Kafka cannot be used (--skip-kafka sets PostgreSQL up \
             alone): {}",
            failure.message
        );
        failure
    })
}

/// Checks that no slot is left whose rows no router would send: one that a pipeline had in this
/// database for one of these tables, and that no router reads. One that is gone or lost leaves rows
/// in no slot; its witness, which has the place where they begin, is looked for under its own name
/// and slot alone. A pipeline that has a witness of its own has begun before, and one of another
/// name whose slot is there has its own router.
pub(super) async fn refuse_former_slot(
    part: RecordPart,
    config: &Config,
    access: Access<'_>,
    client: &Client,
) -> Result<(), TaskError> {
    let Some(records) = records(part, config, access)? else { return Ok(()) };
    let mut known = records.of_database().await?;
    let own = known.remove(records.witness_key());
    if known.is_empty() {
        return Ok(());
    }
    let here = server::identity(&mut &*client).await.map(|here| here.system_id).ok();
    let is_elsewhere = |known: &Witness| match (&known.history, &here) {
        (Some(known), Some(here)) => known.system_id != *here,
        (None, _) | (_, None) => false,
    };
    known.retain(|key, witness| key.name == config.name || !is_elsewhere(witness));
    let outboxes = config.outboxes();
    if !outboxes.tables.is_empty() {
        let named = named_oids(outboxes.tables.iter().map(|table| &table.name));
        let rows = client.query(&named, &[]).await?;
        let tables = rows.iter().map(|row| row.try_get(0).map(Oid::from_u32));
        let tables: Vec<Oid> = tables.collect::<Result<_, _>>()?;
        known.retain(|_, known| known.tables.iter().any(|oid| tables.contains(oid)));
    }
    let known: Vec<(WitnessKey, Witness)> = known.into_iter().collect();
    let slots: Vec<&str> = known.iter().map(|(key, _)| key.slot.as_str()).collect();
    for row in client.query(UNREAD, &[&slots]).await? {
        let (number, gone): (i64, Option<&str>) = (row.try_get(0)?, row.try_get(1)?);
        let of_slot = usize::try_from(number - 1).ok().and_then(|index| known.get(index));
        let Some((key, former)) = of_slot else { continue };
        let is_own_name = key.name == config.name;
        let (case, what) = match gone {
            None if is_own_name => {
                let what = "which is there, and which no router reads: no router would send the \
                            rows that wait in it";
                (Case::SlotRenamed, what.to_owned())
            }
            None => continue,
            Some(_) if own.is_some() => continue,
            Some(gone) => {
                let what = format!(
                    "which is {gone}: its rows are delivered up to {}, and no slot has those that \
                     were committed since",
                    former.position
                );
                (Case::FormerSlotGone, what)
            }
        };
        let WitnessKey { name, slot, .. } = key;
        let what = format!("the pipeline {name} had slot {slot} in this database, {what}");
        let of_name = if is_own_name { String::new() } else { format!(" --set name={name}") };
        let flags = format!("{of_name} --set postgres.slot={slot}");
        let failure = Failure::of(case, what).naming(Name::Slot, slot);
        return Err(failure.naming(Name::TypedFlags, flags).into());
    }
    Ok(())
}

/// Those of these slots that no process reads, and which are gone or lost: the others come first.
const UNREAD: &str = "\
    select n.number, case when s.slot_name is null then 'not there any more' \
      when s.wal_status = 'lost' then 'lost' end \
    from unnest($1::text[]) with ordinality n (slot, number) left join pg_replication_slots s \
      on s.slot_name::text = n.slot and s.database = current_database() \
    where s.active is not true order by 2 nulls first, 1";

/// Makes the state topic, if a witness is kept.
pub(super) async fn make_topic(
    part: RecordPart,
    config: &Config,
    access: Access<'_>,
) -> Result<(), Failure> {
    let Some(records) = records(part, config, access)? else { return Ok(()) };
    records.make_topic().await.map_err(|mut failure| {
        failure.message = format!(
            "PostgreSQL has what it needs but the slot, which waits for the state topic; run setup \
             again when this is mended: {}",
            failure.message
        );
        failure
    })
}

/// `None` where no witness is kept.
fn records(
    part: RecordPart,
    config: &Config,
    access: Access<'_>,
) -> Result<Option<Records>, Failure> {
    match part {
        RecordPart::Skip => Ok(None),
        RecordPart::Include => Records::of(config, access),
    }
}

/// Creates the first witness, unless there is one.
pub(super) async fn record(
    part: RecordPart,
    made: Slot<'_>,
    config: &Config,
    access: Access<'_>,
    out: Out<'_>,
) -> Result<Next, TaskError> {
    let topic = match (part, &config.kafka.state_topic) {
        (RecordPart::Skip, _) => {
            writeln!(out, "witness: left out; the router begins without one, and warns (K022)")?;
            return Ok(Next::Run);
        }
        (RecordPart::Include, None) => {
            writeln!(out, "witness: none is kept, since kafka.state_topic is empty")?;
            return Ok(Next::Run);
        }
        (RecordPart::Include, Some(topic)) => topic,
    };
    let found = find(config, access).await.map_err(|failure| missing(topic, failure))?;
    let Some((records, mut reading, stored)) = found else { return Ok(Next::Run) };
    witness::ignore_holder(&mut reading, made.holder);
    match &stored.witness {
        Some(known) => {
            // A router may have begun without it.
            records.note_topics(made.produced_to).await?;
            if !known.notes.any_left_out {
                records.note_left_out(noted_left_out(config, access).await?).await?;
            }
            let known = witness::with_gaps_found(config, known, &stored.cluster, &reading);
            Ok(report_existing(&known, out)?)
        }
        None => {
            let notes = noted_left_out(config, access).await?;
            make((&records, &stored), (made, notes), config, reading, out).await
        }
    }
}

/// Whether rows of this pipeline are noted that a back-fill, or a command of an earlier slot, has
/// left out.
async fn noted_left_out(config: &Config, access: Access<'_>) -> Result<Notes, TaskError> {
    let noted = with_connection(access, "setup", async |client| {
        Ok(left_out::noted(client, &config.name).await?)
    });
    Ok(noted.await?.unwrap_or_default())
}

async fn find(
    config: &Config,
    access: Access<'_>,
) -> Result<Option<(Records, SourceReading, PipelineRecords)>, Failure> {
    let Some(records) = Records::of(config, access)? else { return Ok(None) };
    let source = prepare::source(config, access.endpoint("setup")?);
    let (reading, mut stored) = witness::read_together(&records, &source).await?;
    records.make_topic().await?;
    // The id of the cluster is known only when the topic exists.
    if stored.witness.is_none() {
        stored = records.read().await?;
    }
    Ok(Some((records, reading, stored)))
}

async fn make(
    (records, stored): (&Records, &PipelineRecords),
    (made, notes): (Slot<'_>, Notes),
    config: &Config,
    reading: SourceReading,
    out: Out<'_>,
) -> Result<Next, TaskError> {
    let topic = records.topic();
    let baseline = witness::baseline(config, reading, &[]).map_err(|failure| {
        // A router that streams advances the slot meanwhile, and writes a witness of its own.
        if failure.code == Code::SlotInUse { failure } else { missing(topic, failure) }
    })?;
    if let Some(divided) = made.divided {
        divided.check(&baseline.catalog)?;
    }
    let begun = Witness::begin(&baseline, &stored.cluster, &config.outboxes());
    let begun = begun.with_older_rows_sent(made.sent, &baseline.catalog);
    let begun = begun.with_produced(made.produced_to);
    let first = Witness {
        notes,
        began_without: (made.origin == SlotOrigin::Before).then(|| baseline.beginning()),
        ..begun
    };
    records.write("setup", &first).await.map_err(|failure| missing(topic, failure))?;
    let since = match made.origin {
        SlotOrigin::Before => "what happens from now on".to_owned(),
        SlotOrigin::Now => format!("everything after {}", first.position),
    };
    writeln!(out, "witness: created in {topic}, {since} is noticed")?;
    Ok(report_open(&first, out)?)
}

/// Reports the witness that exists, which stays as it is.
fn report_existing(known: &Witness, out: Out<'_>) -> io::Result<Next> {
    writeln!(out, "witness: exists already, everything before {} is acknowledged", known.position)?;
    report_open(known, out)
}

/// Reports what is open, and what closes it.
fn report_open(witness: &Witness, out: Out<'_>) -> io::Result<Next> {
    let findings = witness.open_findings();
    for open in &findings {
        let failure = witness::failure_of(open);
        writeln!(out, "  {} is open: {}", open.name(), failure.message)?;
        if let Some(hint) = hint_of_open(&failure, &open.name()) {
            writeln!(out, "    hint: {hint}")?;
        }
    }
    let has_gap = findings.iter().any(|open| matches!(open, OpenFinding::Gap(_)));
    if !witness::recoverable_gaps(witness).is_empty() {
        return Ok(Next::RecoverFirst);
    }
    Ok(if has_gap { Next::AcceptFirst } else { Next::Run })
}

/// PostgreSQL is set up, but the first witness could not be written.
fn missing(topic: &TopicName, failure: Failure) -> Failure {
    let what =
        format!("PostgreSQL is set up, but the witness is missing in the state topic {topic}");
    Failure::of(Case::FirstWitnessUnwritten, what).caused_by(failure)
}
