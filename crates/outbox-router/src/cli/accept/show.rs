//! What `accept` prints.

use std::io;

use relay::{
    Case, Code, Failure, TableName, TopicName,
    source::{Gap, give_up},
    witness::{OpenFinding, Witness},
};

use super::rows::{Counted, Rows};
use crate::{
    cli::{GapName, witness},
    codes::REPLAY_ALL,
    config::Config,
};

type Out<'o> = &'o mut (dyn io::Write + Send);

/// The pipeline, with the key of its witness: name, database and slot.
pub(super) fn pipeline(config: &Config, database: &str, out: Out<'_>) -> io::Result<()> {
    let (name, slot) = (&config.name, &config.postgres.slot);
    writeln!(out, "pipeline  {name}, database {database}, slot {slot}")
}

/// One open gap, or an open beginning.
pub(super) fn open(open: &OpenFinding, out: Out<'_>) -> io::Result<()> {
    writeln!(out, "\nopen      {}", open.name())?;
    match open {
        OpenFinding::Gap(Gap { failure, interval }) => {
            writeln!(out, "what      {}", failure.message)?;
            match &interval.from {
                Some(from) => writeln!(out, "from      {from}")?,
                None => writeln!(out, "from      the beginning")?,
            }
            if failure.code.lasts_until_new_slot() {
                writeln!(out, "to        the next slot; found at {}", interval.to)
            } else {
                writeln!(out, "to        {}", interval.to)
            }
        }
        OpenFinding::Beginning(_) | OpenFinding::Topic(_) => {
            writeln!(out, "what      {}", witness::failure_of(open).message)
        }
    }
}

/// The rows in the interval of a gap.
pub(super) fn rows(counted: &[Counted], out: Out<'_>) -> io::Result<()> {
    for Counted { table, rows } in counted {
        match rows {
            Ok(Rows { column, within: Some(within), until_now }) => writeln!(
                out,
                "rows      {within} in {table} with {column} in that time, {until_now} until now"
            )?,
            Ok(Rows { column, within: None, until_now }) => {
                writeln!(out, "rows      {until_now} in {table} with {column} since then")?;
            }
            Err(why) => writeln!(out, "rows      of {table} cannot be counted: {why}")?,
        }
    }
    Ok(())
}

/// What follows from the acceptance.
pub(super) fn consequence(next: &Witness, chosen: &[OpenFinding], out: Out<'_>) -> io::Result<()> {
    let gaps = || {
        chosen.iter().filter_map(|open| match open {
            OpenFinding::Gap(gap) => Some(gap),
            OpenFinding::Beginning(_) | OpenFinding::Topic(_) => None,
        })
    };
    if gaps().next().is_none() {
        return writeln!(
            out,
            "\nThe witness stays as it is, without this: it is no longer asked about."
        );
    }
    writeln!(
        out,
        "\nThe router continues from {}, where the slot stands. What was committed before that and\n\
         is not in Kafka, it will not send.",
        next.position
    )?;
    // What the table has, another command sends; which one, depends on what was lost.
    if gaps().any(witness::is_recoverable) {
        let names: Vec<String> =
            gaps().filter(|gap| witness::is_recoverable(gap)).map(Gap::name).collect();
        writeln!(
            out,
            "Instead of accepting {}: outbox-router recover sends what is missing, and closes it.",
            names.join(" and ")
        )?;
    }
    if gaps().any(|gap| gap.failure.code == Code::ClusterChanged) {
        writeln!(
            out,
            "This Kafka has only what was copied to it. If the events were not: after this,\n\
             {REPLAY_ALL} sends the rows that the tables still have.\n\
             No [retention] removes a row from before, until outbox-router cleanup --older does."
        )?;
    }
    if gaps().any(Gap::leaves_rows_out) {
        writeln!(
            out,
            "Rows that a table or the publication left out until that was repaired are in no slot,\n\
             wherever it stands."
        )?;
    }
    writeln!(
        out,
        "A row's time is that of its transaction's beginning: begin earlier, by your longest\n\
         transaction. What is in Kafka already comes twice, under the same id."
    )
}

/// Tables that are no outboxes any more.
pub(super) fn given_up(tables: &[TableName], out: Out<'_>) -> io::Result<()> {
    for table in tables {
        writeln!(
            out,
            "{table} is no outbox any more: no row of it is sent that was written since it left the\n\
             publication, and none that is written until it is published again."
        )?;
    }
    Ok(())
}

/// Alterations that are no gap. They are not reported again, because the acceptance begins a new
/// witness.
pub(super) fn alterations(alterations: &[Failure], out: Out<'_>) -> io::Result<()> {
    for failure in alterations {
        writeln!(out, "\nalso      {}: {}", failure.code, failure.message)?;
    }
    Ok(())
}

/// What was accepted, and what is still open.
pub(super) fn done(next: &Witness, chosen: &[OpenFinding], out: Out<'_>) -> io::Result<()> {
    let by = next.accepted.last().map_or("somebody", |acceptance| &acceptance.by);
    for open in chosen {
        writeln!(out, "accepted {} by {by}", open.name())?;
    }
    let left = next.open_findings();
    for open in &left {
        writeln!(out, "still open: {}", open.name())?;
    }
    let has_gap = chosen.iter().any(|open| matches!(open, OpenFinding::Gap(_)));
    if !has_gap {
        writeln!(out, "a router that runs takes note of it within seconds")?;
    } else if next.gaps.is_empty() {
        writeln!(
            out,
            "a router that runs continues within a few seconds; else: outbox-router run"
        )?;
    }
    Ok(())
}

/// Nothing is open.
pub(super) fn nothing(acknowledged: &str, out: Out<'_>) -> io::Result<()> {
    writeln!(out, "nothing is open: {acknowledged}")
}

/// A gap that `--gap` names is not open; lists what is.
pub(super) fn unknown(named: &[GapName], open: &[OpenFinding], out: Out<'_>) -> io::Result<()> {
    let is_not_open = |name: &&GapName| {
        !open.iter().any(|open| open.code() == name.code && open.lsn() == name.lsn)
    };
    for name in named.iter().filter(is_not_open) {
        writeln!(out, "error: {name} is not open")?;
    }
    for open in open {
        writeln!(out, "  open: {}", open.name())?;
    }
    writeln!(out, "  hint: name one of these by --gap, or accept all of them without --gap")
}

/// A table that `--give-up` names has not left the publication; lists those that have.
pub(super) fn not_withdrawn(
    table: &TableName,
    withdrawn: &[(TableName, Failure)],
    out: Out<'_>,
) -> io::Result<()> {
    writeln!(
        out,
        "error: --give-up: {table} is no outbox that left the publication, and is missing there now"
    )?;
    for (left, _) in withdrawn {
        writeln!(out, "  left: {left}")?;
    }
    writeln!(out, "  hint: outbox-router accept without that flag shows what is open")
}

/// There is nobody to ask, and `--yes` was not given.
pub(super) fn nobody_to_ask(
    chosen: &[OpenFinding],
    given_up: &[TableName],
    out: Out<'_>,
) -> io::Result<()> {
    let gaps: String = chosen.iter().map(|open| format!(" --gap {}", open.name())).collect();
    writeln!(out, "error: nothing was accepted: there is nobody to ask")?;
    writeln!(out, "  hint: outbox-router accept{gaps}{} --yes", give_up(given_up))
}

/// What is open has changed while the person answered.
pub(super) fn changed() -> Failure {
    Failure::of(Case::OpenChanged, "nothing was closed: what is open has changed meanwhile")
}

/// There is no state topic to write the acceptance to.
pub(in crate::cli) fn keeps_none() -> Failure {
    Failure::of(
        Case::NoStateTopic,
        "kafka.state_topic is empty, so no witness keeps a gap: without a state topic every restart of \
         the router closes every gap",
    )
}

/// The state topic has no witness of this pipeline.
pub(super) fn no_record(topic: &TopicName) -> Failure {
    Failure::of(
        Case::NoWitness,
        format!("the state topic {topic} has no witness of this pipeline: nothing can be accepted"),
    )
}
