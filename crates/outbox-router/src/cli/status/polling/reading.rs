//! One reading: the tables and the router are asked at the same time.

use std::time::Duration;

use relay::{Code, ErrorClass, Failure};
use serde_json::Value;

use crate::{
    cli::{
        connect::Access,
        polled_tables,
        router_status::{self, Answer, Other},
    },
    config::Config,
    polling::survey::{RowCount, SurveySettings, SurveyedTable, Surveyor},
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

impl PollingReading {
    /// Why nobody polls the tables, or one of them.
    pub(super) fn handed(&self) -> Option<&Failure> {
        let tables = self.tables.as_deref().unwrap_or_default();
        tables.iter().find_map(|table| table.handed.as_ref())
    }

    /// Rows of a table that wait for another attempt. Where the table has no columns for that, the
    /// router alone knows of them.
    pub(super) fn waiting(&self, table: &SurveyedTable) -> RowCount {
        let name = table.name.to_string();
        let known = self.of_router().find(|known| {
            known.get("name").and_then(Value::as_str).is_some_and(|known| known == name)
        });
        let known = known.and_then(|known| known.get("waiting")?.as_u64()).unwrap_or(0);
        let counted = table.figures.as_ref().ok().map(|figures| figures.failed);
        counted.filter(|counted| counted.rows() >= known).unwrap_or(RowCount::Exactly(known))
    }

    /// Whether the router's verdict is about a row that waits, beside which others are delivered.
    pub(super) fn a_row_needs_person(&self) -> bool {
        let verdict = self.router.as_ref().and_then(|router| router.pointer("/verdict/code"));
        let code = verdict.and_then(Value::as_str).and_then(Code::parse);
        if code == Some(Code::StatusUnknown) {
            return true;
        }
        let waits = |table: &Value| table.get("waiting").and_then(Value::as_u64) > Some(0);
        code.and_then(ErrorClass::of).is_some() && self.of_router().any(waits)
    }

    /// The tables, as the router has them.
    fn of_router(&self) -> impl Iterator<Item = &Value> {
        let tables = self.router.as_ref().and_then(|router| router.get("tables")?.as_array());
        tables.into_iter().flatten()
    }
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
        sql: polled_tables::settings(config),
        interval: Duration::ZERO,
    };
    Surveyor::new(settings, access.endpoint("status")?).read().await
}
