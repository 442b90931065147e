//! The way to PostgreSQL, and the role.

use relay::{Case, Code, Failure, Name, Names};

use super::{
    check::{Check, either, error, note, warning},
    facts::{
        DeniedView, Facts, Owner, Part, PostgresFacts, ProcessIds, ServerFacts, SessionFacts,
        TableFacts,
    },
    finding::{Finding, Severity},
};
use crate::codes::Advice;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "PostgreSQL answers, takes the role, and can stream",
        reports: &[
            error(Code::ServerUnreachable.as_str()),
            error(Code::AuthenticationFailed.as_str()),
            error(Code::RoleLacksReplication.as_str()),
            error(Code::WalLevel.as_str()),
            error(Code::ServerFull.as_str()),
            error(Code::ServerNotReady.as_str()),
            error(Code::Protocol.as_str()),
            error(Code::ServerError.as_str()),
        ],
        judge: |facts| Ok(connects(&facts.postgres)),
    },
    Check {
        name: "nothing pools the connection",
        reports: &[warning(Advice::Pooler.as_str())],
        judge: |facts| Ok(pooled(&facts.postgres()?.sessions)),
    },
    Check {
        name: "the role may read the views of the system",
        reports: &[either(Advice::ViewDenied.as_str(), &[Severity::Error, Severity::Warning])],
        judge: |facts| Ok(denied(&facts.postgres()?.denied, facts.server()?)),
    },
    Check {
        name: "the role is no superuser",
        reports: &[warning(Advice::Superuser.as_str())],
        judge: |facts| Ok(superuser(facts.server()?)),
    },
    Check {
        name: "the role does not own the outbox tables",
        reports: &[note(Advice::RoleOwnsTable.as_str())],
        judge: |facts| Ok(owner(facts.server()?, facts.tables()?)),
    },
    Check {
        name: "events can be held, where errors make dead letters",
        reports: &[error(Code::HeldTable.as_str())],
        judge: dead_letters,
    },
];

/// What `run` would meet before it reads slot and publication. Each code is reported once: a role
/// without REPLICATION is refused by both connections.
fn connects(postgres: &Part<PostgresFacts>) -> Vec<Finding> {
    let facts = match postgres {
        Ok(facts) => facts,
        Err(failure) => return vec![Finding::of(failure)],
    };
    let source = facts.source.as_ref().err();
    // `run` says then what is to be switched, and not that its role may not replicate.
    let is_kept = source.is_some_and(|failure| is_of_switch(failure, facts));
    let refused = facts.refused.as_ref();
    let refused =
        refused.filter(|failure| !(is_kept && failure.code == Code::RoleLacksReplication));
    let source = source.filter(|failure| !is_explained(failure, facts));
    refused.or(source).map(Finding::of).into_iter().collect()
}

/// Whether `run` is refused since there is no slot, and only a switch may make one.
fn is_of_switch(failure: &Failure, facts: &PostgresFacts) -> bool {
    failure.code == Code::Switched && facts.kept_from_slot().is_some()
}

/// Whether another check says why `run` cannot read its source.
fn is_explained(failure: &Failure, facts: &PostgresFacts) -> bool {
    let needs_a_view =
        [Case::PermissionDenied, Case::CatalogDenied].map(Some).contains(&failure.case);
    (needs_a_view && facts.denied.iter().any(|view| view.is_needed))
        || failure.code == Code::HeldTable
        || is_of_switch(failure, facts)
}

fn pooled(sessions: &SessionFacts) -> Vec<Finding> {
    let differ = |one: Option<i32>, other: Option<i32>| one.zip(other).is_some_and(|(a, b)| a != b);
    let is_another = |ids: &ProcessIds| differ(ids.announced, ids.answered);
    let what = if [&sessions.replication, &sessions.sql].into_iter().any(is_another) {
        "another process answers than the one that the connection was made to"
    } else if differ(sessions.first, sessions.last) {
        "two statements of one session were answered by two processes"
    } else {
        return Vec::new();
    };
    vec![Finding::advice(Severity::Warning, Advice::Pooler, what, &Names::default())]
}

fn denied(views: &[DeniedView], server: &ServerFacts) -> Vec<Finding> {
    let finding = |view: &DeniedView| {
        let severity = if view.is_needed { Severity::Error } else { Severity::Warning };
        let mut names = Names::default();
        names.set(Name::QuotedTable, format!("pg_catalog.{}", view.name));
        names.set(Name::Role, server.role.clone());
        let what = format!("role {} may not read pg_catalog.{}", server.role, view.name);
        Finding::advice(severity, Advice::ViewDenied, what, &names)
    };
    views.iter().map(finding).collect()
}

fn superuser(server: &ServerFacts) -> Vec<Finding> {
    if !server.is_superuser {
        return Vec::new();
    }
    let what = format!("role {} is a superuser", server.role);
    vec![Finding::advice(Severity::Warning, Advice::Superuser, what, &Names::default())]
}

/// A superuser may do everything anyway.
fn owner(server: &ServerFacts, tables: &[TableFacts]) -> Vec<Finding> {
    let owned = tables.iter().filter(|table| table.owner == Owner::Router && !server.is_superuser);
    let finding = |table: &TableFacts| {
        let mut names = Names::default();
        names.set(Name::QuotedTable, table.quoted.clone());
        let what = format!("role {} owns table {}", server.role, table.name);
        Finding::advice(Severity::Note, Advice::RoleOwnsTable, what, &names)
    };
    owned.map(finding).collect()
}

fn dead_letters(facts: &Facts) -> super::check::Judged {
    let postgres = facts.postgres()?;
    let found = postgres.dead_letters.iter().flatten();
    let mut findings: Vec<Finding> = found.map(Finding::of).collect();
    // The table has rows or columns that this version does not know.
    if let Err(failure) = &postgres.source
        && failure.code == Code::HeldTable
        && findings.is_empty()
    {
        findings.push(Finding::of(failure));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::samples::{codes, server, table};

    #[test]
    fn a_session_whose_process_changes_goes_through_a_pooler() {
        let ids = |announced, answered| ProcessIds {
            announced: Some(announced),
            answered: Some(answered),
        };
        let own =
            SessionFacts { replication: ids(7, 7), sql: ids(8, 8), first: Some(8), last: Some(8) };
        assert!(pooled(&own).is_empty());
        assert!(pooled(&SessionFacts::default()).is_empty(), "nothing is known");
        let passed_on = SessionFacts { replication: ids(7, 9), ..own.clone() };
        assert_eq!(codes(&pooled(&passed_on)), ["D001"]);
        let of_sql = SessionFacts { sql: ids(7, 8), ..own.clone() };
        assert_eq!(codes(&pooled(&of_sql)), ["D001"]);
        let shared = SessionFacts { last: Some(9), ..own };
        assert_eq!(codes(&pooled(&shared)), ["D001"]);
    }

    #[test]
    fn a_view_without_which_run_cannot_start_is_an_error_and_the_grant_is_named() {
        let view = |is_needed| DeniedView { name: "pg_replication_slots", is_needed };
        assert!(denied(&[], &server()).is_empty());
        let found = denied(&[view(true), view(false)], &server());
        assert_eq!(codes(&found), ["D002", "D002"]);
        assert_eq!(found[0].severity, Severity::Error);
        assert_eq!(found[1].severity, Severity::Warning);
        let grant = "grant select on pg_catalog.pg_replication_slots to \"router\"";
        assert_eq!(found[0].remedy.as_deref(), Some(grant));
    }

    #[test]
    fn a_role_needs_to_be_neither_superuser_nor_owner() {
        let root = ServerFacts { is_superuser: true, ..server() };
        assert_eq!(codes(&superuser(&root)), ["D003"]);
        assert!(superuser(&server()).is_empty());
        let owned = TableFacts { owner: Owner::Router, ..table() };
        assert_eq!(codes(&owner(&server(), &[table(), owned.clone()])), ["D004"]);
        assert!(owner(&root, &[owned]).is_empty(), "that it is a superuser says more");
    }
}
