//! Advice about the configuration.

use super::Advice;
use crate::codes::explanation::Explanation;

pub(in crate::codes) const EXPLANATIONS: &[Explanation] = &[
    Explanation {
        code: Advice::SecretExposed.as_str(),
        title: "a secret can be read by others",
        meaning: "A configuration file is copied, committed and shown to others more often than a \
                  secret may be.",
        remedy: "put the secret into the environment or a file that only the router's user can \
                 read (chmod 600), and name it in its place (docs/configuration.md)",
        cases: &[],
    },
    Explanation {
        code: Advice::AdminExposed.as_str(),
        title: "the admin endpoint can be reached from other machines",
        meaning: "It is read-only and has no authentication: it tells everyone who can connect the \
                  names of tables and topics, and every failure.",
        remedy: "set admin.listen = \"127.0.0.1:8788\", or see that only what scrapes it reaches \
                 the port",
        cases: &[],
    },
    Explanation {
        code: Advice::NoStateTopic.as_str(),
        title: "no state topic is configured",
        meaning: "Nothing shows what happened to the slot while no router ran: a slot that was \
                  re-created or advanced, a restored server, another cluster. Rows would be \
                  missing, and nobody would know.",
        remedy: "set kafka.state_topic = \"outbox-router.state\", then {setup}",
        cases: &[],
    },
    Explanation {
        code: Advice::ServerUnverified.as_str(),
        title: "the server's certificate is not verified",
        meaning: "Whoever stands between the two can answer as PostgreSQL, and reads or changes \
                  every event.",
        remedy: "add sslmode=verify-full and sslrootcert=FILE to postgres.url",
        cases: &[],
    },
    Explanation {
        code: Advice::KafkaCleartext.as_str(),
        title: "Kafka's credentials travel in clear text",
        meaning: "With SASL_PLAINTEXT neither password nor events are encrypted on their way.",
        remedy: "set \"security.protocol\" to SASL_SSL under [kafka.properties], and \
                 \"ssl.ca.location\" to the file of the brokers' authority",
        cases: &[],
    },
    Explanation {
        code: Advice::RouterStuck.as_str(),
        title: "the router that runs does not deliver",
        meaning: "Its state is blocked or failed. Both servers may be as they should be: where \
                  rows come from a slot, a row that cannot be routed stops it all the same, and \
                  where they are polled, a mark that the table refuses.",
        remedy: "`outbox-router status`",
        cases: &[],
    },
];
