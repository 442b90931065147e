//! Flags of which the stream makes no use.

use super::SetupArgs;
use crate::{
    cli::{DeadLetterTables, NotifyTrigger},
    config::Config,
};

/// What to say of each flag that was typed and makes nothing.
pub(super) fn notes(args: &SetupArgs, config: &Config) -> impl Iterator<Item = &'static str> {
    let letters =
        args.dead_letters == DeadLetterTables::Make && !config.on_error.has_dead_letters();
    let letters = letters.then_some(
        "no class of [on_error] is \"dead_letter\", so a row that cannot be delivered stops the \
         router",
    );
    let notify = (args.notify == NotifyTrigger::Make).then_some(
        "--notify makes no trigger, since a slot sends rows as they are committed: it is for \
         postgres.source = \"polling\"",
    );
    letters.into_iter().chain(notify)
}
