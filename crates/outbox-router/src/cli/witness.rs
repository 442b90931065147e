//! Reads and writes the pipeline's witness, the record in the state topic, and compares the source
//! with it.

use std::{collections::BTreeMap, fmt};

use relay::{
    Case, Code, Failure, Name, Outboxes, StateTopicRecord, TopicName,
    source::{
        Baseline, Expectations, Gap, Interval, Obstacle, PositionCheck, Present, ReaderOf,
        SlotHealth, gaps_since, preflight, publication,
    },
    witness::{OpenFinding, Witness, WitnessKey, combine},
};
use tokio_postgres::Client;
use uuid::Uuid;

use super::{
    TaskError,
    connect::{Access, same_database},
    seen_topics::look_at_topics,
};
use crate::{
    blocking::blocking,
    config::Config,
    kafka::{KafkaSettings, command_state_topic, put_state, state_topic_command},
    prepare,
    shell::{Source, SourceReading},
};

/// Access to the records of the pipeline in the state topic, which together make its witness.
#[derive(Clone)]
pub(super) struct Records {
    settings: KafkaSettings,
    topic: TopicName,
    witness_key: WitnessKey,
}

/// What the state topic holds for the pipeline.
pub(super) struct PipelineRecords {
    /// Kafka's cluster id; empty where nothing was read.
    pub(super) cluster: String,
    /// The witness: what all records of the pipeline say together, and which of its topics are gone
    /// now.
    pub(super) witness: Option<Witness>,
    /// Its topics of which no broker says whether they are the ones that were produced to.
    pub(super) unseen: Vec<TopicName>,
    keys: Vec<Vec<u8>>,
}

impl Records {
    /// `None` where the configuration keeps no witness (`kafka.state_topic` is empty).
    pub(super) fn of(config: &Config, access: Access<'_>) -> Result<Option<Self>, Failure> {
        let Some(topic) = config.kafka.state_topic.clone() else { return Ok(None) };
        let witness_key = prepare::witness_key(config, &access.database_of_router()?);
        Ok(Some(Self { settings: prepare::kafka_settings(config), topic, witness_key }))
    }

    /// The command by which a person creates the state topic; `None` where no witness is kept.
    pub(super) fn topic_command(config: &Config) -> Option<String> {
        let topic = config.kafka.state_topic.as_ref()?;
        state_topic_command(&prepare::kafka_settings(config), topic)
    }

    /// The state topic.
    pub(super) fn topic(&self) -> &TopicName {
        &self.topic
    }

    /// The database that the router connects to.
    pub(super) fn database(&self) -> &str {
        &self.witness_key.database
    }

    /// Reads all records of the pipeline, and looks at the topics that they name. A missing state
    /// topic holds none.
    pub(super) async fn read(&self) -> Result<PipelineRecords, Failure> {
        let it = self.clone();
        let read = blocking(move || it.read_now()).await;
        match read {
            Err(failure) if failure.code == Code::TopicMissing => Ok(PipelineRecords {
                cluster: String::new(),
                witness: None,
                unseen: Vec::new(),
                keys: Vec::new(),
            }),
            read => read,
        }
    }

    fn read_now(&self) -> Result<PipelineRecords, Failure> {
        let topic = command_state_topic(&self.settings, &self.topic)?;
        let read = topic.read(&self.witness_key.prefix())?;
        let keys = read.records.iter().map(|record| record.key.clone()).collect();
        let cluster = read.cluster_id;
        let (witness, unseen) = match combine(&read.records)? {
            Some(witness) => {
                let (witness, unseen) = look_at_topics(&topic, witness, &cluster);
                (Some(witness), unseen)
            }
            None => (None, Vec::new()),
        };
        Ok(PipelineRecords { cluster, witness, unseen, keys })
    }

    /// The witnesses of all pipelines of a database of this name. A missing state topic holds none;
    /// what another version has written for a pipeline of another name is passed over.
    pub(super) async fn of_database(&self) -> Result<BTreeMap<WitnessKey, Witness>, Failure> {
        let it = self.clone();
        let read = move || command_state_topic(&it.settings, &it.topic)?.read(&[]);
        let records = match blocking(read).await {
            Err(failure) if failure.code == Code::TopicMissing => return Ok(BTreeMap::new()),
            read => read?.records,
        };
        let mut by_key: BTreeMap<WitnessKey, Vec<StateTopicRecord>> = BTreeMap::new();
        for record in records {
            let key = WitnessKey::of_key(&record.key);
            if let Some(key) = key.filter(|key| key.database == self.witness_key.database) {
                by_key.entry(key).or_default().push(record);
            }
        }
        let combined = by_key.into_iter().filter_map(|(key, records)| match combine(&records) {
            Err(_) if key.name != self.witness_key.name => None,
            combined => combined.transpose().map(|witness| Ok((key, witness?))),
        });
        combined.collect()
    }

    /// The pipeline.
    pub(super) fn witness_key(&self) -> &WitnessKey {
        &self.witness_key
    }

    /// Creates the topic if it is missing, and checks that it keeps the witness.
    pub(super) async fn make_topic(&self) -> Result<(), Failure> {
        self.put(Vec::new()).await
    }

    /// Deletes every record that was read.
    pub(super) async fn delete(&self, stored: PipelineRecords) -> Result<(), Failure> {
        self.put(stored.keys.into_iter().map(|key| (key, None)).collect()).await
    }

    /// Writes the witness under a key of its own, and makes the topic if it is missing.
    pub(super) async fn write(&self, command: &str, witness: &Witness) -> Result<(), Failure> {
        let key = self.witness_key.of_writer(&format!("{command}.{}", Uuid::new_v4()));
        self.put(vec![(key, Some(witness.encode()))]).await
    }

    async fn put(&self, records: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> Result<(), Failure> {
        let it = self.clone();
        blocking(move || put_state(&it.settings, &it.topic, &records)).await
    }
}

/// How often source and witness are read at most, until the witness did not change in between.
const READS_MAX: u32 = 5;

/// Reads the source and the witness as they are at one moment. A router that runs writes the
/// witness again and again, and a witness newer than the reading of the server would name WAL that
/// the reading has not seen. While a router streams, no such moment can be found, and none is
/// needed: see [`with_gaps_found`].
pub(super) async fn read_together(
    records: &Records,
    source: &Source,
) -> Result<(SourceReading, PipelineRecords), Failure> {
    let mut stored = records.read().await?;
    let mut reads = 0;
    loop {
        let known = stored.witness.as_ref().map(|known| &known.catalog);
        let reading = Box::pin(source.read(known)).await?;
        check_same_database(records, &reading)?;
        let again = records.read().await?;
        let is_same = again.witness == stored.witness;
        stored = again;
        reads += 1;
        if is_same || is_held(&reading) || reads == READS_MAX {
            return Ok((reading, stored));
        }
    }
}

/// Whether a process streams from the slot.
pub(super) fn is_held(reading: &SourceReading) -> bool {
    reading.slot_reading.slot.as_ref().is_some_and(SlotHealth::is_active)
}

/// Takes the slot for free, where the command itself holds it by this walsender.
pub(super) fn ignore_holder(reading: &mut SourceReading, holder: Option<i32>) {
    if let Some(slot) = &mut reading.slot_reading.slot {
        slot.active_pid.take_if(|pid| Some(*pid) == holder);
    }
}

fn first(gaps: Vec<Gap>) -> Failure {
    let first = gaps.into_iter().next();
    first.map_or_else(|| Failure::new(Code::SlotMoved, "rows may be missing"), |gap| gap.failure)
}

/// The source as a stream could start from it now. A defect is reported as the open gap that it
/// belongs to: the source alone shows no moment before the slot's position, and rows may be missing
/// from before that.
///
/// # Errors
/// A stream could not start: what is wrong, or which process holds the slot.
pub(super) fn baseline(
    config: &Config,
    reading: SourceReading,
    open: &[OpenFinding],
) -> Result<Baseline, Failure> {
    let pid = reading.slot_reading.slot.as_ref().and_then(|slot| slot.active_pid);
    check_source(config, None, reading).map_err(|obstacle| match obstacle {
        Obstacle::Gaps(gaps) => {
            let defect = first(gaps);
            match (still_open(&defect, open), pid) {
                (Some(unrepaired), _) => unrepaired,
                // The router that holds the slot has not written to the witness yet where the gap
                // begins.
                (None, Some(pid)) if !open.is_empty() => in_use(config.postgres.slot.as_str(), pid),
                (None, _) => defect,
            }
        }
        obstacle
        @ (Obstacle::SlotInUse { .. } | Obstacle::OtherServer(_) | Obstacle::Failed(_)) => {
            refusal(config, obstacle)
        }
    })
}

/// The failure `defect` in the words of the open gap that it belongs to. Of several gaps with its
/// code, this is the one with the same remedy, else the one that begins first.
pub(super) fn still_open(defect: &Failure, open: &[OpenFinding]) -> Option<Failure> {
    let gaps = open.iter().filter_map(|open| match open {
        OpenFinding::Gap(gap) => Some(gap),
        OpenFinding::Beginning(_) | OpenFinding::Topic(_) => None,
    });
    let gaps: Vec<&Gap> = gaps.filter(|gap| gap.failure.code == defect.code).collect();
    let alike = gaps
        .iter()
        .find(|gap| (gap.failure.case, &gap.failure.names) == (defect.case, &defect.names));
    let gap = alike.or_else(|| gaps.iter().min_by_key(|gap| gap.interval.begins_at()))?;
    let message = format!("{} is not repaired yet: {}", gap.name(), gap.failure.message);
    let mut unrepaired = defect.clone();
    (unrepaired.message, unrepaired.lsn) = (message, None);
    unrepaired.case = gap.failure.case.or(defect.case);
    Some(unrepaired)
}

/// Checks that a router that continues from this witness would find everything as it was left, but
/// for what it returns: what somebody has changed, and is no gap.
///
/// # Errors
/// What such a router would find.
pub(super) fn check_as_left(
    config: &Config,
    witness: &Witness,
    cluster: &str,
    reading: SourceReading,
) -> Result<Vec<Failure>, Failure> {
    check_nothing_open(&with_gaps_found(config, witness, cluster, &reading))?;
    reading.held.check_there(witness.held_table)?;
    match check_source(config, Some(witness), reading) {
        Ok(Baseline { alterations, .. }) => Ok(alterations),
        Err(obstacle) => Err(refusal(config, obstacle)),
    }
}

/// Checks that everything that this witness reports was accepted.
///
/// # Errors
/// The first gap that was not accepted, else the beginning.
pub(super) fn check_nothing_open(witness: &Witness) -> Result<(), Failure> {
    witness.open_findings().first().map_or(Ok(()), |open| Err(failure_of(open)))
}

fn check_source(
    config: &Config,
    witness: Option<&Witness>,
    reading: SourceReading,
) -> Result<Baseline, Obstacle> {
    let outboxes = config.outboxes();
    let expected = expected(config, &outboxes, witness);
    preflight(expected, reading.server, &reading.slot_reading, reading.catalog)
}

/// What a stream that cannot start is told.
pub(super) fn refusal(config: &Config, obstacle: Obstacle) -> Failure {
    match obstacle {
        Obstacle::SlotInUse { pid } => in_use(config.postgres.slot.as_str(), pid),
        Obstacle::Gaps(gaps) => first(gaps),
        Obstacle::OtherServer(gap) => gap.failure,
        Obstacle::Failed(failure) => failure,
    }
}

/// Checks that the connection is to the router's database, whose name is a part of the witness's
/// key.
///
/// # Errors
/// The connection is to another database.
pub(super) fn check_same_database(
    records: &Records,
    reading: &SourceReading,
) -> Result<(), Failure> {
    same_database(&reading.slot_reading.database, records.database())
}

/// The finding that the pipeline began at `mark` without a witness.
pub(super) fn began_without(mark: &impl fmt::Display) -> Failure {
    let what = format!(
        "the pipeline began at {mark} without a witness: whether anything that was committed \
         before that time is missing in Kafka is not known"
    );
    Failure::new(Code::WitnessMissing, what)
}

/// What is open as the failure that it is.
pub(super) fn failure_of(open: &OpenFinding) -> Failure {
    match open {
        OpenFinding::Gap(gap) => gap.failure.clone(),
        OpenFinding::Beginning(mark) => began_without(mark),
        OpenFinding::Topic(lost) => lost.finding(),
    }
}

/// Whether `recover` closes a gap. Events that were held are no rows of the tables, Kafka's records
/// cannot be compared with those of another cluster, and a slot that has rows of two tables has to
/// send them.
pub(super) const fn is_recoverable(gap: &Gap) -> bool {
    !matches!(gap.failure.code, Code::HeldTableBehind | Code::ClusterChanged | Code::TableReplaced)
}

/// The gaps of a witness that are open, and that rows of the tables can close.
pub(super) fn recoverable_gaps(witness: &Witness) -> Vec<Gap> {
    let gap = |open| match open {
        OpenFinding::Gap(gap) => Some(gap),
        OpenFinding::Beginning(_) | OpenFinding::Topic(_) => None,
    };
    witness.open_findings().into_iter().filter_map(gap).filter(is_recoverable).collect()
}

/// A process streams from the slot.
pub(super) fn in_use(slot: &str, pid: i32) -> Failure {
    Failure::of(Case::SlotNeeded, format!("the slot {slot} is in use by pid {pid}"))
        .naming(Name::Pid, pid)
}

/// A process that is no router of this pipeline streams from the slot: a command of the pipeline
/// has the pipeline's name before its own.
pub(super) fn in_use_by_other(pipeline: &str, slot: &str, (pid, name): (i32, &str)) -> Failure {
    let case = match ReaderOf::by_name(Some(name), pipeline) {
        ReaderOf::Pipeline => Case::SlotHeldByCommand,
        ReaderOf::Another | ReaderOf::Unknown => Case::SlotNeeded,
    };
    let what = format!("the slot {slot} is in use by pid {pid}, {name}, and no router");
    Failure::of(case, what).naming(Name::Pid, pid)
}

/// The `application_name` of a process; `None` where it has left.
///
/// # Errors
/// The server refuses the statement.
pub(super) async fn application_of(
    client: &Client,
    pid: i32,
) -> Result<Option<String>, tokio_postgres::Error> {
    let query = "select coalesce(application_name, '') from pg_stat_activity where pid = $1";
    let row = client.query_opt(query, &[&pid]).await?;
    row.map(|row| row.try_get(0)).transpose()
}

/// Checks that what holds the slot is a router by its name, which finds gaps itself: of any other
/// process that nothing is open cannot be said. Publication and tables need no slot, and that
/// router reads them every few seconds only.
///
/// # Errors
/// Another process holds the slot, or publication or tables leave rows out.
pub(super) async fn check_holder(
    client: &Client,
    config: &Config,
    (witness, reading): (&Witness, &SourceReading),
) -> Result<(), TaskError> {
    let holder = reading.slot_reading.slot.as_ref().and_then(|slot| slot.active_pid);
    let Some(pid) = holder else { return Ok(()) };
    match application_of(client, pid).await? {
        // It has left since it was read.
        None => Err(in_use(config.postgres.slot.as_str(), pid).into()),
        Some(name) if name == config.name => {
            let outboxes = config.outboxes();
            let publication = config.postgres.publication.as_str();
            let watched = publication::Watched { publication, outboxes: &outboxes };
            Ok(publication::check(watched, Some(&witness.catalog), &reading.catalog)?)
        }
        Some(name) => {
            let slot = config.postgres.slot.as_str();
            Err(in_use_by_other(&config.name, slot, (pid, &name)).into())
        }
    }
}

/// The witness, with every gap that a router would find at its next start and that is not in it
/// yet. While a router streams, the witness is returned as it is: that router checks the source
/// itself, and has read more WAL than this command has seen.
pub(super) fn with_gaps_found(
    config: &Config,
    witness: &Witness,
    cluster: &str,
    reading: &SourceReading,
) -> Witness {
    if is_held(reading) {
        return witness.clone();
    }
    let outboxes = config.outboxes();
    let present = Present {
        cluster,
        server: reading.server.clone(),
        timelines: &reading.timelines,
        reading: &reading.slot_reading,
        catalog: reading.catalog.clone(),
        held: reading.held.reading(),
    };
    let gaps = gaps_since(witness, expected(config, &outboxes, Some(witness)), present);
    witness.with_found(&gaps, &reading.slot_reading.mark())
}

/// Alterations since the witness was written that are no gap, because the catalog shows what was
/// altered. A router would report them at its next start.
pub(super) fn alterations(
    config: &Config,
    witness: &Witness,
    reading: &SourceReading,
) -> Vec<Failure> {
    let between = Interval { from: witness.checked.clone(), to: reading.slot_reading.mark() };
    publication::alterations(
        &witness.catalog,
        &reading.catalog,
        config.postgres.publication.as_str(),
        &between,
    )
}

fn expected<'a>(
    config: &'a Config,
    outboxes: &'a Outboxes,
    witness: Option<&'a Witness>,
) -> Expectations<'a> {
    Expectations {
        slot: config.postgres.slot.as_str(),
        publication: config.postgres.publication.as_str(),
        outboxes,
        witness,
        position_check: PositionCheck::Compared,
    }
}
