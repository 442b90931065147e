//! The new slot, and the publication before it.

use std::io;

use relay::{Case, Failure};

use super::{
    args::PublicationPart,
    recovery::{COMMAND, Recovery},
};
use crate::{
    cli::{TaskError, new_slot, setup},
    shell::SlotHolder,
};

/// Mends the publication if it is told to, drops the slot, creates it, and begins the transaction
/// of the reader with its snapshot. Returns who holds the slot, and where it begins.
pub(super) async fn renew(
    recovery: &Recovery<'_>,
    notes: &mut (dyn io::Write + Send),
) -> Result<(SlotHolder, String), TaskError> {
    let Recovery { args, config, access, source, books, tables, .. } = *recovery;
    let version = setup::check_server(books).await?;
    setup::check_slot(books, &source.slot).await?;
    match args.publication {
        PublicationPart::Mend => {
            setup::mend_publication(books, config, (tables, version), notes).await?;
        }
        PublicationPart::Expect => {
            let publication = source.publication.as_str();
            if !setup::has_publication(books, publication, version).await? {
                let what = format!("the publication {publication} does not exist");
                return Err(Failure::of(Case::RecoverPublication, what).into());
            }
        }
    }
    let creator = new_slot::connect(source).await?;
    if new_slot::drop_former(books, &source.slot).await? {
        writeln!(notes, "slot {}: dropped", source.slot)?;
    }
    let created = new_slot::create((access, COMMAND), creator, version, args.wait, notes);
    let created = Box::pin(created).await?;
    let begins_at = created.begins_at().map_or_else(String::new, |at| at.to_string());
    writeln!(notes, "slot {}: created at {begins_at}", source.slot)?;
    let holder = new_slot::import(recovery.reader, created).await?;
    Ok((holder, begins_at))
}
