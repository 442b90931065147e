//! Dead letters and what is held behind them.

use crate::case::{Case, Fired, fires, quiet};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "dead letters wait for a person",
        interval: "1m",
        series: &[
            // A session that ends reports nothing held until the next one has read the table.
            (r#"outbox_held_keys{pipeline="shop"}"#, "0x2 2x5 0 2x5 0x20"),
            (r#"outbox_held_keys{pipeline="other"}"#, "0x40"),
        ],
        checks: &[
            quiet("2m", "OutboxDeadLetter"),
            fires("3m", "OutboxDeadLetter", LETTERS),
            fires("9m", "OutboxDeadLetter", LETTERS),
            quiet("25m", "OutboxDeadLetter"),
        ],
    },
    Case {
        name: "a key is held for more than a day",
        interval: "1m",
        series: &[
            (r#"outbox_held_oldest_seconds{pipeline="shop"}"#, "86280+60x2 86460+60x10 0x30"),
            (r#"outbox_held_oldest_seconds{pipeline="other"}"#, "60+60x40"),
        ],
        checks: &[
            quiet("2m", "OutboxHeldForLong"),
            fires(
                "3m",
                "OutboxHeldForLong",
                &[Fired(
                    "severity=critical pipeline=shop",
                    "pipeline shop has held an event for 1d 0h 1m 0s",
                )],
            ),
            quiet("30m", "OutboxHeldForLong"),
        ],
    },
    Case {
        name: "what was decided is not carried out; is at once; is for a long time",
        interval: "1m",
        series: &[
            (r#"outbox_held_decided{pipeline="shop"}"#, "0x2 3x30 0x30"),
            (r#"outbox_held_delivered_total{pipeline="shop"}"#, "0x62"),
            (r#"outbox_held_dropped_total{pipeline="shop"}"#, "0x62"),
            // Now and then somebody decides, and the router carries it out.
            (r#"outbox_held_decided{pipeline="quick"}"#, "0x2 5 0x9 5 0x9 5 0x9 5 0x20"),
            (r#"outbox_held_delivered_total{pipeline="quick"}"#, "0x3 5x9 10x9 15x9 20x20"),
            (r#"outbox_held_dropped_total{pipeline="quick"}"#, "0x62"),
            // A million takes its time.
            (r#"outbox_held_decided{pipeline="many"}"#, "1000x62"),
            (r#"outbox_held_delivered_total{pipeline="many"}"#, "0+1000x62"),
            (r#"outbox_held_dropped_total{pipeline="many"}"#, "0x62"),
        ],
        checks: &[
            quiet("15m", "OutboxDecisionWaits"),
            fires(
                "18m",
                "OutboxDecisionWaits",
                &[Fired(
                    "severity=warning pipeline=shop",
                    "pipeline shop does not carry out what was decided about 3 dead letters",
                )],
            ),
            quiet("40m", "OutboxDecisionWaits"),
        ],
    },
];

const LETTERS: &[Fired] =
    &[Fired("severity=warning pipeline=shop", "pipeline shop holds events of 2 keys")];
