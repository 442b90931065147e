//! The connector's part: stopped before the router takes over, and prepared before it begins again.

use super::{
    connector::{Connector, Status},
    step::Step,
};
use crate::{config::Config, migrate::Migration};

const CONNECTOR: &str = "connector";
const OFFSETS: &str = "offsets";

/// Everything that a connector drops with its slot would be missing for ever.
const DROPS_SLOT: &str = "slot.drop.on.stop";

/// What Kafka Connect has said of the connector.
pub(super) enum Asked {
    /// It has answered.
    Known(Box<Connector>),
    /// It was asked, and why there is no answer.
    Silent(String),
    /// Nobody said where it is.
    No,
}

impl Asked {
    /// The connector, where it is known.
    pub(super) fn connector(&self) -> Option<&Connector> {
        match self {
            Self::Known(connector) => Some(connector),
            Self::Silent(_) | Self::No => None,
        }
    }
}

const NOT_ASKED: &str = "Kafka Connect was not asked; --connect-url says where it is";

/// Whether the connector is stopped and stays so.
pub(super) fn stopped(asked: &Asked, migration: &Migration) -> Step {
    let connector = match asked {
        Asked::Known(connector) => connector,
        Asked::Silent(why) => return Step::not_checked(CONNECTOR, why.as_str()),
        // The next step shows whether it runs.
        Asked::No => {
            return Step::ready(CONNECTOR, NOT_ASKED).detail(
                "check that the connector is stopped: one whose worker is only down continues with the \
                 worker",
            );
        }
    };
    let of_file = migration.different.iter().any(|finding| finding.property.ends_with(DROPS_SLOT));
    let drops_slot = connector.property(DROPS_SLOT).map_or(of_file, |value| value == "true");
    match &connector.status {
        Status::Absent => Step::ready(CONNECTOR, "Kafka Connect has none of this name"),
        Status::Stopped => Step::ready(CONNECTOR, "STOPPED, and it stays so"),
        Status::Up(_) if drops_slot => Step::failed(
            CONNECTOR,
            format!("{DROPS_SLOT} is true: it would drop the slot when it is stopped"),
        )
        .detail("set it to false; the connector restarts with that"),
        Status::Up(state) => Step::to_do(CONNECTOR, format!("it is {state}"))
            .command(connector.url.curl("PUT", "stop"))
            .detail("it delivers what it has read, stores its offset, and stays stopped"),
    }
}

/// Whether the connector has forgotten where it was, and will begin at the slot's position.
pub(super) fn forgotten(asked: &Asked) -> Step {
    let connector = match asked {
        Asked::Known(connector) => connector,
        Asked::Silent(why) => return Step::not_checked(OFFSETS, why.as_str()),
        Asked::No => {
            return Step::not_checked(OFFSETS, NOT_ASKED)
                .detail("Debezium Server: delete its offsets (debezium.source.offset.storage)");
        }
    };
    match (&connector.status, &connector.offset) {
        (Status::Stopped, Err(why)) => Step::failed(OFFSETS, why.as_str()),
        (Status::Stopped, Ok(None)) => {
            Step::ready(OFFSETS, "none is stored: it begins at the slot")
        }
        (Status::Stopped, Ok(Some(offset))) => {
            Step::to_do(OFFSETS, format!("{} is stored, from before the router", offset.lsn))
                .command(connector.url.curl("DELETE", "offsets"))
                .detail("with it Debezium ends when the server has no WAL from there any more")
        }
        (Status::Absent, _) => Step::to_do(OFFSETS, "Kafka Connect has no such connector").detail(
            "create it with \"initial_state\": \"STOPPED\": an earlier one may have left offsets",
        ),
        (Status::Up(state), _) => Step::to_do(OFFSETS, format!("the connector is {state}"))
            .command(connector.url.curl("PUT", "stop"))
            .detail("offsets can be deleted only while it is stopped"),
    }
}

/// Whether the connector reads the slot without a snapshot.
pub(super) fn configured(asked: &Asked, config: &Config) -> Step {
    let connector = match asked {
        Asked::Known(connector) => connector,
        Asked::Silent(why) => return Step::not_checked(CONNECTOR, why.as_str()),
        Asked::No => {
            return Step::not_checked(CONNECTOR, NOT_ASKED)
                .detail("Debezium Server: debezium.source.snapshot.mode=no_data");
        }
    };
    if connector.status == Status::Absent {
        return Step::not_checked(CONNECTOR, "Kafka Connect has none of this name");
    }
    let wanted = [
        ("slot.name", "debezium", config.postgres.slot.as_str()),
        ("publication.name", "dbz_publication", config.postgres.publication.as_str()),
        ("snapshot.mode", "initial", "no_data"),
    ];
    let wrong: Vec<(&str, &str)> = wanted
        .into_iter()
        .filter(|(name, default, value)| connector.property(name).unwrap_or(default) != *value)
        .map(|(name, _, value)| (name, value))
        .collect();
    if wrong.is_empty() {
        return Step::ready(CONNECTOR, "it has the router's slot and publication, and no snapshot");
    }
    let url = &connector.url;
    let set = wrong.iter().map(|(name, value)| format!(".\"{name}\"=\"{value}\""));
    let (names, set): (Vec<&str>, Vec<String>) =
        wrong.iter().map(|(name, _)| *name).zip(set).unzip();
    Step::to_do(CONNECTOR, format!("to be set: {}", names.join(", ")))
        .detail("without an offset, another snapshot.mode sends every row of the table again")
        .command(format!(
            "curl {url}/config | jq '{}' | curl -X PUT -H 'Content-Type: application/json' \
             --data @- {url}/config",
            set.join(" | ")
        ))
}
