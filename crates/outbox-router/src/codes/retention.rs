//! Rows that are removed after they are delivered.

use relay::{Case, Code};

use super::explanation::{Explanation, case_remedy};

pub(super) const EXPLANATIONS: &[Explanation] = &[Explanation {
    code: Code::Retention.as_str(),
    title: "delivered rows cannot be removed from an outbox table",
    meaning: "[retention] is on, and a sweep over a table, or the command cleanup, could not do its \
              work, or may not: nothing shows that the rows are delivered. Delivery goes on; the \
              table grows. The next sweep tries again.",
    remedy: "docs/retention.md says what a sweep needs",
    cases: &[
        case_remedy(Case::RetentionForbidden, "the role lacks a privilege", "{statements}"),
        case_remedy(
            Case::RetentionWithoutIndex,
            "no index begins with the time column",
            "{statements}; or, once and slowly: `outbox-router cleanup --slow`",
        ),
        case_remedy(
            Case::RetentionTimeColumn,
            "a table has no column by which its rows have an age",
            "name a timestamp, a date or an integer by retention.time_column",
        ),
        case_remedy(
            Case::RetentionArchive,
            "the table that rows are moved into cannot take them",
            "{statements}",
        ),
        case_remedy(
            Case::RetentionPartitions,
            "partitions cannot be made or dropped",
            "{statements}",
        ),
        case_remedy(
            Case::RetentionDetached,
            "a table that an earlier version detached to drop it stays",
            "{statements}",
        ),
        case_remedy(
            Case::RetentionBusy,
            "another session removes rows of this pipeline",
            "wait until it ends, or end it: `select pg_terminate_backend({pid})`",
        ),
        case_remedy(
            Case::RetentionLocked,
            "another session locks the table or its rows",
            "who holds it: `select pid, pg_blocking_pids(pid), query from pg_stat_activity where \
             wait_event_type = 'Lock'`; a role that may update a column of the table leaves \
             locked rows out instead of waiting for them",
        ),
        case_remedy(
            Case::RetentionReferenced,
            "a foreign key of another table references the rows",
            "delete the rows of {table} that reference delivered events before retention.keep is \
             over; or make the foreign key again with on delete cascade, which deletes them with \
             the events, and with an index on its columns; or, if nothing needs it: {statements}",
        ),
        case_remedy(
            Case::RetentionCascades,
            "a foreign key with on delete cascade deletes rows of an outbox with those of another",
            "rows of {table} leave once they are sent, and not with other rows: {statements}; or \
             make the key again with on delete set null",
        ),
        case_remedy(
            Case::RetentionHeldGone,
            "events that wait for a person are gone from outbox_router.held",
            "restart the router: it says P036 or P037 then, and what is to be done; nothing is \
             removed before",
        ),
        case_remedy(
            Case::RetentionHeldUnknown,
            "an event without an id is held, or a row was left out of what was sent whose id no row \
             has now, so it may be any row of the table",
            "`outbox-router dead-letters list` shows the event; decide about it. Of the row, \
             `outbox-router dead-letters list --left-out` says why it was left out: if it was \
             deleted, or is given up, or once `outbox-router replay --id` has sent it under the id \
             that it has now, `outbox-router dead-letters drop --left-out --id ID {admin}`",
        ),
        case_remedy(
            Case::LeftOutGone,
            "the table outbox_router.left_out is gone, or lacks lines, which says what rows are in no \
             topic since they were left out; or outbox_router.decision lacks skips",
            "restore the tables from a backup. If that cannot be: `outbox-router where` tells of a \
             row whether a topic has it, and `outbox-router replay` sends it; once every row that \
             was left out is sent or given up, this says so: {statements}",
        ),
        case_remedy(
            Case::RetentionPolled,
            "workers of a configuration that polls (postgres.source = \"polling\") have, or may have, \
             rows of the table to deliver, which nothing here shows",
            "give each pipeline a table of its own, or set retention.mode = \"off\" for this one. Where no worker is to poll the table any more and no pending row matters, \
             stop them, and forget them, as the owner of the schema outbox_router: {statements}",
        ),
        case_remedy(
            Case::RetentionOpen,
            "something is open, or not known, so what is confirmed need not be delivered",
            "`outbox-router status` says what to type",
        ),
        case_remedy(
            Case::RetentionUnconfirmed,
            "the slot does not confirm the position that has to be confirmed",
            "`outbox-router status` shows who is behind; without a router, start one",
        ),
    ],
}];
