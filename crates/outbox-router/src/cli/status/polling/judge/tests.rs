use relay::{Case, Code, Failure};
use serde_json::{Value, json};

use super::*;
use crate::{
    cli::{router_status::Other, status::polling::render},
    polling::samples::surveyed,
};

fn reading(router: Option<Value>, tables: Vec<SurveyedTable>) -> PollingReading {
    PollingReading { tables: Ok(tables), router, other: None }
}

fn text(reading: &PollingReading) -> String {
    let config = Config::default();
    let judged = judge(reading, &config);
    let mut out = Vec::new();
    render::text(reading, &judged, &config, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn router(word: &str, sentence: &str) -> Value {
    json!({
        "source": "polling", "state": "polling",
        "verdict": {
            "word": word, "sentence": sentence, "blame": "nobody", "acts": "nobody",
            "since": 0.0, "to_do": [],
        },
        "pending": { "empty_in_seconds": 200.0 },
    })
}

fn pending(rows: u64, oldest: f64) -> SurveyedTable {
    let mut table = surveyed();
    let figures = table.figures.as_mut().unwrap();
    (figures.pending, figures.oldest_seconds) = (RowCount::Exactly(rows), Some(oldest));
    table
}

#[test]
fn a_router_that_answers_is_believed() {
    let reading = reading(Some(router("ok", "rows flow")), vec![pending(3, 0.5)]);
    let judged = judge(&reading, &Config::default());
    assert!(judged.overall.is_well() && judged.verdict.findings.is_empty());
    let text = text(&reading);
    for line in [
        "verdict   OK for ",
        "behind    3 rows are pending, the oldest for 0 s\n",
        "to blame  nobody: it keeps up\n",
        "empty     in about 3 min at this pace\n",
        "to do     nothing\n",
        "table     public.outbox: 3 pending, 0 claimed, 0 wait for another attempt, 0 abandoned\n",
        "held by   shop (6b2f4a5e-0000-4000-8000-000000000001): 64 of 64 shards; its lease lasts 8 s more\n",
        "router    polling, at http://",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}

#[test]
fn without_a_router_a_worker_that_holds_shards_is_named_and_nothing_is_known() {
    let reading = reading(None, vec![pending(3, 0.5)]);
    let judged = judge(&reading, &Config::default());
    assert!(!judged.overall.is_well());
    let text = text(&reading);
    assert!(text.starts_with("verdict   UNKNOWN: no router answers at http://"), "{text}");
    assert!(text.contains(", and 1 worker holds 64 of 64 shards of public.outbox\n"), "{text}");
    assert!(text.contains("to blame  unknown: no router answers\n"), "{text}");
}

#[test]
fn where_nobody_holds_a_shard_somebody_has_to_start_a_router() {
    let mut table = pending(1, 95.0);
    table.holders.as_mut().unwrap()[0].lasts_seconds = -400.0;
    let reading = reading(None, vec![table]);
    let judged = judge(&reading, &Config::default());
    assert!(!judged.overall.is_well());
    let text = text(&reading);
    let sentence = "FAILED: no worker polls public.outbox, in which 1 row is pending\n";
    assert!(text.starts_with(&format!("verdict   {sentence}")), "{text}");
    assert!(text.contains("outbox-router run"), "{text}");
    assert!(text.contains("its lease ended 6 min ago"), "{text}");
}

#[test]
fn rows_that_were_abandoned_are_for_a_person() {
    let mut table = pending(1, 95.0);
    table.figures.as_mut().unwrap().abandoned = RowCount::Exactly(2);
    let text = text(&reading(Some(router("ok", "rows flow; 2 rows are abandoned")), vec![table]));
    assert!(text.contains("to do     outbox-router dead-letters list\n"), "{text}");
    assert!(!text.contains("to do     nothing"), "{text}");
}

#[test]
fn a_server_that_does_not_answer_is_the_finding() {
    let failure = Failure::new(Code::ServerUnreachable, "connection refused");
    let reading = PollingReading { tables: Err(failure), router: None, other: None };
    let text = text(&reading);
    assert!(text.starts_with("verdict   FAILED: connection refused (P001)\n"), "{text}");
    assert!(text.contains("behind    unknown\n"), "{text}");
}

#[test]
fn of_a_table_that_cannot_be_counted_nothing_is_said() {
    let refused = || SurveyedTable {
        figures: Err(Failure::new(Code::AuthenticationFailed, "permission denied")),
        ..surveyed()
    };
    let behind = |tables| {
        let text = text(&reading(None, tables));
        text.lines().find_map(|line| line.strip_prefix("behind    ").map(str::to_owned)).unwrap()
    };
    let one = ", without a table that could not be counted";
    assert_eq!(behind(vec![pending(0, 0.0), refused()]), format!("nothing is pending{one}"));
    let several = behind(vec![pending(3, 0.5), refused(), refused()]);
    assert!(several.ends_with(", without the tables that could not be counted"), "{several}");
    assert_eq!(behind(vec![refused()]), "unknown");
    let reading = reading(None, vec![pending(0, 0.0), refused()]);
    let config = Config::default();
    let json = render::json(&reading, &judge(&reading, &config), &config);
    assert_eq!((&json["pending_rows"], &json["uncounted_tables"]), (&json!(0), &json!(1)));
}

#[test]
fn the_router_of_another_source_is_another_router() {
    let other = Other { is: "pipeline shop, source stream".to_owned() };
    let reading = PollingReading { other: Some(other), ..reading(None, vec![surveyed()]) };
    let text = text(&reading);
    assert!(text.contains("is another: pipeline shop, source stream\n"), "{text}");
}

#[test]
fn the_json_has_the_same() {
    let config = Config::default();
    let reading = reading(None, vec![pending(3, 0.5)]);
    let judged = judge(&reading, &config);
    let json = render::json(&reading, &judged, &config);
    assert_eq!((&json["verdict"], &json["source"]), (&json!("unknown"), &json!("polling")));
    assert_eq!(json["pending_rows"], 3);
    assert_eq!(json["tables"][0]["holders"][0]["shards"], 64);
    assert_eq!(json["findings"][0]["commands"][0], "outbox-router status");
}

#[test]
fn rows_that_are_not_due_are_told_apart() {
    let mut table = pending(25, 30.0);
    let figures = table.figures.as_mut().unwrap();
    (figures.not_due, figures.due_in_seconds) = (2, Some(3_600.0));
    let text = text(&reading(Some(router("ok", "rows flow")), vec![table]));
    let line = "behind    25 rows are pending, of which 2 are not due before 60 min from now, the \
                oldest for 30 s\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_router_that_has_not_seen_yet_that_nobody_may_poll_is_not_believed() {
    let mut table = pending(5, 30.0);
    let what = "table public.outbox is being handed to the stream, and nobody polls it";
    table.handed = Some(Failure::of(Case::Switching, what));
    let reading = reading(Some(router("ok", "rows flow")), vec![table]);
    let judged = judge(&reading, &Config::default());
    assert!(!judged.overall.is_well());
    let text = text(&reading);
    assert!(text.starts_with(&format!("verdict   BLOCKED: {what} (P043)\n")), "{text}");
    assert!(text.contains("to blame  a person: nobody polls the tables\n"), "{text}");
    assert!(!text.contains("at this pace"), "{text}");
}

#[test]
fn a_row_that_waits_in_the_memory_of_the_router_is_counted_and_other_keys_go_on() {
    let mut halts = router("failed", "1 row waits for another attempt: no object (R009)");
    (halts["verdict"]["acts"], halts["verdict"]["code"]) = (json!("person"), json!("R009"));
    halts["tables"] = json!([{ "name": "public.outbox", "waiting": 1 }]);
    let text = text(&reading(Some(halts), vec![pending(3, 0.5)]));
    let blame = "to blame  a person: other keys go on, and what waits is tried again\n";
    assert!(text.contains(blame), "{text}");
    assert!(text.contains(", 1 wait for another attempt, 0 abandoned\n"), "{text}");
}
