//! `switch` that runs while a test goes on, and what it waits for.

use e2e::{Fixture, SHORT_DEADLINE};
use testbed::postgres::DatabaseSession;
use testbed::wait::eventually;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use super::line;

/// `switch`, and what it says.
pub(super) struct Command {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Command {
    pub(super) fn start(fixture: &Fixture, to: &str) -> Self {
        let line = line(fixture, to);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let mut child = fixture.router.start_command(&line).unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, said }
    }

    pub(super) async fn says(&mut self, what: &str) {
        let says = async {
            while let Some(line) = self.said.next_line().await.unwrap() {
                if line.contains(what) {
                    return;
                }
            }
            panic!("it has never said {what}");
        };
        tokio::time::timeout(SHORT_DEADLINE, says).await.unwrap();
    }

    /// Returns what it says of it.
    pub(super) async fn ends_refused(self) -> String {
        let output = self.child.wait_with_output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        said
    }

    pub(super) async fn succeeds(mut self) {
        while self.said.next_line().await.unwrap().is_some() {}
        assert!(self.child.wait().await.unwrap().success());
    }
}

/// Waits until a query has a row.
pub(super) async fn wait_for_row(session: &DatabaseSession, what: &str, from: &str) {
    eventually(SHORT_DEADLINE, what, async || {
        let row = session.query_opt(&format!("select from {from}"), &[]).await?;
        Ok(row.map(drop))
    })
    .await
    .unwrap();
}
