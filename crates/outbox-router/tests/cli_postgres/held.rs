//! The tables of held events, and rows in them as a router writes them.

use std::fmt::Write as _;

use outbox_router::held::schema;
use relay::{
    held::KeyHash,
    testing::wire::{self, TEXT, Value},
};

use crate::server::Server;

const OPERATOR: &str = "\
create role operator login;
grant usage on schema outbox_router to operator;
grant select, update on outbox_router.held to operator;
grant select, insert on outbox_router.decision to operator;
";

/// The tables as `setup` makes them, with the router's role and an operator's.
pub(crate) fn tables() -> String {
    let statements = schema::statements(Some("router"));
    let made: String = statements.iter().map(|statement| format!("{};\n", statement.sql)).collect();
    format!("create role router login;\n{made}{OPERATOR}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("\\x".to_owned(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string");
        text
    })
}

/// The messages of a row: its relation, and its Insert message where it arrived whole.
fn messages(id: &str, payload: Option<&str>) -> String {
    let relation = wire::relation_message(7, "outbox", &[("id", TEXT), ("payload", TEXT)]);
    let row =
        payload.map(|payload| wire::insert_message(7, &[Value::Text(id), Value::Text(payload)]));
    let mut bytes = Vec::new();
    for message in std::iter::once(relation).chain(row) {
        bytes.extend(u32::try_from(message.len()).expect("small").to_be_bytes());
        bytes.extend(message);
    }
    hex(&bytes)
}

/// An event of the transaction at `lsn`, committed `lsn` hours after midnight.
pub(crate) fn hold(server: &Server, lsn: u64, id: &str, key: &[u8], letter: Option<(&str, &str)>) {
    hold_in(server, "outbox-router", lsn, id, key, letter);
}

fn hold_in(
    server: &Server,
    pipeline: &str,
    lsn: u64,
    id: &str,
    key: &[u8],
    letter: Option<(&str, &str)>,
) {
    let (code, error) = match letter {
        Some((code, error)) => (format!("'{code}'"), format!("'{error}'")),
        None => ("null".to_owned(), "null".to_owned()),
    };
    let payload = letter.is_none_or(|(code, _)| code != "R005").then_some("{\"total\": 12}");
    let hash = hex(&KeyHash::of_key(key).0);
    server.sql(&format!(
        "insert into outbox_router.held (pipeline, slot, commit_lsn, event_index, committed_at, key, \
         key_hash, event_id, table_name, messages, code, error) values ('{pipeline}', \
         'outbox_router', '0/{lsn}', 0, '2026-01-01T0{lsn}:00:00Z', '{}', '{hash}', '{id}', \
         'public.outbox', '{}', {code}, {error})",
        hex(key),
        messages(id, payload),
    ));
}

/// Of key `order-7` a dead letter and two events behind it, of `order-8` one that did not arrive
/// whole, and of a key that is no text a dead letter. Another pipeline has its own.
pub(crate) fn held() -> Server {
    let server = Server::start();
    hold_events(&server);
    server
}

/// The same, on a server that is there.
pub(crate) fn hold_events(server: &Server) {
    server.script(&tables());
    hold(server, 1, "a1", b"order-7", Some(("R003", "topic a*b is illegal")));
    hold(server, 2, "a2", b"order-7", None);
    hold(server, 3, "a3", b"order-7", None);
    hold(server, 4, "b1", b"order-8", Some(("R005", "too large")));
    hold(server, 5, "c1", b"\xff\x01", Some(("R006", "headers are no object")));
    hold_in(server, "other", 6, "o1", b"order-7", Some(("R003", "of another pipeline")));
}
