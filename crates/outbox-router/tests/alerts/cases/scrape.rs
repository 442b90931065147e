//! Prometheus scrapes once a minute, which is its default, loses a scrape, and evaluates more
//! often. Each alert that looks back fires all the same, and does not end in between.

use crate::case::{Case, Check, Fired, fires, quiet};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "scraped once a minute: PostgreSQL is away, and one scrape is lost",
        interval: "15s",
        series: &[
            (r#"outbox_state{pipeline="shop",state="streaming"}"#, WORKED_ONE_LOST),
            (r#"outbox_state{pipeline="shop",state="starting"}"#, FAILS_ONE_LOST),
            (r#"outbox_state{pipeline="shop",state="blocked"}"#, NEVER),
            (r#"outbox_state{pipeline="shop",state="failed"}"#, NEVER),
            // Started when it is first scraped.
            (r#"outbox_state{pipeline="new",state="starting"}"#, FIRST),
            (r#"outbox_state{pipeline="new",state="streaming"}"#, AFTERWARDS),
        ],
        checks: &lasts(
            "OutboxNotConnected",
            &[Fired("severity=critical pipeline=shop", "pipeline shop gets no connection")],
        ),
    },
    Case {
        name: "scraped once a minute: Kafka is away, with attempts to connect in between",
        interval: "15s",
        series: &[
            (r#"outbox_state{pipeline="shop",state="streaming"}"#, WORKED),
            (r#"outbox_state{pipeline="shop",state="blocked"}"#, NOW_AND_THEN),
            (r#"outbox_state{pipeline="shop",state="starting"}"#, IN_BETWEEN),
        ],
        checks: &lasts(
            "OutboxBlocked",
            &[Fired("severity=critical pipeline=shop", "pipeline shop is blocked by Kafka")],
        ),
    },
    Case {
        name: "scraped once a minute: a row stops the stream, and is tried again",
        interval: "15s",
        series: &[
            (r#"outbox_state{pipeline="shop",state="streaming"}"#, WORKED),
            (r#"outbox_state{pipeline="shop",state="failed"}"#, NOW_AND_THEN),
            (r#"outbox_state{pipeline="shop",state="starting"}"#, IN_BETWEEN),
        ],
        checks: &lasts(
            "OutboxFailed",
            &[Fired(
                "severity=critical pipeline=shop",
                "pipeline shop has stopped: a person is needed",
            )],
        ),
    },
    Case {
        name: "scraped once a minute: another process has the slot; a pair shares its own",
        interval: "15s",
        series: &[
            (r#"outbox_state{pipeline="shop",state="streaming"}"#, WORKED_ONE_LOST),
            (r#"outbox_state{pipeline="shop",state="standby"}"#, FAILS_ONE_LOST),
            (r#"outbox_state{pipeline="pair",state="standby",instance="b"}"#, ALWAYS),
            (r#"outbox_state{pipeline="pair",state="standby",instance="a"}"#, NEVER),
            (r#"outbox_state{pipeline="pair",state="streaming",instance="a"}"#, ALWAYS_ONE_LOST),
        ],
        checks: &lasts(
            "OutboxSlotHeldElsewhere",
            &[Fired(
                "severity=critical pipeline=shop",
                "every router of pipeline shop stands by: another process has the slot",
            )],
        ),
    },
    Case {
        name: "scraped once a minute: the streaming task hangs; what else is `failed` says more",
        interval: "15s",
        series: &[
            (r#"outbox_verdict{pipeline="shop",verdict="ok"}"#, WORKED_ONE_LOST),
            (r#"outbox_verdict{pipeline="shop",verdict="failed"}"#, FAILS_ONE_LOST),
            (r#"outbox_state{pipeline="shop",state="streaming"}"#, ALWAYS),
            (r#"outbox_state{pipeline="shop",state="failed"}"#, NEVER),
            (r#"outbox_gaps_open{pipeline="shop"}"#, NEVER),
            (r#"outbox_verdict{pipeline="row",verdict="failed"}"#, FAILS_ONE_LOST),
            (r#"outbox_state{pipeline="row",state="failed"}"#, FAILS_ONE_LOST),
            (r#"outbox_gaps_open{pipeline="row"}"#, NEVER),
            (r#"outbox_verdict{pipeline="gap",verdict="failed"}"#, FAILS_ONE_LOST),
            (r#"outbox_state{pipeline="gap",state="failed"}"#, NEVER),
            (r#"outbox_gaps_open{pipeline="gap"}"#, FAILS_ONE_LOST),
            // The standby has taken over.
            (r#"outbox_verdict{pipeline="pair",verdict="failed",instance="a"}"#, FAILS_ONE_LOST),
            (r#"outbox_verdict{pipeline="pair",verdict="ok",instance="b"}"#, ALWAYS),
        ],
        checks: &lasts(
            "OutboxTaskHung",
            &[Fired(
                "severity=critical pipeline=shop",
                "a task of the router of pipeline shop hangs",
            )],
        ),
    },
];

/// The fault begins between 1m15s and 2m15s, and does not end.
const fn lasts(alert: &'static str, fired: &'static [Fired]) -> [Check; 9] {
    [
        quiet("2m", alert),
        fires("5m30s", alert, fired),
        fires("7m", alert, fired),
        fires("7m15s", alert, fired),
        fires("7m30s", alert, fired),
        fires("8m", alert, fired),
        fires("8m30s", alert, fired),
        fires("9m", alert, fired),
        fires("11m", alert, fired),
    ]
}

// A value a minute, a quarter after it.
const WORKED: &str = "_ 1 _ _ _ 1 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0";
const WORKED_ONE_LOST: &str = "_ 1 _ _ _ 1 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ _ _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0";
const FAILS_ONE_LOST: &str = "_ 0 _ _ _ 0 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ _ _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1";
const NOW_AND_THEN: &str = "_ 0 _ _ _ 0 _ _ _ 1 _ _ _ 0 _ _ _ 1 _ _ _ 1 _ _ _ 0 _ _ _ 1 _ _ _ 1 _ _ _ 0 _ _ _ 1 _ _ _ 1 _ _ _ 0 _ _ _ 1";
const IN_BETWEEN: &str = "_ 0 _ _ _ 0 _ _ _ 0 _ _ _ 1 _ _ _ 0 _ _ _ 0 _ _ _ 1 _ _ _ 0 _ _ _ 0 _ _ _ 1 _ _ _ 0 _ _ _ 0 _ _ _ 1 _ _ _ 0";
const ALWAYS: &str = "_ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1";
const ALWAYS_ONE_LOST: &str = "_ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ _ _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1";
const NEVER: &str = "_ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0";
const FIRST: &str = "_ 1 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0 _ _ _ 0";
const AFTERWARDS: &str = "_ 0 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1 _ _ _ 1";
