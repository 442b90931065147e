//! Which events a listener wants. It is compared in the streaming task, so that a rare topic can be
//! followed beside any number of events of others.

/// See the module's header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// A topic's name, in which `*` stands for any characters and `?` for one.
    pub topic: Option<String>,
    /// The whole key of a record.
    pub key: Option<String>,
}

impl Filter {
    /// Whether an event of this topic is wanted, if the key is; `None` is a row that has no topic.
    pub(super) fn takes_topic(&self, topic: Option<&str>) -> bool {
        match (&self.topic, topic) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(pattern), Some(topic)) => matches(pattern.as_bytes(), topic.as_bytes()),
        }
    }

    /// Whether an event with this key is wanted, if the topic is.
    pub(super) fn takes_key(&self, key: Option<&[u8]>) -> bool {
        self.key.as_ref().is_none_or(|wanted| key == Some(wanted.as_bytes()))
    }

    /// Whether every event is wanted.
    pub(super) fn takes_all(&self) -> bool {
        self.topic.is_none() && self.key.is_none()
    }
}

/// Whether a pattern describes a name. Topics have ASCII names, so a byte is a character. It goes
/// back to the last `*` alone, since what an earlier one stood for does not matter any more: the
/// time is the product of both lengths at most.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = name.get(in_name) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted == byte => {
                (at, in_name) = (at + 1, in_name + 1);
            }
            Some(_) | None => match &mut star {
                Some((star_at, taken)) => {
                    *taken += 1;
                    (at, in_name) = (*star_at + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_describes_whole_names() {
        for (pattern, name, expected) in [
            ("outbox.event.order", "outbox.event.order", true),
            ("outbox.event.order", "outbox.event.orders", false),
            ("outbox.*", "outbox.event.order", true),
            ("*order", "outbox.event.order", true),
            ("*.event.*", "outbox.event.order", true),
            ("*a*b", "xaybab", true),
            ("*a*b", "xayba", false),
            ("o?der", "order", true),
            ("o?der", "oder", false),
            ("*", "", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let (pattern, name) = ("*a".repeat(100), "a".repeat(249));
        assert!(!matches(format!("{pattern}b").as_bytes(), name.as_bytes()));
    }

    #[test]
    fn a_row_without_a_topic_is_wanted_by_nobody_who_names_one() {
        let named = Filter { topic: Some("*".to_owned()), ..Filter::default() };
        assert!(!named.takes_topic(None));
        assert!(Filter::default().takes_topic(None));
        let keyed = Filter { key: Some("k".to_owned()), ..Filter::default() };
        assert!(keyed.takes_key(Some(b"k")) && !keyed.takes_key(Some(b"k2")));
        assert!(!keyed.takes_key(None));
    }
}
