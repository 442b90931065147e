//! Whether a hint is a command, or text that names one. Only what can be typed as it stands gets a
//! button that copies it: the rest of a hint's words would end up in the terminal.

/// How statements for psql begin.
const SQL: [&str; 8] =
    ["alter ", "select ", "grant ", "create ", "drop ", "insert ", "update ", "delete "];

/// The commands of Kafka that hints name.
const KAFKA: &str = "kafka-";

/// The longest command without options has three words, as in `outbox-router dead-letters list`.
const WORDS_MAX: usize = 3;

/// Whether the whole text is one command, or statements for psql and nothing else. In doubt it is
/// none: a command without a button is typed, and prose with one fails.
pub(super) fn is_command(text: &str) -> bool {
    if text.starts_with("outbox-router ") || text.starts_with(KAFKA) {
        return is_of_shell(text);
    }
    let is_statement = |part: &str| SQL.iter().any(|begin| part.starts_with(begin));
    text.split("; ").all(|part| is_statement(part) && !has_prose(part))
}

/// Words, and then options, each with one value at most.
fn is_of_shell(text: &str) -> bool {
    if text.contains(';') || has_prose(text) {
        return false;
    }
    let mut words = 0;
    let mut in_options = false;
    let mut values = 0;
    for word in text.split(' ') {
        if word.starts_with("--") {
            (in_options, values) = (true, 0);
        } else if in_options {
            values += 1;
            if values > 1 {
                return false;
            }
        } else {
            words += 1;
        }
    }
    words <= WORDS_MAX
}

/// Words that join a command to what is said about it.
fn has_prose(text: &str) -> bool {
    [", ", " or ", " then ", " and ", " gives ", " makes ", " (", "..."]
        .iter()
        .any(|joint| text.contains(joint))
}

#[cfg(test)]
mod tests {
    use relay::Names;

    use super::*;
    use crate::codes::{Advice, advised};

    #[test]
    fn commands_and_statements_can_be_copied() {
        for text in [
            "outbox-router dead-letters list",
            "outbox-router explain K010",
            "outbox-router accept --gap P010@0/16B3748",
            "outbox-router setup --apply --admin-url postgres://ADMIN@HOST:PORT/DATABASE",
            "kafka-topics.sh --bootstrap-server HOST:PORT --create --topic t --partitions 3",
            "grant select on pg_stat_activity to router",
            "alter table \"outbox\" owner to app; select pg_reload_conf()",
        ] {
            assert!(is_command(text), "{text}");
        }
    }

    #[test]
    fn text_around_a_command_is_not_copied_into_a_terminal() {
        for text in [
            "kafka-topics.sh --create --topic t --replication-factor 1, or set kafka.create_topics",
            "outbox-router recover --admin-url postgres://A@H:P/D sends the missing rows",
            "outbox-router recover --admin-url postgres://A@H:P/D sends the missing rows and closes",
            "check kafka.bootstrap_servers, then the brokers",
            "outbox-router accept shows it as it is now",
            "outbox-router run; or, if it is no longer needed, outbox-router teardown --apply",
            "alter publication p drop table t; a publication FOR ALL TABLES has to be replaced",
        ] {
            assert!(!is_command(text), "{text}");
        }
        assert!(!is_command(&advised(Advice::SlotUnreserved, &Names::default())));
    }
}
