//! What the page shows of a state, and that it shows nothing else.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use relay::{
    Code, Failure, HeldLimits, Latencies, Lsn, PgTimestamp, Snapshot, State, TopicName,
    TopicTotals, Window,
    testing::samples::{self, empty_snapshot},
};
use tokio::time::Instant;

use super::{
    blocks::{BLOCKS, rendered},
    document::{STYLE, document},
    shown::Shown,
};
use crate::{
    admin::{AdminSettings, view::View},
    monitor::{MonitorReport, ObservedSlot, Polled, RelayReport, Thresholds, watch::LastSlot},
    retention::RetentionReport,
    status::{Facts, Limits, Observed, Verdict, Word},
};

/// Everything that the page is made from.
struct Router {
    settings: AdminSettings,
    snapshot: Snapshot,
    monitor: MonitorReport,
    observed: Observed,
    published_at: Instant,
}

impl Router {
    fn new(snapshot: Snapshot) -> Self {
        let now = Instant::now();
        let thresholds = Thresholds { warning: 256 << 20, critical: 2 << 30 };
        let window = Window { events: 20_000, bytes: 32 << 20 };
        let (name, slot) = ("shop".to_owned(), "shop_slot".to_owned());
        let settings =
            AdminSettings { name, slot, thresholds, keep: None, hosts: Vec::new(), window };
        let monitor = MonitorReport::initial(now);
        let observed = Observed::begin(now);
        let mut router = Self { settings, snapshot, monitor, observed, published_at: now };
        router.read_slot(now);
        router
    }

    fn read_slot(&mut self, at: Instant) {
        let read = Polled { at, wall: SystemTime::now() };
        let slot = samples::slot();
        self.monitor.polled_at = Some(read);
        self.monitor.slot = ObservedSlot::Seen(slot.clone());
        self.monitor.watch.last = Some(LastSlot {
            read,
            server_clock: 1_800_000_000.0,
            slot: Some(slot),
            rates: None,
            to_limit: None,
        });
    }

    /// Without its style, whose text is of no router.
    fn page(&self) -> String {
        let sources = RetentionReport {
            tables: Vec::new(),
            errors: 0,
            last_success: SystemTime::now(),
            failure: None,
            waits: None,
            abandoned: 0,
        };
        let relay = RelayReport::initial(self.snapshot.clone(), self.published_at);
        let view = View {
            settings: &self.settings,
            relay,
            monitor: self.monitor.clone(),
            observed: self.observed.clone(),
            retention: sources,
            brokers: None,
            now: Instant::now(),
        };
        document(&rendered(&Shown::of(&view))).into_string().replace(STYLE, "")
    }

    /// Looks once, as the observer does.
    fn observe(&mut self, now: Instant) {
        let limits = Limits { thresholds: self.settings.thresholds, window: self.settings.window };
        let relay = RelayReport::initial(self.snapshot.clone(), now);
        let facts = Facts::of(&relay, &self.monitor, limits, now);
        self.observed.trend.observe(&facts, now);
        let verdict = Verdict::of(&facts, Duration::ZERO);
        std::sync::Arc::make_mut(&mut self.observed.timeline).add(&verdict, SystemTime::now());
    }
}

fn because(state: State, code: Code, message: &str) -> Snapshot {
    let mut snapshot = empty_snapshot(state);
    snapshot.condition.reason = Some(Failure::new(code, message));
    snapshot
}

fn topic(name: &str, acked: u64) -> TopicTotals {
    let mut buckets = [0; 19];
    buckets[2] = acked;
    let name = TopicName::new(name).unwrap();
    TopicTotals { name, acked, latencies: Latencies { buckets, sum_micros: acked } }
}

/// A script, a style or an address from elsewhere would be refused by the policy, and so would
/// anything inline but the style.
fn assert_fits_the_policy(page: &str) {
    for forbidden in [" style=", " onclick=", "javascript:", "src=\"http", "href=\"http"] {
        assert!(!page.contains(forbidden), "{forbidden} in {page}");
    }
    assert_eq!(page.matches("<style").count(), 1);
    assert_eq!(page.matches("<script").count(), 1);
    assert!(page.contains("<script src=\"/page/script.js\" defer></script>"));
}

#[test]
fn every_verdict_has_its_word_its_shape_and_who_has_to_act() {
    let mut stands = Router::new(samples::snapshot(State::Streaming));
    stands.observed = Observed::begin(Instant::now().checked_sub(Duration::from_secs(90)).unwrap());
    let mut near = Router::new(empty_snapshot(State::Streaming));
    let position = samples::slot().confirmed_flush_lsn.unwrap();
    near.monitor.slot = ObservedSlot::Seen(crate::monitor::SlotHealth {
        current_wal_lsn: position,
        ..samples::slot()
    });
    let of = Router::new;
    let cases = [
        (Word::Ok, near, "Nobody has to act"),
        (Word::CatchingUp, of(samples::snapshot(State::Streaming)), "Kafka has to act"),
        (
            Word::Blocked,
            of(because(State::Blocked, Code::KafkaUnreachable, "no broker")),
            "Kafka has to act",
        ),
        (Word::Stalled, stands, "Kafka has to act"),
        (Word::Standby, of(empty_snapshot(State::Standby)), "The other router acts"),
        (Word::Failed, of(because(State::Failed, Code::SlotLost, "lost")), "A person has to act"),
    ];
    let mut icons = BTreeMap::new();
    for (word, router, acts) in cases {
        let page = router.page();
        assert!(page.contains(&format!("<h1>{}</h1>", word.title())), "{word:?}: {page}");
        assert!(page.contains(&format!("<title>{} · shop</title>", word.title())), "{page}");
        assert!(page.contains(&format!("<li>{acts}</li>")), "{word:?}: {page}");
        let icon = page.split("href=\"data:").nth(1).unwrap().split('"').next().unwrap();
        icons.insert(icon.to_owned(), word);
        assert_fits_the_policy(&page);
    }
    assert_eq!(icons.len(), Word::ALL.len(), "each has an icon of its own");
}

#[test]
fn the_part_that_has_to_act_is_marked_in_the_flow() {
    let page = Router::new(because(State::Blocked, Code::KafkaUnreachable, "no broker")).page();
    let blamed = page.split("node is-blamed").nth(1).expect("a node that is blamed");
    assert!(blamed.split("</h3>").next().unwrap().ends_with("Kafka"), "{blamed}");
    assert!(page.contains("No broker (K001)"), "{page}");
    assert!(page.contains("outbox-router explain K001"));
    // The hint is text around a command, which alone is copied.
    assert!(page.contains("data-copy=\"explain-0\""), "{page}");
    let tool = "tabindex=\"0\">kafka-broker-api-versions.sh --bootstrap-server HOST:PORT</pre>";
    assert!(page.contains(tool) && page.contains("data-copy=\"hint-0-1\""), "{page}");
    assert!(
        page.contains("<p class=\"say\">nothing is lost, and it goes on by itself; see"),
        "{page}"
    );
}

#[test]
fn a_station_that_is_not_well_has_no_check() {
    let node = |page: &str, name: &str| {
        let nodes = page.split("<li class=\"node ").skip(1);
        let of = |node: &&str| node.split("</h3>").next().unwrap().ends_with(name);
        nodes.into_iter().find(of).unwrap().split('"').next().unwrap().to_owned()
    };
    let standby = Router::new(empty_snapshot(State::Standby)).page();
    assert_eq!(node(&standby, "Slot"), "is-held");
    assert!(!standby.contains("has to act"), "{standby}");
    let mut lost = Router::new(because(State::Failed, Code::SlotLost, "lost"));
    let slot =
        relay::source::SlotHealth { wal_status: relay::source::WalStatus::Lost, ..samples::slot() };
    lost.monitor.watch.last.as_mut().unwrap().slot = Some(slot);
    let lost = lost.page();
    assert_eq!(
        ["Slot", "Router", "Ack"].map(|name| node(&lost, name)),
        ["is-wrong", "is-idle", "is-idle"]
    );
    let well = Router::new(empty_snapshot(State::Streaming)).page();
    assert_eq!(["Slot", "Router", "Kafka"].map(|name| node(&well, name)), ["is-well"; 3]);
}

/// Names and messages come from databases and brokers.
#[test]
fn hostile_texts_are_shown_as_they_are_and_never_as_html() {
    const HOSTILE: &str = "<script>alert(1)</script>\"'><img src=x>&amp;";
    let mut snapshot = because(State::Failed, Code::SlotLost, HOSTILE);
    snapshot.topics = vec![topic("a", 3)];
    let mut router = Router::new(snapshot);
    HOSTILE.clone_into(&mut router.settings.name);
    HOSTILE.clone_into(&mut router.settings.slot);
    let mut slot = samples::slot();
    slot.invalidation_reason = Some(HOSTILE.to_owned());
    router.monitor.watch.last.as_mut().unwrap().slot = Some(slot);
    router.monitor.findings = vec![Failure::new(Code::PublicationMissing, HOSTILE)];
    router.observe(Instant::now());
    let page = router.page();
    assert!(!page.contains("<script>") && !page.contains("<img"), "{page}");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;"), "{page}");
    assert_fits_the_policy(&page);
}

/// A topic's name is checked when it is made, so `<` gets no further than this.
#[test]
fn a_topic_has_no_name_that_could_be_html() {
    TopicName::new("<script>").unwrap_err();
}

#[test]
fn a_hundred_thousand_topics_are_the_twenty_largest_and_a_count() {
    let mut snapshot = empty_snapshot(State::Streaming);
    let name = |number: u64| format!("{}{number}", "t".repeat(240));
    snapshot.topics = (0..100_000).map(|number| topic(&name(number), number)).collect();
    let page = Router::new(snapshot).page();
    assert!(page.len() < 60_000, "{} bytes", page.len());
    assert!(page.contains(&name(99_999)) && page.contains(&name(99_980)));
    assert!(!page.contains(&name(99_979)));
    assert!(page.contains("And 99\u{202f}980 more topics with"), "{page}");
}

#[test]
fn the_largest_page_stays_small() {
    let long = "x".repeat(400);
    let mut router = Router::new(because(State::Failed, Code::SlotLost, &long));
    router.snapshot.topics =
        (0..50).map(|n| topic(&format!("{n}{}", "t".repeat(240)), n)).collect();
    router.monitor.findings = Code::ALL.iter().map(|code| Failure::new(*code, &long)).collect();
    let begin = Instant::now();
    for second in 0..4_000 {
        let word = if second % 2 == 0 { Code::SlotLost } else { Code::KafkaUnreachable };
        router.snapshot.condition.reason = Some(Failure::new(word, &long));
        router.observe(begin + Duration::from_secs(second));
    }
    let page = router.page();
    let assets = STYLE.len() + include_str!("assets/script.js").len();
    println!("{} bytes, and {assets} of style and script", page.len());
    assert!(page.len() + assets < 100_000, "{} + {assets} bytes", page.len());
}

#[test]
fn numbers_have_no_float_noise() {
    let mut router = Router::new(samples::snapshot(State::Streaming));
    let begin = Instant::now().checked_sub(Duration::from_millis(100_333)).unwrap();
    router.observed = Observed::begin(begin);
    for step in 0..300 {
        router.snapshot.topics = vec![topic("t", step * 7)];
        router.observe(begin + Duration::from_millis(step * 333));
    }
    router.snapshot.waiting_for_ack = Some(Duration::from_millis(2_345));
    router.snapshot.oldest_unacked = Some(PgTimestamp::from_unix_micros(1_234_567));
    router.monitor.watch.last.as_mut().unwrap().to_limit =
        Some(crate::monitor::watch::limit::TimeToLimit {
            seconds: 5_000.123_456,
            limit: crate::monitor::watch::limit::SlotLimit::WalKeepSize,
        });
    let page = router.page();
    let text: String =
        page.split('<').filter_map(|part| part.split_once('>')).map(|p| p.1).collect();
    let noise = text.split(|c: char| !c.is_ascii_digit() && c != '.').find(|number| {
        number
            .split_once('.')
            .is_some_and(|(_, fraction)| fraction.len() > 1 && !fraction.contains('.'))
    });
    assert_eq!(noise, None, "{text}");
    assert!(page.contains("<p class=\"value\">83 min</p>"), "{page}");
}

#[test]
fn figures_of_a_postgresql_that_does_not_answer_say_how_old_they_are() {
    let mut router = Router::new(empty_snapshot(State::Streaming));
    let then = Instant::now().checked_sub(Duration::from_secs(200)).unwrap();
    router.read_slot(then);
    router.monitor.slot = ObservedSlot::Unknown;
    router.monitor.trouble = Some(Failure::new(Code::ServerUnreachable, "refused"));
    let page = router.page();
    assert!(page.contains("<strong>Old figures.</strong> PostgreSQL was last read at "), "{page}");
    assert!(page.contains("no answer for 3 min"), "{page}");
    assert!(page.contains("PostgreSQL does not answer the monitor"), "{page}");
    let answers = Router::new(empty_snapshot(State::Streaming)).page();
    assert!(!answers.contains("Old figures"), "{answers}");
}

#[test]
fn what_is_held_is_stuck_and_shows_a_command() {
    let mut snapshot = empty_snapshot(State::Streaming);
    snapshot.held.held = HeldLimits { keys: 1, events: 3, bytes: 9 };
    let page = Router::new(snapshot).page();
    assert!(page.contains("3 events of 1 key are held behind dead letters"), "{page}");
    assert!(page.contains(">outbox-router dead-letters list</pre>"), "{page}");
    let idle = Router::new(empty_snapshot(State::Streaming)).page();
    assert!(idle.contains("Nothing is stuck."), "{idle}");
}

#[test]
fn a_row_waits_for_a_person_and_no_part_is_told_to_act() {
    let page = Router::new(because(State::Failed, Code::KeyIsNull, "the row with id 1")).page();
    assert!(page.contains("<li>A person has to act</li>"), "{page}");
    assert!(page.contains("<p class=\"flag\">a person has to act</p>"), "{page}");
    assert!(!page.contains(">has to act<") && !page.contains("router has to act"), "{page}");
}

#[test]
fn a_slot_that_is_gone_is_said_once_and_has_no_position() {
    let failure = Failure::new(Code::SlotMissing, "the slot is gone");
    let mark = crate::monitor::Mark { lsn: Lsn::from_u64(1), at: None };
    let interval = crate::monitor::Interval { from: None, to: mark };
    let mut router = Router::new(empty_snapshot(State::Failed));
    router.snapshot.witness.gaps = vec![crate::monitor::Gap::new(failure, interval)];
    router.monitor.slot = ObservedSlot::Missing;
    router.monitor.watch.last.as_mut().unwrap().slot = None;
    let page = router.page();
    assert!(page.contains("PostgreSQL has no slot of that name."), "{page}");
    assert!(page.contains("<p class=\"says\">does not exist</p>"), "{page}");
    assert!(!page.contains("0/0<"), "{page}");
    assert_eq!(page.matches("accept --gap P010@0/1").count(), 1, "{page}");
}

/// Each in a box of its own, and nothing else in it.
#[test]
fn what_is_said_around_commands_is_in_no_box() {
    let failure = Failure::new(Code::SlotMissing, "the slot is gone");
    let mark = crate::monitor::Mark { lsn: Lsn::from_u64(1), at: None };
    let interval = crate::monitor::Interval { from: None, to: mark };
    let mut router = Router::new(empty_snapshot(State::Failed));
    router.snapshot.witness.gaps = vec![crate::monitor::Gap::new(failure, interval)];
    let page = router.page();
    let boxes: Vec<&str> = page
        .split("<pre id=\"hint-0")
        .skip(1)
        .filter_map(|rest| rest.split_once('>')?.1.split("</pre>").next())
        .collect();
    let admin = "--admin-url postgres://ADMIN@HOST:PORT/DATABASE";
    assert_eq!(
        boxes,
        [
            format!("outbox-router recover {admin}"),
            format!("outbox-router setup --apply {admin}"),
            "outbox-router accept --gap P010@0/1".to_owned(),
        ]
    );
    for said in ["sends the missing rows and closes the gap (docs/recover.md); or", "gives them up"]
    {
        assert!(page.contains(&format!("<p class=\"say\">{said}</p>")), "{said}: {page}");
    }
    assert_fits_the_policy(&page);
}

#[test]
fn a_kafka_that_is_silent_has_one_age() {
    let mut router = Router::new(samples::snapshot(State::Streaming));
    router.snapshot.waiting_for_ack = Some(Duration::from_secs(35));
    let stands = Instant::now().checked_sub(Duration::from_secs(7)).unwrap();
    router.observed = Observed::begin(stands);
    let page = router.page();
    assert!(
        page.contains("No answer of Kafka") && !page.contains("No position has moved"),
        "{page}"
    );
    router.snapshot.waiting_for_ack = None;
    assert!(router.page().contains("No position has moved"));
}

/// The script replaces elements by these ids.
#[test]
fn every_block_is_one_element_with_its_id() {
    let router = Router::new(empty_snapshot(State::Standby));
    let page = router.page();
    for block in BLOCKS {
        assert_eq!(page.matches(&format!(" id=\"{}\"", block.id)).count(), 1, "{}", block.id);
    }
    let ids: Vec<&str> =
        page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let mut unique = ids.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
}

/// A position that nothing has reached is no reason to fail.
#[test]
fn a_router_that_has_seen_nothing_has_a_page() {
    let mut router = Router::new(empty_snapshot(State::Starting));
    router.monitor = MonitorReport::initial(Instant::now());
    router.snapshot.received = Lsn::ZERO;
    let page = router.page();
    assert!(page.contains("The slot was not read yet."), "{page}");
    assert!(page.contains("not asked yet"), "{page}");
}
