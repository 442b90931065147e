//! Reads the sizes of the outbox tables once a minute, last of all, and keeps what was read last.

use std::time::Duration;

use tokio::time::Instant;

use super::Monitor;
use crate::monitor::{
    connection::{SqlSession, drive},
    tables,
};

/// Between two readings: a table matters by the hour.
const INTERVAL: Duration = Duration::from_secs(60);

impl<C> Monitor<C> {
    /// Reads the sizes on the connection on which the slot was just read, when it is time.
    pub(super) async fn read_tables(&mut self) {
        let now = Instant::now();
        let is_due = self.tables_due.is_none_or(|due| due <= now);
        // Without a good reading it is not known which tables these are.
        let Some(catalog) = self.remembered.as_ref().filter(|_| is_due && !self.is_elsewhere())
        else {
            return;
        };
        let Some(mut session) = self.session.take() else { return };
        self.tables_due = Some(now + INTERVAL);
        let SqlSession { client, driver } = &mut session.connection;
        let read = drive(driver, async { Ok(tables::sizes(client, catalog).await) }).await;
        let Ok(sizes) = read else { return };
        self.session = Some(session);
        if let Some(sizes) = sizes {
            self.report.tables = sizes;
        }
    }
}
