//! Why Debezium wrote no record of a row: what Kafka Connect logs of an error, or its task ends
//! with.

use crate::case::Case;
use crate::golden::Golden;

/// What begins the worker's message about an error, before the name of the task.
const HEADER: &str = "Error encountered in task ";
/// What ends it: the record of the source may contain line feeds.
const END_OF_HEADER: &str = ")}.";
const CAUSED_BY: &str = "Caused by: ";

/// An error that the worker has logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The task's, and the source's record.
    header: String,
    /// The exception's class and the first line of its message.
    why: String,
}

impl Refusal {
    pub(crate) fn is_of(&self, case: &Case) -> bool {
        self.header.starts_with(&format!("{}-0. ", case.name))
    }
}

/// The errors that a worker has logged.
pub(crate) fn logged(log: &str) -> Vec<Refusal> {
    let mut lines = log.lines();
    let mut refusals = Vec::new();
    while let Some(line) = lines.next() {
        let Some((_, header)) = line.split_once(HEADER) else { continue };
        let mut header = header.to_owned();
        while !header.ends_with(END_OF_HEADER) {
            let Some(more) = lines.next() else { return refusals };
            header.push('\n');
            header.push_str(more);
        }
        let why = lines.next().unwrap_or_default().to_owned();
        refusals.push(Refusal { header, why });
    }
    refusals
}

/// The first line of the exception that caused a task to end.
fn root(task_failed: &str) -> String {
    let root = task_failed.rsplit(CAUSED_BY).next().unwrap_or_default();
    root.split(" | ").next().unwrap_or_default().to_owned()
}

impl Golden {
    /// Notes of each row without a record why Debezium wrote none.
    pub(crate) fn explain(&mut self, case: &Case, ids: &[String], refusals: &[Refusal]) {
        let is_only = self.rows.len() == 1;
        for (row, id) in self.rows.iter_mut().zip(ids) {
            if !row.debezium.is_empty() {
                continue;
            }
            let is_of_row = |refusal: &&Refusal| {
                refusal.is_of(case) && (is_only || refusal.header.contains(id.as_str()))
            };
            let logged = refusals.iter().find(is_of_row).map(|refusal| refusal.why.clone());
            row.refused = logged.or_else(|| self.task_failed.as_deref().map(root));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logged_error_has_its_task_its_record_and_its_exception() {
        let log = "[t] WARN other\n\
                   [t] ERROR L - Error encountered in task one-0. Executing, where source record \
                   is = S{} C{value={id=7,payload=\n[x] y}, headers=C(headers=)}.\n\
                   a.B: no such\nfield\n\tat x\n\
                   [t] ERROR L - Error encountered in task one-two-0. Executing C(headers=)}.\n\
                   c.D: late";
        let found = logged(log);
        let why: Vec<&str> = found.iter().map(|refusal| refusal.why.as_str()).collect();
        assert_eq!(why, ["a.B: no such", "c.D: late"]);
        assert!(found[0].header.contains("id=7,payload=\n"), "{found:?}");
        assert!(found[1].header.starts_with("one-two-0. "), "{found:?}");
    }

    #[test]
    fn a_task_ends_for_the_first_line_of_its_last_cause() {
        assert_eq!(root("a.B: x | Caused by: c.D: y | z"), "c.D: y");
        assert_eq!(root("a.B: x"), "a.B: x");
    }
}
