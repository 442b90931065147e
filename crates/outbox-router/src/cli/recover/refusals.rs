//! What is refused before anything is changed: found together and before the question, so that a
//! dry run predicts it and nobody meets one after the other.

use relay::{Case, Failure, Name, delivered::compared::FirstOfGap};

use super::{
    args::PublicationPart,
    recovery::Recovery,
    slot::{self, Former},
    uncompared::{self, Dropped},
};
use crate::{
    cli::{TaskError, connect},
    republish::journal::{self, PastRun},
};

/// What a run begins from, and why it may not begin.
pub(super) struct Prospect {
    /// A run that did not come to its end.
    pub(super) interrupted: Option<PastRun>,
    /// The slot that there is before; `None`: it may not be dropped.
    pub(super) former: Option<Former>,
    /// Tables that were dropped since.
    pub(super) dropped: Dropped,
    /// Why it may not begin, each with what helps.
    pub(super) refusals: Vec<Failure>,
}

/// Looks, and changes nothing.
///
/// # Errors
/// PostgreSQL or Kafka does not answer.
pub(super) async fn look(
    recovery: &Recovery<'_>,
    first: Option<FirstOfGap>,
) -> Result<Prospect, TaskError> {
    let mut refusals = Vec::new();
    let grants = journal::missing_grants(recovery.books).await?;
    let interrupted = if grants.is_empty() {
        recovery.interrupted().await?
    } else {
        let what = "the role may not note in outbox_router.republication who recovers what";
        refusals.push(connect::lacks(what.to_owned(), &grants));
        None
    };
    let args = recovery.args;
    let former = slot::check_former(recovery).await;
    let former = unless_refused(former, &mut refusals)?;
    if recovery.args.publication == PublicationPart::Expect {
        unless_refused(slot::check_publication(recovery).await, &mut refusals)?;
    }
    let now = &recovery.reading.catalog;
    let outboxes = uncompared::check_outboxes(recovery, now).map_err(TaskError::from);
    let partitions = uncompared::check_partitions(recovery, now, first).await;
    let dropped = Dropped {
        outboxes: unless_refused(outboxes, &mut refusals)?.unwrap_or_default(),
        partitions: unless_refused(partitions, &mut refusals)?.unwrap_or_default(),
    };
    // Typed one by one, the flags that help would lead from one refusal to the other.
    let flags = |of: &Failure| {
        let others = refusals.iter().filter(|failure| failure.case != of.case);
        let others: Vec<&str> = others.filter_map(flag).collect();
        [vec![args.typed()], others.iter().map(|flag| format!(" {flag}")).collect()]
            .concat()
            .concat()
    };
    let flags: Vec<String> = refusals.iter().map(flags).collect();
    let refusals = refusals.into_iter().zip(flags);
    let refusals =
        refusals.map(|(failure, flags)| failure.naming(Name::TypedFlags, flags)).collect();
    Ok(Prospect { interrupted, former, dropped, refusals })
}

/// What helps against a refusal.
fn flag(refusal: &Failure) -> Option<&'static str> {
    let flags =
        [(Case::RecoverSlot, "--drop-slot"), (Case::RecoverPublication, "--mend-publication")];
    flags.into_iter().find(|(case, _)| refusal.case == Some(*case)).map(|(_, flag)| flag)
}

/// What was found, unless it is refused.
fn unless_refused<T>(
    found: Result<T, TaskError>,
    refusals: &mut Vec<Failure>,
) -> Result<Option<T>, TaskError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(TaskError::Failure(failure)) => {
            refusals.push(*failure);
            Ok(None)
        }
        Err(output @ TaskError::Output(_)) => Err(output),
    }
}

/// Checks that ids can be compared.
///
/// # Errors
/// The role may make no temporary table.
pub(super) async fn check_temporary(recovery: &Recovery<'_>) -> Result<(), TaskError> {
    let query = "select has_database_privilege(current_database(), 'temporary'), \
         quote_ident(current_database()), quote_ident(current_user)";
    let row = recovery.reader.query_one(query, &[]).await?;
    if row.try_get(0)? {
        return Ok(());
    }
    let (database, role): (String, String) = (row.try_get(1)?, row.try_get(2)?);
    let grant = format!("grant temporary on database {database} to {role}");
    let what = format!("the role {role} may make no temporary table, in which ids are compared");
    Err(connect::lacks(what, &[grant]).into())
}
