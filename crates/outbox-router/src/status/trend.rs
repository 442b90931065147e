//! The last hour in at most 240 points: how far the slot was behind, and how long acknowledgements
//! took. A process that has just started remembers little, so its points are close together; they
//! are thinned out as they become more.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use relay::{Latencies, Snapshot};
use tokio::time::Instant;

use super::Facts;

/// How far back the points go.
const SPAN: Duration = Duration::from_secs(3_600);

/// How many points there are at most. Each takes 200 bytes.
const POINTS_MAX: usize = 240;

/// Between two points at first, and at last: 240 of the latter are 64 minutes.
const STEP_MIN: Duration = Duration::from_secs(1);
const STEP_MAX: Duration = Duration::from_secs(16);

/// What was observed of the last hour.
#[derive(Debug, Clone)]
pub struct Trend {
    step: Duration,
    /// The oldest first. Shared, because what is observed is copied at each look and each answer.
    past: Arc<VecDeque<Point>>,
    present: Point,
}

/// What was observed in one step.
#[derive(Debug, Clone)]
pub struct Point {
    /// When the step began.
    pub at: Instant,
    /// The most that the slot was behind during it; `None` where the slot could not be read.
    pub bytes_behind: Option<u64>,
    /// Events that had been acknowledged when it began.
    pub acked: u64,
    /// The latencies of these events.
    pub latencies: Latencies,
}

impl Point {
    fn begin(at: Instant, bytes_behind: Option<u64>, snapshot: &Snapshot) -> Self {
        let latencies = latencies(snapshot);
        Self { at, bytes_behind, acked: latencies.events(), latencies }
    }
}

impl Trend {
    /// Before the first look.
    pub fn begin(at: Instant) -> Self {
        let present = Point { at, bytes_behind: None, acked: 0, latencies: Latencies::default() };
        Self { step: STEP_MIN, past: Arc::default(), present }
    }

    /// Takes the figures of this moment. A slot that is not read now adds nothing: its last figures
    /// say nothing of now.
    pub fn observe(&mut self, facts: &Facts<'_>, now: Instant) {
        let behind = facts.monitor.slot.health().map(relay::source::SlotHealth::bytes_behind);
        if now.saturating_duration_since(self.present.at) < self.step {
            self.present.bytes_behind = self.present.bytes_behind.max(behind);
            return;
        }
        let next = Point::begin(now, behind, facts.snapshot);
        let past = Arc::make_mut(&mut self.past);
        past.push_back(std::mem::replace(&mut self.present, next));
        let is_old = |point: &Point| now.saturating_duration_since(point.at) > SPAN;
        while past.front().is_some_and(is_old) {
            past.pop_front();
        }
        if past.len() >= POINTS_MAX {
            if self.step < STEP_MAX {
                *past = thinned(past);
                self.step *= 2;
            } else {
                past.pop_front();
            }
        }
    }

    /// The points, the oldest first; the last is the present one.
    pub fn points(&self) -> impl DoubleEndedIterator<Item = &Point> {
        self.past.iter().chain([&self.present])
    }

    /// When the oldest point began.
    pub fn since(&self) -> Instant {
        self.past.front().map_or(self.present.at, |oldest| oldest.at)
    }

    /// The latencies of what was acknowledged since the oldest point.
    pub fn latencies(&self, snapshot: &Snapshot) -> Latencies {
        let mut latest = latencies(snapshot);
        if let Some(oldest) = self.past.front() {
            let before = oldest.latencies.buckets;
            for (count, before) in latest.buckets.iter_mut().zip(before) {
                *count = count.saturating_sub(before);
            }
            latest.sum_micros = latest.sum_micros.saturating_sub(oldest.latencies.sum_micros);
        }
        latest
    }

    /// Events acknowledged in a second, over the last ten seconds or a step, whichever is longer;
    /// `None` before there is a second to count.
    pub fn events_per_second(&self, snapshot: &Snapshot, now: Instant) -> Option<f64> {
        const OVER: Duration = Duration::from_secs(10);
        let is_before = |point: &&Point| now.saturating_duration_since(point.at) >= OVER;
        let from = self.points().rev().find(is_before).or_else(|| self.points().next())?;
        let events = snapshot.events_acked().saturating_sub(from.acked);
        let time = now.saturating_duration_since(from.at);
        // A count as seconds, to divide it without losing whole numbers.
        (time >= STEP_MIN).then(|| Duration::from_secs(events).div_duration_f64(time))
    }
}

/// Half of the points: of two, the beginning of the first and the greater distance.
fn thinned(points: &VecDeque<Point>) -> VecDeque<Point> {
    let mut thinned: VecDeque<Point> = VecDeque::with_capacity(POINTS_MAX);
    let mut points = points.iter();
    while let Some(first) = points.next() {
        let mut point = first.clone();
        if let Some(second) = points.next() {
            point.bytes_behind = point.bytes_behind.max(second.bytes_behind);
        }
        thinned.push_back(point);
    }
    thinned
}

fn latencies(snapshot: &Snapshot) -> Latencies {
    let mut all = Latencies::default();
    for topic in &snapshot.topics {
        for (sum, count) in all.buckets.iter_mut().zip(topic.latencies.buckets) {
            *sum += count;
        }
        all.sum_micros = all.sum_micros.saturating_add(topic.latencies.sum_micros);
    }
    all
}

#[cfg(test)]
mod tests {
    use relay::{
        State, TopicName, TopicTotals, Window,
        testing::samples::{empty_snapshot, slot},
    };

    use super::*;
    use crate::{
        monitor::{MonitorReport, ObservedSlot, RelayReport, SlotHealth, Thresholds},
        status::Limits,
    };

    const LIMITS: Limits = Limits {
        thresholds: Thresholds { warning: 1 << 30, critical: 2 << 30 },
        window: Window { events: 1_000, bytes: 1 << 20 },
    };

    struct Hours {
        trend: Trend,
        relay: RelayReport,
        monitor: MonitorReport,
        begin: Instant,
        now: Instant,
    }

    impl Hours {
        fn new() -> Self {
            let now = Instant::now();
            let mut snapshot = empty_snapshot(State::Streaming);
            let name = TopicName::new("t").unwrap();
            snapshot.topics = vec![TopicTotals { name, acked: 0, latencies: Latencies::default() }];
            Self {
                trend: Trend::begin(now),
                relay: RelayReport::initial(snapshot, now),
                monitor: MonitorReport::initial(now),
                begin: now,
                now,
            }
        }

        /// Looks twice a second; ten events are acknowledged in each, and the slot's distance is
        /// the number of the second, in bytes.
        fn look_for(&mut self, seconds: u64) {
            for _ in 0..seconds * 2 {
                self.now += Duration::from_millis(500);
                let topic = &mut self.relay.snapshot.topics[0];
                topic.acked += 5;
                topic.latencies.buckets[1] += 5;
                if self.monitor.slot.health().is_some() {
                    self.be_behind((self.now - self.begin).as_secs());
                }
                let facts = Facts::of(&self.relay, &self.monitor, LIMITS, self.now);
                self.trend.observe(&facts, self.now);
            }
        }

        fn be_behind(&mut self, bytes: u64) {
            let position = slot().confirmed_flush_lsn.unwrap();
            let current_wal_lsn = relay::Lsn::from_u64(position.as_u64() + bytes);
            self.monitor.slot = ObservedSlot::Seen(SlotHealth { current_wal_lsn, ..slot() });
        }
    }

    #[test]
    fn an_hour_is_remembered_in_few_points_and_no_maximum_is_lost() {
        let mut hours = Hours::new();
        hours.be_behind(0);
        hours.look_for(100);
        assert_eq!(hours.trend.points().count(), 101, "one a second at first");
        hours.look_for(3 * 3_600);
        let points: Vec<&Point> = hours.trend.points().collect();
        assert!((200..=POINTS_MAX + 1).contains(&points.len()), "{}", points.len());
        let span = (hours.now - hours.trend.since()).as_secs();
        assert!((3_500..=3_616).contains(&span), "{span}");
        let greatest = points.iter().filter_map(|point| point.bytes_behind).max();
        assert_eq!(greatest, Some(3 * 3_600 + 100));
        let pairs = points.windows(2);
        assert!(pairs.into_iter().all(|pair| pair[0].at < pair[1].at));
    }

    #[test]
    fn while_the_slot_cannot_be_read_its_distance_is_not_known() {
        let mut hours = Hours::new();
        hours.be_behind(0);
        hours.look_for(20);
        hours.monitor.slot = ObservedSlot::Unknown;
        hours.look_for(20);
        let unknown = hours.trend.points().filter(|point| point.bytes_behind.is_none()).count();
        assert!((19..=22).contains(&unknown), "{unknown}");
    }

    #[test]
    fn what_was_acknowledged_before_the_hour_is_not_counted() {
        let mut hours = Hours::new();
        assert_eq!(hours.trend.events_per_second(&hours.relay.snapshot, hours.now), None);
        hours.look_for(2 * 3_600);
        let snapshot = &hours.relay.snapshot;
        let of_hour = hours.trend.latencies(snapshot).events();
        assert!((35_000..=36_200).contains(&of_hour), "{of_hour}");
        let rate = hours.trend.events_per_second(snapshot, hours.now).unwrap();
        assert!((9.9..=10.1).contains(&rate), "{rate}");
    }
}
