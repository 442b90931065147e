//! EventRouter's predicate: the tables whose records reach it. Debezium writes those of the other
//! tables to PREFIX.schema.table, which ends with the connector.

use relay::JavaRegex;

use super::{
    super::{
        properties::{Properties, Property},
        report::PropertyFinding,
    },
    context::Context,
    table_name::TableName,
};

/// The predicates, as they stand beside the transforms.
pub(super) struct Predicates(Vec<Property>);

/// What a predicate lets reach EventRouter.
enum Passes {
    /// Every row of the outbox.
    AllRows,
    /// The topics that match this pattern, or all others.
    Topics { pattern: String, selects: Selects },
    /// Some rows, by another property of their records.
    SomeRows,
}

impl Predicates {
    pub(super) fn take(context: &mut Context<'_>) -> Self {
        let mut all: Vec<Property> = context.input.take("predicates").into_iter().collect();
        all.extend(context.input.take_below("predicates."));
        Self(all)
    }

    /// Says what becomes of EventRouter's predicate, and returns it where it chooses tables.
    pub(super) fn apply(
        &self,
        context: &mut Context<'_>,
        options: &mut Properties,
    ) -> Option<TopicPattern> {
        const HARMLESS: &str = "the router reads the rows of the outbox and nothing else";
        let negate = options.take("negate");
        let Some(predicate) = options.take("predicate") else {
            for property in self.0.iter().chain(&negate) {
                context.report.carried(property, "EventRouter has no predicate");
            }
            return None;
        };
        let passes = self.passes(&predicate.value, negate.as_ref());
        let others = || negate.iter().chain(&self.0);
        if matches!(passes, Passes::SomeRows) {
            let others: Vec<String> =
                others().map(|one| format!("{}: {}", one.line, one.written)).collect();
            let text = "a predicate that is no topic's name: the router routes every row of the \
                        outbox";
            let with_it = if others.is_empty() { "" } else { "; with it " };
            let text = format!("{text}{with_it}{}", others.join(", "));
            let hint = "outbox.where chooses rows by the value of a column";
            context.report.unsupported(PropertyFinding::of(&predicate, text).hint(hint));
            return None;
        }
        for property in [&predicate].into_iter().chain(others()) {
            context.report.carried(property, HARMLESS);
        }
        let Passes::Topics { pattern, selects } = passes else { return None };
        Some(TopicPattern::new(context, predicate, pattern, selects))
    }

    fn passes(&self, predicate: &str, negate: Option<&Property>) -> Passes {
        let of = |name: &str| {
            let name = format!("predicates.{predicate}.{name}");
            self.0.iter().find(|property| property.name == name)
        };
        let is_negated = negate.is_some_and(|negate| negate.is("true"));
        let class = of("type").and_then(|class| class.value.rsplit('.').next());
        match (class, is_negated) {
            (Some("TopicNameMatches"), _) => Passes::Topics {
                pattern: of("pattern").map(|one| one.value.clone()).unwrap_or_default(),
                selects: if is_negated { Selects::Others } else { Selects::Matching },
            },
            (Some("RecordIsTombstone"), true) => Passes::AllRows,
            _ => Passes::SomeRows,
        }
    }
}

/// The topics that a pattern selects.
#[derive(PartialEq, Eq)]
enum Selects {
    Matching,
    /// Those that do not match: the predicate is negated.
    Others,
}

/// A predicate that lets the records of some topics reach EventRouter.
pub(super) struct TopicPattern {
    predicate: Property,
    pattern: String,
    selects: Selects,
    /// `None` where the router cannot read it.
    regex: Option<JavaRegex>,
    /// What stands before schema and table in a topic; `None` where it is not known.
    prefix: Option<String>,
    delimiter: String,
}

impl TopicPattern {
    fn new(context: &Context<'_>, predicate: Property, pattern: String, selects: Selects) -> Self {
        let of = |name: &str| context.input.get(name).map(|property| property.value.clone());
        let is_filled_later = |text: &str| text.contains("${");
        let delimiter = of("topic.delimiter").unwrap_or_else(|| ".".to_owned());
        let strategy = of("topic.naming.strategy");
        let is_by_schema =
            strategy.is_none_or(|class| class.ends_with(".SchemaTopicNamingStrategy"));
        let prefix = of("topic.prefix").or_else(|| of("database.server.name"));
        Self {
            predicate,
            regex: Some(&pattern)
                .filter(|pattern| !is_filled_later(pattern))
                .and_then(|pattern| JavaRegex::parse(pattern).ok()),
            pattern,
            selects,
            prefix: prefix.filter(|prefix| is_by_schema && !is_filled_later(prefix)),
            delimiter,
        }
    }

    /// Whether the table's records reach EventRouter; `None` where that is not known.
    pub(super) fn selects(&self, table: &TableName) -> Option<bool> {
        let (regex, prefix) = (self.regex.as_ref()?, self.prefix.as_deref()?);
        let is_match = regex.matches(&self.topic(prefix, table));
        Some(is_match == (self.selects == Selects::Matching))
    }

    /// The table that the pattern means, where it is the name of one topic.
    pub(super) fn table(&self) -> Option<TableName> {
        if self.selects == Selects::Others {
            return None;
        }
        let plain = self.pattern.replace("\\.", ".");
        let plain = plain.strip_prefix('^').unwrap_or(&plain);
        let rest = plain.strip_prefix(self.prefix.as_deref()?)?.strip_prefix(&self.delimiter)?;
        TableName::parse(rest)
    }

    /// Debezium writes `_` for what no topic's name may have.
    fn topic(&self, prefix: &str, table: &TableName) -> String {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let topic = [prefix, &table.schema, &table.name].join(&self.delimiter);
        topic.chars().map(|c| if legal(c) { c } else { '_' }).collect()
    }

    /// The topics of these tables, for a text.
    pub(super) fn topics(&self, tables: &[&TableName]) -> String {
        let prefix = self.prefix.as_deref().unwrap_or("PREFIX");
        tables.iter().map(|table| self.topic(prefix, table)).collect::<Vec<_>>().join(", ")
    }

    /// About the predicate.
    pub(super) fn finding(&self, text: impl Into<String>) -> PropertyFinding {
        PropertyFinding::of(&self.predicate, text)
    }
}
