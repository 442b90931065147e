//! The publication: what the monitor checks, and what it costs.

use relay::{
    Code, Name, Names,
    source::{
        publication::{Watched, compare},
        quote_identifier,
    },
};

use super::{
    check::{Check, either, error, note, warning},
    facts::{PublicationExtent, PublicationFacts},
    finding::{Finding, Severity},
    not_run::NotRun,
};
use crate::codes::Advice;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "the publication publishes every row of the outbox tables as it was inserted",
        reports: &[
            error(Code::PublicationMissing.as_str()),
            error(Code::PublicationLacksTable.as_str()),
            error(Code::PublicationLacksInsert.as_str()),
            error(Code::PublicationFiltersRows.as_str()),
            error(Code::PublicationLacksColumn.as_str()),
            error(Code::PublicationByLeaf.as_str()),
            error(Code::PublicationReplaced.as_str()),
            error(Code::TableReplaced.as_str()),
            error(Code::TableMissing.as_str()),
            warning(Code::TableRenamed.as_str()),
            error(Code::TableInherited.as_str()),
            error(Code::PublicationAltered.as_str()),
        ],
        judge: |facts| Ok(complete(facts.publication()?)),
    },
    Check {
        name: "the publication has the outbox tables alone",
        reports: &[either(
            Advice::PublicationTooWide.as_str(),
            &[Severity::Warning, Severity::Note],
        )],
        judge: |facts| {
            let publication = facts.publication()?;
            Ok(publication
                .extent
                .as_ref()
                .map_or_else(Vec::new, |extent| too_wide(&publication.name, extent)))
        },
    },
    Check {
        name: "the publication publishes inserts alone",
        reports: &[note(Advice::PublicationMoreThanInserts.as_str())],
        judge: |facts| {
            let publication = facts.publication()?;
            Ok(publication
                .extent
                .as_ref()
                .map_or_else(Vec::new, |extent| more(&publication.name, extent)))
        },
    },
    Check {
        name: "no worker polls the tables that are streamed",
        reports: &[error(Code::Switched.as_str())],
        judge: |facts| {
            let polled = facts.postgres()?.kept_from_stream.as_ref().map_err(NotRun::from)?;
            Ok(polled.iter().map(Finding::of).collect())
        },
    },
];

fn complete(facts: &PublicationFacts) -> Vec<Finding> {
    let watched = Watched { publication: &facts.name, outboxes: &facts.outboxes };
    let failures = compare(watched, facts.remembered.as_ref(), &facts.catalog);
    failures.iter().map(Finding::of).collect()
}

fn names(publication: &str) -> Names {
    let mut names = Names::default();
    names.set(Name::Publication, quote_identifier(publication));
    names
}

fn too_wide(publication: &str, extent: &PublicationExtent) -> Vec<Finding> {
    let (severity, what) = if extent.is_for_all_tables {
        (Severity::Warning, format!("publication \"{publication}\" is FOR ALL TABLES"))
    } else if extent.others.is_empty() {
        return Vec::new();
    } else {
        let others = extent.others.join(", ");
        (Severity::Note, format!("publication \"{publication}\" also has {others}"))
    };
    vec![Finding::advice(severity, Advice::PublicationTooWide, what, &names(publication))]
}

fn more(publication: &str, extent: &PublicationExtent) -> Vec<Finding> {
    if extent.operations.is_empty() {
        return Vec::new();
    }
    let what =
        format!("publication \"{publication}\" publishes insert, {}", extent.operations.join(", "));
    let advice = Advice::PublicationMoreThanInserts;
    vec![Finding::advice(Severity::Note, advice, what, &names(publication))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::samples::codes;

    #[test]
    fn a_publication_needs_the_outboxes_and_inserts_alone() {
        let extent = PublicationExtent::default();
        assert!(too_wide("p", &extent).is_empty() && more("p", &extent).is_empty());
        let all = PublicationExtent { is_for_all_tables: true, ..extent.clone() };
        let found = too_wide("p", &all);
        assert_eq!((codes(&found), found[0].severity), (vec!["D020"], Severity::Warning));
        let wide = PublicationExtent { others: vec!["public.other".to_owned()], ..extent.clone() };
        let found = too_wide("p", &wide);
        assert_eq!((codes(&found), found[0].severity), (vec!["D020"], Severity::Note));
        let updates = PublicationExtent { operations: vec!["update"], ..extent };
        let found = more("odd \"name", &updates);
        assert_eq!(codes(&found), ["D021"]);
        let statement = "alter publication \"odd \"\"name\" set (publish = 'insert')";
        assert_eq!(found[0].remedy.as_deref(), Some(statement));
    }

    #[test]
    fn a_publication_that_is_missing_has_the_code_of_run() {
        let facts = PublicationFacts {
            name: "p".to_owned(),
            outboxes: relay::Outboxes::default(),
            catalog: relay::source::Catalog::default(),
            remembered: None,
            extent: None,
        };
        assert_eq!(codes(&complete(&facts)), ["P020"]);
    }
}
