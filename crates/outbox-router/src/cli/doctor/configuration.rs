//! The configuration itself: what `check` accepts, and should not stay so.

use relay::Names;

use super::{
    check::{Check, note, warning},
    facts::ConfigurationFacts,
    finding::{Finding, Severity},
};
use crate::codes::Advice;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "no secret stands where others read it",
        reports: &[warning(Advice::SecretExposed.as_str())],
        judge: |facts| Ok(secrets(&facts.configuration)),
    },
    Check {
        name: "the admin endpoint is on this machine alone",
        reports: &[note(Advice::AdminExposed.as_str())],
        judge: |facts| Ok(admin(&facts.configuration)),
    },
    Check {
        name: "a witness is kept",
        reports: &[warning(Advice::NoStateTopic.as_str())],
        judge: |facts| Ok(state_topic(&facts.configuration)),
    },
    Check {
        name: "PostgreSQL's certificate is verified",
        reports: &[warning(Advice::ServerUnverified.as_str())],
        judge: |facts| Ok(certificate(&facts.configuration)),
    },
    Check {
        name: "Kafka's credentials are encrypted on their way",
        reports: &[warning(Advice::KafkaCleartext.as_str())],
        judge: |facts| Ok(cleartext(&facts.configuration)),
    },
];

fn finding(severity: Severity, advice: Advice, what: impl Into<String>) -> Finding {
    Finding::advice(severity, advice, what, &Names::default())
}

/// A warning about `sslmode` begins with that word; the others are about the password file.
fn is_of_certificate(warning: &&String) -> bool {
    warning.starts_with("sslmode")
}

fn secrets(facts: &ConfigurationFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !facts.plain_secrets.is_empty() {
        let keys = facts.plain_secrets.join(", ");
        let file = facts.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
        let what = format!("{file} has the secret of {keys} in clear text");
        findings.push(finding(Severity::Warning, Advice::SecretExposed, what));
    }
    let others = facts.connection_warnings.iter().filter(|warning| !is_of_certificate(warning));
    findings
        .extend(others.map(|what| finding(Severity::Warning, Advice::SecretExposed, what.clone())));
    findings
}

fn admin(facts: &ConfigurationFacts) -> Vec<Finding> {
    if facts.admin.ip().is_loopback() {
        return Vec::new();
    }
    let what = format!("admin.listen is {}", facts.admin);
    vec![finding(Severity::Note, Advice::AdminExposed, what)]
}

fn state_topic(facts: &ConfigurationFacts) -> Vec<Finding> {
    if facts.has_state_topic {
        return Vec::new();
    }
    vec![finding(Severity::Warning, Advice::NoStateTopic, "kafka.state_topic is empty")]
}

fn certificate(facts: &ConfigurationFacts) -> Vec<Finding> {
    let warnings = facts.connection_warnings.iter().filter(is_of_certificate);
    warnings
        .map(|what| finding(Severity::Warning, Advice::ServerUnverified, what.clone()))
        .collect()
}

fn cleartext(facts: &ConfigurationFacts) -> Vec<Finding> {
    if facts.kafka_protocol.as_deref() != Some("sasl_plaintext") {
        return Vec::new();
    }
    let what = "security.protocol is SASL_PLAINTEXT";
    vec![finding(Severity::Warning, Advice::KafkaCleartext, what)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::doctor::samples::{codes, configuration},
        postgres::ConnInfo,
    };

    #[test]
    fn a_configuration_as_it_should_be_gives_no_cause() {
        let facts = configuration();
        let all = [secrets, admin, state_topic, certificate, cleartext];
        assert!(all.iter().all(|judge| judge(&facts).is_empty()));
    }

    #[test]
    fn each_fault_has_its_code() {
        let secret = vec!["postgres.url".to_owned()];
        let found = secrets(&ConfigurationFacts { plain_secrets: secret, ..configuration() });
        assert_eq!(codes(&found), ["D040"]);
        let listen = "0.0.0.0:8788".parse().unwrap();
        assert_eq!(
            codes(&admin(&ConfigurationFacts { admin: listen, ..configuration() })),
            ["D041"]
        );
        let none = ConfigurationFacts { has_state_topic: false, ..configuration() };
        assert_eq!(codes(&state_topic(&none)), ["D042"]);
        let kafka_protocol = Some("sasl_plaintext".to_owned());
        let clear = ConfigurationFacts { kafka_protocol, ..configuration() };
        assert_eq!(codes(&cleartext(&clear)), ["D044"]);
    }

    #[test]
    fn the_warnings_of_a_connection_string_are_told_apart() {
        let url = "postgres://u@db.example/d?sslmode=require";
        let unverified = ConnInfo::resolve(Some(url), &|_| None).unwrap().warnings;
        let facts = ConfigurationFacts { connection_warnings: unverified, ..configuration() };
        assert_eq!(codes(&certificate(&facts)), ["D043"]);
        assert!(secrets(&facts).is_empty());
        let file = vec!["/home/u/.pgpass is readable by others".to_owned()];
        let facts = ConfigurationFacts { connection_warnings: file, ..configuration() };
        assert_eq!(codes(&secrets(&facts)), ["D040"]);
        assert!(certificate(&facts).is_empty());
    }
}
