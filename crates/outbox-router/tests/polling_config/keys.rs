//! The keys of the polling source: what they take, what is refused with which source, and what a
//! person then reads.

use std::{io::Write as _, time::Duration};

use outbox_router::{
    config::{self, Config, Environment, KEYS, SourceKind, effective, of_one_source},
    polling::sql::{Direction, MarkConfig, MarkHow, Nulls, OrderColumn},
};
use relay::{Timestamp, polling::RetryPolicy};

/// Loads a file's text with environment and flags; in messages the file is called `file`.
fn load(text: &str, environment: &[(&str, &str)], flags: &[&str]) -> Result<Config, String> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    let pairs = environment.iter().map(|(name, value)| (name.into(), value.into()));
    let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
    let loaded = config::load(Some(file.path()), &Environment::new(pairs), &flags);
    let path = file.path().display().to_string();
    loaded.map(|loaded| loaded.config).map_err(|errors| errors.to_string().replace(&path, "file"))
}

fn file(text: &str) -> Config {
    load(text, &[], &[]).unwrap_or_else(|errors| panic!("{errors}"))
}

#[track_caller]
fn refused(text: &str, message: &str) {
    assert_eq!(load(text, &[], &[]).expect_err("it is wrong"), message.trim_matches('\n'));
}

const POLLING: &str = r#"
[postgres]
source = "polling"
[[outbox]]
table = "public.outbox"
"#;

const EVERY_KEY: &str = r#"
order_by = ["hlc nulls last", "created_at", "id desc"]
mark.how = "status"
mark.column = "state"
mark.pending = ["NEW", "AGAIN"]
mark.processing = "TAKEN"
mark.published = "SENT"
mark.failed = "AGAIN"
mark.abandoned = "DEAD"
[polling]
batch = 10_000
interval = "10ms"
lease = "2s"
notify = false
[retry]
max_attempts = 7
base_delay = "250ms"
multiplier = 3
max_backoff = "1h"
jitter = 0
"#;

#[test]
fn polling_keys_arrive_typed() {
    let config = file(&format!("{POLLING}{EVERY_KEY}"));
    assert_eq!(config.postgres.source, SourceKind::Polling);
    let column = |name: &str, direction, nulls| OrderColumn { name: name.into(), direction, nulls };
    let polled = &config.outbox[0].polled;
    assert_eq!(
        polled.order_by,
        [
            column("hlc", Direction::Asc, Nulls::Last),
            column("created_at", Direction::Asc, Nulls::Default),
            column("id", Direction::Desc, Nulls::Default),
        ]
    );
    let word = |word: &str| Some(word.to_owned());
    assert_eq!(
        polled.mark,
        MarkConfig {
            how: MarkHow::Status,
            column: word("state"),
            pending: vec!["NEW".to_owned(), "AGAIN".to_owned()],
            processing: word("TAKEN"),
            published: word("SENT"),
            failed: word("AGAIN"),
            abandoned: word("DEAD"),
        }
    );
    let polling = &config.polling;
    assert_eq!((polling.batch, polling.notify), (10_000, false));
    assert_eq!(polling.interval, Duration::from_millis(10));
    assert_eq!(polling.lease, Duration::from_secs(2));
    let expected = RetryPolicy {
        max_attempts: 7,
        base_delay: Duration::from_millis(250),
        multiplier: 3,
        max_backoff: Duration::from_secs(3_600),
        jitter: 0,
    };
    assert_eq!(config.retry, expected);
    let printed = effective(&config);
    assert_eq!(file(&printed), config, "{printed}");
    let of_worker = config.polled_tables().remove(0);
    assert_eq!(of_worker.outbox, config.outbox[0].table);
    assert_eq!(
        (of_worker.order_by, of_worker.mark),
        (polled.order_by.clone(), polled.mark.clone())
    );
}

#[test]
fn one_column_and_one_word_need_no_list() {
    let config = file(&format!("{POLLING}order_by = \"seq\"\nmark.pending = \"new\""));
    assert_eq!(config.outbox[0].polled.order_by[0].name, "seq");
    assert_eq!(config.outbox[0].polled.mark.pending, ["new"]);
}

#[test]
fn polling_is_configured_without_a_file() {
    let environment = [
        ("OUTBOX_ROUTER__POSTGRES__SOURCE", "polling"),
        ("OUTBOX_ROUTER__OUTBOX__0__TABLE", "a.b"),
        ("OUTBOX_ROUTER__OUTBOX__0__ORDER_BY__0", "hlc nulls last"),
        ("OUTBOX_ROUTER__OUTBOX__0__ORDER_BY__1", "id"),
        ("OUTBOX_ROUTER__OUTBOX__0__MARK__HOW", "delete"),
        ("OUTBOX_ROUTER__POLLING__BATCH", "50"),
        ("OUTBOX_ROUTER__RETRY__JITTER", "100"),
    ];
    let config = load("", &environment, &["polling.notify=false"]).unwrap();
    assert_eq!(config.outbox[0].polled.order_by.len(), 2);
    assert_eq!(config.outbox[0].polled.mark.how, MarkHow::Delete);
    assert_eq!((config.polling.batch, config.polling.notify), (50, false));
    assert_eq!(config.retry.jitter, 100);
}

#[test]
fn what_a_polling_key_does_not_take_is_refused() {
    for (keys, expected) in [
        ("[polling]\nbatch = 0", "polling.batch 0 is not a whole number from 1 to 10000"),
        ("[polling]\nbatch = 10001", "polling.batch 10001 is not a whole number from 1 to 10000"),
        ("[polling]\ninterval = \"9ms\"", "polling.interval \"9ms\" is not between 10ms and 1h"),
        ("[polling]\ninterval = 1", "polling.interval 1 has no unit"),
        ("[polling]\nlease = \"1s\"", "polling.lease \"1s\" is not between 2s and 10m"),
        ("[polling]\nlease = \"11m\"", "polling.lease \"11m\" is not between 2s and 10m"),
        ("[polling]\nnotify = \"yes\"", "polling.notify must be true or false, not a text"),
        ("[retry]\nmax_attempts = 0", "retry.max_attempts 0 is not a whole number from 1 to 1000"),
        ("[retry]\njitter = 101", "retry.jitter 101 is not a whole number from 0 to 100"),
        ("[retry]\nmultiplier = 1.5", "retry.multiplier must be a whole number, not a fraction"),
        ("order_by = [\"id down\"]", "order_by \"id down\" is no column of an ORDER BY"),
        ("order_by = \"a, b\"", "order_by \"a, b\" is more than one column"),
        ("mark.how = \"cursor\"", "mark.how \"cursor\" is not a choice"),
        ("mark.column = \"\"", "mark.column \"\" is empty"),
        ("mark.pending = [\"\"]", "mark.pending \"\" is empty"),
        ("mark.published = \"\"", "mark.published \"\" is empty"),
        ("mark.publsihed = \"x\"", "there is no key publsihed in outbox[0].mark"),
    ] {
        let errors = load(&format!("{POLLING}{keys}\n"), &[], &[]).unwrap_err();
        assert!(errors.contains(expected), "{keys}: {errors}");
        assert_eq!(errors.matches("-->").count(), 1, "{errors}");
    }
    let source = load("[postgres]\nsource = \"wal\"", &[], &[]).unwrap_err();
    assert!(source.contains("postgres.source \"wal\" is not a choice"), "{source}");
    assert!(source.contains("hint: one of stream, polling"), "{source}");
}

#[test]
fn marks_and_orders_that_contradict_themselves_are_refused() {
    for (keys, expected) in [
        ("order_by = [\"id\", \"id desc\"]", "outbox[0].order_by names the column id twice"),
        (
            "mark.pending = \"A\"\nmark.published = \"A\"",
            "outbox[0].mark.published is \"A\", and so is mark.pending",
        ),
        ("mark.pending = [\"A\", \"B\", \"A\"]", "outbox[0].mark.pending has the word \"A\" twice"),
        (
            "mark.failed = \"A\"\nmark.abandoned = \"A\"",
            "outbox[0].mark.abandoned is \"A\", and so is mark.failed",
        ),
        (
            "mark.pending = [\"A\", \"B\"]\nmark.processing = \"B\"",
            "outbox[0].mark.processing is \"B\", and so is mark.pending",
        ),
        (
            "mark.how = \"flag\"\nmark.published = \"A\"",
            "outbox[0].mark.published has no effect: mark.how is \"flag\"",
        ),
        (
            "mark.how = \"timestamp\"\nmark.pending = [\"A\"]",
            "outbox[0].mark.pending has no effect: mark.how is \"timestamp\"",
        ),
        (
            "mark.how = \"delete\"\nmark.column = \"done\"",
            "outbox[0].mark.column (\"done\") has no effect: mark.how is \"delete\"",
        ),
        (
            "mark.column = \"done\"",
            "outbox[0].mark.column (\"done\") has no effect: mark.how is \"auto\"",
        ),
        (
            "[retry]\nbase_delay = \"10m\"",
            "retry.base_delay (10m) is longer than retry.max_backoff (5m)",
        ),
    ] {
        let errors = load(&format!("{POLLING}{keys}\n"), &[], &[]).unwrap_err();
        assert!(errors.starts_with(&format!("C008: {expected}\n")), "{keys}: {errors}");
        assert_eq!(errors.matches("-->").count(), 1, "with its place: {errors}");
    }
    for keys in [
        // A row that is tried again may be pending again.
        "mark.pending = [\"A\"]\nmark.failed = \"A\"\n",
        // Rows that are not delivered yet have words.
        "mark.how = \"delete\"\nmark.failed = \"A\"\nmark.abandoned = \"B\"\n",
        "mark.how = \"flag\"\nmark.column = \"done\"\n",
    ] {
        file(&format!("{POLLING}{keys}"));
    }
}

/// A row that waits for another attempt would be abandoned, or the other way round.
#[test]
fn who_takes_one_word_for_failed_and_abandoned_is_told_what_to_type() {
    refused(
        &format!("{POLLING}mark.failed = \"FAILED\"\nmark.abandoned = \"FAILED\"\n"),
        r#"
C008: outbox[0].mark.abandoned is "FAILED", and so is mark.failed
 --> file:7:18
7 | mark.abandoned = "FAILED"
  |                  ^^^^^^^^
  hint: set mark.failed to the word of pending rows, as in mark.failed = "PENDING": a row that waits for another attempt is then pending"#,
    );
    file(&format!("{POLLING}mark.failed = \"PENDING\"\nmark.abandoned = \"FAILED\"\n"));
}

/// It is one state, so no other one needs a word.
#[test]
fn a_word_that_pending_rows_have_twice_is_named_once() {
    refused(
        &format!("{POLLING}mark.pending = [\"PENDING\", \"PENDING\"]\n"),
        r#"
C008: outbox[0].mark.pending has the word "PENDING" twice
 --> file:6:17
6 | mark.pending = ["PENDING", "PENDING"]
  |                 ^^^^^^^^^
  hint: name it once"#,
    );
}

#[test]
fn each_state_of_a_row_needs_a_word_of_its_own() {
    let keys = ["pending", "processing", "published", "failed", "abandoned"];
    for (place, later) in keys.iter().enumerate() {
        for earlier in &keys[..place] {
            let text = format!("{POLLING}mark.{earlier} = \"A\"\nmark.{later} = \"A\"\n");
            if (*earlier, *later) == ("pending", "failed") {
                file(&text);
                continue;
            }
            let errors = load(&text, &[], &[]).unwrap_err();
            let expected =
                format!("C008: outbox[0].mark.{later} is \"A\", and so is mark.{earlier}\n");
            assert!(errors.starts_with(&expected), "{errors}");
        }
    }
}

#[test]
fn polling_without_a_table_is_refused() {
    refused(
        "[postgres]\nsource = \"polling\"\n",
        r#"
C008: postgres.source is "polling", and no [[outbox]] is configured: there is no publication that would name the tables
 --> file:2:10
2 | source = "polling"
  |          ^^^^^^^^^
  hint: name each table that is polled: [[outbox]] with table = "public.outbox""#,
    );
}

#[test]
fn a_key_without_meaning_is_refused_with_its_place_the_reason_and_what_to_do() {
    refused(
        &format!("{POLLING}timestamp = \"commit\"\n"),
        r#"
C008: outbox[0].timestamp = "commit" has no effect with postgres.source = "polling": a row does not say when its transaction was committed
 --> file:6:13
6 | timestamp = "commit"
  |             ^^^^^^^^
  hint: set "column" or "now", or leave it out: then the time column of the mapping applies, else the time at which the row is read"#,
    );
    refused(
        "[[outbox]]\norder_by = [\"id\", \"seq\"]\n[polling]\nbatch = 1_000\n",
        r#"
C008: outbox[0].order_by has no effect with postgres.source = "stream": rows come in the order in which they were committed
 --> file:2:13
2 | order_by = ["id", "seq"]
  |             ^^^^
  hint: set postgres.source = "polling", or leave it out

C008: polling.batch has no effect with postgres.source = "stream": rows come from the slot
 --> file:4:9
4 | batch = 1_000
  |         ^^^^^
  hint: set postgres.source = "polling", or leave it out"#,
    );
}

#[test]
fn a_key_without_meaning_is_refused_wherever_it_is_set() {
    let environment = [("OUTBOX_ROUTER__LIMITS__WINDOW_EVENTS", "20000")];
    let errors = load(POLLING, &environment, &["postgres.backlog=sql"]).unwrap_err();
    assert_eq!(
        errors,
        r#"C008: limits.window_events has no effect with postgres.source = "polling": one batch is in flight at a time
  set by the environment variable OUTBOX_ROUTER__LIMITS__WINDOW_EVENTS
  hint: set polling.batch, and leave it out

C008: postgres.backlog has no effect with postgres.source = "polling": there is no WAL to catch up with
  set by --set postgres.backlog=…
  hint: leave it out; polling.batch says how many rows are read at a time"#
    );
}

/// Each at its default, or at its example where it has none.
#[test]
fn every_key_of_one_source_is_refused_with_the_other() {
    let mut count = 0;
    for entry in KEYS.iter() {
        let (Some(with), Some(value)) = (of_one_source(&entry.name), entry.value()) else {
            continue;
        };
        let toml = value.default.as_ref().or(value.examples.first()).expect("a value");
        let key = entry.name.replace("[]", "[0]");
        let line = match entry.name.strip_prefix("outbox[].") {
            // A column has a kind.
            Some("mark.column") => {
                format!("[[outbox]]\nmark.how = \"status\"\nmark.column = {toml}\n")
            }
            Some(leaf) => format!("[[outbox]]\n{leaf} = {toml}\n"),
            None => format!("{} = {toml}\n[[outbox]]\n", entry.name),
        };
        let [with_it, without] = match with.source {
            SourceKind::Stream => ["stream", "polling"],
            SourceKind::Polling => ["polling", "stream"],
        };
        let with_it = load(&line, &[("OUTBOX_ROUTER__POSTGRES__SOURCE", with_it)], &[]);
        with_it.unwrap_or_else(|errors| panic!("{line}{errors}"));
        let without =
            load(&line, &[("OUTBOX_ROUTER__POSTGRES__SOURCE", without)], &[]).unwrap_err();
        assert!(without.contains(&format!("C008: {key}")), "{line}{without}");
        for part in [" has no effect with postgres.source = ", with.why, with.instead, "-->"] {
            assert!(without.contains(part), "{part} is not in:\n{without}");
        }
        let keys = line.matches(" = ").count();
        assert_eq!(without.matches("C008").count(), keys, "{without}");
        count += 1;
    }
    assert!(count >= 26, "only {count} keys");
}

#[test]
fn a_value_that_is_wrong_in_itself_is_one_problem() {
    let errors = load("[polling]\nbatch = 0\n", &[], &[]).unwrap_err();
    assert_eq!(errors.matches("C0").count(), 1, "{errors}");
    let errors = load(&format!("{POLLING}timestamp = \"comit\"\n"), &[], &[]).unwrap_err();
    assert_eq!(errors.matches("C0").count(), 1, "{errors}");
    let errors =
        load("[postgres]\nsource = \"poll\"\n[polling]\nbatch = 9\n", &[], &[]).unwrap_err();
    assert_eq!(errors.matches("C0").count(), 1, "{errors}");
}

#[test]
fn other_times_than_the_commits_have_a_meaning_with_polling() {
    for (keys, timestamp) in [
        ("timestamp = \"now\"", Timestamp::Now),
        ("timestamp = \"column\"\ncolumns.timestamp = \"at\"", Timestamp::Column),
        // The mapping's column, where nothing is said.
        ("columns.timestamp = \"at\"", Timestamp::Commit),
    ] {
        let config = file(&format!("{POLLING}{keys}\n"));
        assert_eq!(config.outbox[0].table.timestamp, timestamp);
    }
    let errors =
        load(&format!("{POLLING}timestamp = \"now\"\ncolumns.timestamp = \"at\"\n"), &[], &[]);
    assert!(errors.unwrap_err().contains("names a column that is not read"));
}

/// They are for `switch`.
#[test]
fn the_names_of_slot_publication_and_state_topic_are_taken_with_polling() {
    let flags = ["postgres.slot=s", "postgres.publication=p", "kafka.state_topic=t"];
    let config = load(POLLING, &[], &flags).unwrap();
    assert_eq!(config.postgres.slot.as_str(), "s");
}

#[test]
fn what_is_printed_has_no_key_without_meaning() {
    let polling = effective(&file(POLLING));
    for line in [
        "source = \"polling\"",
        "batch = 1000",
        "lease = \"10s\"",
        "notify = true",
        "jitter = 20",
        "mark.how = \"auto\"",
        "# order_by is not set: hlc nulls last, the time column, the primary key; without hlc, a \
         sequence alone",
        "# timestamp is not set: the time of the row's time column, else the time at which it is read",
        "slot = \"outbox_router\"",
    ] {
        assert!(polling.lines().any(|shown| shown == line), "{line} is not in:\n{polling}");
    }
    for key in ["backlog", "on_update", "window_events", "bytes_behind", "[recover]", "max_events"]
    {
        assert!(!polling.contains(key), "{key} is in:\n{polling}");
    }
    assert_eq!(file(&polling), file(POLLING));

    let stream = effective(&file("[[outbox]]\ntable = \"public.outbox\""));
    for key in ["[polling]", "[retry]", "order_by is", "mark."] {
        assert!(!stream.contains(key), "{key} is in:\n{stream}");
    }
    assert!(stream.contains("timestamp = \"commit\"") && stream.contains("[recover]"), "{stream}");
}
