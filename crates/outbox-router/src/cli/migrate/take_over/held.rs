//! What is held in `outbox_router.held`, which no connector knows.

use super::step::Step;
use crate::{
    cli::{
        Direction,
        connect::{Access, with_connection},
        open_events::AllOpen,
    },
    config::Config,
};

const NAME: &str = "dead letters";

/// A step where something is held; none where nothing is, or where it cannot be read.
pub(super) async fn step(
    config: &Config,
    access: Access<'_>,
    direction: Direction,
) -> Option<Step> {
    let read =
        with_connection(access, "migrate", async |client| AllOpen::read(client, config).await);
    let AllOpen { own, others } = Box::pin(read).await.unwrap_or_default();
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
