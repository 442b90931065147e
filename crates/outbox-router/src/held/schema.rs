//! The tables, indexes and grants, as `setup --dead-letters` prints and runs them. Every statement
//! may be run again.

use super::notes;
use crate::postgres::{quote_identifier, quote_literal};

/// A statement, and why it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// What it makes, in a few words.
    pub purpose: &'static str,
    /// The SQL, without a semicolon at its end.
    pub sql: String,
}

/// Schema, tables and indexes, without their grants.
const OBJECTS: &[(&str, &str)] = &[
    ("the schema of dead letters", "create schema if not exists \"outbox_router\""),
    ("events that wait: dead letters, and what is held behind them", HELD),
    ("counts the writes, so that a table that lacks some is recognised", HELD_VERSION),
    ("finds what is open of a key, in order", HELD_OPEN),
    ("finds what a person has decided", HELD_DECIDED),
    ("who decided what about a dead letter, and why", DECISION),
    ("whose row a skip gives up, in a table of an earlier version", DECISION_COLUMNS),
    ("counts the notes of rows that are in no topic", notes::TABLE),
];

/// `commit_lsn` and `event_index` are what an event is known by: the server sends the same for the
/// same WAL. `key_hash` is what the router compares keys by, since a key may be large or missing.
const HELD: &str = "\
create table if not exists \"outbox_router\".\"held\" (
    \"pipeline\"     text        not null,
    \"slot\"         text        not null,
    \"commit_lsn\"   pg_lsn      not null,
    \"event_index\"  bigint      not null,
    \"committed_at\" timestamptz not null,
    \"key\"          bytea,
    \"key_hash\"     bytea       not null,
    \"event_id\"     text,
    \"table_name\"   text        not null,
    \"messages\"     bytea       not null,
    \"code\"         text,
    \"error\"        text,
    \"state\"        text        not null default 'held'
                   check (\"state\" in ('held', 'requeued', 'dropping', 'delivered', 'dropped')),
    \"held_at\"      timestamptz not null default now(),
    \"decided_at\"   timestamptz,
    \"closed_at\"    timestamptz,
    primary key (\"pipeline\", \"slot\", \"commit_lsn\", \"event_index\")
)";

/// `origin` tells this table from one that is made again, and `system_id` the LSNs of this database
/// cluster from those of another, to which the table was copied.
const HELD_VERSION: &str = "\
create table if not exists \"outbox_router\".\"held_version\" (
    \"pipeline\"  text   not null,
    \"slot\"      text   not null,
    \"system_id\" text   not null,
    \"origin\"    uuid   not null default gen_random_uuid(),
    \"writes\"    bigint not null,
    \"open\"      bigint not null,
    primary key (\"pipeline\", \"slot\")
)";

const HELD_OPEN: &str = "\
create index if not exists \"held_open\" on \"outbox_router\".\"held\"
    (\"pipeline\", \"slot\", \"key_hash\", \"commit_lsn\", \"event_index\")
    where \"state\" in ('held', 'requeued', 'dropping')";

const HELD_DECIDED: &str = "\
create index if not exists \"held_decided\" on \"outbox_router\".\"held\"
    (\"pipeline\", \"slot\", \"key_hash\")
    where \"state\" in ('requeued', 'dropping')";

const DECISION: &str = "\
create table if not exists \"outbox_router\".\"decision\" (
    \"id\"           bigint generated always as identity primary key,
    \"pipeline\"     text        not null,
    \"slot\"         text        not null,
    \"commit_lsn\"   pg_lsn      not null,
    \"event_index\"  bigint,
    \"event_id\"     text,
    \"table_name\"   text,
    \"system_id\"    text,
    \"action\"       text        not null check (\"action\" in ('requeue', 'drop', 'skip')),
    \"reason\"       text,
    \"decided_by\"   text        not null default session_user,
    \"decided_at\"   timestamptz not null default now()
)";

/// Whoever owns the table may add it; where it is there, nothing needs to be owned.
const DECISION_COLUMNS: &str = "\
do 'begin if 2 > (select count(*) from pg_attribute \
    where attrelid = ''outbox_router.decision''::regclass \
    and attname in (''table_name'', ''system_id'') and not attisdropped) then \
  alter table \"outbox_router\".\"decision\" add column if not exists \"table_name\" text, \
    add column if not exists \"system_id\" text; end if; end'";

/// The statements in their order. Without a role, nothing is granted: the role that runs them owns
/// the tables and may use them.
pub fn statements(role: Option<&str>) -> Vec<Statement> {
    let objects =
        OBJECTS.iter().map(|(purpose, sql)| Statement { purpose, sql: (*sql).to_owned() });
    objects.chain(role.into_iter().flat_map(grants)).collect()
}

/// What the router's role needs. It deletes nothing, and it writes no decision: those are people's.
fn grants(role: &str) -> [Statement; 3] {
    let role = quote_identifier(role);
    [
        Statement {
            purpose: "the router finds the tables",
            sql: format!("grant usage on schema \"outbox_router\" to {role}"),
        },
        Statement {
            purpose: "the router holds events, and closes them when they have left",
            sql: format!(
                "grant select, insert, update on table \"outbox_router\".\"held\", \
                 \"outbox_router\".\"held_version\" to {role}"
            ),
        },
        Statement {
            purpose: "the router reads decisions",
            sql: format!(
                "grant select on table \"outbox_router\".\"decision\", \
                 \"outbox_router\".\"note_version\" to {role}"
            ),
        },
    ]
}

/// Takes from a role what [`statements`] has granted, so that it can be dropped. The tables may not
/// exist.
pub fn revoke(role: &str) -> String {
    let role = quote_identifier(role);
    let revoke = format!(
        "begin if to_regclass('outbox_router.held') is not null then \
         revoke all on all tables in schema \"outbox_router\" from {role}; \
         revoke all on schema \"outbox_router\" from {role}; end if; end"
    );
    format!("do {}", quote_literal(&revoke))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_cannot_leave_its_quotes() {
        let grants: Vec<String> =
            statements(Some("r\"; drop table x")).into_iter().map(|s| s.sql).collect();
        let last = grants.last().unwrap();
        assert!(last.ends_with("to \"r\"\"; drop table x\""), "{last}");
    }

    #[test]
    fn without_a_role_nothing_is_granted() {
        assert!(statements(None).iter().all(|statement| !statement.sql.starts_with("grant ")));
        assert_eq!(statements(Some("r")).len(), statements(None).len() + 3);
    }
}
