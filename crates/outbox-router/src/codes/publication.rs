//! The publication and the tables in it.

use relay::{Case, Code};

use super::explanation::{Explanation, case_remedy};

/// Repairing the defect brings no row back.
const WITHHELD: &str = "Rows that were written meanwhile may be missing in Kafka for good; the \
                        router stops until a person accepts that.";

pub(super) const EXPLANATIONS: &[Explanation] = &[
    Explanation {
        code: Code::PublicationMissing.as_str(),
        title: "the publication does not exist",
        meaning: "WAL is decoded with the publications of its time, so a slot can never send what \
                  was written without one: creating the publication again does not repair the \
                  slot. The router stops until a person accepts what is missing.",
        remedy: "`outbox-router recover --mend-publication {admin}` creates the publication, then \
                 a slot that can use it, sends the missing rows and closes the gap \
                 (docs/recover.md); or {teardown} (drops the slot), {setup}, then {accept} gives \
                 them up; only while the pipeline has neither slot nor witness: {setup} creates \
                 both",
        cases: &[
            case_remedy(
                Case::PublicationDropped,
                "it was there, and was dropped",
                "`outbox-router recover --mend-publication {admin}` creates the publication, then \
                 a slot that can use it, sends the missing rows and closes the gap \
                 (docs/recover.md); or {teardown} (drops the slot), {setup}, then {accept} gives \
                 them up",
            ),
            case_remedy(
                Case::RowsSkipped,
                "the server warns that it skips rows",
                "this slot sends no row of that time: `outbox-router recover --mend-publication \
                 {admin}` makes what is missing and a new slot, sends the missing rows and closes \
                 the gap (docs/recover.md); or {teardown} (drops slot and publication), {setup}, \
                 then {accept} gives them up",
            ),
            case_remedy(
                Case::SlotBeforePublication,
                "the slot is older than the publication would be",
                "`outbox-router recover --mend-publication {admin}` creates both anew and sends \
                 the rows committed since the slot's position; where nothing was ever sent: \
                 {teardown}, then {setup}",
            ),
        ],
    },
    Explanation {
        code: Code::PublicationLacksTable.as_str(),
        title: "an outbox table is not published, or was not for a while",
        meaning: WITHHELD,
        remedy: "{add_tables}",
        cases: &[
            case_remedy(
                Case::NoTables,
                "the publication has no table",
                "{setup} adds the outbox tables: those under [[outbox]], or public.outbox where \
                 none is there",
            ),
            case_remedy(
                Case::TableLeft,
                "the publication says which tables are outboxes, and it left it",
                "{add_tables}; then {recover}; or {accept} gives up the rows written meanwhile; if \
                 it is no outbox any more, `{accept}{give_up}` gives up every row of it that is \
                 written until it is published again",
            ),
            case_remedy(
                Case::AllTables,
                "setup finds a publication FOR ALL TABLES, and no [[outbox]]",
                "every table would be an outbox: name the outbox tables under [[outbox]]; or name \
                 another publication by postgres.publication, and setup creates it for the outbox \
                 tables alone",
            ),
            case_remedy(
                Case::PartitionNow,
                "the table is a partition now",
                "detach it from the table that it is a partition of (`alter table PARENT detach \
                 partition CHILD`); if it is not in the publication then: {add_tables}; where no \
                 [[outbox]] is configured and it is no outbox any more, `{accept}{give_up}` gives up \
                 every row of it",
            ),
            case_remedy(
                Case::PutBack,
                "it was taken out and put back",
                "if it was put back in the same transaction, nothing is missing; otherwise the \
                 rows written meanwhile are missing: {recover}; or {accept} gives them up",
            ),
            case_remedy(
                Case::PartitionUnlogged,
                "a partition is unlogged",
                "`alter table {quoted_table} set logged` (rewrites the table under an exclusive \
                 lock); its rows are missing: {recover}; or {accept} gives them up",
            ),
            case_remedy(
                Case::PartitionForeign,
                "a partition is a foreign table",
                "`alter table {table} detach partition {quoted_table}`; its rows are missing: \
                 {recover}; or {accept} gives them up",
            ),
            case_remedy(
                Case::AttachedAgain,
                "a partition was detached and attached again",
                "if nothing was written to it meanwhile, nothing is missing; otherwise those rows \
                 are: {recover}; or {accept} gives them up",
            ),
            case_remedy(
                Case::UnloggedMeanwhile,
                "the table was unlogged for a while",
                "if nothing was written to it meanwhile, nothing is missing; otherwise those rows \
                 are: {recover}; or {accept} gives them up; so that it cannot recur, name the table itself \
                 in the publication: PostgreSQL then refuses set unlogged",
            ),
            case_remedy(
                Case::Rewritten,
                "the table was rewritten, which stops nothing",
                "find out who altered it, or search PostgreSQL's log for set unlogged; if it was \
                 unlogged, {rewrite}",
            ),
        ],
    },
    Explanation {
        code: Code::PublicationLacksInsert.as_str(),
        title: "the publication does not publish inserts",
        meaning: WITHHELD,
        remedy: "`alter publication {publication} set (publish = 'insert')`, or add insert to \
                 what it publishes where other subscribers use it",
        cases: &[],
    },
    Explanation {
        code: Code::PublicationFiltersRows.as_str(),
        title: "the publication filters rows",
        meaning: WITHHELD,
        remedy: "{add_again}",
        cases: &[],
    },
    Explanation {
        code: Code::PublicationLacksColumn.as_str(),
        title: "the publication leaves out a column that the mapping needs",
        meaning: WITHHELD,
        remedy: "{add_again}",
        cases: &[case_remedy(
            Case::ColumnGenerated,
            "the column is generated",
            "PostgreSQL does not publish generated columns: make it an ordinary one, which the \
             application writes; from PostgreSQL 18 on, for one that is stored (a virtual one is \
             never published), `alter publication {publication} set (publish_generated_columns = \
             stored)` will do; for what is made of a JSON column, a template does it on every \
             version: columns.aggregate_id = \"${payload#/orderId}\"",
        )],
    },
    Explanation {
        code: Code::PublicationByLeaf.as_str(),
        title: "a partitioned outbox is published by its partitions",
        meaning: "Each partition's rows arrive under the partition's own name. WAL is decoded with \
                  the publication of its time, so those rows arrive in that way even when the \
                  publication is altered. The router takes them for rows of the outbox if the \
                  partition is attached to it when the router connects. Rows of a partition that \
                  is created later, or was dropped or detached before, are missing in Kafka; the \
                  router stops until a person accepts that.",
        remedy: "`alter publication {publication} set (publish_via_partition_root = true)`; the \
                 partitions to which rows were written before that must stay attached until the \
                 slot has sent those rows",
        cases: &[],
    },
    Explanation {
        code: Code::PublicationReplaced.as_str(),
        title: "the publication was dropped and created again",
        meaning: "WAL is decoded with the publications of its time: what was written before the \
                  new one was created is not sent by this slot, now or later. The router stops \
                  until a person accepts what is missing.",
        remedy: "WAL is decoded with the publications of its time, so only a new slot helps: \
                 {recover}; or {teardown} (drops slot and publication), {setup}, then {accept} \
                 gives them up",
        cases: &[],
    },
    Explanation {
        code: Code::TableReplaced.as_str(),
        title: "another table has the outbox's name",
        meaning: "The table that was followed was dropped or renamed, and another was created \
                  under its name. Rows of the new one that were written before it was published \
                  may be missing; the router stops until a person accepts that.",
        remedy: "{add_tables}; what the slot has of both tables will be produced, so only for \
                 rows that were written to the new one before it was in the publication, \
                 {rewrite}; then {accept}",
        cases: &[case_remedy(
            Case::ReplacementPublished,
            "the new one is published",
            "what the slot has of both tables will be produced, so only for rows that were \
             written to the new one before it was in the publication (where schemas were renamed, \
             those of the whole interval that are not in Kafka), {rewrite}; then {accept}",
        )],
    },
    Explanation {
        code: Code::TableMissing.as_str(),
        title: "the outbox table does not exist",
        meaning: "The configuration names a table that the database does not have. It is looked \
                  for every 30 s.",
        remedy: "if it was renamed: correct table in [[outbox]] and restart, and nothing is lost; \
                 if it was never created: `{setup} --create-table`; if it was dropped: create it \
                 again in the same way; the router reports a gap, and after `outbox-router \
                 accept` it sends what the slot still has of the old table",
        cases: &[
            case_remedy(
                Case::NoTable,
                "what has the name is no table",
                "views, foreign and unlogged relations have no WAL to follow",
            ),
            case_remedy(
                Case::TableExpected,
                "setup runs without --create-table",
                "create it by your migrations, or: `outbox-router setup --apply --create-table`",
            ),
            case_remedy(
                Case::PolledMissing,
                "the table is polled",
                "if it was renamed: correct table in [[outbox]] and restart; if it was never \
                 created, or was dropped: `{setup} --create-table --role ROLE`, or create it by your \
                 migrations and then `{setup} --role ROLE`, where ROLE is the router's: its index \
                 and its rights were dropped with it. The worker goes on by itself; rows that were \
                 pending in the old table are gone",
            ),
        ],
    },
    Explanation {
        code: Code::TableRenamed.as_str(),
        title: "the outbox table was renamed",
        meaning: "A table is followed by its OID, so its rows are produced as before. Nothing \
                  stops; only the configuration is out of date.",
        remedy: "name {table} in [[outbox]] instead and restart, or {rename_back}; neither loses \
                 anything",
        cases: &[case_remedy(
            Case::RenamedBack,
            "it was renamed back",
            "find out who altered it, or search PostgreSQL's log for alter table; if another \
             table had the name, insert its rows into the outbox",
        )],
    },
    Explanation {
        code: Code::TableInherited.as_str(),
        title: "a table inherits from an outbox",
        meaning: "A query on the outbox returns the child's rows, too, but PostgreSQL publishes \
                  them under the child's name or not at all (CREATE PUBLICATION, \"Parameters\"). \
                  The router stops, because they would not become events; before the first \
                  session it checks again every 30 s. The chunks of a hypertable (TimescaleDB) are \
                  such children.",
        remedy: "{add_tables}; for the future, partition the outbox instead of inheriting from \
                 it: partitions are published as rows of their root; a hypertable (TimescaleDB) gets \
                 such tables for ever, its chunks: poll it (postgres.source = \"polling\")",
        cases: &[
            case_remedy(
                Case::ChildUnconfigured,
                "the child is published",
                "give each of {tables} an [[outbox]] block of its own and restart; for the \
                 future, partition the outbox instead of inheriting from it; a \
                 hypertable (TimescaleDB) gets such tables for ever, its chunks: poll it \
                 (postgres.source = \"polling\")",
            ),
            case_remedy(
                Case::ChildUnknown,
                "the child is neither published nor configured",
                "{add_tables}; then give each of {tables} an [[outbox]] block of its own and \
                 restart; for the future, partition the outbox instead of inheriting from it; a \
                 hypertable (TimescaleDB) gets such tables for ever, its chunks: poll it \
                 (postgres.source = \"polling\")",
            ),
        ],
    },
    Explanation {
        code: Code::RowsMove.as_str(),
        title: "rows may move between partitions",
        meaning: "An update of the partition key moves a row by a delete and an insert, and the \
                  insert is sent as an event again.",
        remedy: "partition by columns that nobody updates, such as the time of insertion; where \
                 nobody needs to update them: revoke update on {quoted_table} from {role}",
        cases: &[],
    },
    Explanation {
        code: Code::PublicationAltered.as_str(),
        title: "the publication was altered and looks as before",
        meaning: "The catalog shows that it was altered, but not how. If inserts were withheld \
                  meanwhile, rows are missing in Kafka; the router stops until a person accepts \
                  that.",
        remedy: "find out who altered it, or search PostgreSQL's log for alter publication; if \
                 inserts were withheld, {recover}; or {accept} gives them up",
        cases: &[case_remedy(
            Case::AlterationKnown,
            "the catalog shows what was altered, which stops nothing",
            "find out who altered it, or search PostgreSQL's log for alter publication; if \
             inserts were withheld, {rewrite}",
        )],
    },
    Explanation {
        code: Code::MonitorElsewhere.as_str(),
        title: "the monitor reaches another server than the stream comes from",
        meaning: "What the monitor reads says nothing about the stream's server, so its checks \
                  are suspended; the stream continues. Without a stream there is no such finding.",
        remedy: "see which servers the host of postgres.url resolves to, and what stands in \
                 between",
        cases: &[],
    },
    Explanation {
        code: Code::ServerOutdated.as_str(),
        title: "this minor version may withhold rows after a publication is altered",
        meaning: "Before 13.21, 14.18, 15.13, 16.9 and 17.5 a transaction that was open while a \
                  publication was altered continues with the former version of it (release notes of \
                  these versions).",
        remedy: "update to {version}; until then alter a publication, or add a table to it, only \
                 while nothing writes to any table of the database",
        cases: &[],
    },
    Explanation {
        code: Code::TableUnconfigured.as_str(),
        title: "a table that was an outbox is not configured any more",
        meaning: "Its rows are not produced. A person chose that.",
        remedy: "if it should be an outbox: name it in [[outbox]] and restart; for the rows \
                 committed until then, {rewrite}; if not: nothing to do, provided that the router \
                 had sent all of its rows",
        cases: &[case_remedy(
            Case::FilteredSince,
            "an event that is held is left out by outbox.where now",
            "if it is to be delivered: change outbox.where so that it takes the row, restart, and \
             type `outbox-router dead-letters requeue --all {admin}`; if not: `outbox-router \
             dead-letters drop --all {admin}`",
        )],
    },
    Explanation {
        code: Code::HeldTable.as_str(),
        title: "the table of dead letters is missing or cannot be used",
        meaning: "With on_error = \"dead_letter\" for any class, an event that cannot be delivered \
                  goes into outbox_router.held, in the outbox's database, before its position is \
                  confirmed. Without the table no session begins; where it is lost while the router \
                  runs, nothing is confirmed past the event that waits for it. The router tries \
                  again every 30 s. Where the witness has that events were open in it, \
                  cleanup and switch polling refuse, too: their rows are not delivered.",
        remedy: "`{setup} --dead-letters`, which may be repeated and changes nothing that exists; if \
                 the table was dropped with events in it, they are lost: restore it from a backup",
        cases: &[
            case_remedy(
                Case::HeldTableForbidden,
                "the router's role may not use the table",
                "`{setup} --dead-letters --role {role}`, or in psql: `grant usage on schema \
                 outbox_router to {role}`; `grant select, insert, update on outbox_router.held, \
                 outbox_router.held_version to {role}`; `grant select on outbox_router.decision \
                 to {role}`",
            ),
            case_remedy(
                Case::HeldTableElsewhere,
                "the table was copied from another database cluster",
                "`outbox-router dead-letters adopt {admin}` makes them this cluster's own, before \
                 all new events of their keys; if a router of the other cluster delivers them, \
                 delete this pipeline's rows from outbox_router.held and \
                 outbox_router.held_version instead",
            ),
            case_remedy(
                Case::HeldTableUnsuitable,
                "the table has other columns, or values that this version does not know",
                "compare the table with what `outbox-router setup --dead-letters` prints, and run \
                 the version that wrote it, or a later one",
            ),
        ],
    },
    Explanation {
        code: Code::HeldTableBehind.as_str(),
        title: "the table of dead letters lacks what was written to it",
        meaning: "An event that waits in outbox_router.held is confirmed, so nothing else has it. \
                  The table lacks writes of this pipeline: it was restored from a backup, a standby \
                  was promoted without the last WAL, the table was made again, or somebody deleted \
                  open events. Events that were held may be missing in Kafka, and events that had \
                  left the table may be in it again. The router stops until a person accepts that.",
        remedy: "if the table can be restored as it was, restore it; otherwise {rewrite} as far as \
                 they were held (the records in dead_letters.topic, if there is one, name the dead \
                 letters of any time); then {accept}",
        cases: &[],
    },
];
