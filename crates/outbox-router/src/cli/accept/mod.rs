//! `accept`: a person states that the rows that a gap lost are known, and the router continues.
//!
//! An acceptance writes a baseline as complete as the first one, so slot, publication and tables
//! must be right *now*: whatever changes after they were read is noticed at the next start. They
//! are read twice, before the question and after the answer, because a person may take an hour to
//! answer.

mod rows;
mod show;

pub(super) use rows::outbox_tables;
pub(super) use show::keeps_none;

use std::time::Duration;

use relay::{
    Case, Failure, Name, TableName,
    source::{
        Gap, Oid, give_up,
        publication::{Watched, statements, withdrawn},
    },
    witness::{OpenFinding, Witness},
};
use tokio::time::{Instant, sleep};

use super::{
    AcceptArgs, Audience, Confirmation, Exit, TaskError, Terminal,
    connect::{Access, with_connection},
    person, router_status,
    witness::{self, PipelineRecords, Records},
};
use crate::{
    config::Config,
    prepare,
    shell::{Source, SourceReading},
};

/// How long to wait until a streaming router has noticed the gap; it checks every five seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// What an acceptance is made from.
pub(super) struct Facts {
    stored: PipelineRecords,
    /// The witness as it is in Kafka.
    pub(super) recorded: Witness,
    /// The same, with the gaps that a router would find now and that are not in it yet.
    pub(super) witness: Witness,
    pub(super) reading: SourceReading,
}

/// Shows what is open, asks for confirmation, and writes the acceptance.
pub(super) async fn accept(
    args: &AcceptArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let Some(records) = Records::of(config, access)? else {
        return Err(show::keeps_none().into());
    };
    let source = prepare::source(config, access.endpoint("accept")?);
    let facts = read_when_idle(config, &records, &source).await?;
    let open = facts.witness.open_findings();
    if open.is_empty() {
        if witness::is_held(&facts.reading) {
            let check = with_connection(access, "accept", async |client| {
                witness::check_holder(client, config, facts.found()).await
            });
            Box::pin(check).await?;
        }
        show::nothing(&facts.acknowledged(), terminal.out)?;
        return Ok(Exit::Done);
    }
    let Some(chosen) = choose(args, &open) else {
        show::unknown(&args.gaps, &open, terminal.err)?;
        return Ok(Exit::Usage);
    };
    let withdrawn = facts.withdrawn(config);
    let is_withdrawn = |table: &&TableName| withdrawn.iter().any(|(gone, _)| gone == *table);
    if let Some(table) = args.given_up.iter().find(|table| !is_withdrawn(table)) {
        show::not_withdrawn(table, &withdrawn, terminal.err)?;
        return Ok(Exit::Usage);
    }
    show::pipeline(config, records.database(), terminal.out)?;
    let counted_in = rows::tables(config, &facts.reading.catalog, &withdrawn);
    show_open(&chosen, &counted_in, access, terminal).await?;
    let alterations = witness::alterations(config, &facts.recorded, &facts.reading);
    show::alterations(&alterations, terminal.out)?;
    let next = match decide(args, config, access, facts, &chosen) {
        Ok(next) => next,
        Err(failure) => return Err(Box::pin(of_holder(config, access, failure)).await.into()),
    };
    show::consequence(&next, &chosen, terminal.out)?;
    show::given_up(&args.given_up, terminal.out)?;
    let next = match (args.confirmation, terminal.audience) {
        (Confirmation::Yes, _) => next,
        (Confirmation::Ask, Audience::Machine) => {
            show::nobody_to_ask(&chosen, &args.given_up, terminal.err)?;
            return Ok(Exit::Usage);
        }
        (Confirmation::Ask, Audience::Person) => {
            let slot = config.postgres.slot.as_str();
            let question = format!("type {slot}, the slot's name, to accept it: ");
            if !terminal.confirms(slot, &question)? {
                writeln!(terminal.err, "nothing was accepted")?;
                return Ok(Exit::Failure);
            }
            let again = read_when_idle(config, &records, &source).await?;
            if names(&again.witness.open_findings()) != names(&open) {
                return Err(show::changed().into());
            }
            decide(args, config, access, again, &chosen)?
        }
    };
    records.write("accept", &next).await?;
    show::done(&next, &chosen, terminal.out)?;
    Ok(Exit::Done)
}

/// The failure that a process has the slot, with its name where it is no router.
async fn of_holder(config: &Config, access: Access<'_>, failure: Failure) -> Failure {
    let Some(pid) = failure.names.get(Name::Pid).and_then(|pid| pid.parse().ok()) else {
        return failure;
    };
    let name = with_connection(access, "accept", async |client| {
        Ok(witness::application_of(client, pid).await?)
    });
    match name.await {
        Ok(Some(name)) if name != config.name => {
            let slot = config.postgres.slot.as_str();
            witness::in_use_by_other(&config.name, slot, (pid, &name))
        }
        Ok(_) | Err(_) => failure,
    }
}

/// Shows open items, with the rows that each gap may have lost.
async fn show_open(
    chosen: &[OpenFinding],
    counted_in: &[(Oid, TableName)],
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<(), TaskError> {
    for open in chosen {
        show::open(open, terminal.out)?;
        if let OpenFinding::Gap(gap) = open {
            let counted = Box::pin(rows::count(counted_in, access, gap)).await;
            show::rows(&counted, terminal.out)?;
        }
    }
    Ok(())
}

/// Reads source and witness, and waits up to [`STOP_TIMEOUT`] until no router streams: a streaming
/// router notices an open gap within seconds, and stops. If it does not stop, the acceptance is
/// refused later.
///
/// # Errors
/// The router of this configuration goes on streaming, and nobody holds the slot: it streams from
/// another server, whose pipeline the gaps of this one would end.
pub(super) async fn read_when_idle(
    config: &Config,
    records: &Records,
    source: &Source,
) -> Result<Facts, TaskError> {
    let until = Instant::now() + STOP_TIMEOUT;
    loop {
        let facts = read_facts(config, records, source, None).await?;
        if facts.witness.gaps.is_empty() {
            return Ok(facts);
        }
        let is_late = Instant::now() >= until;
        match witness::is_held(&facts.reading) {
            true if is_late => return Ok(facts),
            false if !is_streaming(config).await => return Ok(facts),
            false if is_late => return Err(streams_elsewhere(config).into()),
            true | false => {}
        }
        sleep(POLL_INTERVAL).await;
    }
}

async fn is_streaming(config: &Config) -> bool {
    let router = router_status::read(config).await;
    router.is_some_and(|router| router.pointer("/state").is_some_and(|state| state == "streaming"))
}

fn streams_elsewhere(config: &Config) -> Failure {
    let (name, listen) = (&config.name, config.admin.listen);
    let slot = &config.postgres.slot;
    let what = format!(
        "the router of {name} at http://{listen} streams, and not from this server, whose slot \
         {slot} nobody reads"
    );
    Failure::of(Case::StreamsElsewhere, what)
}

/// Reads source and witness. A slot that the command itself holds by the walsender `holder` counts
/// as free.
pub(super) async fn read_facts(
    config: &Config,
    records: &Records,
    source: &Source,
    holder: Option<i32>,
) -> Result<Facts, TaskError> {
    // What is missing then is missing on purpose.
    source.refuse_switching().await?;
    let (mut reading, mut stored) = witness::read_together(records, source).await?;
    witness::ignore_holder(&mut reading, holder);
    let Some(recorded) = stored.witness.take() else {
        return Err(show::no_record(records.topic()).into());
    };
    let witness = witness::with_gaps_found(config, &recorded, &stored.cluster, &reading);
    Ok(Facts { stored, recorded, witness, reading })
}

fn names(open: &[OpenFinding]) -> Vec<String> {
    open.iter().map(OpenFinding::name).collect()
}

/// The open items to close: those that `--gap` names, or all. `None` if a named one is not open.
fn choose(args: &AcceptArgs, open: &[OpenFinding]) -> Option<Vec<OpenFinding>> {
    let is = |name: &super::GapName, open: &OpenFinding| {
        open.code() == name.code && open.lsn() == name.lsn
    };
    let is_open = |name| open.iter().any(|open| is(name, open));
    if !args.gaps.iter().all(is_open) {
        return None;
    }
    let is_chosen =
        |open: &&OpenFinding| args.gaps.is_empty() || args.gaps.iter().any(|name| is(name, open));
    Some(open.iter().filter(is_chosen).cloned().collect())
}

/// The witness with the acceptance in it.
fn decide(
    args: &AcceptArgs,
    config: &Config,
    access: Access<'_>,
    facts: Facts,
    chosen: &[OpenFinding],
) -> Result<Witness, Failure> {
    let by = args.by.clone().unwrap_or_else(|| person::current(access.environment));
    let has_gap = chosen.iter().any(|open| matches!(open, OpenFinding::Gap(_)));
    if !has_gap {
        return Ok(facts.recorded.accept_notes(chosen, &by, &facts.reading.slot_reading.at));
    }
    let withdrawn = facts.withdrawn(config);
    if let Some((_, left)) = withdrawn.iter().find(|(table, _)| !args.given_up.contains(table)) {
        return Err(unpublished(config, (left, &withdrawn), &facts.witness));
    }
    facts.closed(config, chosen, &by)
}

/// The failure of the tables that left the publication, in the words of the gap of one.
fn unpublished(
    config: &Config,
    (left, withdrawn): (&Failure, &[(TableName, Failure)]),
    witness: &Witness,
) -> Failure {
    let tables: Vec<&TableName> = withdrawn.iter().map(|(table, _)| table).collect();
    let add = statements::add(config.postgres.publication.as_str(), &tables);
    let open = witness.open_findings();
    let failure = witness::still_open(left, &open).unwrap_or_else(|| left.clone());
    failure.naming(Name::AddTables, add).naming(Name::GiveUp, give_up(tables))
}

impl Facts {
    /// The same, where a person was shown these gaps before: what is found of their interval now,
    /// such as that the slot was made anew, is part of them, and no gap under another name.
    pub(super) fn with_shown(mut self, shown: &[Gap]) -> Self {
        let now = self.reading.slot_reading.mark();
        let known = self.recorded.with_found(shown, &now);
        self.witness = known.with_found(&self.witness.gaps, &now);
        self
    }

    /// The witness, and the server now.
    pub(super) fn found(&self) -> (&Witness, &SourceReading) {
        (&self.witness, &self.reading)
    }

    /// Up to where everything is acknowledged, as far as witness and slot show it. A slot may send
    /// transactions of another history again.
    pub(super) fn acknowledged(&self) -> String {
        let position = self.witness.position;
        let slot = self.reading.slot_reading.slot.as_ref();
        let slot_at = slot.and_then(|slot| slot.confirmed_flush_lsn);
        match slot_at.filter(|at| *at < position && !witness::is_held(&self.reading)) {
            None => format!("everything before {position} is acknowledged"),
            Some(at) => format!(
                "everything before {at} is acknowledged, and a router that starts compares what \
                 the slot sends again before {position}"
            ),
        }
    }

    /// Tables that were outboxes by the publication, and are not in it now. A baseline as of now
    /// does not know them.
    fn withdrawn(&self, config: &Config) -> Vec<(TableName, Failure)> {
        let publication = config.postgres.publication.as_str();
        let watched = Watched { publication, outboxes: &config.outboxes() };
        withdrawn(watched, &self.recorded.catalog, &self.reading.catalog)
    }

    /// The process that streams from the slot.
    pub(super) fn holder(&self) -> Option<i32> {
        self.reading.slot_reading.slot.as_ref()?.active_pid
    }

    /// The witness in which these gaps are closed: the router continues from the present state.
    ///
    /// # Errors
    /// A stream could not start now, or would not be complete.
    pub(super) fn closed(
        self,
        config: &Config,
        chosen: &[OpenFinding],
        by: &str,
    ) -> Result<Witness, Failure> {
        let baseline = witness::baseline(config, self.reading, &self.witness.open_findings())?;
        let recorded = self.recorded.open_findings();
        let known: Vec<OpenFinding> =
            chosen.iter().filter(|open| recorded.contains(open)).cloned().collect();
        self.witness.may_accept(&known, &baseline)?;
        let begin = Witness::begin(&baseline, &self.stored.cluster, &config.outboxes());
        Ok(self.witness.accept(chosen, begin, by))
    }
}
