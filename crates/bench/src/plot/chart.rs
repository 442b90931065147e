//! Two kinds of chart: rows of bars or dots along a horizontal axis, and lines over a logarithmic one.

use super::scale::{Kind, Scale, short};
use super::svg::{Anchor, Svg};

const WIDTH: f64 = 800.0;
const LABELS: f64 = 190.0;
const RIGHT: f64 = 64.0;
/// Room for all percentiles.
const WIDE_RIGHT: f64 = 160.0;
const HEAD: f64 = 84.0;
const ROW: f64 = 22.0;
const GROUP: f64 = 30.0;
const FOOT: f64 = 52.0;
const PLOT_HEIGHT: f64 = 260.0;

/// What every chart has.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) title: String,
    /// What the figures are, and which way is good.
    pub(super) unit: String,
    /// The machine and the servers.
    pub(super) note: String,
    /// What the colours mean.
    pub(super) legend: Vec<String>,
}

impl Frame {
    fn draw(&self, svg: &mut Svg) {
        svg.text((16.0, 26.0), "title", Anchor::Start, &self.title);
        svg.text((16.0, 45.0), "quiet", Anchor::Start, &self.unit);
        let mut x = 16.0;
        for (colour, name) in self.legend.iter().enumerate() {
            svg.bar((x, 57.0), (11.0, 11.0), colour);
            svg.text((x + 16.0, 67.0), "", Anchor::Start, name);
            // Texts cannot be measured here: seven pixels a character is on the safe side.
            x += 36.0 + 7.0 * f64::from(u32::try_from(name.chars().count()).unwrap_or(0));
        }
    }
}

/// One line of a chart of rows.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) label: String,
    /// Figures with their colours: parts of one bar, or dots.
    pub(super) figures: Vec<(usize, f64)>,
    /// The smallest and the largest of the runs.
    pub(super) whisker: Option<(f64, f64)>,
}

/// How a row is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Parts of one bar from zero, and their sum beside it.
    Bars,
    /// Dots on a logarithmic axis.
    Dots,
}

/// Groups of rows under a heading each.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    pub(super) frame: Frame,
    pub(super) style: Style,
    pub(super) groups: Vec<(String, Vec<Row>)>,
}

impl Rows {
    pub(super) fn draw(&self) -> String {
        let (mut svg, rows) = (Svg::default(), self.groups.iter().flat_map(|(_, rows)| rows));
        let figures = rows.flat_map(|row| {
            let shown = match self.style {
                Style::Bars => vec![sum(row)],
                Style::Dots => row.figures.iter().map(|(_, figure)| *figure).collect(),
            };
            shown.into_iter().chain(row.whisker.map(|(_, most)| most))
        });
        let kind = match self.style {
            Style::Bars => Kind::Linear,
            Style::Dots => Kind::Log,
        };
        let right = match self.style {
            Style::Bars => RIGHT,
            Style::Dots => WIDE_RIGHT,
        };
        let scale = Scale::over(kind, figures, WIDTH - LABELS - right);
        let mut lines = 0.0;
        for (_, rows) in &self.groups {
            lines += GROUP + ROW * f64::from(u32::try_from(rows.len()).unwrap_or(0));
        }
        let bottom = HEAD + lines + 6.0;
        self.frame.draw(&mut svg);
        for tick in scale.ticks() {
            let x = LABELS + scale.at(tick);
            svg.line((x, HEAD), (x, bottom), "grid");
            svg.text((x, bottom + 16.0), "quiet", Anchor::Middle, &short(tick));
        }
        let mut y = HEAD;
        for (name, rows) in &self.groups {
            svg.text((16.0, y + 20.0), "group", Anchor::Start, name);
            y += GROUP;
            for row in rows {
                svg.text((LABELS - 8.0, y + 14.0), "", Anchor::End, &row.label);
                match self.style {
                    Style::Bars => bar(&mut svg, row, &scale, y),
                    Style::Dots => dots(&mut svg, row, &scale, y),
                }
                y += ROW;
            }
        }
        svg.text((16.0, bottom + 38.0), "quiet", Anchor::Start, &self.frame.note);
        svg.finish((WIDTH, bottom + FOOT), &self.frame.title)
    }
}

fn sum(row: &Row) -> f64 {
    row.figures.iter().map(|(_, figure)| figure).sum()
}

fn bar(svg: &mut Svg, row: &Row, scale: &Scale, y: f64) {
    let (mut below, mut end) = (0.0, 0.0);
    for (colour, figure) in &row.figures {
        let (from, to) = (scale.at(below), scale.at(below + figure));
        svg.bar((LABELS + from, y + 3.0), (to - from, ROW - 6.0), *colour);
        below += figure;
        end = to;
    }
    if let Some((least, most)) = row.whisker {
        let middle = y + ROW / 2.0;
        let (from, to) = (LABELS + scale.at(least), LABELS + scale.at(most));
        svg.line((from, middle), (to, middle), "whisker");
        for x in [from, to] {
            svg.line((x, middle - 4.0), (x, middle + 4.0), "whisker");
        }
        end = end.max(scale.at(most));
    }
    svg.text((LABELS + end + 7.0, y + 15.0), "", Anchor::Start, &short(sum(row)));
}

fn dots(svg: &mut Svg, row: &Row, scale: &Scale, y: f64) {
    let middle = y + ROW / 2.0;
    let places = row.figures.iter().map(|(_, figure)| LABELS + scale.at(*figure));
    let (least, most) = places
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| (least.min(x), most.max(x)));
    if least < most {
        svg.line((least, middle), (most, middle), "grid");
    }
    for (colour, figure) in &row.figures {
        svg.dot((LABELS + scale.at(*figure), middle), 5.0, *colour);
    }
    let texts: Vec<String> = row.figures.iter().map(|(_, figure)| short(*figure)).collect();
    let end = if most.is_finite() { most } else { LABELS };
    svg.text((end + 10.0, y + 14.0), "quiet", Anchor::Start, &texts.join(" · "));
}

/// A line of a chart of lines: its points by horizontal and vertical figure.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) colour: usize,
    pub(super) points: Vec<(f64, f64)>,
}

/// Lines over a logarithmic axis.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    pub(super) frame: Frame,
    pub(super) lines: Vec<Line>,
}

impl Lines {
    pub(super) fn draw(&self) -> String {
        let mut svg = Svg::default();
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let across = Scale::over(Kind::Log, points().map(|(x, _)| *x), WIDTH - 64.0 - 32.0);
        let up = Scale::over(Kind::Linear, points().map(|(_, y)| *y), PLOT_HEIGHT);
        let (left, bottom) = (64.0, HEAD + PLOT_HEIGHT);
        self.frame.draw(&mut svg);
        for tick in up.ticks() {
            let y = bottom - up.at(tick);
            svg.line((left, y), (WIDTH - 32.0, y), "grid");
            svg.text((left - 8.0, y + 4.0), "quiet", Anchor::End, &short(tick));
        }
        for tick in across.ticks() {
            let x = left + across.at(tick);
            svg.text((x, bottom + 18.0), "quiet", Anchor::Middle, &short(tick));
        }
        for Line { colour, points } in &self.lines {
            let places: Vec<(f64, f64)> =
                points.iter().map(|(x, y)| (left + across.at(*x), bottom - up.at(*y))).collect();
            svg.path(&places, *colour);
            places.iter().for_each(|place| svg.dot(*place, 4.0, *colour));
        }
        svg.text((16.0, bottom + 42.0), "quiet", Anchor::Start, &self.frame.note);
        svg.finish((WIDTH, bottom + FOOT + 4.0), &self.frame.title)
    }
}
