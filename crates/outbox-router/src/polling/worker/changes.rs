//! Rows that somebody changes while they are sent, in the log: said once of each table, and counted
//! from then on.

use relay::{TableName, polling::PolledTableReport};

/// The tables of which it was said.
#[derive(Debug, Default)]
pub(super) struct ChangesLog(Vec<TableName>);

impl ChangesLog {
    /// Says it of tables that have such rows for the first time.
    pub(super) fn announce(&mut self, tables: &[PolledTableReport]) {
        for table in tables.iter().filter(|table| table.changed > 0) {
            if self.0.contains(&table.name) {
                continue;
            }
            self.0.push(table.name.clone());
            tracing::warn!(
                table = %table.name,
                hint = "outbox_polling_rows_changed_total counts such rows",
                "rows were changed while they were sent: they stay pending, and are sent again as \
                 they are now"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{polling::samples, telemetry::tests::lines_of};

    #[test]
    fn it_is_said_once_of_a_table() {
        let mut tables = samples::report().tables;
        let mut log = ChangesLog::default();
        let said = |log: &mut ChangesLog, tables: &[PolledTableReport]| {
            lines_of(|| log.announce(tables)).len()
        };
        assert_eq!(said(&mut log, &tables), 0);
        tables[0].changed = 1;
        assert_eq!(said(&mut log, &tables), 1);
        tables[0].changed = 7;
        assert_eq!(said(&mut log, &tables), 0);
    }
}
