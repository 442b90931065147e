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
                  is as good as none.",
        remedy: "`{setup}`; or make it: {statements}",
        cases: &[],
    },
    Explanation {
        code: Advice::NotifyMissing.as_str(),
        title: "no trigger announces the new rows of a polled table",
        meaning: "A new row waits for the next reading, polling.interval at most. With the trigger \
                  the router reads it at once.",
        remedy: "`{setup} --notify`, unless polling.interval is fast enough",
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
        meaning: "They share its keys as if they were one pipeline, so each row goes to the Kafka \
                  and the topics of whoever has its key.",
        remedy: "give every process that polls the table the same configuration, with one name",
        cases: &[],
    },
    Explanation {
        code: Advice::RowsAbandoned.as_str(),
        title: "rows of a polled table are given up",
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
                  again or given up.",
        remedy: "`outbox-router status`",
        cases: &[],
    },
];
