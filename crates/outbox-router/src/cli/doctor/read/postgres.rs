//! What PostgreSQL says: first as `run` reads it, on a replication connection, then more, in an SQL
//! session that may not write. Where the first fails, the second reads slot and publication, too,
//! so that one fault does not hide the others.

use relay::{
    Case, Code, Failure, Outboxes, TableName,
    source::{Catalog, SlotKind, SlotReading, quote_identifier},
};
use tokio_postgres::Client;

use super::{
    router_schema::{dead_letters, left_out, unfinished_backfill},
    table,
};
use crate::{
    cli::{
        connect::Access,
        doctor::facts::{
            DeniedView, OtherSlot, Part, PostgresFacts, ProcessIds, PublicationExtent,
            PublicationFacts, ServerFacts, SessionFacts, SlotFacts, SlotUse, TableFacts,
        },
    },
    config::{Config, Environment, SourceKind},
    monitor::{self, SqlSession, catalog::Sought, connection::drive_without_limit, pins},
    polling::sql::{kept_from_slot, kept_from_stream},
    postgres::{
        Options, ReplicationConnection, TextQuery, connect_sql_announced, one_row, quote_literal,
        sql_failure,
    },
    prepare,
    retention::{
        ReliedOn, RetentionSettings, check_whole,
        session::{Backend, Session},
        target::Target,
    },
    shell::{Endpoint, SourceReading},
};

/// The session may not write, and waits for no lock that an application holds.
const SESSION: &str = "\
    set default_transaction_read_only = on; set statement_timeout = '10s'; set lock_timeout = '2s'";

/// The views of the system that are read: first those without which `run` cannot start.
const VIEWS: [(&str, bool); 6] = [
    ("pg_replication_slots", true),
    ("pg_publication", true),
    ("pg_publication_tables", true),
    ("pg_stat_activity", false),
    ("pg_stat_replication", false),
    ("pg_prepared_xacts", false),
];

/// Reads everything that can be read.
///
/// # Errors
/// There is no SQL session.
pub(super) async fn facts(
    config: &Config,
    access: Access<'_>,
    environment: &Environment,
    remembered: Option<&Catalog>,
) -> Part<PostgresFacts> {
    let endpoint = access.endpoint("doctor")?;
    let SqlSession { client, mut driver } = endpoint.sql().await?;
    if config.postgres.source == SourceKind::Polling {
        let read = async {
            client.batch_execute(SESSION).await.map_err(sql_failure)?;
            let reader = Reader { config, client: &client, remembered: None };
            Ok(Box::pin(reader.facts_without_slot()).await)
        };
        let what = "the SQL connection to PostgreSQL";
        return Box::pin(drive_without_limit(&mut driver, Box::pin(read), what)).await;
    }
    let read = async {
        client.batch_execute(SESSION).await.map_err(sql_failure)?;
        let source = prepare::source(config, endpoint.clone());
        let source = Box::pin(source.read(remembered)).await.map(Box::new);
        let reader = Reader { config, client: &client, remembered };
        let mut facts = Box::pin(reader.facts(source)).await;
        facts.sessions.replication = ids_of_replication(&endpoint).await;
        facts.sessions.sql = ids_of_sql(&endpoint).await;
        Ok(facts)
    };
    let read = drive_without_limit(&mut driver, Box::pin(read), "the SQL connection to PostgreSQL");
    let mut facts = Box::pin(read).await?;
    facts.retention = Box::pin(retention(config, access, environment)).await;
    Ok(facts)
}

async fn ids_of_replication(endpoint: &Endpoint) -> ProcessIds {
    let options =
        Options { application_name: endpoint.application_name.clone(), ..Options::default() };
    let Ok(mut connection) = ReplicationConnection::connect(&endpoint.conninfo, &options).await
    else {
        return ProcessIds::default();
    };
    let announced = connection.backend_pid().and_then(|pid| i32::try_from(pid).ok());
    ProcessIds { announced, answered: pid(&mut connection).await }
}

pub(super) async fn ids_of_sql(endpoint: &Endpoint) -> ProcessIds {
    let opened = connect_sql_announced(&endpoint.conninfo, &endpoint.application_name).await;
    let Ok((client, connection, announced)) = opened else { return ProcessIds::default() };
    let mut sql = &client;
    let answered = tokio::select! {
        biased;
        answered = pid(&mut sql) => answered,
        _ = connection => None,
    };
    ProcessIds { announced: announced.and_then(|pid| i32::try_from(pid).ok()), answered }
}

async fn pid(sql: &mut impl TextQuery) -> Option<i32> {
    one_row(sql, "the process id", "select pg_backend_pid()").await.ok()?.parsed().ok()
}

struct Reader<'a> {
    config: &'a Config,
    client: &'a Client,
    remembered: Option<&'a Catalog>,
}

impl Reader<'_> {
    /// Where rows are polled: what is about the server and the tables.
    async fn facts_without_slot(&self) -> PostgresFacts {
        let none = || unread("rows are polled");
        let names = self.config.tables().map(|outbox| outbox.name.clone()).collect();
        PostgresFacts {
            source: Err(none()),
            refused: None,
            server: self.server().await,
            sessions: SessionFacts::default(),
            slots: Err(none()),
            pin: Err(none()),
            publication: Err(none()),
            tables: self.tables_of(names).await,
            kept_from_stream: Err(none()),
            unfinished_backfill: Err(none()),
            left_out: left_out(self.client, self.config).await,
            moves: Err(none()),
            denied: Vec::new(),
            retention: None,
            dead_letters: None,
        }
    }

    async fn facts(&self, source: Part<Box<SourceReading>>) -> PostgresFacts {
        let mut sql = self.client;
        let first = pid(&mut sql).await;
        let refused = monitor::server::settings(&mut sql).await.err();
        let server = self.server().await;
        let version = server.as_ref().map(|server| server.version).map_err(Clone::clone);
        let is_standby =
            refused.as_ref().is_some_and(|failure| failure.case == Some(Case::Standby));
        let (slots, publication) = match (&version, is_standby) {
            (Ok(version), false) => {
                (self.slots(*version, &source).await, self.publication(*version, &source).await)
            }
            (Ok(_), true) => {
                let refused = refused.clone().unwrap_or_else(|| unread("a standby"));
                (Err(refused.clone()), Err(refused))
            }
            (Err(failure), _) => (Err(failure.clone()), Err(failure.clone())),
        };
        let tables = match &publication {
            Ok(publication) => self.tables(publication).await,
            Err(failure) => Err(failure.clone()),
        };
        let moves = match &publication {
            Ok(publication) => {
                let outboxes = self.config.outboxes();
                monitor::moves::read(self.client, &publication.catalog, &outboxes).await
            }
            Err(failure) => Err(failure.clone()),
        };
        let kept_from_stream = self.kept(&slots, &publication).await;
        let pin = pins::oldest(self.client).await;
        let denied = self.denied().await;
        let role = server.as_ref().ok().map(|server| server.role.as_str());
        let dead_letters = dead_letters(self.client, self.config, role).await;
        let last = pid(&mut sql).await;
        PostgresFacts {
            source,
            refused,
            server,
            sessions: SessionFacts { first, last, ..SessionFacts::default() },
            slots,
            pin,
            publication,
            tables,
            kept_from_stream,
            unfinished_backfill: unfinished_backfill(self.client, self.config).await,
            left_out: left_out(self.client, self.config).await,
            moves,
            denied,
            retention: None,
            dead_letters,
        }
    }

    /// What keeps the tables from being streamed; where there is no slot, first what keeps them
    /// from one.
    async fn kept(
        &self,
        slots: &Part<SlotFacts>,
        publication: &Part<PublicationFacts>,
    ) -> Part<Vec<Failure>> {
        let (mut sql, pipeline) = (self.client, self.config.name.as_str());
        let of = publication.as_ref().map_err(Clone::clone)?;
        if slots.as_ref().is_ok_and(|slots| slots.reading.slot.is_none()) {
            let kept = kept_from_slot(&mut sql, pipeline, &of.outboxes, &of.name).await?;
            if !kept.is_empty() {
                return Ok(kept);
            }
        }
        kept_from_stream(&mut sql, pipeline, &of.catalog, &of.outboxes).await
    }

    async fn server(&self) -> Part<ServerFacts> {
        const STATEMENT: &str = "\
            select current_setting('server_version_num'), current_user, \
              coalesce((select rolsuper from pg_roles where rolname = current_user), false), \
              current_database(), (extract(epoch from clock_timestamp()) * 1000000)::int8, \
              (select setting from pg_settings where name = 'max_slot_wal_keep_size'), \
              (select current_setting(name) from pg_settings \
                where name = 'idle_replication_slot_timeout' and setting <> '0'), \
              coalesce(current_setting('synchronized_standby_slots', true), ''), \
              current_setting('max_replication_slots')";
        let mut sql = self.client;
        let before = now_micros();
        let mut row = one_row(&mut sql, "the server", STATEMENT).await?;
        let after = now_micros();
        let version = row.parsed()?;
        let role = quote_identifier(&row.text()?);
        let (is_superuser, database, clock) = (row.boolean()?, row.text()?, row.parsed::<i64>()?);
        let megabytes: Option<i64> = row.parsed_nullable()?;
        let idle_timeout = row.nullable()?;
        let standby_slots = row.text()?;
        let names = standby_slots.split(',').map(|name| name.trim().trim_matches('"'));
        Ok(ServerFacts {
            version,
            role,
            is_superuser,
            database,
            clock_ahead: clock.saturating_sub(before.midpoint(after)),
            clock_margin: after.saturating_sub(before) / 2,
            clock,
            wal_limit: megabytes.and_then(|size| u64::try_from(size).ok()).map(|size| size << 20),
            idle_timeout,
            standby_slots: names.filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            slots_max: row.parsed()?,
        })
    }

    async fn slots(&self, version: i32, source: &Part<Box<SourceReading>>) -> Part<SlotFacts> {
        let mut sql = self.client;
        let name = self.config.postgres.slot.as_str();
        let reading: SlotReading = match source {
            Ok(source) => source.slot_reading.clone(),
            Err(_) => monitor::slot::read(&mut sql, version, name).await?,
        };
        let statement = format!(
            "select slot_name, slot_type = 'physical', active, wal_status is not distinct from 'lost', \
               pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::int8 \
             from pg_replication_slots where slot_name <> {} order by 1",
            quote_literal(name)
        );
        let mut others = Vec::new();
        for mut row in sql.rows("the other slots", &statement).await? {
            others.push(OtherSlot {
                name: row.text()?,
                kind: if row.boolean()? { SlotKind::Physical } else { SlotKind::Logical },
                used: match (row.boolean()?, row.boolean()?) {
                    (_, true) => SlotUse::Lost,
                    (true, false) => SlotUse::Active,
                    (false, false) => SlotUse::Inactive,
                },
                kept: row.parsed_nullable::<i64>()?.and_then(|kept| u64::try_from(kept).ok()),
            });
        }
        let pid = reading.slot.as_ref().and_then(|slot| slot.active_pid);
        let reader = match pid {
            Some(pid) => self.application(pid).await,
            None => None,
        };
        let (name, own) = (name.to_owned(), self.config.name.clone());
        Ok(SlotFacts { name, reading, reader, own, others })
    }

    async fn application(&self, pid: i32) -> Option<String> {
        let statement = format!("select application_name from pg_stat_activity where pid = {pid}");
        let mut sql = self.client;
        let rows = sql.rows("the reader of the slot", &statement).await.ok()?;
        rows.into_iter().next()?.nullable().ok()?
    }

    async fn publication(
        &self,
        version: i32,
        source: &Part<Box<SourceReading>>,
    ) -> Part<PublicationFacts> {
        let mut sql = self.client;
        let name = self.config.postgres.publication.as_str();
        let outboxes = self.config.outboxes();
        let catalog = match source {
            Ok(source) => source.catalog.clone(),
            Err(_) => {
                let remembered = self.remembered;
                let sought = Sought { publication: name, outboxes: &outboxes, remembered };
                monitor::catalog::read(&mut sql, version, sought).await?
            }
        };
        let extent = self.extent(name, &outboxes).await?;
        let remembered = self.remembered.filter(|catalog| catalog.publication.is_some()).cloned();
        Ok(PublicationFacts { name: name.to_owned(), outboxes, catalog, remembered, extent })
    }

    async fn extent(&self, name: &str, outboxes: &Outboxes) -> Part<Option<PublicationExtent>> {
        const SHOWN: usize = 5;
        let mut sql = self.client;
        let name = quote_literal(name);
        let statement = format!(
            "select puballtables, pubupdate, pubdelete, pubtruncate from pg_publication \
             where pubname = {name}"
        );
        let Some(mut row) = sql.rows("the publication", &statement).await?.pop() else {
            return Ok(None);
        };
        let is_for_all_tables = row.boolean()?;
        let mut operations = Vec::new();
        for operation in ["update", "delete", "truncate"] {
            if row.boolean()? {
                operations.push(operation);
            }
        }
        let mut others = Vec::new();
        if !outboxes.tables.is_empty() {
            let statement = format!(
                "select schemaname, tablename from pg_publication_tables where pubname = {name} \
                 order by 1, 2"
            );
            for mut row in sql.rows("the published tables", &statement).await? {
                let table = TableName { schema: row.text()?, name: row.text()? };
                if outboxes.tables.iter().all(|outbox| outbox.name != table) {
                    others.push(table.to_string());
                }
            }
            others.truncate(SHOWN);
        }
        Ok(Some(PublicationExtent { is_for_all_tables, operations, others }))
    }

    async fn tables(&self, publication: &PublicationFacts) -> Part<Vec<TableFacts>> {
        let names: Vec<TableName> = match publication.outboxes.tables.as_slice() {
            [] => publication
                .catalog
                .publication
                .iter()
                .flat_map(|found| &found.tables)
                .map(|table| table.name.clone())
                .collect(),
            tables => tables.iter().map(|outbox| outbox.name.clone()).collect(),
        };
        self.tables_of(names).await
    }

    async fn tables_of(&self, names: Vec<TableName>) -> Part<Vec<TableFacts>> {
        const TABLES_MAX: usize = 50;
        let mut tables = Vec::new();
        for name in names.into_iter().take(TABLES_MAX) {
            match table::facts(self.client, self.config, &name).await {
                Ok(facts) => tables.push(facts),
                // The checks of the publication, or of polled tables, report that.
                Err(failure) if failure.code == Code::TableMissing => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(tables)
    }

    async fn denied(&self) -> Vec<DeniedView> {
        let mut sql = self.client;
        let mut denied = Vec::new();
        for (name, is_needed) in VIEWS {
            let view = quote_literal(&format!("pg_catalog.{name}"));
            let statement = format!("select has_table_privilege({view}, 'select')");
            let may = one_row(&mut sql, "a privilege", &statement).await;
            if may.and_then(|mut row| row.boolean()).is_ok_and(|may| !may) {
                denied.push(DeniedView { name, is_needed });
            }
        }
        denied
    }
}

fn unread(what: &str) -> Failure {
    Failure::new(Code::ServerNotReady, what)
}

/// Why rows cannot be removed, by the connection that removes them.
async fn retention(
    config: &Config,
    access: Access<'_>,
    environment: &Environment,
) -> Option<Vec<Failure>> {
    let settings = RetentionSettings::of(config);
    settings.is_on().then_some(())?;
    let find = async {
        let url = config.retention.url.as_ref();
        let access = Access { url: url.or(access.url), environment, ..access };
        let SqlSession { client, mut driver } = access.endpoint("doctor")?.sql().await?;
        let work = async {
            let backend = Backend::prepare(&client, &settings).await?;
            let session = Session { client: &client, backend: &backend };
            let whole = check_whole(session, &settings, ReliedOn::default()).await;
            let mut failures = Vec::from_iter(whole.err());
            for outbox in &settings.tables {
                let found = async {
                    let target = Target::find(session, &settings, outbox).await?;
                    target.check_others(session, &settings).await?;
                    target.check_way()?;
                    target.check_unreferenced(session).await
                };
                failures.extend(found.await.err());
            }
            Ok(failures)
        };
        drive_without_limit(&mut driver, Box::pin(work), "the connection of retention").await
    };
    Some(Box::pin(find).await.unwrap_or_else(|failure| vec![failure]))
}

fn now_micros() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
