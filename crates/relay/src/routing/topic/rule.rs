//! What a table's topics are, ready to be applied to a row.

use super::{
    java_regex::JavaRegex,
    name::{IllegalTopicName, TopicName},
    template::{Group, IllegalTemplate, Part, TopicTemplate},
};

/// A topic template, with the regular expression that it may refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicRule {
    parts: Vec<Part>,
    regex: Option<(JavaRegex, OnMismatch)>,
    depends_on_row: bool,
}

/// What becomes of a row whose aggregate type the regular expression does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMismatch {
    /// The row is refused.
    Error,
    /// The aggregate type is the topic, as in Debezium.
    Value,
}

/// Why a row has no topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoTopic {
    /// The regular expression does not match.
    Mismatch,
    /// The name is not legal in Kafka. The position of a character is counted within the aggregate
    /// type where that is all that the row contributes.
    Illegal(IllegalTopicName),
}

impl TopicRule {
    /// # Errors
    /// The template names a group that the expression does not have, or a group without one.
    pub(crate) fn new(
        template: &TopicTemplate,
        regex: Option<(&JavaRegex, OnMismatch)>,
    ) -> Result<Self, IllegalTemplate> {
        let parts = match regex {
            Some((regex, _)) => template.with_groups(regex)?,
            // Columns fill their placeholders before the rule is applied; see `routing/mapping`.
            None if template.of_columns().is_some() => vec![Part::Type],
            None => template.without_groups()?,
        };
        let regex = regex.map(|(regex, on_mismatch)| (regex.clone(), on_mismatch));
        let depends_on_row =
            regex.is_some() || parts.iter().any(|part| !matches!(part, Part::Text(_)));
        Ok(Self { parts, regex, depends_on_row })
    }

    /// Whether the topic depends on the row.
    #[inline]
    pub(crate) fn depends_on_row(&self) -> bool {
        self.depends_on_row
    }

    /// The topic of an aggregate type.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn topic(&self, aggregate_type: &str) -> Result<TopicName, NoTopic> {
        let Some((regex, on_mismatch)) = &self.regex else {
            let prefix = match self.parts.first() {
                Some(Part::Text(text)) => text.chars().count(),
                _ => 0,
            };
            return TopicName::new(&self.filled(aggregate_type, None))
                .map_err(|why| NoTopic::Illegal(why.counted_after(prefix)));
        };
        let name = match regex.find(aggregate_type) {
            Some(found) if regex.matches(aggregate_type) => {
                // Kafka's `RegexRouter`: only a whole match is replaced, but what is replaced is
                // the first match that `Matcher.replaceFirst` finds, which may be shorter.
                let (start, end) = found.get(0).map_or((0, 0), |all| (all.start(), all.end()));
                let before = aggregate_type.get(..start).unwrap_or_default();
                let after = aggregate_type.get(end..).unwrap_or_default();
                format!("{before}{}{after}", self.filled(aggregate_type, Some(&found)))
            }
            _ => match on_mismatch {
                OnMismatch::Error => return Err(NoTopic::Mismatch),
                OnMismatch::Value => aggregate_type.to_owned(),
            },
        };
        TopicName::new(&name).map_err(NoTopic::Illegal)
    }

    fn filled(&self, aggregate_type: &str, found: Option<&regex::Captures<'_>>) -> String {
        let mut name = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => name.push_str(text),
                Part::Type => name.push_str(aggregate_type),
                Part::Group(group) => {
                    let group = found.and_then(|found| match group {
                        Group::Number(number) => found.get(*number),
                        Group::Name(name) => found.name(name),
                    });
                    // A group that took no part in the match is empty, as in Java.
                    name.push_str(group.map_or("", |group| group.as_str()));
                }
            }
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(template: &str, regex: Option<&str>, value: &str) -> Result<String, NoTopic> {
        let template = TopicTemplate::parse(template).unwrap();
        let regex = regex.map(|regex| JavaRegex::parse(regex).unwrap());
        let regex = regex.as_ref().map(|regex| (regex, OnMismatch::Error));
        let rule = TopicRule::new(&template, regex).unwrap();
        rule.topic(value).map(|name| name.to_string())
    }

    fn named(name: &str) -> Result<String, NoTopic> {
        Ok(name.to_owned())
    }

    #[test]
    fn a_template_puts_the_aggregate_type_in_its_place() {
        assert_eq!(topic("shop.${aggregate_type}.v1", None, "order"), named("shop.order.v1"));
        assert_eq!(topic("orders", None, "anything/at all"), named("orders"));
        assert_eq!(topic("${aggregate_type}.${aggregate_type}", None, "a"), named("a.a"));
    }

    #[test]
    fn groups_of_the_expression_fill_their_placeholders() {
        let regex = Some("(?<routedByValue>.*)");
        assert_eq!(topic("outbox.${routedByValue}", regex, "User"), named("outbox.User"));
        assert_eq!(topic("o.$1.${aggregate_type}", Some("(.).*"), "User"), named("o.U.User"));
        assert_eq!(topic("x$2", Some("(a)|(b)"), "a"), named("x"));
        // The whole text matches by the second alternative; the first is what is replaced.
        assert_eq!(topic("x-", Some("a|ab"), "ab"), named("x-b"));
    }

    #[test]
    fn what_does_not_match_is_refused_or_is_the_topic() {
        assert_eq!(topic("x.$1", Some("(a+)"), "ab"), Err(NoTopic::Mismatch));
        let template = TopicTemplate::parse("x.$1").unwrap();
        let regex = JavaRegex::parse("(a+)").unwrap();
        let rule = TopicRule::new(&template, Some((&regex, OnMismatch::Value))).unwrap();
        assert_eq!(rule.topic("ab").unwrap().as_str(), "ab");
        assert!(rule.depends_on_row());
    }

    #[test]
    fn an_illegal_name_is_counted_within_the_aggregate_type() {
        let refused = topic("shop.${aggregate_type}", None, "a b").unwrap_err();
        let NoTopic::Illegal(IllegalTopicName::Character { position, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(position, 2);
    }
}
