//! What is held in `outbox_router.held`, which no connector knows.

use relay::held::{TableFound, TableMark};

use super::{source, step::Step};
use crate::{
    cli::{
        Direction, TaskError,
        connect::{Access, with_connection},
        open_events::AllOpen,
    },
    config::Config,
};

const NAME: &str = "dead letters";

/// A step where something is held, or where nothing shows whether it is; none where nothing is.
/// `relied_on` is what the witness has of the table; `None` where no witness is read.
pub(super) async fn step(
    config: &Config,
    access: Access<'_>,
    (found, relied_on): (TableFound, Option<TableMark>),
    direction: Direction,
) -> Option<Step> {
    if let Err(failure) = found.check_whole(relied_on.unwrap_or_default()) {
        return Some(source::of_failure(NAME, &failure));
    }
    if let (Err(failure), None) = (found.check_seen(), relied_on) {
        return Some(Step::not_checked(NAME, failure.message));
    }
    let read =
        with_connection(access, "migrate", async |client| AllOpen::read(client, config).await);
    let AllOpen { own, others } = match Box::pin(read).await {
        Ok(open) => open,
        Err(TaskError::Failure(failure)) => return Some(source::of_failure(NAME, &failure)),
        Err(TaskError::Output(error)) => return Some(Step::not_checked(NAME, error.to_string())),
    };
    let step = match (own, direction) {
        (None, _) if others.is_empty() => return None,
        (None, _) => Step::ready(NAME, "none is held for this pipeline"),
        (Some(own), Direction::TakeOver) => Step::ready(NAME, own.are_held()).detail(
            "the router had the slot before; it delivers them after what the connector has \
             delivered since",
        ),
        (Some(own), Direction::GiveBack) => {
            let text = format!("{}, and no connector delivers them", own.are_held());
            Step::to_do(NAME, text)
                .command("outbox-router dead-letters list")
                .detail("requeue or drop them while the router runs, and wait until they have left")
        }
    };
    Some(others.iter().fold(step, |step, other| step.detail(other.of_other())))
}
