//! The little of SVG that charts need. Colours follow the reader's light or dark scheme by a style of
//! the picture's own, so one file serves both.

use std::fmt::Write as _;

const STYLE: &str = "\
text{font:13px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#24292f}\
.title{font-weight:600;font-size:16px}.quiet{font-size:11px;fill:#6e7781}.group{font-weight:600}\
.grid{stroke:#8c959f;stroke-opacity:.35}.whisker{stroke:#24292f;stroke-opacity:.7}\
.c0{fill:#2f81f7}.c1{fill:#8c959f}.c2{fill:#d29922}.c3{fill:#2da44e}.c4{fill:#a371f7}.c5{fill:#e5534b}\
.l0{stroke:#2f81f7}.l1{stroke:#8c959f}.l2{stroke:#d29922}.l3{stroke:#2da44e}.l4{stroke:#a371f7}.l5{stroke:#e5534b}\
polyline{fill:none;stroke-width:2}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.quiet{fill:#9198a1}.whisker{stroke:#e6edf3}}";

/// Colours that there are.
const COLOURS: usize = 6;

/// On which side of its position a text lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture in the making.
#[derive(Debug, Default)]
pub(super) struct Svg {
    body: String,
}

impl Svg {
    pub(super) fn text(&mut self, (x, y): (f64, f64), class: &str, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        self.push(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    pub(super) fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: usize) {
        self.push(&format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             class=\"c{}\"/>",
            colour % COLOURS
        ));
    }

    pub(super) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        self.push(&format!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"
        ));
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), radius: f64, colour: usize) {
        self.push(&format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" class=\"c{}\"/>",
            colour % COLOURS
        ));
    }

    pub(super) fn path(&mut self, points: &[(f64, f64)], colour: usize) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.push(&format!(
            "<polyline points=\"{}\" class=\"l{}\"/>",
            points.join(" "),
            colour % COLOURS
        ));
    }

    fn push(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    /// The whole file; `title` is what a screen reader says.
    pub(super) fn finish(self, (width, height): (f64, f64), title: &str) -> String {
        let mut file = String::new();
        // Writing to a string cannot fail.
        write!(
            file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" aria-label=\"{}\">\n\
             <style>{STYLE}</style>\n{}</svg>\n",
            title.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;"),
            self.body
        )
        .unwrap_or_default();
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_the_figures_cannot_break_the_file() {
        let mut svg = Svg::default();
        svg.text((0.0, 0.0), "quiet", Anchor::Start, "a<b & c>d");
        let file = svg.finish((10.0, 10.0), "\"<&");
        assert!(file.contains("a&lt;b &amp; c&gt;d"));
        assert!(file.contains("aria-label=\"&quot;&lt;&amp;\""));
    }
}
