//! Rows that could not be delivered, in the log: a line for each, with its id, its code and what to
//! type, and with neither key nor payload.

use relay::{
    TableName,
    polling::{FailedRow, RowId, RowOutcome},
};

use crate::{shell_word::is_plain, wording::count};

/// So many lines of one batch; the others are counted.
const LINES_MAX: usize = 20;

/// What was written of rows is committed.
pub(super) fn announce(table: &TableName, rows: &[FailedRow]) {
    rows.iter().take(LINES_MAX).for_each(|row| announce_row(table, row));
    let more = i64::try_from(rows.len().saturating_sub(LINES_MAX)).unwrap_or(i64::MAX);
    if more > 0 {
        tracing::warn!(
            table = %table,
            hint = "outbox-router dead-letters list, and with --waiting",
            "{} more of this batch could not be delivered",
            count(more, "row")
        );
    }
}

fn announce_row(table: &TableName, row: &FailedRow) {
    let FailedRow { id, version: _, attempts, error, outcome } = row;
    let id = shown(id);
    match outcome {
        RowOutcome::Abandon => tracing::error!(
            table = %table,
            id,
            code = %error.code,
            hint = show_command(&id),
            "a row is abandoned after {}: {error:#}",
            count(*attempts, "attempt")
        ),
        RowOutcome::Retry(after) => tracing::warn!(
            table = %table,
            id,
            code = %error.code,
            hint = format!("outbox-router explain {}", error.code),
            "attempt {attempts} to deliver a row failed, and the next follows in {:.1} s: {error:#}",
            after.as_secs_f64()
        ),
    }
}

/// The primary key, as `--id` takes it.
fn shown(id: &RowId) -> String {
    let columns: Vec<&str> = id.0.iter().map(AsRef::as_ref).collect();
    columns.join(",")
}

/// What shows the row. A shell reads some ids as something else than one word, and an id comes from
/// whoever writes rows: such a row is to be found in the list.
fn show_command(id: &str) -> String {
    if is_plain(id) {
        format!("outbox-router dead-letters show --id {id}")
    } else {
        "outbox-router dead-letters list".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use relay::{Code, Failure, delivered::RowVersion};
    use serde_json::Value;

    use super::*;
    use crate::telemetry::tests::lines_of;

    fn row(columns: &[&str], attempts: u32, outcome: RowOutcome) -> FailedRow {
        let id = RowId(columns.iter().map(|column| Box::from(*column)).collect());
        let error = Failure::new(Code::HeadersMalformed, "its headers cannot be used");
        FailedRow { id, version: RowVersion::of_xmin(700), attempts, error, outcome }
    }

    fn announced(rows: &[FailedRow]) -> Vec<Value> {
        let table = TableName { schema: "public".to_owned(), name: "outbox".to_owned() };
        lines_of(|| announce(&table, rows))
    }

    #[test]
    fn a_line_has_the_row_its_code_the_attempt_and_what_to_type() {
        let soon = RowOutcome::Retry(Duration::from_millis(1_250));
        let lines = announced(&[
            row(&["7"], 2, soon),
            row(&["7", "b"], 5, RowOutcome::Abandon),
            row(&["8"], 1, RowOutcome::Abandon),
        ]);
        let said: Vec<[&str; 6]> = lines
            .iter()
            .map(|line| {
                ["level", "table", "id", "code", "message", "hint"]
                    .map(|field| line[field].as_str().unwrap())
            })
            .collect();
        let why = "R009: its headers cannot be used";
        let tried =
            format!("attempt 2 to deliver a row failed, and the next follows in 1.2 s: {why}");
        let abandoned = |attempts: &str| format!("a row is abandoned after {attempts}: {why}");
        let show = "outbox-router dead-letters show --id";
        let (table, code) = ("public.outbox", "R009");
        assert_eq!(
            said,
            [
                ["WARN", table, "7", code, &tried, "outbox-router explain R009"],
                ["ERROR", table, "7,b", code, &abandoned("5 attempts"), &format!("{show} 7,b")],
                ["ERROR", table, "8", code, &abandoned("1 attempt"), &format!("{show} 8")],
            ]
        );
    }

    /// Whoever writes rows would write into the terminal of whoever follows a hint.
    #[test]
    fn an_id_that_a_shell_would_not_read_as_one_word_is_not_to_be_typed() {
        for id in ["a b", "$(id)", "it's", "-x", ""] {
            let lines = announced(&[row(&[id], 1, RowOutcome::Abandon)]);
            assert_eq!(lines[0]["id"], id);
            assert_eq!(lines[0]["hint"], "outbox-router dead-letters list", "{id}");
        }
    }

    #[test]
    fn the_rows_beyond_the_most_lines_of_a_batch_are_counted() {
        let rows: Vec<FailedRow> =
            (0..=LINES_MAX).map(|id| row(&[&id.to_string()], 1, RowOutcome::Abandon)).collect();
        let lines = announced(&rows);
        assert_eq!(lines.len(), LINES_MAX + 1);
        let last = &lines[LINES_MAX]["message"];
        assert_eq!(last, "1 row more of this batch could not be delivered");
        assert_eq!(announced(&rows[..LINES_MAX]).len(), LINES_MAX);
    }
}
