//! From figures to positions, and where an axis has its ticks.

/// How figures are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// From zero.
    Linear,
    /// From the power of ten below the smallest to the one above the largest.
    Log,
}

/// Figures from `from` to `to` on so many pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    kind: Kind,
    from: f64,
    to: f64,
    pixels: f64,
}

impl Scale {
    /// One on which all `figures` have a place.
    pub(super) fn over(kind: Kind, figures: impl Iterator<Item = f64>, pixels: f64) -> Self {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for figure in figures.filter(|figure| figure.is_finite()) {
            (least, most) = (least.min(figure), most.max(figure));
        }
        let (from, to) = match kind {
            Kind::Linear => (0.0, if most > 0.0 { most * 1.02 } else { 1.0 }),
            Kind::Log if least > 0.0 && most.is_finite() => {
                let (from, to) = (least.log10().floor(), most.log10().ceil());
                (10f64.powf(from), 10f64.powf(if to > from { to } else { from + 1.0 }))
            }
            Kind::Log => (1.0, 10.0),
        };
        Self { kind, from, to, pixels }
    }

    /// Pixels from the origin.
    pub(super) fn at(&self, figure: f64) -> f64 {
        let part = match self.kind {
            Kind::Linear => (figure - self.from) / (self.to - self.from),
            Kind::Log => {
                let low = self.from.log10();
                (figure.max(self.from).log10() - low) / (self.to.log10() - low)
            }
        };
        part.clamp(0.0, 1.0) * self.pixels
    }

    /// Round figures, about five of them.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let mut ticks = Vec::new();
        match self.kind {
            Kind::Linear => {
                let rough = self.to / 5.0;
                let power = 10f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0]
                    .into_iter()
                    .map(|factor| factor * power)
                    .find(|step| *step >= rough * 0.999)
                    .unwrap_or(rough);
                let mut tick = 0.0;
                while tick <= self.to * 1.000_001 {
                    ticks.push(tick);
                    tick += step;
                }
            }
            Kind::Log => {
                let mut tick = self.from;
                while tick <= self.to * 1.000_001 {
                    ticks.push(tick);
                    tick *= 10.0;
                }
            }
        }
        ticks
    }
}

/// A figure with about three digits, and thousands as `k`, millions as `M`.
pub(super) fn short(figure: f64) -> String {
    let text = match figure.abs() {
        size if size >= 1e6 => return format!("{}M", short(figure / 1e6)),
        size if size >= 10_000.0 => return format!("{}k", short(figure / 1000.0)),
        size if size >= 100.0 => format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_scale() {
        let linear = Scale::over(Kind::Linear, [0.3, 2.3].into_iter(), 100.0);
        assert_eq!(linear.ticks(), [0.0, 0.5, 1.0, 1.5, 2.0]);
        let log = Scale::over(Kind::Log, [0.3, 42.0].into_iter(), 300.0);
        assert_eq!(log.ticks().len(), 4);
        assert!((log.at(1.0) - 100.0).abs() < 1e-6);
    }

    #[test]
    fn nothing_to_show_is_still_a_scale() {
        for kind in [Kind::Linear, Kind::Log] {
            let scale = Scale::over(kind, std::iter::empty(), 100.0);
            assert!(scale.at(1.0).is_finite() && !scale.ticks().is_empty());
        }
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [0.25, 12.34, 123.4, 54_321.0, 1e6].map(short),
            ["0.25", "12.3", "123", "54.3k", "1M"]
        );
    }
}
