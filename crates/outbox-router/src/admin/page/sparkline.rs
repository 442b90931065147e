//! The distance of the slot over the last hour, as a line. Where the slot could not be read, the
//! line has a gap.

use maud::{Markup, html};

use super::{format, shown::Shown};
use crate::wording;

const WIDTH: u64 = 600;
const HEIGHT: u64 = 100;

/// The line never seems to rise to the top for a few bytes.
const SCALE_MIN: u64 = 1 << 20;

pub(super) fn sparkline(shown: &Shown<'_>) -> Markup {
    let (trend, now) = (&shown.view.observed.trend, shown.view.now);
    let begin = trend.since();
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let span = millis(now.saturating_duration_since(begin)).max(1);
    let greatest = trend.points().filter_map(|point| point.bytes_behind).max().unwrap_or(0);
    let scale = greatest.max(SCALE_MIN);
    let y = |bytes| HEIGHT - format::part(bytes, scale, HEIGHT);

    let mut runs: Vec<Vec<(u64, u64)>> = vec![Vec::new()];
    for point in trend.points() {
        let x = format::part(millis(point.at.saturating_duration_since(begin)), span, WIDTH);
        match (point.bytes_behind, runs.last_mut()) {
            (Some(bytes), Some(run)) => run.push((x, y(bytes))),
            (None, Some(run)) if !run.is_empty() => runs.push(Vec::new()),
            _ => {}
        }
    }
    // The last figure holds until now.
    if let Some(run) = runs.last_mut()
        && let Some((_, y)) = run.last().copied()
    {
        run.push((WIDTH, y));
    }
    let thresholds = shown.view.settings.thresholds;
    let limits = [("warning", thresholds.warning), ("critical", thresholds.critical)];
    let began = shown.time_ago(now.saturating_duration_since(begin).as_secs_f64());
    html! {
        figure.spark {
            svg viewBox="0 0 600 100" preserveAspectRatio="none" role="img"
                aria-label={"Bytes behind since " (began) " UTC, at most " (wording::bytes(greatest))} {
                @for (name, bytes) in limits {
                    @if bytes <= scale {
                        line class={"limit " (name)} x1="0" x2="600" y1=(y(bytes)) y2=(y(bytes)) {}
                    }
                }
                @for run in runs.iter().filter(|run| !run.is_empty()) {
                    polygon.area points=(area(run)) {}
                    polyline.line points=(points(run)) {}
                }
            }
            p.axis {
                span { "since " time { (began) } " UTC" }
                span { "at most " (wording::bytes(greatest)) }
                span { "now" }
            }
            ul.legend {
                @for (name, bytes) in limits {
                    li {
                        svg.swatch viewBox="0 0 12 12" aria-hidden="true" {
                            line class={"limit " (name)} x1="0" x2="12" y1="6" y2="6" {}
                        }
                        (name) " from " (wording::bytes(bytes))
                        @if bytes > scale { " (above this scale)" }
                    }
                }
            }
        }
    }
}

fn points(run: &[(u64, u64)]) -> String {
    let points: Vec<String> = run.iter().map(|(x, y)| format!("{x},{y}")).collect();
    points.join(" ")
}

fn area(run: &[(u64, u64)]) -> String {
    let [from, to] = [run.first(), run.last()].map(|end| end.map_or(0, |(x, _)| *x));
    format!("{from},{HEIGHT} {} {to},{HEIGHT}", points(run))
}
