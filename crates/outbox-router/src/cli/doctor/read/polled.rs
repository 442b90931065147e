//! What is read of polled tables, in an SQL session that may not write. One table that cannot be
//! polled does not hide another.

use relay::{Code, Failure, TableName};
use tokio_postgres::Client;

use super::{postgres::ids_of_sql, zones};
use crate::{
    cli::{
        connect::Access,
        doctor::facts::{Notify, Part, PolledFacts, PolledTableFacts},
        polled_tables,
    },
    config::{Config, Environment},
    monitor::{SqlSession, connection::drive_without_limit},
    polling::{
        retention::Sweeper,
        sql::{LeaseTables, PolledTable, Scan, TableConfig, columns, leases, survey, upkeep},
    },
    postgres::{Runs, Touched, quote_table, refuse_foreign_code},
    prepare,
};

/// Reads everything that can be read.
///
/// # Errors
/// There is no SQL session.
pub(super) async fn facts(
    config: &Config,
    access: Access<'_>,
    environment: &Environment,
) -> Part<PolledFacts> {
    let endpoint = access.endpoint("doctor")?;
    let SqlSession { client, mut driver } = endpoint.sql().await?;
    let read = async {
        let leases = leases(&client).await?;
        let usable = if leases.is_none() { LeaseTables::Usable } else { LeaseTables::Unusable };
        // First, since a table that cannot be read may leave its transaction open.
        let streamed = polled_tables::streamed(&client, config).await?;
        let handed = polled_tables::handed(&client, config).await?;
        let former = match usable {
            LeaseTables::Usable => polled_tables::former(&client, config).await?,
            LeaseTables::Unusable => Vec::new(),
        };
        let mut tables = Vec::new();
        for table in config.polled_tables() {
            tables.push(table_facts(&client, config, &table, usable).await);
        }
        Ok((leases, tables, (streamed, handed, former)))
    };
    let read = drive_without_limit(&mut driver, Box::pin(read), "the SQL connection to PostgreSQL");
    let (leases, tables, (streamed, handed, former)) = Box::pin(read).await?;
    let ids = ids_of_sql(&endpoint).await;
    Ok(PolledFacts {
        leases,
        streamed,
        handed,
        former,
        tables,
        retention: Box::pin(retention(config, access, environment)).await,
        notify: if config.polling.notify { Notify::Heard } else { Notify::Unheard },
        is_pooled: ids.announced.zip(ids.answered).is_some_and(|(one, other)| one != other),
    })
}

async fn table_facts(
    client: &Client,
    config: &Config,
    table: &TableConfig,
    leases: LeaseTables,
) -> PolledTableFacts {
    let name = &table.outbox.name;
    let settings = polled_tables::settings(config);
    let (name, quoted) = (name.to_string(), quote_table(name));
    let names: Vec<TableName> =
        config.polled_tables().into_iter().map(|table| table.outbox.name).collect();
    let looked_at = refuse_foreign_code(client, Touched::Tables(&names), Runs::Changes).await;
    let read = match looked_at {
        Ok(()) => PolledTable::read(client, table, &settings).await,
        Err(failure) => Err(failure),
    };
    match read {
        Ok(known) => PolledTableFacts {
            name,
            quoted,
            upkeep: upkeep(client, &known, leases).await,
            survey: survey(client, &known).await,
            columns: Some(columns(&known)),
            zones: zones::of_writers(client, known.oid()).await,
        },
        Err(failure) => PolledTableFacts {
            name,
            quoted,
            upkeep: Err(failure.clone()),
            survey: Err(failure.clone()),
            columns: None,
            zones: Err(failure),
        },
    }
}

/// Why rows cannot be removed, by the connection that removes them. A table that cannot be polled
/// is another check's matter.
async fn retention(config: &Config, access: Access<'_>, environment: &Environment) -> Vec<Failure> {
    let Some(sweep) = prepare::polled_sweep(config, Scan::ByIndex) else { return Vec::new() };
    let url = config.retention.url.as_ref();
    let access = Access { url: url.or(access.url), environment, ..access };
    let endpoint = match access.endpoint("doctor") {
        Ok(endpoint) => endpoint,
        Err(failure) => return vec![failure],
    };
    let mut sweeper = Sweeper::new(sweep, endpoint);
    let mut failures = Vec::new();
    for (table, _) in sweeper.tables() {
        failures.extend(sweeper.check(table).await.err());
    }
    let own = [Code::Retention, Code::ForeignCode];
    failures.retain(|failure| own.contains(&failure.code));
    failures
}
