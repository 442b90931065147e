//! One reading: the tables and the router are asked at the same time.

use std::time::Duration;

use relay::Failure;
use serde_json::Value;
use uuid::Uuid;

use crate::{
    cli::{
        connect::Access,
        router_status::{self, Answer, Other},
    },
    config::Config,
    polling::{
        sql::{RowScope, SqlSettings},
        survey::{SurveySettings, SurveyedTable, Surveyor},
    },
};

/// Everything that one reading found.
pub(in crate::cli::status) struct PollingReading {
    /// What the tables have, or why PostgreSQL could not be asked.
    pub(super) tables: Result<Vec<SurveyedTable>, Failure>,
    /// The router's own `/status.json`; `None` where none answers.
    pub(super) router: Option<Value>,
    /// Who answers in its place.
    pub(super) other: Option<Other>,
}

/// Reads once.
pub(in crate::cli::status) async fn read(config: &Config, access: Access<'_>) -> PollingReading {
    let (tables, answer) = tokio::join!(survey(config, access), router_status::ask(config, None));
    let (router, other) = match answer {
        Answer::Nobody => (None, None),
        Answer::Own(router) => (Some(router), None),
        Answer::Other(other) => (None, Some(other)),
    };
    PollingReading { tables, router, other }
}

async fn survey(config: &Config, access: Access<'_>) -> Result<Vec<SurveyedTable>, Failure> {
    let settings = SurveySettings {
        tables: config.polled_tables(),
        sql: SqlSettings {
            // It holds nothing.
            worker: Uuid::nil(),
            name: config.name.clone(),
            lease: config.polling.lease,
            hold_keys: config.dead_letters.hold_key,
            keep_bytes: 0,
            on_error: config.on_error,
            scope: RowScope::All,
        },
        interval: Duration::ZERO,
    };
    Surveyor::new(settings, access.endpoint("status")?).read().await
}
