//! The tap around the real core, with a server and a producer in memory.

use std::{num::NonZeroI32, time::Duration};

use relay::{
    Action, ErrorPolicy, FrameOutcome, HeldSettings, Input, Moment, Now, OnError, PgTimestamp,
    Relay, RelaySettings, TopicFacts,
    testing::{
        HeldTable, MemorySink, Source, samples,
        wire::{self, TEXT, Value},
    },
};
use serde_json::{Value as Json, json};

use super::{listener::EVENTS_WAITING_MAX, *};

const OUTBOX: u32 = 16_400;
const OTHER: u32 = 16_500;
const COLUMNS: [(&str, u32); 6] = [
    ("id", 2950),
    ("aggregate_type", TEXT),
    ("aggregate_id", TEXT),
    ("event_type", TEXT),
    ("payload", TEXT),
    ("headers", 3802),
];
/// 2026-01-31 10:00:01.204 UTC, in microseconds since 2000.
const COMMITTED_AT: i64 = 823_168_801_204_000;

struct Fixture {
    relay: Relay,
    source: Source,
    held: HeldTable,
    sink: MemorySink,
    tap: Tap,
    taps: Taps,
}

impl Fixture {
    fn new(shows: TapShows) -> Self {
        Self::with(shows, samples::settings())
    }

    fn with(shows: TapShows, settings: RelaySettings) -> Self {
        let (taps, tap) = taps(shows);
        let mut fixture = Self {
            relay: Relay::new(settings, Moment::default()),
            source: Source::of("outbox", OUTBOX, &[]),
            held: HeldTable::default(),
            sink: MemorySink::new(1_000_000),
            tap,
            taps,
        };
        fixture.handle(Input::SinkReady);
        fixture.frame(&wire::relation(OUTBOX, "outbox", &COLUMNS));
        fixture.frame(&wire::relation(OTHER, "orders", &COLUMNS));
        fixture.frame(&wire::begin(0x16B_3748, COMMITTED_AT));
        // From here on the topics are known.
        fixture.row("order", "warm-up", "{}");
        fixture.row("customer", "warm-up", "{}");
        fixture
    }

    fn now() -> Now {
        Now { at: Moment::default(), wall: PgTimestamp::from_micros(COMMITTED_AT + 1) }
    }

    fn handle(&mut self, input: Input<'_>) {
        self.relay.handle(input, Self::now());
        while let Some(action) = self.relay.next_action() {
            let answer = if let Action::LookUpTopic(id, _) = action {
                let partitions = NonZeroI32::new(3).unwrap();
                Some(Input::Topic(id, Ok(TopicFacts { partitions, max_message_bytes: None })))
            } else if let Action::Held(number, request) = action {
                Some(Input::Held(number, Ok(self.held.answer(request))))
            } else {
                self.source.answer(&action)
            };
            if let Some(answer) = answer {
                self.relay.handle(answer, Self::now());
            }
        }
    }

    /// Offers a frame as the shell does, until it is taken.
    fn frame(&mut self, frame: &[u8]) {
        for _ in 0..3 {
            self.tap.refresh();
            let now = Self::now();
            let outcome = self.relay.frame(frame, now, &mut self.sink);
            if outcome == FrameOutcome::Taken {
                if !self.tap.is_idle() {
                    self.tap.taken(&mut self.relay, frame);
                }
                return;
            }
            self.handle(Input::Tick);
        }
        panic!("a frame was held for good");
    }

    fn row(&mut self, aggregate_type: &str, key: &str, payload: &str) {
        let values = ["7d1a", aggregate_type, key, "Placed", payload, "{\"a\":\"b\"}"];
        self.frame(&wire::insert(1, OUTBOX, &values.map(Value::Text)));
    }

    fn open(&self, filter: Filter, wants: Wants) -> String {
        self.taps.open(filter, wants).unwrap()
    }

    /// The lines after one, and the number of the last.
    async fn lines(&self, id: &str, after: u64) -> (Vec<Json>, u64) {
        let text = self.taps.lines(id, after).await.unwrap();
        let mut lines: Vec<Json> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let last = lines.pop().unwrap();
        assert_eq!((&last["kind"], &last["id"]), (&json!("tap"), &json!(id)));
        (lines, last["after"].as_u64().unwrap())
    }
}

fn topics(lines: &[Json]) -> Vec<&str> {
    lines.iter().map(|line| line["topic"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_event_is_shown_without_its_content() {
    let mut fixture = Fixture::new(TapShows::Metadata);
    let id = fixture.open(Filter::default(), Wants::Metadata);
    fixture.row("order", "order-7", "{\"total\": 99}");
    let (lines, after) = fixture.lines(&id, 0).await;
    let expected = json!([{
        "kind": "event", "outcome": "routed", "topic": "outbox.event.order", "partition": 1,
        "key_bytes": 7, "value_bytes": 13, "tombstone": false, "headers": 3,
        "table": "public.outbox", "aggregate_type": "order", "event_type": "Placed",
        "commit_lsn": "0/16B3748", "index": 2, "committed_at": "2026-01-31T10:00:01.204Z",
    }]);
    assert_eq!((Json::from(lines), after), (expected, 1));
    assert_eq!(fixture.sink.produced().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn content_is_shown_where_the_configuration_allows_it() {
    let mut fixture = Fixture::new(TapShows::Content);
    let id = fixture.open(Filter::default(), Wants::Content);
    let modest = fixture.open(Filter::default(), Wants::Metadata);
    let long = "x".repeat(VALUE_SHOWN_MAX + 1);
    fixture.row("order", "order-7", &long);
    let (lines, _) = fixture.lines(&id, 0).await;
    let content = &lines[0]["content"];
    assert_eq!(content["key"], "order-7");
    assert_eq!(content["value"]["text"].as_str().unwrap().len(), VALUE_SHOWN_MAX);
    assert_eq!(content["value"]["of_bytes"], VALUE_SHOWN_MAX + 1);
    assert_eq!(content["headers"], json!([["id", "7d1a"], ["type", "Placed"], ["a", "b"]]));
    let (lines, _) = fixture.lines(&modest, 0).await;
    assert_eq!(lines[0].get("content"), None);
}

#[tokio::test(start_paused = true)]
async fn content_is_refused_where_the_configuration_does_not_allow_it() {
    let fixture = Fixture::new(TapShows::Metadata);
    let refused = |filter, wants| fixture.taps.open(filter, wants).unwrap_err();
    assert_eq!(refused(Filter::default(), Wants::Content), Unlistened::ContentNotShown);
    // Whoever may ask for one key after another learns which there are.
    let keyed = Filter { key: Some("order-7".to_owned()), topic: None };
    assert_eq!(refused(keyed, Wants::Metadata), Unlistened::ContentNotShown);
    assert!(Unlistened::ContentNotShown.to_string().contains("admin.tap = \"content\""));
}

#[tokio::test(start_paused = true)]
async fn a_rare_event_is_shown_beside_any_number_of_others() {
    let mut fixture = Fixture::new(TapShows::Content);
    let topic = Filter { topic: Some("*.cust?mer".to_owned()), key: None };
    let by_topic = fixture.open(topic, Wants::Metadata);
    let key = Filter { topic: None, key: Some("order-7".to_owned()) };
    let by_key = fixture.open(key, Wants::Metadata);
    fixture.row("customer", "c", "{}");
    for _ in 0..2 * EVENTS_WAITING_MAX {
        fixture.row("order", "order-1", "{}");
    }
    fixture.row("order", "order-7", "{}");
    fixture.row("customer", "c", "{}");
    let (lines, _) = fixture.lines(&by_topic, 0).await;
    assert_eq!(topics(&lines), ["outbox.event.customer"; 2], "nothing was missed");
    let (lines, _) = fixture.lines(&by_key, 0).await;
    assert_eq!(topics(&lines), ["outbox.event.order"]);
    assert_eq!(lines[0].get("content"), None, "it was not asked for");
}

/// The listener reads nothing: every event is produced, and it is told how many it has not seen.
#[tokio::test(start_paused = true)]
async fn what_a_slow_listener_misses_is_counted_where_it_is_missing() {
    let mut fixture = Fixture::new(TapShows::Metadata);
    let id = fixture.open(Filter::default(), Wants::Metadata);
    for _ in 0..EVENTS_WAITING_MAX + 100 {
        fixture.row("order", "k", "{}");
    }
    assert_eq!(fixture.sink.produced().len(), 2 + EVENTS_WAITING_MAX + 100);
    let (mut lines, mut after) = fixture.lines(&id, 0).await;
    while lines.iter().all(|line| line["kind"] == "event") {
        let (more, last) = fixture.lines(&id, after).await;
        after = last;
        lines.extend(more);
    }
    assert_eq!(lines.len(), EVENTS_WAITING_MAX + 1);
    assert_eq!(lines[EVENTS_WAITING_MAX], json!({ "kind": "not_shown", "events": 100 }));
    fixture.row("order", "k", "{}");
    let (lines, _) = fixture.lines(&id, after).await;
    assert_eq!(topics(&lines), ["outbox.event.order"], "nothing is missing any more");
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_told_before_the_event_that_follows_it() {
    let mut fixture = Fixture::new(TapShows::Metadata);
    let id = fixture.open(Filter::default(), Wants::Metadata);
    for _ in 0..EVENTS_WAITING_MAX + 3 {
        fixture.row("order", "k", "{}");
    }
    let reading = fixture.taps.clone();
    let (text, ()) = tokio::join!(async { reading.lines(&id, 0).await.unwrap() }, async {
        // While the answer gathers, its first line has made room.
        tokio::time::sleep(Duration::from_millis(50)).await;
        fixture.row("customer", "k", "{}");
    });
    let told = text.find("\"not_shown\",\"events\":3}").unwrap();
    assert!(told < text.find("outbox.event.customer").unwrap());
}

/// An answer may be lost on its way.
#[tokio::test(start_paused = true)]
async fn lines_come_again_until_they_have_arrived_and_not_after() {
    let mut fixture = Fixture::new(TapShows::Metadata);
    let id = fixture.open(Filter::default(), Wants::Metadata);
    fixture.row("order", "k", "{}");
    fixture.row("order", "k", "{}");
    let first = fixture.lines(&id, 0).await;
    assert_eq!(first.1, 2);
    assert_eq!(fixture.lines(&id, 0).await, first);
    assert_eq!(fixture.lines(&id, 2).await, (vec![], 2));
    fixture.row("customer", "k", "{}");
    let (lines, after) = fixture.lines(&id, 2).await;
    assert_eq!((topics(&lines), after), (vec!["outbox.event.customer"], 3));
}

#[tokio::test(start_paused = true)]
async fn a_fifth_tap_is_refused_and_a_forgotten_one_makes_room() {
    let mut fixture = Fixture::new(TapShows::Metadata);
    let forget = fixture.taps.clone().forget();
    tokio::pin!(forget);
    let ids: Vec<String> =
        (0..4).map(|_| fixture.open(Filter::default(), Wants::Metadata)).collect();
    assert_eq!(fixture.taps.open(Filter::default(), Wants::Metadata), Err(Unlistened::TooMany));
    // One of them is asked, and the others are not.
    for _ in 0..75 {
        tokio::select! {
            never = &mut forget => match never {},
            _ = fixture.taps.lines(&ids[0], 0) => {}
        }
    }
    assert!(fixture.taps.lines(&ids[0], 0).await.is_some());
    assert!(fixture.taps.lines(&ids[1], 0).await.is_none());
    let other = fixture.open(Filter::default(), Wants::Metadata);
    fixture.taps.end(&other);
    assert!(fixture.taps.lines(&other, 0).await.is_none());
    fixture.row("order", "k", "{}");
    assert!(!fixture.tap.is_idle());
    tokio::select! {
        never = &mut forget => match never {},
        () = tokio::time::sleep(Duration::from_secs(75)) => {}
    }
    fixture.row("order", "k", "{}");
    assert!(fixture.tap.is_idle(), "the streaming task has forgotten them, too");
    assert_eq!(fixture.sink.produced().len(), 4);
}

/// A dead letter, what is held behind it, and what is no event.
#[tokio::test(start_paused = true)]
async fn what_becomes_no_record_is_shown_with_its_fate() {
    let policy = ErrorPolicy { bad_row: OnError::DeadLetter, ..samples::settings().held.policy };
    let held = HeldSettings { policy, ..samples::settings().held };
    let mut fixture =
        Fixture::with(TapShows::Content, RelaySettings { held, ..samples::settings() });
    let id = fixture.open(Filter::default(), Wants::Content);
    let poison = ["7d1b", "order", "order-7", "Poison", "{}", "[7]"];
    fixture.frame(&wire::insert(1, OUTBOX, &poison.map(Value::Text)));
    fixture.row("order", "order-7", "{}");
    fixture.row("order", "order-8", "{}");
    fixture.frame(&wire::insert(1, OTHER, &poison.map(Value::Text)));
    let (lines, _) = fixture.lines(&id, 0).await;
    let seen: Vec<_> = lines
        .iter()
        .map(|line| (line["outcome"].as_str().unwrap(), line["index"].as_u64().unwrap()))
        .collect();
    assert_eq!(seen, [("dead_letter", 2), ("held", 3), ("routed", 4)]);
    assert_eq!(lines[0]["code"], "R009");
    assert_eq!(lines[0]["partition"], Json::Null);
    assert_eq!(topics(&lines), ["outbox.event.order"; 3]);
    assert_eq!(lines[1]["content"]["key"], "order-7");
    assert_eq!(fixture.sink.produced().len(), 3);
}
