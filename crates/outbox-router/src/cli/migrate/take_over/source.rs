//! The slot and the publication, by the checks that `run` makes.

use relay::{
    Failure,
    source::{
        Catalog, CatalogRelation, SlotHealth, SlotReading,
        publication::{Watched, compare},
        slot_checks,
    },
};

use super::step::Step;
use crate::{
    cli::{
        Direction, TaskError,
        connect::{Access, with_connection},
    },
    codes::hint,
    config::Config,
    wording,
};

const SLOT: &str = "slot";
const PUBLICATION: &str = "publication";

/// Whether the slot exists, fits, and is free; and the slot itself, if a stream can start from it.
pub(super) async fn slot<'r>(
    config: &Config,
    access: Access<'_>,
    reading: &'r SlotReading,
    direction: Direction,
) -> (Step, Option<&'r SlotHealth>) {
    let name = config.postgres.slot.as_str();
    let slot = match slot_checks::suitable(name, reading) {
        Ok(slot) => slot,
        Err(failure) => return (of_failure(SLOT, &failure), None),
    };
    if let Some(pid) = slot.active_pid {
        let holder = Box::pin(holder(access, pid)).await;
        let holder = holder.map(|name| format!(", {name}")).unwrap_or_default();
        let step = Step::to_do(SLOT, format!("{name} is in use by pid {pid}{holder}"));
        return (step.detail(to_free(direction)), None);
    }
    let step =
        Step::ready(SLOT, format!("{name} is free, pgoutput, database {}", reading.database));
    let step = match slot.safe_wal_bytes {
        Some(bytes) => {
            step.detail(format!("PostgreSQL may drop its WAL after {} more", wording::bytes(bytes)))
        }
        None => step,
    };
    (step, Some(slot))
}

/// The name under which a process has connected; `None` where the role may not see it.
async fn holder(access: Access<'_>, pid: i32) -> Option<String> {
    let query = "select nullif(application_name, '') from pg_stat_activity where pid = $1";
    let name = with_connection(access, "migrate", async |client| {
        let row = client.query_opt(query, &[&pid]).await?;
        Ok(row.map(|row| row.try_get::<_, Option<String>>(0)).transpose()?.flatten())
    });
    name.await.map_err(|_: TaskError| ()).ok().flatten()
}

/// How the slot gets free of who has it.
const fn to_free(direction: Direction) -> &'static str {
    match direction {
        Direction::TakeOver => {
            "stop the connector that reads it: if only its process is ended, it is started again"
        }
        Direction::GiveBack => {
            "end the router that reads it with SIGTERM: it confirms what is acknowledged; a router \
             that stands by would begin to read, so end that first"
        }
    }
}

/// Whether the publication publishes every insert into the outbox tables.
pub(super) fn publication(config: &Config, catalog: &Catalog) -> Step {
    let name = config.postgres.publication.as_str();
    let outboxes = config.outboxes();
    let watched = Watched { publication: name, outboxes: &outboxes };
    let mut failures = compare(watched, None, catalog);
    failures.retain(|failure| !failure.is_note());
    let Some((first, others)) = failures.split_first() else {
        // Without a configured table, all that are published are outboxes.
        let is_outbox = |table: &&CatalogRelation| {
            config.outbox.is_empty() || config.tables().any(|outbox| outbox.name == table.name)
        };
        let tables = catalog.relations.iter().filter(is_outbox);
        let tables: Vec<String> = tables.map(|table| table.name.to_string()).collect();
        return Step::ready(
            PUBLICATION,
            format!("{name} publishes inserts on {}", tables.join(", ")),
        );
    };
    let step = of_failure(PUBLICATION, first);
    others.iter().fold(step, |step, failure| step.detail(failure.to_string()))
}

/// A failure as a step.
pub(super) fn of_failure(name: &'static str, failure: &Failure) -> Step {
    let step = Step::failed(name, format!("{failure:#}"));
    match hint(failure) {
        Some(hint) => step.detail(hint),
        None => step,
    }
}
