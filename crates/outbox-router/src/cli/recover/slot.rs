//! The new slot, and what is checked before it takes the place of another.

use std::io;

use relay::{
    Case, Failure,
    source::{
        Catalog,
        publication::{self, Watched},
    },
};

use super::{
    args::{DroppedSlot, PublicationPart},
    recovery::{COMMAND, Recovery},
};
use crate::{
    cli::{TaskError, accept, new_slot, setup, teardown::Backlog},
    monitor::catalog::with_partitions_of_snapshot,
    shell::SlotHolder,
};

/// The slot that there is before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Former {
    Missing,
    /// It can send nothing any more.
    Lost,
    Usable {
        position: String,
    },
}

/// What is known before the slot is made.
pub(super) struct Prepared {
    /// Publication and tables.
    pub(super) catalog: Catalog,
}

/// Reads the slot, and refuses one that was made for something else, or that has rows to send,
/// unless it may be dropped; that of an interrupted run has the rows that were written since. What
/// it would send and has no row is nothing that is lost with it.
///
/// # Errors
/// It may not be dropped.
pub(super) async fn check_former(recovery: &Recovery<'_>) -> Result<Former, TaskError> {
    let Recovery { args, source, books, .. } = *recovery;
    let slot = source.slot.as_str();
    setup::check_slot(books, slot).await?;
    let query = "select coalesce(confirmed_flush_lsn::text, ''), wal_status = 'lost' \
         from pg_replication_slots where slot_name = $1";
    let former = match books.query_opt(query, &[&slot]).await? {
        None => Former::Missing,
        Some(row) if row.try_get::<_, Option<bool>>(1)? == Some(true) => Former::Lost,
        Some(row) => Former::Usable { position: row.try_get(0)? },
    };
    let Former::Usable { position } = &former else { return Ok(former) };
    if args.dropped == DroppedSlot::Any {
        return Ok(former);
    }
    let backlog = Backlog::of(books, slot, source.publication.as_str()).await;
    match backlog.only_there(slot, position) {
        None => Ok(former),
        Some(what) => Err(Failure::of(Case::RecoverSlot, what).into()),
    }
}

/// Mends the publication if it is told to, and refuses one that leaves rows out.
///
/// # Errors
/// It has a defect.
pub(super) async fn prepare(
    recovery: &Recovery<'_>,
    notes: &mut (dyn io::Write + Send),
) -> Result<Prepared, TaskError> {
    let Recovery { args, config, books, tables, .. } = *recovery;
    if args.publication == PublicationPart::Mend {
        let version = setup::check_server(books).await?;
        setup::mend_publication(books, config, (tables, version), notes).await?;
    }
    check_publication(recovery).await
}

/// Refuses a publication that leaves rows out.
///
/// # Errors
/// It does, or does not exist.
pub(super) async fn check_publication(recovery: &Recovery<'_>) -> Result<Prepared, TaskError> {
    let Recovery { config, records, source, books, .. } = *recovery;
    let version = setup::check_server(books).await?;
    let publication = source.publication.as_str();
    if !setup::has_publication(books, publication, version).await? {
        let what = format!("the publication {publication} does not exist");
        return Err(Failure::of(Case::RecoverPublication, what).into());
    }
    let catalog = accept::read_facts(config, records, source, None).await?.reading.catalog;
    let outboxes = config.outboxes();
    let watched = Watched { publication, outboxes: &outboxes };
    publication::check(watched, None, &catalog)?;
    Ok(Prepared { catalog })
}

/// Drops the slot, creates it, and begins the transaction of the reader with its snapshot. Returns
/// who holds the slot, where it begins, and what was known before, with the partitions that the
/// snapshot shows.
pub(super) async fn renew(
    recovery: &Recovery<'_>,
    Prepared { catalog }: Prepared,
    notes: &mut (dyn io::Write + Send),
) -> Result<(SlotHolder, String, Prepared), TaskError> {
    let Recovery { args, access, source, books, reader, .. } = *recovery;
    let version = setup::check_server(books).await?;
    let creator = new_slot::connect(source).await?;
    // Once more: rows may have been written, and deleted, while a person was asked.
    if let Former::Usable { .. } = check_former(recovery).await? {
        new_slot::wait_for_open(books, source.slot.as_str(), args.wait, notes).await?;
        check_former(recovery).await?;
    }
    if new_slot::drop_former(books, source).await? {
        writeln!(notes, "slot {}: dropped", source.slot)?;
    }
    let created = new_slot::create((access, COMMAND), creator, version, args.wait, notes);
    let created = Box::pin(created).await?;
    let begins_at = created.begins_at().map_or_else(String::new, |at| at.to_string());
    let holder = new_slot::import(reader, created, Case::RecoverAltered).await?;
    let catalog = with_partitions_of_snapshot(&mut &*reader, version, catalog).await?;
    writeln!(notes, "slot {}: created at {begins_at}", source.slot)?;
    Ok((holder, begins_at, Prepared { catalog }))
}
