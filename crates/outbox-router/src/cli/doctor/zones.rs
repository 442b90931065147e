//! Marks that are times without a time zone, where those who write them live in another one.

use relay::{Name, Names};

use super::{
    check::Judged,
    facts::{Facts, PolledTableFacts, WriterZone},
    finding::{Finding, Severity},
    not_run::NotRun,
};
use crate::{
    codes::Advice,
    postgres::{quote_identifier, quote_literal},
};

/// Names of UTC, in lower case and without `etc/`; the last is what a server makes of 0. What has
/// that offset only for a part of the year, as Europe/London, is another one.
const UTC: [&str; 11] = [
    "utc",
    "gmt",
    "uct",
    "z",
    "zulu",
    "universal",
    "greenwich",
    "gmt0",
    "gmt+0",
    "gmt-0",
    "<+00>-00",
];

/// Whether local times of this zone are those of UTC.
fn is_utc(zone: &str) -> bool {
    let zone = zone.to_ascii_lowercase();
    UTC.contains(&zone.strip_prefix("etc/").unwrap_or(&zone))
}

/// The marks of each table that its writers may fill with other times than the router reads there.
pub(super) fn judge(facts: &Facts) -> Judged {
    let mut findings = Vec::new();
    for table in &facts.polled()?.tables {
        let Some(columns) = &table.columns else { continue };
        if !columns.zoneless.is_empty() {
            let zones = table.zones.as_ref().map_err(NotRun::from)?;
            findings.extend(found(table, &columns.zoneless, zones));
        }
    }
    Ok(findings)
}

fn found(table: &PolledTableFacts, columns: &[String], zones: &[WriterZone]) -> Option<Finding> {
    let others: Vec<&WriterZone> = zones.iter().filter(|zone| !is_utc(&zone.zone)).collect();
    let first = others.first()?;
    let shown: Vec<String> = others.iter().map(|zone| shown(zone)).collect();
    let what = format!(
        "times without a time zone in table {}: {}; TimeZone is {}",
        table.name,
        columns.join(", "),
        shown.join(", ")
    );
    let alter: Vec<String> = columns.iter().map(|column| alter(column, &first.zone)).collect();
    let mut names = Names::default();
    names.set(Name::Statements, format!("alter table {} {}", table.quoted, alter.join(", ")));
    Some(Finding::advice(Severity::Warning, Advice::MarksWithoutZone, what, &names))
}

fn shown(zone: &WriterZone) -> String {
    let WriterZone { role, zone } = zone;
    role.as_ref().map_or_else(|| zone.clone(), |role| format!("{zone} for role {role}"))
}

/// For values that are local times of the zone.
fn alter(column: &str, zone: &str) -> String {
    let (column, zone) = (quote_identifier(column), quote_literal(zone));
    format!("alter column {column} type timestamptz using {column} at time zone {zone}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::samples::polled_table;

    fn zone(role: Option<&str>, zone: &str) -> WriterZone {
        WriterZone { role: role.map(str::to_owned), zone: zone.to_owned() }
    }

    #[test]
    fn the_names_of_utc_are_known_and_no_zone_of_a_country_is_one() {
        for name in
            ["UTC", "Etc/UTC", "GMT", "UCT", "Etc/GMT", "Zulu", "z", "etc/universal", "<+00>-00"]
        {
            assert!(is_utc(name), "{name}");
        }
        for name in ["Europe/London", "Europe/Berlin", "Etc/GMT+1", "localtime", "<+01>-01", ""] {
            assert!(!is_utc(name), "{name}");
        }
    }

    #[test]
    fn a_mark_that_writers_fill_in_another_zone_is_a_warning_with_the_statement() {
        let marks = ["available_at", "locked_until"].map(str::to_owned);
        let table = polled_table();
        assert_eq!(found(&table, &marks, &[zone(None, "Etc/UTC"), zone(Some("a"), "GMT")]), None);
        let zones = [zone(None, "UTC"), zone(Some("app"), "Europe/Berlin")];
        let finding = found(&table, &marks, &zones).unwrap();
        assert_eq!((finding.code, finding.severity), ("D058", Severity::Warning));
        let expected = "times without a time zone in table public.outbox: available_at, \
                        locked_until; TimeZone is Europe/Berlin for role app";
        assert_eq!(finding.message, expected);
        let statement = "alter table \"public\".\"outbox\" alter column \"available_at\" type \
             timestamptz using \"available_at\" at time zone 'Europe/Berlin', alter column \
             \"locked_until\" type timestamptz using \"locked_until\" at time zone \
             'Europe/Berlin'";
        let remedy = finding.remedy.unwrap();
        assert!(remedy.contains("--skip D058") && remedy.ends_with(statement), "{remedy}");
    }
}
