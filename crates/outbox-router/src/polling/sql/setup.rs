//! What `setup` makes for the polling source. Every statement may be run again.

use relay::TableName;
use uuid::Uuid;

use crate::{
    held::schema::Statement,
    postgres::{object_name, quote_identifier, quote_literal, quote_table},
};

/// Begins the names of indexes by which pending rows are found.
pub(crate) const PENDING_INDEX: &str = "outbox_router_pending";

/// Begins the names of indexes by which rows are found that others wait for.
pub(super) const WAITING_INDEX: &str = "outbox_router_waiting";

/// The trigger that announces new rows.
const TRIGGER: &str = "outbox_router_notify";

/// `relation` is a `regclass`, here and in the tables below: a dump has the name of the table, and
/// so a row is of the same table where the dump is restored.
const LEASE: &str = "\
create table if not exists \"outbox_router\".\"lease\" (
    \"relation\"   regclass not null,
    \"shard\"      integer not null check (\"shard\" between 0 and 63),
    \"holder\"     uuid,
    \"expires_at\" timestamptz,
    \"request\"    bigint,
    primary key (\"relation\", \"shard\")
)";

/// For a table that was made before there was this column. Workers and backups would wait for the
/// lock of ALTER TABLE, which is taken also where there is nothing to add.
const LEASE_REQUEST: &str = "do $$ begin \
if not exists (select from pg_catalog.pg_attribute \
where attrelid = 'outbox_router.lease'::regclass and attname = 'request' and not attisdropped) \
then alter table \"outbox_router\".\"lease\" add column \"request\" bigint; end if; end $$";

/// The holder of a row in `outbox_router.worker` that notes a partition of a polled table.
pub(crate) const PARTITION: Uuid = Uuid::nil();

/// The name of the worker that sends the older rows for `switch stream`.
pub(crate) fn worker_of_switch(pipeline: &str) -> String {
    format!("{pipeline} switch")
}

/// That a name in `outbox_router.worker` is that of another pipeline, whose marks are its own.
pub(crate) fn is_of_other(name: &str, pipeline: &str) -> String {
    let own = [pipeline.to_owned(), worker_of_switch(pipeline)];
    format!("{name} not in ({})", own.map(|name| quote_literal(&name)).join(", "))
}

/// `seen_until` of a worker that was never given keys: it has marked nothing.
pub(crate) const NEVER_HELD: &str = "timestamptz 'epoch'";

/// That a row of `outbox_router.worker` is a worker which was given keys.
pub(crate) fn has_held() -> String {
    format!("holder <> '{PARTITION}' and seen_until > {NEVER_HELD}")
}

/// With [`PARTITION`] as its holder, `relation` is a partition that workers have read.
const WORKER: &str = "\
create table if not exists \"outbox_router\".\"worker\" (
    \"relation\"   regclass    not null,
    \"holder\"     uuid        not null,
    \"name\"       text        not null,
    \"seen_until\" timestamptz not null,
    \"request\"    bigint      not null,
    primary key (\"relation\", \"holder\")
)";

/// See `noted`.
const MARK: &str = "\
create table if not exists \"outbox_router\".\"mark\" (
    \"relation\" regclass primary key,
    \"decided\"  jsonb    not null
)";

/// See [`super::switch`].
const SWITCH: &str = "\
create table if not exists \"outbox_router\".\"switch\" (
    \"relation\"         regclass    primary key,
    \"state\"            text        not null
                       check (\"state\" in ('closing', 'sent', 'stream', 'marked')),
    \"holder\"           uuid,
    \"by\"               text        not null,
    \"since\"            timestamptz not null default now(),
    \"made_publication\" boolean     not null default false
)";

/// The tables by which workers share their work. Without a role, nothing is granted.
pub fn lease_statements(role: Option<&str>) -> Vec<Statement> {
    let of = |purpose, sql: &str| Statement { purpose, sql: sql.to_owned() };
    let mut statements = vec![
        of("the schema of the router's tables", "create schema if not exists \"outbox_router\""),
        of("which worker has which keys of a polled table", LEASE),
        of("since which of its requests, also where the table was made before", LEASE_REQUEST),
        of("which workers there are", WORKER),
        of("which column and which words decide whether a row is published", MARK),
        of("which polled tables are handed to the stream", SWITCH),
    ];
    if let Some(role) = role.map(quote_identifier) {
        statements.push(Statement {
            purpose: "the router finds the tables",
            sql: format!("grant usage on schema \"outbox_router\" to {role}"),
        });
        statements.push(Statement {
            purpose: "the router takes and gives back keys",
            sql: format!(
                "grant select, insert, update, delete on table \"outbox_router\".\"lease\", \
                 \"outbox_router\".\"worker\" to {role}"
            ),
        });
        statements.push(Statement {
            purpose: "the router knows what decides, and notes it of a new table",
            sql: format!("grant select, insert on table \"outbox_router\".\"mark\" to {role}"),
        });
        statements.push(Statement {
            purpose: "the router reads which tables are handed to the stream",
            sql: format!("grant select on table \"outbox_router\".\"switch\" to {role}"),
        });
    }
    statements
}

/// What the router's role needs on a polled table.
pub fn grant_statements(table: &TableName, role: &str, deletes: Deletes) -> Vec<Statement> {
    let (role, quoted) = (quote_identifier(role), quote_table(table));
    let privileges = match deletes {
        Deletes::Yes => "select, update, delete",
        Deletes::No => "select, update",
    };
    vec![
        Statement {
            purpose: "the router finds the table",
            sql: format!("grant usage on schema {} to {role}", quote_identifier(&table.schema)),
        },
        Statement {
            purpose: "the router reads rows and marks them",
            sql: format!("grant {privileges} on table {quoted} to {role}"),
        },
    ]
}

/// Whether published rows are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletes {
    /// They are.
    Yes,
    /// They are marked.
    No,
}

/// What drops what [`setup`](self) has made of a table's; the table and its rows stay. The indexes
/// are dropped outside of a transaction, while the table is written to.
pub fn teardown_statements(table: &TableName, kind: Partitions) -> Vec<Statement> {
    let quoted = quote_table(table);
    let concurrently = match kind {
        Partitions::None => " concurrently",
        Partitions::Some => "",
    };
    let drop_index = |purpose, of: &str| Statement {
        purpose,
        sql: format!(
            "drop index{concurrently} if exists {}.{}",
            quote_identifier(&table.schema),
            quote_identifier(&index_name(of, table))
        ),
    };
    vec![
        Statement {
            purpose: "announces the new rows of the table",
            sql: format!("drop trigger if exists {} on {quoted}", quote_identifier(TRIGGER)),
        },
        drop_index("finds pending rows", PENDING_INDEX),
        drop_index("finds rows that others wait for", WAITING_INDEX),
    ]
}

/// What removes a table from those by which workers share their work.
pub fn forget_statements(table: &TableName) -> Vec<Statement> {
    vec![
        forget("which worker has which keys", "lease", table),
        forget("which workers there are", "worker", table),
        forget_partitions(table),
    ]
}

/// The same for one pipeline, by its name. Another one that has polled the table has marks of its
/// own: that it has stays known, and so do the keys that it may hold.
pub fn forget_own_statements(table: &TableName, name: &str) -> Vec<Statement> {
    let is_own = format!("not ({})", is_of_other("\"name\"", name));
    vec![
        only(forget("which worker has which keys", "lease", table), &no_other(table, name)),
        only(forget("which workers there are", "worker", table), &is_own),
        only(forget_partitions(table), &is_own),
    ]
}

/// What removes the note of what decides, unless another pipeline has polled the table.
pub fn forget_mark(table: &TableName, name: &str) -> Statement {
    only(forget("what decides whether a row is published", "mark", table), &no_other(table, name))
}

fn only(Statement { purpose, sql }: Statement, condition: &str) -> Statement {
    Statement { purpose, sql: format!("{sql} and {condition}") }
}

/// That no pipeline of another name has polled the table.
fn no_other(table: &TableName, name: &str) -> String {
    format!(
        "not exists (select from \"outbox_router\".\"worker\" o where o.\"relation\" = to_regclass({}) and \
         {} and o.\"seen_until\" > {NEVER_HELD})",
        quote_literal(&quote_table(table)),
        is_of_other("o.\"name\"", name)
    )
}

/// What removes the partitions of a table from those that workers have read.
pub fn forget_partitions(table: &TableName) -> Statement {
    Statement {
        purpose: "which partitions they have read",
        sql: format!(
            "delete from \"outbox_router\".\"worker\" where \"holder\" = '{PARTITION}' and \"relation\" in \
             (select relid from pg_catalog.pg_partition_tree(to_regclass({})))",
            quote_literal(&quote_table(table))
        ),
    }
}

/// What removes a table from those that are handed to the stream.
pub fn forget_switch(table: &TableName) -> Statement {
    forget("which polled tables are handed to the stream", "switch", table)
}

fn forget(purpose: &'static str, of: &str, table: &TableName) -> Statement {
    let relation = format!("to_regclass({})", quote_literal(&quote_table(table)));
    Statement {
        purpose,
        sql: format!("delete from \"outbox_router\".\"{of}\" where \"relation\" = {relation}"),
    }
}

/// Whether a table has partitions: then its indexes are dropped while writers wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partitions {
    /// It has none.
    None,
    /// It has some.
    Some,
}

/// An index has a name in its schema, where several tables may be polled.
pub(super) fn index_name(of: &str, table: &TableName) -> String {
    object_name(&format!("{of}_{}", table.name), "")
}

/// Announces new rows of a table, so that a router that waits reads them at once. A commit with an
/// announcement waits for other such commits.
pub fn notify_statements(table: &TableName) -> Vec<Statement> {
    let function = "\
create or replace function \"outbox_router\".\"notify\"() returns trigger
    language plpgsql as $$
begin
    perform pg_catalog.pg_notify('outbox_router_' || tg_relid, '');
    return null;
end $$";
    let (quoted, trigger) = (quote_table(table), quote_identifier(TRIGGER));
    let make = format!(
        "begin if not exists (select from pg_catalog.pg_trigger where tgrelid = {}::regclass \
         and tgname = '{TRIGGER}') then create trigger {trigger} after insert on {quoted} \
         for each statement execute function \"outbox_router\".\"notify\"(); end if; end",
        quote_literal(&quoted)
    );
    let of = |purpose, sql: &str| Statement { purpose, sql: sql.to_owned() };
    vec![
        of("the schema of the router's tables", "create schema if not exists \"outbox_router\""),
        of("announces new rows", function),
        Statement {
            purpose: "announces the new rows of the table",
            sql: format!("do {}", quote_literal(&make)),
        },
    ]
}

/// The channel on which a table's new rows are announced.
pub(super) fn channel(oid: u32) -> String {
    format!("outbox_router_{oid}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> TableName {
        TableName { schema: "public".into(), name: name.into() }
    }

    #[test]
    fn names_cannot_leave_their_quotes() {
        let grants = lease_statements(Some("r\"; drop table x"));
        assert!(grants.iter().any(|it| it.sql.ends_with("to \"r\"\"; drop table x\"")));
        let trigger = notify_statements(&table("it's \"x\"")).pop().unwrap().sql;
        assert!(trigger.contains("''\"public\".\"it''''s \"\"x\"\"\"''::regclass"), "{trigger}");
        assert!(lease_statements(None).iter().all(|it| !it.sql.starts_with("grant ")));
    }

    #[test]
    fn the_indexes_of_tables_whose_long_names_begin_alike_have_names_of_their_own() {
        assert_eq!(index_name(PENDING_INDEX, &table("outbox")), "outbox_router_pending_outbox");
        let [a, b] =
            ["a", "b"].map(|end| index_name(PENDING_INDEX, &table(&format!("{:063}", end))));
        assert!(a != b && a.len() == 63, "{a} {b}");
    }
}
