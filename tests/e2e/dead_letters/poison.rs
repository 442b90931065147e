//! Rows that cannot be delivered, one for each class of `[on_error]`, and a topic that takes
//! neither large nor old records.

use e2e::{Fixture, FixtureBuilder, create_event_function};
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};
use tokio_postgres::types::PgLsn;

use super::{KEYS, builder, make_tables};

/// The settings of the events' topic. The broker refuses a record that is older than an hour, and
/// with it everything else in its batch.
const LIMITS: [(&str, &str); 2] =
    [("max.message.bytes", "20000"), ("message.timestamp.before.max.ms", "3600000")];

/// Why a row cannot be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Poison {
    /// Its headers are no object.
    BadRow,
    /// Its topic's name is not legal.
    Unroutable,
    /// Its record is larger than its topic takes.
    TooLarge,
    /// Its record is older than its topic takes, which only the broker knows.
    Rejected,
}

impl Poison {
    pub(super) const fn code(self) -> &'static str {
        match self {
            Self::BadRow => "R009",
            Self::Unroutable => "R003",
            Self::TooLarge => "K012",
            Self::Rejected => "K013",
        }
    }

    /// Whether the record's topic is known.
    pub(super) const fn has_topic(self) -> bool {
        !matches!(self, Self::Unroutable)
    }

    /// Whether the row's own headers can be read.
    pub(super) const fn has_own_headers(self) -> bool {
        !matches!(self, Self::BadRow)
    }

    /// The statement that inserts such a row.
    pub(super) fn insert(self, key: i32) -> String {
        let (mut kind, mut headers) = ("order", r#"{"tenant": "t"}"#);
        let (mut bytes, mut at) = (100, "now()");
        match self {
            Self::BadRow => headers = "[7]",
            Self::Unroutable => kind = "no topic",
            Self::TooLarge => bytes = 40_000,
            Self::Rejected => at = "now() - interval '1 day'",
        }
        format!(
            "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers, \
             created_at) VALUES ('{kind}', 'order-{key}', 'Poison', \
             jsonb_build_object('pad', repeat('x', {bytes})), '{headers}', {at});"
        )
    }
}

/// Every class makes dead letters, and records carry the time that their row says.
pub(super) fn every_class() -> FixtureBuilder {
    ["unroutable", "too_large", "rejected"]
        .iter()
        .fold(builder(), |builder, class| builder.set(&format!("on_error.{class}"), "dead_letter"))
        .set_outbox("timestamp", "column")
        .without_topics()
}

/// A fixture whose router is not started, with the events' topic and the tables. Dead letters go to
/// a topic that does not exist yet; its name is the last.
pub(super) async fn prepared(builder: FixtureBuilder) -> (Fixture, DatabaseSession, String) {
    let mut fixture = builder.prepare().await.unwrap();
    fixture.kafka.create_topic(fixture.topics.first().unwrap(), 3, &LIMITS).await.unwrap();
    make_tables(&fixture).await;
    let letters = format!("{}dead-letters", fixture.mapping.topic_prefix);
    fixture.config.set("dead_letters.topic", letters.as_str());
    fixture.rewrite_config().unwrap();
    let session = fixture.session().await.unwrap();
    create_event_function(&session).await.unwrap();
    (fixture, session, letters)
}

/// Writes a transaction in which two events of each key come before and after each of these rows.
/// Returns a position past it, before which the slot stands until all of it is settled.
pub(super) async fn write_among_innocents(
    session: &DatabaseSession,
    rows: &[(Poison, i32)],
) -> PgLsn {
    let innocents =
        format!("SELECT testbed.event(1 + g % {KEYS}) FROM generate_series(1, 2 * {KEYS}) g;");
    let rows: Vec<String> =
        rows.iter().map(|(poison, key)| poison.insert(*key) + &innocents).collect();
    let sql = format!("BEGIN; {innocents} {} COMMIT", rows.concat());
    session.batch_execute(&sql).await.unwrap();
    session.query_one("SELECT pg_current_wal_insert_lsn()", &[]).await.unwrap().get(0)
}

/// A dead letter of the table, with its row of the outbox.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) commit_lsn: PgLsn,
    pub(super) index: i64,
    pub(super) event_id: String,
    pub(super) key: String,
    pub(super) code: String,
    pub(super) error: String,
    pub(super) committed_at: String,
    /// The row's payload.
    pub(super) payload: String,
}

/// The dead letters of the table, in commit order.
pub(super) async fn letters(session: &DatabaseSession) -> Vec<Letter> {
    let sql = "SELECT commit_lsn, event_index, event_id, convert_from(key, 'UTF8'), code, error, \
                 to_char(committed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), \
                 o.payload::text \
               FROM outbox_router.held JOIN outbox o ON o.id::text = event_id \
               WHERE code IS NOT NULL ORDER BY commit_lsn, event_index";
    let rows = session.query(sql, &[]).await.unwrap();
    let letter = |row: &tokio_postgres::Row| Letter {
        commit_lsn: row.get(0),
        index: row.get(1),
        event_id: row.get(2),
        key: row.get(3),
        code: row.get(4),
        error: row.get(5),
        committed_at: row.get(6),
        payload: row.get(7),
    };
    rows.iter().map(letter).collect()
}

/// The one dead letter of the table.
pub(super) async fn only_letter(session: &DatabaseSession) -> Letter {
    let mut letters = letters(session).await;
    assert_eq!(letters.len(), 1, "{letters:?}");
    letters.remove(0)
}

/// Each producer that a refusal ends sends again what was not settled, and nothing before it.
pub(super) async fn expect_few_duplicates(fixture: &Fixture, duplicates: usize, unsettled: usize) {
    let producers = "/totals/reconnects_kafka";
    let status = fixture.status().await.unwrap();
    let ended = status.pointer(producers).and_then(serde_json::Value::as_u64).unwrap();
    let most = usize::try_from(ended).unwrap() * unsettled;
    assert!(ended > 0 && duplicates <= most, "{duplicates} duplicates by {ended} producers");
}

/// Runs `outbox-router dead-letters`, and returns what it prints.
pub(super) async fn dead_letters(fixture: &Fixture, arguments: &[&str]) -> String {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let line = [&["dead-letters"], arguments, &["--admin-url", url.as_str()]].concat();
    let output = fixture.router.command(&line).await.unwrap();
    let [out, err] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{line:?}: {out}{err}");
    out
}
