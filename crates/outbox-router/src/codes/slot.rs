//! The slot and the history that it belongs to.

use relay::{Case, Code};

use super::explanation::{Explanation, case_remedy};

pub(super) const EXPLANATIONS: &[Explanation] = &[
    Explanation {
        code: Code::SlotMissing.as_str(),
        title: "the slot does not exist",
        meaning: "While the pipeline has no witness, as before setup, it has not been created yet, \
                  and is looked for every 30 s. Once there is a witness (setup writes the first \
                  one, or the first session), it was dropped, also if no event was sent yet: rows \
                  that it had not sent may be missing in Kafka for good, and the router stops \
                  until they are recovered, or a person accepts that.",
        remedy: "{recover}; or {setup}, then {accept} gives them up; only while the pipeline has no \
                 witness: {setup} creates it",
        cases: &[
            case_remedy(
                Case::SlotNotMade,
                "the pipeline has no witness, so it was not created yet",
                "{setup} creates it",
            ),
            case_remedy(
                Case::SlotDropped,
                "it was there, and was dropped",
                "{recover}; or {setup}, then {accept} gives them up",
            ),
        ],
    },
    Explanation {
        code: Code::SlotLost.as_str(),
        title: "the slot is lost",
        meaning: "PostgreSQL removed WAL that the slot needed (max_slot_wal_keep_size, \
                  idle_replication_slot_timeout) or invalidated it. Rows that it had not sent may \
                  be missing in Kafka for good; the router stops until a person accepts that. \
                  Before the first session it is only looked at again every 30 s.",
        remedy: "{recover}; or `select pg_drop_replication_slot('{slot}')`, {setup}, then {accept} \
                 gives them up; so that it does not recur, keep the router running, or \
                 allow more WAL (max_slot_wal_keep_size, within the free disk; \
                 idle_replication_slot_timeout)",
        cases: &[],
    },
    Explanation {
        code: Code::SlotInUse.as_str(),
        title: "another process streams from the slot",
        meaning: "No failure: this router stands by, and takes over within two seconds when the \
                  other one ends. A command that needs the slot for itself refuses.",
        remedy: "",
        cases: &[
            case_remedy(
                Case::SlotNeeded,
                "a command needs the slot for itself",
                "stop that router first, by SIGTERM; only where its process is gone, end the \
                 connection that is left: `select pg_terminate_backend({pid})` (a router that runs \
                 connects again)",
            ),
            case_remedy(
                Case::SlotHeldByCommand,
                "another command of the pipeline has the slot that a command needs",
                "wait until that command has ended; where it was killed, type it again: it ends what \
                 is left of itself, and goes on",
            ),
        ],
    },
    Explanation {
        code: Code::SlotReadElsewhere.as_str(),
        title: "a program that is no router of this pipeline reads the slot",
        meaning: "The client of the walsender that holds the slot has an application_name that is \
                  not the name of this configuration: a router with another name, or another \
                  program. What it confirms is never sent by this pipeline, so this router, which \
                  stands by, would find rows missing (P014).",
        remedy: "what it confirms is never sent to Kafka: stop that program, then `select \
                 pg_terminate_backend({pid})`; or give a router that should share this slot the \
                 same name. A router that finds the slot past the witness then says P014, and \
                 `outbox-router recover {admin}` sends the rows that the table still has",
        cases: &[],
    },
    Explanation {
        code: Code::SlotUnsuitable.as_str(),
        title: "the slot was created for something else",
        meaning: "It is physical, temporary, two-phase, of another plug-in or of another database.",
        remedy: "if postgres.url names the wrong database, correct it; else name another slot in \
                 postgres.slot and restart, or, only if nothing else uses this one: `select \
                 pg_drop_replication_slot('{slot}')`; then {setup}",
        cases: &[
            case_remedy(
                Case::OtherDatabase,
                "a command is connected to another database than the router",
                "name the database {router_database} in --admin-url, or the database {database} \
                 in postgres.url",
            ),
            case_remedy(
                Case::CommandElsewhere,
                "a command is connected to another server than the router",
                "name the router's server in --admin-url, or this one in postgres.url; nothing was \
                 done",
            ),
            case_remedy(
                Case::SlotUnsuitable,
                "setup finds one of that name",
                "name another one by postgres.slot, or, if nothing else uses it: `select \
                 pg_drop_replication_slot('{slot}')`",
            ),
            case_remedy(
                Case::SlotTwoPhase,
                "it has two_phase: it was created so, or somebody has altered it, or has read it \
                 with that option",
                "it keeps what it has not sent. On PostgreSQL 18: psql 'dbname={database} \
                 replication=database' -c 'ALTER_REPLICATION_SLOT {slot} (TWO_PHASE false)', and the \
                 router goes on. Before 18 it stays so: `select pg_drop_replication_slot('{slot}')`, \
                 then {recover}, or, where no router has run yet, {setup}",
            ),
            case_remedy(
                Case::BackfillTooLate,
                "setup --backfill finds a slot that does not divide the rows",
                "send the rows that were never sent by {replay_rows}; or, if no event of this \
                 pipeline is to be sent before: {teardown}, then `outbox-router setup --apply \
                 --backfill {admin}`",
            ),
            case_remedy(
                Case::BackfillOfOtherRows,
                "setup --backfill finds one of other rows",
                "go on with the same tables and --where; or give it up, and what it has sent comes \
                 again: `update outbox_router.republication set finished_at = now(), outcome = \
                 'given up' where id = {run}`",
            ),
            case_remedy(
                Case::BackfillAltered,
                "publication, tables or partitions were altered while setup --backfill divided rows",
                "rows that were committed meanwhile may be in neither the tables' part nor the slot: \
                 once publication and tables are as they shall be, type the same command again: it \
                 goes on with another slot, and sends them",
            ),
            case_remedy(
                Case::BackfillSlot,
                "the slot of an interrupted back-fill has rows to send, or may have, and would be \
                 dropped",
                "if rows stay in the tables until they are delivered: `outbox-router setup --apply \
                 --backfill{typed_flags} --drop-slot {admin}` goes on; if they are deleted before, \
                 also by the transaction that writes them, only the slot has them: `update outbox_router.republication \
                 set finished_at = now(), outcome = 'given up' where id = {run}`, start the router, \
                 which sends them, and `outbox-router replay --table {table} --all {admin}` \
                 (or the back-fill's --where) sends the rows of the back-fill, also those that \
                 Kafka has",
            ),
            case_remedy(
                Case::SlotRenamed,
                "the pipeline had another slot, which is there, and which no router reads",
                "set postgres.slot to {slot}, and run the router, which sends them. Let it keep that \
                 slot; or, while it streams from {slot}, {setup} with the new name: once \
                 `outbox-router status` says that nothing is behind, stop it, run it with the new \
                 name, and `select pg_drop_replication_slot('{slot}')`. Rows from between come \
                 twice; those that are written while there is neither slot are never sent. If {slot} \
                 is of another pipeline, give this one a name of its own",
            ),
            case_remedy(
                Case::FormerSlotGone,
                "a pipeline of these tables had another slot or name, its slot is gone or lost, and its \
                 witness is there",
                "`outbox-router recover{typed_flags} {admin}` sends these rows and makes that slot \
                 again, which the configuration keeps then, with that name; or, if the rows are \
                 given up, or were another pipeline's, `outbox-router teardown --apply --forget\
                 {typed_flags} {admin}`, then {setup}",
            ),
            case_remedy(
                Case::BackfillUnfinished,
                "a back-fill is not complete, and the slot still divides its rows: no router \
                 takes it before",
                "`outbox-router setup --apply --backfill{typed_flags} {admin}` goes on with it; to \
                 give up the rows that it has not sent: `update outbox_router.republication set \
                 finished_at = now(), outcome = 'given up' where id = {run}`",
            ),
            case_remedy(
                Case::BackfillOvertaken,
                "a back-fill is not complete, and a router has taken its slot over since, or the \
                 slot was moved",
                "rows from before the slot may be missing in Kafka: `outbox-router replay --table \
                 {table}{typed_flags} {admin}` sends the rows that it was to send, also those \
                 that Kafka has; then `update outbox_router.republication set finished_at = now(), \
                 outcome = 'given up' where id = {run}` ends it",
            ),
        ],
    },
    Explanation {
        code: Code::SlotMoved.as_str(),
        title: "the slot stands past what is acknowledged",
        meaning: "It was dropped and created again, advanced or restored while no router held it. \
                  The rows in between are not in the slot any more and may be missing in Kafka; \
                  the router stops until a person accepts that.",
        remedy: "find out who dropped, advanced or restored it; {recover}, with --drop-slot if the \
                 slot has rows to send that are in the table, too; or {accept} gives them up",
        cases: &[
            case_remedy(
                Case::SlotMadeUnsuitable,
                "it was created again as something else",
                "find out who created it; `select pg_drop_replication_slot('{slot}')`, then \
                 {setup}; {recover}; or {accept} gives them up",
            ),
            case_remedy(
                Case::SlotPastUnsent,
                "it stands past transactions of this server that were never sent",
                "{recover}; or {accept} gives them up",
            ),
            case_remedy(
                Case::OpenChanged,
                "what is open has changed before the acceptance was written",
                "`outbox-router accept` shows it as it is now",
            ),
        ],
    },
    Explanation {
        code: Code::HistoryChanged.as_str(),
        title: "the server's history is not that of Kafka's records",
        meaning: "The server is another cluster, was restored to an earlier state, or was \
                  promoted without transactions that Kafka has, or without notes of rows that \
                  were left out of what was sent. Kafka may hold events of \
                  transactions that this database does not have. The router stops; where it only \
                  reached the wrong server, it continues when it reaches the right one.",
        remedy: "first see whether postgres.url leads to the right server, and accept nothing \
                 before that; if the history has really changed, {recover}; or compare the ids in \
                 the outbox table with the ids in the topics over that interval, then {accept}",
        cases: &[
            case_remedy(
                Case::OtherCluster,
                "the system identifier is another one",
                "first see whether postgres.url leads to the right server, and accept nothing \
                 before that; if another installation writes to this Kafka, give one of them \
                 another name (key name); if the cluster was really replaced, {recover}; or \
                 compare the ids in the outbox table with the ids in the topics, then {accept}",
            ),
            case_remedy(
                Case::StreamsElsewhere,
                "a router of the pipeline streams from another server",
                "see whether --admin-url (or postgres.url) leads to a copy of the database: nothing \
                 was changed, and that router needs nothing. Where this is the right server, end \
                 that router first",
            ),
            case_remedy(
                Case::SwitchRestored,
                "switch polling finds that the slot does not send again what the witness covers",
                "nothing was marked, since rows of the restored server would be that no topic has: \
                 start the router with the configuration of the stream, which writes the gap down \
                 and stops; `outbox-router recover {admin}` sends what is missing; then type the \
                 same command again",
            ),
        ],
    },
];
