//! The statements that `setup` and `teardown` print and run: one text for both, with every name
//! quoted here.

use relay::{ColumnName, DEBEZIUM, DEFAULT, OutboxTable, Role, TableName};

use super::hoster::Hoster;
use crate::{
    config::{Config, SourceKind},
    held::schema,
    postgres::{quote_identifier, quote_table},
};

/// The first version in which a slot can survive a failover (option `failover`).
pub(super) const FAILOVER_SINCE: i32 = 17_00_00;

/// Statements on tables wait no longer than this for a lock, because the application's writers
/// queue behind them meanwhile.
pub(super) const TIMEOUTS: &str = "set lock_timeout = '5s'; set statement_timeout = '60s'";

/// A value as a string literal. With a backslash it takes the escape form `E'…'`, which does not
/// depend on `standard_conforming_strings`.
pub(super) fn literal(value: &str) -> String {
    let quoted = value.replace('\'', "''");
    if quoted.contains('\\') {
        return format!("E'{}'", quoted.replace('\\', "\\\\"));
    }
    format!("'{quoted}'")
}

/// The outbox tables to create objects for: those configured, else the default one.
pub(super) fn outboxes(config: &Config) -> Vec<OutboxTable> {
    if config.outbox.is_empty() {
        return vec![OutboxTable::with_defaults(crate::config::default_table())];
    }
    config.outboxes().tables
}

/// An outbox table with the preset's columns, under the names that the mapping gives them. Of a
/// preset that is neither the router's own nor Debezium's, it is the table of the preset's example.
pub(super) fn create_table(outbox: &OutboxTable, source: SourceKind) -> String {
    let preset = outbox.preset.unwrap_or(&DEFAULT);
    let table = format!("create table {} (", quote_table(&outbox.name));
    match own_columns(outbox, "uuid primary key default gen_random_uuid()", source) {
        None => preset.example.table.replacen("CREATE TABLE outbox (", &table, 1),
        Some(mut columns) => {
            if *preset == DEFAULT {
                columns.push("    \"created_at\" timestamptz not null default now()".to_owned());
            }
            format!("{table}\n{}\n)", columns.join(",\n"))
        }
    }
}

/// The index by which `recover` finds rows by their time, of the table of the router's own preset;
/// that of Debezium's has no such column, and that of another preset has what its example has.
pub(super) fn create_time_index(outbox: &OutboxTable) -> Option<String> {
    let preset = outbox.preset.unwrap_or(&DEFAULT);
    let is_own = preset.name == DEFAULT.name;
    is_own.then(|| format!("create index on {} (\"created_at\")", quote_table(&outbox.name)))
}

/// The columns of a table of the router's own preset or of Debezium's, without one of its time;
/// `None` for another preset. The type of the id may bring a key with it. A table that is polled
/// has its marks, and a number by which its rows are in order.
pub(super) fn own_columns(
    outbox: &OutboxTable,
    id: &str,
    source: SourceKind,
) -> Option<Vec<String>> {
    let preset = outbox.preset.unwrap_or(&DEFAULT);
    let text = match preset.name {
        name if name == DEFAULT.name => "text",
        name if name == DEBEZIUM.name => "varchar(255)",
        _ => return None,
    };
    let column = |role: Role, kind: &str| {
        format!("    {} {kind}", quote_identifier(column_name(outbox, role)))
    };
    let required = format!("{text} not null");
    let mut columns = vec![
        column(Role::Id, id),
        column(Role::AggregateType, &required),
        column(Role::AggregateId, &required),
        column(Role::EventType, &required),
        column(Role::Payload, "jsonb"),
    ];
    if *preset == DEFAULT {
        columns.push(column(Role::Headers, "jsonb"));
    }
    if source == SourceKind::Polling {
        // Two rows of one transaction have the same time, and ids in any order.
        columns.push("    \"seq\" bigint generated always as identity".to_owned());
        columns.push("    \"published_at\" timestamptz".to_owned());
        columns.push("    \"abandoned_at\" timestamptz".to_owned());
    }
    Some(columns)
}

/// The name that a column gets: the one that is configured, else the preset's.
pub(super) fn column_name(outbox: &OutboxTable, role: Role) -> &str {
    let preset = outbox.preset.unwrap_or(&DEFAULT);
    let given = outbox.columns.get(role).into_iter().flatten().find_map(|name| match name {
        ColumnName::Column(name) => Some(name.as_str()),
        ColumnName::Template(_) => None,
    });
    given.unwrap_or_else(|| preset.alternatives(role).first().copied().unwrap_or(role.as_str()))
}

/// A role that may replicate, and nothing else.
pub(super) fn create_role(role: &str, hoster: Hoster) -> Vec<String> {
    let name = quote_identifier(role);
    match hoster {
        Hoster::None => vec![format!("create role {name} login replication")],
        // CREATE ROLE takes the attribute from a superuser alone, which nobody is here.
        Hoster::Rds | Hoster::Cloudsql | Hoster::Azure => {
            vec![format!("create role {name} login"), let_replicate(&name, hoster)]
        }
    }
}

/// Lets an existing role log in and replicate.
pub(super) fn alter_role(role: &str, hoster: Hoster) -> Vec<String> {
    let name = quote_identifier(role);
    match hoster {
        Hoster::None => vec![format!("alter role {name} login replication")],
        Hoster::Rds | Hoster::Cloudsql | Hoster::Azure => {
            vec![format!("alter role {name} login"), let_replicate(&name, hoster)]
        }
    }
}

fn let_replicate(name: &str, hoster: Hoster) -> String {
    match hoster {
        Hoster::Rds => format!("grant rds_replication to {name}"),
        Hoster::None | Hoster::Cloudsql | Hoster::Azure => {
            format!("alter role {name} with replication")
        }
    }
}

/// Gives a role its password, as the verifier that the server stores.
pub(super) fn set_password(role: &str, verifier: &str) -> String {
    format!("alter role {} password {}", quote_identifier(role), literal(verifier))
}

/// Lets a role connect to one database.
pub(super) fn grant_connect(database: &str, role: &str) -> String {
    format!(
        "grant connect on database {} to {}",
        quote_identifier(database),
        quote_identifier(role)
    )
}

/// A publication of inserts; a partitioned table is published under its own name.
pub(super) fn create_publication(publication: &str, tables: &[TableName]) -> String {
    let tables: Vec<String> = tables.iter().map(quote_table).collect();
    format!(
        "create publication {} for table {} with (publish = 'insert', publish_via_partition_root = true)",
        quote_identifier(publication),
        tables.join(", ")
    )
}

/// The statement that adds stored generated columns, from PostgreSQL 18 on.
pub(super) fn publish_generated(publication: &str) -> String {
    let publication = quote_identifier(publication);
    format!("alter publication {publication} set (publish_generated_columns = stored)")
}

/// The slot, for a server of this version.
pub(super) fn create_slot(slot: &str, version: i32) -> String {
    let failover = if version >= FAILOVER_SINCE { ", failover => true" } else { "" };
    format!(
        "select lsn::text from pg_create_logical_replication_slot({}, 'pgoutput'{failover})",
        literal(slot)
    )
}

/// Drops the slot.
pub(super) fn drop_slot(slot: &str) -> String {
    format!("select pg_drop_replication_slot({})", literal(slot))
}

/// Drops the publication.
pub(super) fn drop_publication(publication: &str) -> String {
    format!("drop publication {}", quote_identifier(publication))
}

/// Takes from a role what `setup` has granted, and drops the role.
pub(super) fn drop_role(database: &str, role: &str) -> [String; 3] {
    let name = quote_identifier(role);
    let database = quote_identifier(database);
    [
        format!("revoke connect on database {database} from {name}"),
        schema::revoke(role),
        format!("drop role {name}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_cannot_leave_their_quotes() {
        assert_eq!(quote_identifier("a\"; drop table x"), "\"a\"\"; drop table x\"");
        assert_eq!(literal("a'; drop table x"), "'a''; drop table x'");
        assert_eq!(literal("a\\'"), "E'a\\\\'''");
    }

    #[test]
    fn a_created_table_has_the_columns_of_its_preset_under_their_mapped_names() {
        let mut outbox = OutboxTable::with_defaults(crate::config::default_table());
        outbox.columns.set(Role::AggregateId, vec!["agg_id".into(), "other".into()]);
        let ddl = create_table(&outbox, SourceKind::Stream);
        assert!(
            ddl.starts_with("create table \"public\".\"outbox\" (\n    \"id\" uuid primary key")
        );
        assert!(ddl.contains("\"agg_id\" text not null"));
        outbox.preset = Some(&DEBEZIUM);
        assert!(
            create_table(&outbox, SourceKind::Stream)
                .contains("\"aggregatetype\" varchar(255) not null")
        );
        assert!(!create_table(&outbox, SourceKind::Stream).contains("created_at"));
        let polled = create_table(&outbox, SourceKind::Polling);
        for column in ["\"seq\" bigint generated", "\"published_at\" timest", "\"abandoned_at\" "] {
            assert!(polled.contains(column), "{polled}");
        }
    }

    #[test]
    fn a_failover_slot_is_created_only_on_a_server_that_supports_it() {
        assert!(create_slot("s", 17_00_00).contains("failover => true"));
        assert!(!create_slot("s", 16_00_09).contains("failover"));
    }
}
