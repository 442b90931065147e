//! The figures of one run at a fixed rate.

use std::time::Duration;

use serde::Serialize;

use crate::figures::float;
use crate::listen::{DeliveryCost, LatencySamples};
use crate::topic::RunTopics;
use crate::watch::Anomaly;
use crate::writers::Timetable;

/// The figures of one run at one rate.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct LatencyFigures {
    #[serde(rename = "p50_ms")]
    pub(crate) p50: f64,
    #[serde(rename = "p99_ms")]
    pub(crate) p99: f64,
    #[serde(rename = "p999_ms")]
    pub(crate) p999: f64,
    #[serde(rename = "max_ms")]
    pub(crate) max: f64,
    pub(crate) written_per_second: f64,
    /// 99 % of the events were sent at most this much later than they were due; `None` where
    /// nothing was written into PostgreSQL.
    pub(crate) late_p99_ms: Option<f64>,
    #[serde(flatten)]
    pub(crate) cost: Option<DeliveryCost>,
}

impl LatencyFigures {
    /// Figures count only if every event arrived once and in order.
    pub(crate) async fn of(
        topics: &RunTopics,
        timetable: &Timetable,
        LatencySamples { latency, audit, cost }: LatencySamples,
        (took, late_p99_ms): (Duration, Option<f64>),
    ) -> anyhow::Result<Result<Self, Anomaly>> {
        let records = topics.records().await?;
        topics.delete().await?;
        let millis_at = |quantile: f64| float(latency.value_at_quantile(quantile)) / 1e6;
        let figures = Self {
            p50: millis_at(0.5),
            p99: millis_at(0.99),
            p999: millis_at(0.999),
            max: millis_at(1.0),
            written_per_second: float(timetable.events) / took.as_secs_f64(),
            late_p99_ms,
            cost,
        };
        Ok(audit.result(records).map(|()| figures).map_err(|anomalies| anomalies.to_string()))
    }
}
