//! `where`: one story for each state in which an event can be.

use e2e::Fixture;
use serde_json::Value;
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};

mod bad_input;
mod delivered;
mod held;
mod large_topic;
mod of_key;
mod repeated;
mod undelivered;

/// What `where --json` answers.
struct Answer {
    exit: Option<i32>,
    json: Value,
    errors: String,
}

/// Runs `where --json` as a superuser.
async fn where_is(fixture: &Fixture, arguments: &[&str]) -> Answer {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let head = ["where", "--json", "--admin-url", url.as_str()];
    let output = fixture.router.command(&[&head, arguments].concat()).await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let json = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    Answer { exit: output.status.code(), json, errors }
}

impl Answer {
    fn text(&self, member: &str) -> &str {
        self.json.get(member).and_then(Value::as_str).unwrap_or_default()
    }

    /// The answer is this state, with the exit code that belongs to it, and its reason has these
    /// words.
    #[track_caller]
    fn expect(&self, state: &str, words: &str) {
        let shown = format!("{:#}\n{}", self.json, self.errors);
        assert_eq!(self.text("state"), state, "{shown}");
        assert!(self.text("reason").contains(words), "no \"{words}\" in {shown}");
        let is_there = state == "acknowledged" || state == "deleted";
        assert_eq!(self.exit, Some(i32::from(!is_there)), "{shown}");
    }
}

/// Inserts an event of this key, and returns its id.
async fn insert(session: &DatabaseSession, aggregate_type: &str, key: &str) -> String {
    let sql = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) \
               VALUES ($1, $2, 'Made', '{}') RETURNING id::text";
    session.query_one(sql, &[&aggregate_type, &key]).await.unwrap().get(0)
}

/// Runs `where` for a person, as a superuser; everything that it prints.
async fn told(fixture: &Fixture, arguments: &[&str]) -> String {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let head = ["where", "--admin-url", url.as_str()];
    let output = fixture.router.command(&[&head, arguments].concat()).await.unwrap();
    [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat()
}
