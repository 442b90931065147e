//! What `cleanup` shows.

use std::io;

use relay::{Failure, TableName};
use serde_json::{Value, json};

use super::proof::Proof;
use crate::{
    cli::decision_args::Effect,
    config::{RetentionMode, print_duration},
    retention::{RetentionSettings, counts::Counts, target::Target},
};

/// What was done.
pub(super) struct Report<'a> {
    pub(super) settings: &'a RetentionSettings,
    pub(super) proof: Proof,
    pub(super) tables: Vec<Cleaned>,
    /// How many closed events and decisions were removed; `None` before that.
    pub(super) abandoned: Option<Result<u64, Failure>>,
}

/// What was done with a table.
pub(super) struct Cleaned {
    name: TableName,
    archive: Option<TableName>,
    pub(super) removed: u64,
    /// How many partitions were made ahead.
    pub(super) made: u64,
    /// What is in it; `None` where that was not counted.
    pub(super) kept: Option<Counts>,
    pub(super) failure: Option<Failure>,
}

impl Cleaned {
    /// Before anything is removed.
    pub(super) fn before(
        name: &TableName,
        target: Option<&Target>,
        counted: Result<Option<Counts>, Failure>,
    ) -> Self {
        let (kept, failure) = match counted {
            Ok(counts) => (counts, None),
            Err(failure) => (None, Some(failure)),
        };
        let archive = target.and_then(Target::archive).cloned();
        Self { name: name.clone(), archive, removed: 0, made: 0, kept, failure }
    }

    fn kept(&self, settings: &RetentionSettings) -> String {
        let Some(counts) = self.kept else { return "what is kept is not known".to_owned() };
        let Counts { young, held, undelivered, older, removable: _ } = counts;
        let keep = print_duration(settings.section.keep);
        let mut text = format!(
            "{} kept: {young} younger than {keep}, {undelivered} not delivered yet, {held} held",
            young + held + undelivered + older
        );
        if older > 0 {
            text += &format!(
                ", {older} from before the table was an outbox of this pipeline, or was altered, \
                 so nothing shows that they were sent: --older removes them"
            );
        }
        text
    }
}

impl Report<'_> {
    /// What would be removed.
    pub(super) fn plan(&self, out: &mut (dyn io::Write + Send)) -> io::Result<()> {
        let does = match self.settings.section.mode {
            RetentionMode::Archive => "to archive",
            RetentionMode::Delete | RetentionMode::Off => "to delete",
            RetentionMode::DropPartitions => "to drop with their partitions",
        };
        for table in &self.tables {
            let name = &table.name;
            match table.kept {
                Some(counts) => {
                    let kept = table.kept(self.settings);
                    writeln!(out, "{name}: {} rows {does}, {kept}", counts.removable)?;
                }
                None => writeln!(out, "{name}: left out, see below")?,
            }
        }
        Ok(())
    }

    /// What was removed.
    pub(super) fn text(&self, out: &mut (dyn io::Write + Send)) -> io::Result<()> {
        let drops = self.settings.section.mode == RetentionMode::DropPartitions;
        for table in &self.tables {
            let Cleaned { name, removed, .. } = table;
            let done = match &table.archive {
                Some(archive) => format!("moved into {archive}"),
                None if drops => "dropped with their partitions".to_owned(),
                None => "deleted".to_owned(),
            };
            if table.failure.is_some() && table.kept.is_none() && *removed == 0 {
                writeln!(out, "{name}: left out, see below")?;
                continue;
            }
            writeln!(out, "{name}: {removed} rows {done}, {}", table.kept(self.settings))?;
            if table.made > 0 {
                writeln!(out, "  {} partitions made", table.made)?;
            }
            let left = table.kept.map_or(0, |counts| counts.removable);
            if left > 0 {
                writeln!(
                    out,
                    "  {left} more rows are locked by other sessions, or could not be \
                               removed"
                )?;
            }
        }
        match &self.abandoned {
            Some(Ok(removed)) if *removed > 0 => {
                let keep = print_duration(self.settings.section.abandoned_keep);
                writeln!(
                    out,
                    "outbox_router.held, outbox_router.decision: {removed} rows older than {keep} \
                     deleted"
                )
            }
            _ => Ok(()),
        }
    }

    /// The JSON output.
    pub(super) fn json(&self, effect: Effect) -> Value {
        let tables = self.tables.iter().map(|table| {
            let kept = table.kept.map(|counts| {
                let Counts { young, held, undelivered, older, removable } = counts;
                json!({
                    "young": young,
                    "undelivered": undelivered,
                    "held": held,
                    "older": older,
                    "removable": removable,
                })
            });
            json!({
                "table": table.name.to_string(),
                "removed": table.removed,
                "partitions_made": table.made,
                "archive": table.archive.as_ref().map(ToString::to_string),
                "kept": kept,
                "error": table.failure.as_ref().map(|failure| failure.message_with_causes()),
            })
        });
        let mode = match self.settings.section.mode {
            RetentionMode::Archive => "archive",
            RetentionMode::Delete => "delete",
            RetentionMode::DropPartitions => "drop_partitions",
            RetentionMode::Off => "off",
        };
        let horizon = self.proof.horizon;
        let abandoned = self.abandoned.as_ref();
        json!({
            "mode": mode,
            "dry_run": effect == Effect::Dry,
            "horizon": { "xmin": horizon.xmin.as_u64(), "lsn": horizon.lsn.to_string() },
            "tables": tables.collect::<Vec<_>>(),
            "abandoned_removed": abandoned.and_then(|done| done.as_ref().ok()),
            "abandoned_error": abandoned.and_then(|done| done.as_ref().err()).map(|f| f.message.clone()),
        })
    }

    /// What failed.
    pub(super) fn failures(&self) -> impl Iterator<Item = &Failure> {
        let of_tables = self.tables.iter().filter_map(|table| table.failure.as_ref());
        of_tables.chain(self.abandoned.iter().filter_map(|done| done.as_ref().err()))
    }
}
