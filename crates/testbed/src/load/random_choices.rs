//! The random choices of one writer: which kind of transaction, which aggregates, what is in an
//! event.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;

use super::PayloadBytes;
use super::mix::{Mix, TransactionKind};
use super::schema::{Partitioning, Schema};
use super::transaction::Draft;

const EVENT_TYPES: [&str; 3] = ["created", "paid", "shipped"];
/// Characters that JSON, COPY, UTF-8 and `jsonb` spell differently.
const ALPHABET: [&str; 8] = ["abcdefgh", "0", " ", "é", "🦀", "\"", "\\", "\n\t"];

/// Whether events may carry headers of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Headers {
    Some,
    None,
}

/// A seeded source of choices.
#[derive(Debug)]
pub(super) struct RandomChoices {
    random: StdRng,
    bytes: PayloadBytes,
    aggregates: i32,
    headers: Headers,
    partitioning: Partitioning,
}

impl RandomChoices {
    pub(super) fn new(seed: u64, bytes: PayloadBytes, schema: &Schema) -> Self {
        let headers = schema.columns().headers.map_or(Headers::None, |_| Headers::Some);
        Self {
            random: StdRng::seed_from_u64(seed),
            bytes,
            aggregates: schema.aggregates,
            headers,
            partitioning: schema.partitioning,
        }
    }

    /// A kind of transaction.
    pub(super) fn kind(&mut self, mix: &Mix) -> TransactionKind {
        mix.pick(&mut self.random)
    }

    /// An aggregate.
    pub(super) fn aggregate(&mut self) -> i32 {
        self.random.random_range(0..self.aggregates)
    }

    /// True once in so many times, on average.
    pub(super) fn one_in(&mut self, times: u32) -> bool {
        self.random.random_ratio(1, times)
    }

    /// Some part of a time span.
    pub(super) fn part_of(&mut self, span: Duration) -> Duration {
        span.mul_f64(self.random.random_range(0.0..1.0))
    }

    /// The events of one transaction.
    pub(super) fn drafts(&mut self, kind: TransactionKind) -> Vec<Draft> {
        let most =
            if matches!(kind, TransactionKind::MultiRow | TransactionKind::Copy) { 20 } else { 4 };
        let count = self.random.random_range(1..=most);
        let mut aggregates: Vec<i32> = (0..count).map(|_| self.aggregate()).collect();
        if kind == TransactionKind::Copy && self.partitioning == Partitioning::Hash {
            aggregates.sort_unstable();
            aggregates.dedup();
        }
        aggregates.into_iter().map(|aggregate| self.draft(aggregate)).collect()
    }

    /// One event of an aggregate.
    pub(super) fn draft(&mut self, aggregate: i32) -> Draft {
        let headers = (self.headers == Headers::Some && self.one_in(4)).then(|| {
            let trace: u64 = self.random.random();
            format!(r#"{{"source": "testbed", "trace": "{trace:x}"}}"#)
        });
        let at = usize::from(self.random.random::<u8>());
        Draft {
            // Not derived from the seed: two loads on one database must not write the same ids.
            id: Uuid::new_v4(),
            aggregate,
            event_type: EVENT_TYPES.get(at % EVENT_TYPES.len()).copied().unwrap_or("created"),
            payload: self.payload(),
            headers,
        }
    }

    /// A JSON object with padding, which has special characters.
    fn payload(&mut self) -> String {
        let (min, max) = (self.bytes.min, self.bytes.max);
        let wanted = self.random.random_range(min..=max.max(min));
        let mut pad = String::with_capacity(wanted + 8);
        while pad.len() < wanted {
            let at = usize::from(self.random.random::<u8>());
            // Mostly plain text, because special characters would change the size that was asked
            // for.
            let odd = if at < 32 { at % ALPHABET.len() } else { 0 };
            pad.push_str(ALPHABET.get(odd).copied().unwrap_or("x"));
        }
        serde_json::json!({ "pad": pad }).to_string()
    }
}
