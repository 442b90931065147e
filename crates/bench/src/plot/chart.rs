//! Two kinds of chart: rows of bars or dots along a horizontal axis, and lines over a logarithmic
//! one.
//!
//! The crate plotters writes the SVG. Two things that it does not support are added to its text:
//! colours that follow the reader's light or dark scheme, so that one file serves both, and a name
//! for screen readers.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const WIDTH: u32 = 800;
const HEAD: i32 = 84;
const FOOT: i32 = 54;
const LABELS: i32 = 190;
const ROW: i32 = 22;
const GROUP: i32 = 30;
const PLOT: i32 = 290;

const INK: RGBColor = RGBColor(0x24, 0x29, 0x2f);
const QUIET: RGBColor = RGBColor(0x6e, 0x77, 0x81);
const GREY: RGBColor = RGBColor(0x8c, 0x95, 0x9f);
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x2f, 0x81, 0xf7),
    GREY,
    RGBColor(0xd2, 0x99, 0x22),
    RGBColor(0x2d, 0xa4, 0x4e),
    RGBColor(0xa3, 0x71, 0xf7),
    RGBColor(0xe5, 0x53, 0x4b),
];
const STYLE: &str = "<style>text{font-family:system-ui,-apple-system,'Segoe UI',sans-serif}\
    @media(prefers-color-scheme:dark){text[fill='#24292F']{fill:#e6edf3}\
    text[fill='#6E7781']{fill:#9198a1}[stroke='#24292F']{stroke:#e6edf3}}</style>";

/// What every chart has.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) title: &'static str,
    /// What the figures are, and whether more or less is better.
    pub(super) unit: String,
    /// The machine and the servers.
    pub(super) note: String,
    /// What the colours mean.
    pub(super) legend: Vec<String>,
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

/// What is drawn below the head.
#[derive(Debug, Clone)]
pub(super) enum Body {
    /// Groups of rows under a heading each.
    Rows(Style, Vec<(String, Vec<Row>)>),
    /// Lines over a logarithmic axis, by horizontal and vertical figure.
    Lines(Vec<Vec<(f64, f64)>>),
}

#[derive(Debug, Clone)]
pub(super) struct Chart {
    pub(super) frame: Frame,
    pub(super) body: Body,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Chart {
    /// The text of an SVG file.
    pub(super) fn draw(&self) -> anyhow::Result<String> {
        let Self { frame, body } = self;
        let bottom = HEAD
            + match body {
                Body::Lines(_) => PLOT,
                Body::Rows(_, groups) => groups.iter().try_fold(30, |sum, (_, rows)| {
                    anyhow::Ok(sum + GROUP + ROW * i32::try_from(rows.len())?)
                })?,
            };
        let mut svg = String::new();
        {
            let size = (WIDTH, u32::try_from(bottom + FOOT - 24)?);
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            write(&root, (16, 21), Font::Title, HPos::Left, frame.title)?;
            write(&root, (16, 41), Font::Quiet, HPos::Left, &frame.unit)?;
            let mut x = 16;
            for (colour, name) in frame.legend.iter().enumerate() {
                root.draw(&Rectangle::new([(x, 57), (x + 11, 68)], of(colour).filled()))?;
                write(&root, (x + 16, 62), Font::Plain, HPos::Left, name)?;
                // Texts cannot be measured here: seven pixels a character is enough.
                x += 36 + 7 * i32::try_from(name.chars().count())?;
            }
            match body {
                Body::Rows(style, groups) => rows(&root, *style, groups, bottom)?,
                Body::Lines(lines) => self::lines(&root, lines)?,
            }
            write(&root, (16, bottom + 14), Font::Quiet, HPos::Left, &frame.note)?;
            root.present()?;
        }
        let name = format!("<svg role=\"img\" aria-label=\"{}\" ", frame.title);
        Ok(svg.replacen("<svg ", &name, 1).replacen(">\n", &format!(">\n{STYLE}\n"), 1))
    }
}

fn of(colour: usize) -> RGBColor {
    COLOURS.iter().cycle().nth(colour).copied().unwrap_or(GREY)
}

#[derive(Debug, Clone, Copy)]
enum Font {
    Title,
    Group,
    Plain,
    Quiet,
}

impl Font {
    fn style(self) -> TextStyle<'static> {
        let (pixels, weight, colour) = match self {
            Self::Title => (16.0, FontStyle::Bold, INK),
            Self::Group => (13.0, FontStyle::Bold, INK),
            Self::Plain => (13.0, FontStyle::Normal, INK),
            Self::Quiet => (11.0, FontStyle::Normal, QUIET),
        };
        // plotters writes the size divided by this.
        ("sans-serif", pixels * 1.24).into_font().style(weight).color(&colour)
    }
}

fn write(
    area: &Area<'_>,
    at: (i32, i32),
    font: Font,
    side: HPos,
    text: &str,
) -> anyhow::Result<()> {
    let style = font.style().pos(Pos::new(side, VPos::Center));
    Ok(area.draw(&Text::new(text.to_owned(), at, style))?)
}

/// A range from zero, with room for the largest figure.
fn linear(figures: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    0.0..figures.fold(f64::MIN_POSITIVE, f64::max) * 1.02
}

/// The range of exponents of ten around the figures, and how many ticks it has.
fn decades(figures: impl Iterator<Item = f64>) -> (std::ops::Range<f64>, usize) {
    let figures = figures.filter(|figure| *figure > 0.0).map(f64::log10);
    let (least, most) = figures
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| (least.min(x), most.max(x)));
    let from = if least.is_finite() { least.floor() } else { 0.0 };
    let range = from..most.ceil().max(from + 1.0);
    let ticks = std::iter::successors(Some(from), |tick| Some(tick + 1.0));
    let count = ticks.take_while(|tick| *tick <= range.end).count();
    (range, count)
}

fn rows(
    root: &Area<'_>,
    style: Style,
    groups: &[(String, Vec<Row>)],
    bottom: i32,
) -> anyhow::Result<()> {
    let all = || groups.iter().flat_map(|(_, rows)| rows);
    let (range, ticks, right) = match style {
        Style::Bars => {
            let ends = all().map(|row| row.whisker.map_or(0.0, |(_, most)| most).max(sum(row)));
            (linear(ends), 6, 64)
        }
        Style::Dots => {
            let (range, ticks) = decades(all().flat_map(|row| &row.figures).map(|(_, at)| *at));
            (range, ticks, 160)
        }
    };
    let height = root.dim_in_pixel().1;
    let area = root.margin(HEAD, i32::try_from(height)? - bottom, 0, 0);
    let mut chart = ChartBuilder::on(&area)
        .margin_left(LABELS)
        .margin_right(right)
        .x_label_area_size(24)
        .build_cartesian_2d(range, 0..1)?;
    let figure = |x: f64| if style == Style::Dots { 10_f64.powf(x) } else { x };
    chart
        .configure_mesh()
        .disable_y_axis()
        .disable_y_mesh()
        .axis_style(TRANSPARENT)
        .light_line_style(TRANSPARENT)
        .bold_line_style(GREY.mix(0.35))
        .x_labels(ticks)
        .x_label_formatter(&|x| short(figure(*x)))
        .label_style(Font::Quiet.style())
        .draw()?;
    let x = |figure: f64| {
        chart.backend_coord(&(if style == Style::Dots { figure.log10() } else { figure }, 0)).0
    };
    let mut y = HEAD;
    for (name, rows) in groups {
        write(root, (16, y + 16), Font::Group, HPos::Left, name)?;
        y += GROUP;
        for row in rows {
            write(root, (LABELS - 8, y + ROW / 2), Font::Plain, HPos::Right, &row.label)?;
            match style {
                Style::Bars => bar(root, row, x, y)?,
                Style::Dots => dots(root, row, x, y)?,
            }
            y += ROW;
        }
    }
    Ok(())
}

fn sum(row: &Row) -> f64 {
    row.figures.iter().map(|(_, figure)| figure).sum()
}

fn bar(root: &Area<'_>, row: &Row, x: impl Fn(f64) -> i32, y: i32) -> anyhow::Result<()> {
    let mut below = 0.0;
    for (colour, figure) in &row.figures {
        let corners = [(x(below), y + 3), (x(below + figure), y + ROW - 3)];
        root.draw(&Rectangle::new(corners, of(*colour).filled()))?;
        below += figure;
    }
    let (mut end, middle) = (x(below), y + ROW / 2);
    if let Some((from, to)) = row.whisker.map(|(least, most)| (x(least), x(most))) {
        root.draw(&PathElement::new([(from, middle), (to, middle)], INK.mix(0.7)))?;
        for x in [from, to] {
            root.draw(&PathElement::new([(x, middle - 4), (x, middle + 4)], INK.mix(0.7)))?;
        }
        end = end.max(to);
    }
    write(root, (end + 7, middle), Font::Plain, HPos::Left, &short(sum(row)))
}

fn dots(root: &Area<'_>, row: &Row, x: impl Fn(f64) -> i32, y: i32) -> anyhow::Result<()> {
    let middle = y + ROW / 2;
    let places = || row.figures.iter().map(|(_, figure)| x(*figure));
    let (Some(least), Some(most)) = (places().min(), places().max()) else { return Ok(()) };
    root.draw(&PathElement::new([(least, middle), (most, middle)], GREY.mix(0.35)))?;
    for (colour, figure) in &row.figures {
        root.draw(&Circle::new((x(*figure), middle), 5, of(*colour).filled()))?;
    }
    let texts: Vec<String> = row.figures.iter().map(|(_, figure)| short(*figure)).collect();
    write(root, (most + 10, middle), Font::Quiet, HPos::Left, &texts.join(" · "))
}

fn lines(root: &Area<'_>, lines: &[Vec<(f64, f64)>]) -> anyhow::Result<()> {
    let points = || lines.iter().flatten();
    let (across, ticks) = decades(points().map(|(x, _)| *x));
    let height = root.dim_in_pixel().1;
    let area = root.margin(HEAD, i32::try_from(height)? - HEAD - PLOT, 0, 0);
    let mut chart = ChartBuilder::on(&area)
        .margin_right(32)
        .x_label_area_size(24)
        .y_label_area_size(64)
        .build_cartesian_2d(across, linear(points().map(|(_, y)| *y)))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .axis_style(TRANSPARENT)
        .light_line_style(TRANSPARENT)
        .bold_line_style(GREY.mix(0.35))
        .x_labels(ticks)
        .y_labels(6)
        .x_label_formatter(&|x| short(10_f64.powf(*x)))
        .y_label_formatter(&|y| short(*y))
        .label_style(Font::Quiet.style())
        .draw()?;
    for (colour, points) in lines.iter().enumerate() {
        let places = || points.iter().map(|(x, y)| (x.log10(), *y));
        chart.draw_series(LineSeries::new(places(), of(colour).stroke_width(2)))?;
        let dot = |at| Circle::new(at, 4, of(colour).filled());
        chart.draw_series(places().map(dot))?;
    }
    Ok(())
}

/// A figure with about three digits, and thousands as `k`, millions as `M`.
fn short(figure: f64) -> String {
    let text = match figure.abs() {
        size if size >= 1e6 => return format!("{}M", short(figure / 1e6)),
        size if size >= 10_000.0 => return format!("{}k", short(figure / 1000.0)),
        size if size >= 100.0 => return format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_in_the_svg() {
        let frame =
            Frame { title: "t", unit: "a<b & c>d".to_owned(), note: String::new(), legend: vec![] };
        let svg = Chart { frame, body: Body::Lines(vec![]) }.draw().unwrap();
        assert!(svg.contains("a&lt;b &amp; c&gt;d") && svg.contains(STYLE), "{svg}");
    }

    #[test]
    fn numbers_are_printed_with_few_digits() {
        assert_eq!(
            [0.25, 12.34, 123.4, 54_321.0, 1e6].map(short),
            ["0.25", "12.3", "123", "54.3k", "1M"]
        );
    }
}
