//! Advice about polled tables.

use super::Advice;
use crate::codes::explanation::Explanation;

pub(in crate::codes) const EXPLANATIONS: &[Explanation] = &[
    Explanation {
        code: Advice::PendingIndexMissing.as_str(),
        title: "no index finds the pending rows of a polled table, or those that others wait for",
        meaning: "Every reading then goes through the whole table, published rows included, and \
                  becomes slower with each row. An index that was made for other marks \
                  (outbox.mark, order_by or where has changed, or the table has another column) \
                  is as good as none. Its comment says which column and which words decide: as \
                  long as it does not, no migration that changes them is refused (P041).",
        remedy: "`{setup}`; or make it: {statements}",
        cases: &[],
    },
    Explanation {
        code: Advice::NotifyMissing.as_str(),
        title: "no trigger announces the new rows of a polled table",
        meaning: "A new row waits for the next reading, polling.interval at most. With the trigger \
                  the router reads it at once.",
        remedy: "`{setup} --notify`, unless polling.interval is fast enough, or writers prepare \
                 their transactions (PREPARE TRANSACTION, XA): the server refuses NOTIFY there",
        cases: &[],
    },
    Explanation {
        code: Advice::NotifyUnused.as_str(),
        title: "a trigger announces rows, and the router does not listen",
        meaning: "Commits with an announcement wait for each other, so writers pay for what \
                  nobody uses.",
        remedy: "set polling.notify = true, or drop the trigger: {statements}",
        cases: &[],
    },
    Explanation {
        code: Advice::NotifyPooled.as_str(),
        title: "a pooler keeps announcements from the router",
        meaning: "LISTEN is of a session, and a pooler in transaction mode gives each transaction \
                  another one. Rows are polled all the same, at each polling.interval.",
        remedy: "set polling.notify = false and a short polling.interval; or let postgres.url name \
                 PostgreSQL's own host and port",
        cases: &[],
    },
    Explanation {
        code: Advice::SeveralPipelines.as_str(),
        title: "workers of several configurations poll one table",
        meaning: "Those that began first have its keys, and the others are given none (P043).",
        remedy: "give every process that polls the table the same configuration, with one name",
        cases: &[],
    },
    Explanation {
        code: Advice::RowsAbandoned.as_str(),
        title: "rows of a polled table are abandoned",
        meaning: "They were tried retry.max_attempts times. With dead_letters.hold_key the later \
                  rows of their keys wait behind them.",
        remedy: "`outbox-router dead-letters list`",
        cases: &[],
    },
    Explanation {
        code: Advice::DeadRows.as_str(),
        title: "a polled table has more dead rows than living ones",
        meaning: "Each mark leaves a dead version of its row. Until vacuum removes them, every \
                  reading goes through them; a transaction that is open for long keeps vacuum \
                  from it.",
        remedy: "vacuum {quoted_table} once; then `alter table {quoted_table} set \
                 (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0)`",
        cases: &[],
    },
    Explanation {
        code: Advice::RowsPendingLong.as_str(),
        title: "a row of a polled table is pending for long",
        meaning: "No router runs, it does not keep up, or the row waits behind one that is tried \
                  again or abandoned.",
        remedy: "`outbox-router status`",
        cases: &[],
    },
    Explanation {
        code: Advice::MarksWithoutZone.as_str(),
        title: "marks of a polled table are times without a time zone, and its writers are not in \
                UTC",
        meaning: "The router reads and writes such a column as UTC, and now() of a writer is the \
                  local time of its TimeZone there. By an available_at, rows are sent hours late \
                  or too early; a lock of another program seems to have ended, or lasts for \
                  hours. The router knows what is set for the cluster, the database and roles; a \
                  writer that sets TimeZone itself, as JDBC's driver does, has that, and one that \
                  writes times of UTC needs nothing.",
        remedy: "if writers put times of UTC there, leave it: `outbox-router doctor --skip D058`; \
                 else while no row is pending, since the router has put times of UTC there, and \
                 at a quiet time, since it rewrites the table under a lock: {statements}",
        cases: &[],
    },
    Explanation {
        code: Advice::OrderOfWriting.as_str(),
        title: "nothing in the order of a polled table says in which order rows were written",
        meaning: "now() is the time at which a transaction began, the same for all of its rows, so \
                  that the primary key decides among them. A random UUID puts them in any order; \
                  for a key that writers make, only they know. A number of a sequence, an hlc, \
                  clock_timestamp() and a UUID of version 7 follow the order of writing; UUIDs \
                  that an extension makes may do so only to the millisecond.",
        remedy: "stop the writers until no row is pending or abandoned, since rows that are there \
                 get their numbers as they lie in the table, and not as they were written; and \
                 the table is rewritten under a lock: {statements}; then `{setup}` makes the \
                 index. The router takes the number by itself, unless \
                 outbox.order_by is set: then name it first there. If writers make UUIDs of \
                 version 7, leave it: `outbox-router doctor --skip D059`",
        cases: &[],
    },
];
