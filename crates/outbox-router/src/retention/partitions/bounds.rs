//! What `pg_get_expr` writes of a partition's bounds.

/// Which rows a partition takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bounds {
    /// Those that no other takes.
    Default,
    /// Those from a value on, and before another.
    Range(End, End),
    /// By a list, by a hash, or by several columns.
    Other,
}

/// An end of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// There is none: `MINVALUE`, `MAXVALUE`, or an infinite time.
    Unbounded,
    /// A value, as PostgreSQL writes it.
    At(String),
}

/// The bounds of a partition by one column.
pub(super) fn parse(text: &str) -> Bounds {
    if text == "DEFAULT" {
        return Bounds::Default;
    }
    let parsed = text.strip_prefix("FOR VALUES FROM (").and_then(|rest| {
        let (from, rest) = end(rest)?;
        let (to, rest) = end(rest.strip_prefix(") TO (")?)?;
        (rest == ")").then_some(Bounds::Range(from, to))
    });
    parsed.unwrap_or(Bounds::Other)
}

/// One value, and what is behind it.
fn end(text: &str) -> Option<(End, &str)> {
    let (value, rest) = match text.strip_prefix('\'') {
        Some(quoted) => {
            // In a time or a number there is no quote.
            let (value, rest) = quoted.split_once('\'')?;
            (value, rest)
        }
        None => text.split_at(text.find([')', ','])?),
    };
    let end = match value {
        "MINVALUE" | "MAXVALUE" | "infinity" | "-infinity" => End::Unbounded,
        value => End::At(value.to_owned()),
    };
    Some((end, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: &str, to: &str) -> Bounds {
        Bounds::Range(End::At(from.to_owned()), End::At(to.to_owned()))
    }

    #[test]
    fn bounds_are_read_as_postgresql_writes_them() {
        for (text, bounds) in [
            ("DEFAULT", Bounds::Default),
            (
                "FOR VALUES FROM ('2026-01-01 00:00:00+00') TO ('2026-01-02 00:00:00+00')",
                range("2026-01-01 00:00:00+00", "2026-01-02 00:00:00+00"),
            ),
            ("FOR VALUES FROM ('-5') TO ('100')", range("-5", "100")),
            ("FOR VALUES FROM (1) TO (100)", range("1", "100")),
            (
                "FOR VALUES FROM (MINVALUE) TO ('2026-01-02')",
                Bounds::Range(End::Unbounded, End::At("2026-01-02".to_owned())),
            ),
            (
                "FOR VALUES FROM ('-infinity') TO (MAXVALUE)",
                Bounds::Range(End::Unbounded, End::Unbounded),
            ),
            ("FOR VALUES FROM (1, 2) TO (3, 4)", Bounds::Other),
            ("FOR VALUES IN ('a')", Bounds::Other),
            ("FOR VALUES WITH (modulus 2, remainder 0)", Bounds::Other),
            ("FOR VALUES FROM ('it''s') TO ('x')", Bounds::Other),
            ("", Bounds::Other),
        ] {
            assert_eq!(parse(text), bounds, "{text}");
        }
    }
}
