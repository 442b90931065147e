//! The row of a run in `outbox_router.republication`, and the lock.

use relay::Failure;

use super::{
    args::{Audit, Start},
    chosen::Chosen,
    work::{Early, Replay, Selection},
};
use crate::{
    cli::{Exit, TaskError, Terminal, connect, print_failure::print_failure},
    republish::journal::{self, Holder, PastRun},
};

impl Replay<'_> {
    pub(super) async fn refuse_second(
        &self,
        holder: &Holder,
        terminal: &mut Terminal<'_>,
    ) -> Result<Exit, TaskError> {
        let run = match journal::exists(self.books).await? {
            true => journal::unfinished(self.books, self.subject("")).await.unwrap_or_default(),
            false => Vec::new(),
        };
        let begun = run.first().map(|run| format!(", begun at {} by {}", run.begun_at, run.by));
        writeln!(terminal.err, "error: nothing was sent: {holder}{}", begun.unwrap_or_default())?;
        Ok(Exit::Failure)
    }

    /// Finds the run to go on with, and makes the table of runs.
    pub(super) async fn resumed(
        &self,
        selection: &mut Selection,
        terminal: &mut Terminal<'_>,
    ) -> Result<Result<Option<PastRun>, Early>, TaskError> {
        if self.args.audit == Audit::Omit {
            return Ok(Ok(None));
        }
        if let Err(failure) = journal::make(self.books).await {
            return self.cannot_audit(failure, terminal).map(|exit| Err(Early::Exit(exit)));
        }
        let canonical = selection.chosen.canonical.clone();
        let open = match journal::unfinished(self.books, self.subject(&canonical)).await {
            Ok(open) => open,
            Err(failure) => {
                return self.cannot_audit(failure, terminal).map(|exit| Err(Early::Exit(exit)));
            }
        };
        let same = open.iter().find(|run| run.selection == canonical);
        match (self.args.start, same) {
            (Start::Begin, None) => Ok(Ok(None)),
            (Start::Begin, Some(run)) => {
                writeln!(
                    terminal.err,
                    "note: run {} of the same rows, begun at {} by {}, ended after {} rows; \
                     --resume goes on with it, and without it all are sent again",
                    run.id, run.begun_at, run.by, run.settled
                )?;
                Ok(Ok(None))
            }
            (Start::Resume, None) => {
                writeln!(terminal.err, "error: there is no unfinished run of these rows")?;
                for run in &open {
                    let PastRun { id, begun_at, by, settled, selection, .. } = run;
                    writeln!(
                        terminal.err,
                        "  run {id}, begun at {begun_at} by {by}, {settled} rows: {selection}"
                    )?;
                }
                Ok(Err(Early::Exit(Exit::Failure)))
            }
            (Start::Resume, Some(run)) => {
                let run = run.clone();
                let Chosen { query, .. } = &mut selection.chosen;
                if let Some(condition) = run.position().and_then(|at| query.from(&at)) {
                    query.and(condition);
                    selection.plan.rows = match self.count_of(&selection.chosen).await? {
                        Ok(rows) => rows,
                        Err(early) => return Ok(Err(early)),
                    };
                }
                selection.plan.resumed = Some((run.id, run.settled));
                Ok(Ok(Some(run)))
            }
        }
    }

    pub(super) fn cannot_audit(
        &self,
        failure: Failure,
        terminal: &mut Terminal<'_>,
    ) -> Result<Exit, TaskError> {
        print_failure(terminal.err, &connect::denied(failure))?;
        writeln!(
            terminal.err,
            "  nothing was sent: the run cannot be written into outbox_router.republication, so \
             nothing\n  would say who did it, and it could not be resumed; --no-audit goes on \
             without it"
        )?;
        Ok(Exit::Failure)
    }
}
