//! Which pipelines the rules are about.

use super::{Alert, Expression, Pace};

/// What begins the name of every metric of a slot.
const OF_SLOT: &str = "outbox_slot_";

/// What begins the name of every metric of the router.
const OF_ROUTER: &str = "outbox_";

/// Which pipelines the rules are about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Every pipeline that is scraped.
    Every,
    /// That of one configuration. A rule about it can also say that it is missing.
    One {
        /// The configuration's `name`.
        pipeline: String,
        /// The configuration's `postgres.slot`.
        slot: String,
    },
}

impl Scope {
    /// The expression of an alert, with its metrics narrowed to the scope.
    pub fn expression(&self, alert: &Alert, pace: Pace) -> String {
        let text = match (&alert.expression, self) {
            (Expression::Same(text), _)
            | (Expression::ByScope { every: text, .. }, Self::Every)
            | (Expression::ByScope { one: text, .. }, Self::One { .. }) => *text,
        };
        self.narrowed(text, pace)
    }

    fn narrowed(&self, text: &str, pace: Pace) -> String {
        let mut narrowed = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let matchers = self.matchers(word);
            match (pace.duration(word), matchers) {
                (Some(duration), _) => narrowed.push_str(&duration),
                (None, None) => narrowed.push_str(word),
                (None, Some(matchers)) => {
                    narrowed.push_str(word);
                    narrowed.push('{');
                    narrowed.push_str(&matchers);
                    // Further matchers of the expression follow in the same braces.
                    if let Some(others) = after.strip_prefix('{') {
                        narrowed.push(',');
                        rest = others;
                        continue;
                    }
                    narrowed.push('}');
                }
            }
            let next = after.find(is_of_word).unwrap_or(after.len());
            let (between, words) = after.split_at(next);
            narrowed.push_str(between);
            rest = words;
        }
        narrowed
    }

    /// What a metric of this name is narrowed by. Names of metrics and slots have no characters
    /// that a matcher would need to escape.
    fn matchers(&self, word: &str) -> Option<String> {
        let Self::One { pipeline, slot } = self else { return None };
        if word.starts_with(OF_SLOT) {
            Some(format!("pipeline=\"{pipeline}\",slot=\"{slot}\""))
        } else if word.starts_with(OF_ROUTER) {
            Some(format!("pipeline=\"{pipeline}\""))
        } else {
            None
        }
    }
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_narrowed_whether_or_not_it_has_matchers() {
        let one = Scope::One { pipeline: "shop".to_owned(), slot: "s".to_owned() };
        let text =
            "max by (slot) (outbox_slot_active) == 0 and outbox_state{state=\"failed\"} [5m]";
        assert_eq!(
            one.narrowed(text, Pace::AS_SHIPPED),
            "max by (slot) (outbox_slot_active{pipeline=\"shop\",slot=\"s\"}) == 0 and \
             outbox_state{pipeline=\"shop\",state=\"failed\"} [5m]"
        );
        assert_eq!(Scope::Every.narrowed(text, Pace::AS_SHIPPED), text);
    }
}
