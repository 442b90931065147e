//! The configuration. What to write instead of a value depends on its key, so the error itself says
//! it; the remedies here say where to look.

use super::explanation::Explanation;
use crate::config::ConfigCode;

const CHECK: &str = "`outbox-router check` lists every problem at once, with its place";

pub(super) const EXPLANATIONS: &[Explanation] = &[
    Explanation {
        code: ConfigCode::FileUnreadable.as_str(),
        title: "the configuration file cannot be read",
        meaning: "The file that --config or OUTBOX_ROUTER_CONFIG names cannot be opened.",
        remedy: "--config FILE or OUTBOX_ROUTER_CONFIG names the file; none is needed at all",
        cases: &[],
    },
    Explanation {
        code: ConfigCode::Syntax.as_str(),
        title: "the configuration file is not TOML",
        meaning: "The message names line and column, and what was expected there.",
        remedy: CHECK,
        cases: &[],
    },
    Explanation {
        code: ConfigCode::UnknownKey.as_str(),
        title: "there is no key of that name",
        meaning: "A key that is not known is refused, because a mistyped one would leave its \
                  setting at the default in silence.",
        remedy: "docs/configuration.md lists every key; the error names the one that is most like it",
        cases: &[],
    },
    Explanation {
        code: ConfigCode::WrongType.as_str(),
        title: "a value of another type than the key takes",
        meaning: "For example a number where a text is expected, or [outbox] instead of [[outbox]].",
        remedy: CHECK,
        cases: &[],
    },
    Explanation {
        code: ConfigCode::Unit.as_str(),
        title: "a duration or size without a unit, or with an unknown one",
        meaning: "A bare number is refused, because it does not say whether it means seconds or \
                  milliseconds, bytes or mebibytes.",
        remedy: "write durations like \"500ms\", \"5s\", \"2m\", \"1h\" or \"7d\", and sizes like \"512KiB\" \
                 or \"64MiB\"",
        cases: &[],
    },
    Explanation {
        code: ConfigCode::Value.as_str(),
        title: "a value that the key does not take",
        meaning: "The value is outside the key's range, or not one of its choices.",
        remedy: "docs/configuration.md lists what every key takes",
        cases: &[],
    },
    Explanation {
        code: ConfigCode::Reference.as_str(),
        title: "${env:…} or ${file:…} cannot be resolved",
        meaning: "The environment variable is not set, or the file cannot be read by the router's \
                  user.",
        remedy: "set the variable where the router is started, or make the file readable",
        cases: &[],
    },
    Explanation {
        code: ConfigCode::Contradiction.as_str(),
        title: "two values contradict each other",
        meaning: "Each of them is possible, both together are not.",
        remedy: CHECK,
        cases: &[],
    },
    Explanation {
        code: ConfigCode::Override.as_str(),
        title: "an environment variable or --set cannot be applied",
        meaning: "It has no '=', names no possible key, or an item of a list that does not exist.",
        remedy: "for example --set limits.window_events=1000, or \
                 OUTBOX_ROUTER__LIMITS__WINDOW_EVENTS=1000",
        cases: &[],
    },
    Explanation {
        code: ConfigCode::Property.as_str(),
        title: "a librdkafka property that cannot be used",
        meaning: "It would break a guarantee of the router, or librdkafka does not know it.",
        remedy: "take it out of [kafka.properties], or write it as librdkafka's CONFIGURATION.md \
                 does",
        cases: &[],
    },
    Explanation {
        code: ConfigCode::Unusable.as_str(),
        title: "a file, an address or a set of properties cannot be used on this machine",
        meaning: "The configuration is well-formed; what it names does not work here.",
        remedy: CHECK,
        cases: &[],
    },
    Explanation {
        code: ConfigCode::MigrationSource.as_str(),
        title: "the file to migrate cannot be read",
        meaning: "It cannot be opened, or is in none of the forms in which Debezium is configured; \
                  the message names the line, and what was seen there.",
        remedy: "give a connector as JSON (curl http://CONNECT:8083/connectors/NAME), its \
                 .properties file, application.properties or the environment variables of \
                 Debezium Server, or a KafkaConnector, a DebeziumServer or a compose file as YAML",
        cases: &[],
    },
];
