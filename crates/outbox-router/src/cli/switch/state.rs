//! How far the tables of the configuration are handed over: their rows in `outbox_router.switch`.

use std::collections::BTreeMap;

use relay::{Case, Code, Failure, Name, TableName, handover::switch::SwitchState};
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use crate::{
    cli::TaskError,
    held,
    polling::sql::{
        make_shards,
        setup::{forget_partitions, lease_statements},
        switch::row_table,
    },
};

/// The tables that are switched together.
pub(super) struct Switched {
    oids: Vec<u32>,
    /// Of each, in the same order.
    names: Vec<TableName>,
}

/// Where the tables are to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Towards {
    Stream,
    Polling,
}

/// What is known of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Standing {
    /// `None`: they are polled, or a switch was never typed.
    pub(super) state: Option<SwitchState>,
    /// Whether a switch has made the publication.
    pub(super) made_publication: bool,
}

impl Switched {
    /// # Errors
    /// A table does not exist.
    pub(super) async fn find(client: &Client, tables: &[TableName]) -> Result<Self, TaskError> {
        let query = "select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                     where n.nspname = $1 and c.relname = $2 and c.relkind in ('r', 'p')";
        let mut oids = Vec::with_capacity(tables.len());
        for table in tables {
            let Some(row) = client.query_opt(query, &[&table.schema, &table.name]).await? else {
                let what = format!("table {table} does not exist");
                let failure = Failure::new(Code::TableMissing, what).naming(Name::Table, table);
                return Err(failure.into());
            };
            oids.push(row.try_get(0)?);
        }
        Ok(Self { oids, names: tables.to_vec() })
    }

    /// Locks them for as long as the connection lasts, against switches of other pipelines. Returns
    /// `false` where another one has the lock.
    pub(super) async fn lock(&self, client: &Client) -> Result<bool, TaskError> {
        let query = "select bool_and(pg_try_advisory_lock( \
                     hashtextextended('outbox_router switch ' || r, 0))) from unnest($1::oid[]) r";
        Ok(client.query_one(query, &[&self.oids]).await?.try_get(0)?)
    }

    /// Reads how far they are. On the way back, tables of which nothing is said are where the
    /// others are, if these are streamed: a table that is added to a stream is handed over by no
    /// switch.
    ///
    /// # Errors
    /// They are not equally far, or a later version has written how far they are.
    pub(super) async fn standing(
        &self,
        client: &Client,
        towards: Towards,
    ) -> Result<Standing, TaskError> {
        if !held::exists(client, "switch").await? {
            return Ok(Standing::default());
        }
        let query = "select relation::oid, state, made_publication from outbox_router.switch \
                     where relation = any($1::oid[])";
        let rows = client.query(query, &[&self.oids]).await?;
        let (mut states, mut made_publication) = (BTreeMap::<u32, SwitchState>::new(), false);
        for row in &rows {
            let text: String = row.try_get(1)?;
            let state = SwitchState::of(&text).ok_or_else(|| of_later_version(&text))?;
            states.insert(row.try_get(0)?, state);
            made_publication |= row.try_get::<_, bool>(2)?;
        }
        let Some(first) = states.values().next().copied() else { return Ok(Standing::default()) };
        let may_join = towards == Towards::Polling && first == SwitchState::Stream;
        if (states.len() != self.oids.len() && !may_join)
            || states.values().any(|other| *other != first)
        {
            return Err(self.apart(&states).into());
        }
        Ok(Standing { state: Some(first), made_publication })
    }

    /// The slot, the witness and the publication are theirs, too.
    ///
    /// # Errors
    /// A switch has begun with another table of the publication.
    pub(super) async fn refuse_beside(
        &self,
        client: &Client,
        publication: &str,
    ) -> Result<(), TaskError> {
        if !held::exists(client, "switch").await? {
            return Ok(());
        }
        let query = "select n.nspname::text, c.relname::text, s.state from outbox_router.switch s \
                     join pg_class c on c.oid = s.relation \
                     join pg_namespace n on n.oid = c.relnamespace \
                     join pg_publication_rel r on r.prrelid = c.oid \
                     join pg_publication p on p.oid = r.prpubid \
                     where p.pubname = $1 and c.oid <> all ($2::oid[]) order by c.oid limit 1";
        let Some(row) = client.query_opt(query, &[&publication, &self.oids]).await? else {
            return Ok(());
        };
        let table = TableName { schema: row.try_get(0)?, name: row.try_get(1)? };
        let state: String = row.try_get(2)?;
        let what = format!(
            "the publication {publication} has table {table}, too, whose switch has the state \
             {state}, and which is no outbox of this configuration"
        );
        Err(Failure::of(Case::SwitchBeside, what).naming(Name::Table, &table).into())
    }

    fn apart(&self, states: &BTreeMap<u32, SwitchState>) -> Failure {
        let tables = self.oids.iter().zip(&self.names).map(|(oid, name)| match states.get(oid) {
            Some(SwitchState::Stream) => format!("{name} is streamed"),
            Some(state) => format!("the switch of {name} has the state {}", state.as_str()),
            None => format!("{name} is polled"),
        });
        let what =
            format!("the tables are not equally far: {}", tables.collect::<Vec<_>>().join(", "));
        Failure::of(Case::SwitchApart, what)
    }

    /// # Errors
    /// A table is none of these, which a router has streamed, nor a partition of one, nor the table
    /// that one of them is a partition of.
    pub(super) async fn refuse_unstreamed(
        &self,
        client: &Client,
        streamed: &[u32],
    ) -> Result<(), TaskError> {
        let query = "select t.place from unnest($1::oid[]) with ordinality as t (oid, place) \
                     where t.oid <> all ($2::oid[]) \
                       and not exists (select from pg_partition_ancestors(t.oid) a \
                                       where a.relid = any ($2::oid[])) \
                       and not exists (select from unnest($2::oid[]) s, pg_partition_ancestors(s) a \
                                       where a.relid = t.oid) \
                     order by 1 limit 1";
        self.refuse_first(client.query_opt(query, &[&self.oids, &streamed]).await?)
    }

    /// The same, where no witness says which tables a router has streamed: those were not that
    /// workers have had, and no switch has handed over.
    ///
    /// # Errors
    /// Such a table.
    pub(super) async fn refuse_polled(&self, client: &Client) -> Result<(), TaskError> {
        for table in ["lease", "switch"] {
            if !held::exists(client, table).await? {
                return Ok(());
            }
        }
        let query = "select t.place from unnest($1::oid[]) with ordinality as t (oid, place) \
                     where exists (select from outbox_router.lease l where l.relation = t.oid) \
                       and not exists (select from outbox_router.switch h \
                                       where h.relation = t.oid) \
                     order by 1";
        let polled = client.query(query, &[&self.oids]).await?;
        // Of all of them a person has said that a router has streamed them.
        if polled.len() == self.oids.len() {
            return Ok(());
        }
        self.refuse_first(polled.into_iter().next())
    }

    fn refuse_first(&self, unstreamed: Option<Row>) -> Result<(), TaskError> {
        let Some(row) = unstreamed else { return Ok(()) };
        let place: i64 = row.try_get(0)?;
        let place = usize::try_from(place).unwrap_or_default().saturating_sub(1);
        let Some(table) = self.names.get(place) else { return Ok(()) };
        let what = format!(
            "no router has streamed table {table}: its pending rows are not delivered, and would \
             be marked"
        );
        Err(Failure::of(Case::SwitchUnstreamed, what).naming(Name::Table, table).into())
    }

    /// The tables of the publication that are none of these, nor partitions of them.
    pub(super) async fn left_out(
        &self,
        client: &Client,
        publication: &str,
    ) -> Result<Vec<String>, TaskError> {
        let query = "select t.schemaname || '.' || t.tablename from pg_publication_tables t \
                     join pg_namespace n on n.nspname = t.schemaname \
                     join pg_class c on c.relnamespace = n.oid and c.relname = t.tablename \
                     where t.pubname = $1 and c.oid <> all($2) \
                       and not exists (select from pg_partition_ancestors(c.oid) a \
                                       where a.relid = any($2)) \
                     order by 1";
        let rows = client.query(query, &[&publication, &self.oids]).await?;
        Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
    }

    /// Makes the tables of the switch, and lets the router read the one that it asks: all of it, or
    /// nothing. A worker's table without one of notes is taken for that of an earlier version.
    pub(super) async fn make_tables(
        &self,
        client: &Client,
        role: Option<&str>,
    ) -> Result<(), TaskError> {
        let statements = lease_statements(role).into_iter().chain([row_table()]);
        let statements: Vec<String> = statements.map(|it| it.sql).collect();
        // Several statements of one message are one transaction.
        client.batch_execute(&statements.join("; ")).await?;
        reached!(TablesMade);
        Ok(())
    }

    /// Tells the workers to take nothing more, but for `holder`. Who has read that the tables are
    /// open has committed when this returns.
    pub(super) async fn close(
        &self,
        client: &Client,
        holder: Uuid,
        by: &str,
    ) -> Result<(), TaskError> {
        client.batch_execute(CLOSE_BEGIN).await?;
        client.execute(CLOSE, &[&self.oids, &holder.to_string(), &by]).await?;
        client.batch_execute("commit").await?;
        Ok(())
    }

    /// Says that the tables are streamed, where nothing is said.
    pub(super) async fn say_streamed(&self, client: &Client, by: &str) -> Result<(), TaskError> {
        client.batch_execute(CLOSE_BEGIN).await?;
        client.execute(STREAM, &[&self.oids, &by]).await?;
        client.batch_execute("commit").await?;
        Ok(())
    }

    pub(super) async fn set(&self, client: &Client, state: SwitchState) -> Result<(), TaskError> {
        let update = "update outbox_router.switch set state = $2, since = now() \
                      where relation = any($1::oid[])";
        client.execute(update, &[&self.oids, &state.as_str()]).await?;
        Ok(())
    }

    /// Notes that the publication is made by the switch.
    pub(super) async fn note_publication(&self, client: &Client) -> Result<(), TaskError> {
        let update = "update outbox_router.switch set made_publication = true where relation = any($1::oid[])";
        client.execute(update, &[&self.oids]).await?;
        Ok(())
    }

    /// Commits something, so that WAL is written past everything that was committed before. It
    /// waits for no standby.
    pub(super) async fn touch(&self, client: &Client) -> Result<(), TaskError> {
        client.batch_execute("begin; set local synchronous_commit = local").await?;
        let update =
            "update outbox_router.switch set since = since where relation = any($1::oid[])";
        client.execute(update, &[&self.oids]).await?;
        client.batch_execute("commit").await?;
        Ok(())
    }

    /// Forgets which rows were older than the slot.
    pub(super) async fn forget_rows(&self, client: &Client) -> Result<(), TaskError> {
        let delete = "delete from outbox_router.switch_row where relation = any($1::oid[])";
        client.execute(delete, &[&self.oids]).await?;
        Ok(())
    }

    /// Forgets which partitions workers have read: nothing is pending there.
    pub(super) async fn forget_partitions(&self, client: &Client) -> Result<(), TaskError> {
        for table in &self.names {
            client.batch_execute(&forget_partitions(table).sql).await?;
        }
        Ok(())
    }

    /// Lets workers poll the tables. Before any worker has begun, the shards say whose the tables
    /// are: a slot that was made now would not have the rows that are pending.
    pub(super) async fn open(&self, client: &Client) -> Result<(), TaskError> {
        for oid in &self.oids {
            client.batch_execute(&make_shards(*oid)).await?;
        }
        reached!(PollingShardsMade);
        let delete = "delete from outbox_router.switch where relation = any($1::oid[])";
        client.execute(delete, &[&self.oids]).await?;
        Ok(())
    }

    /// The workers that hold something of the tables, but for `holder`.
    pub(super) async fn holders(
        &self,
        client: &Client,
        holder: Uuid,
    ) -> Result<Vec<String>, TaskError> {
        let rows = client.query(HOLDERS, &[&self.oids, &holder.to_string()]).await?;
        let mut names = Vec::with_capacity(rows.len());
        for row in rows {
            names.push(row.try_get(0)?);
        }
        Ok(names)
    }
}

fn of_later_version(state: &str) -> Failure {
    let what = format!(
        "outbox_router.switch has the state {state}, which a later version of outbox-router has \
         written: type the command of that version"
    );
    Failure::new(Code::Switched, what)
}

/// A worker reads the table, and so locks it against this, in the transaction in which it takes
/// shards.
const CLOSE_BEGIN: &str = "begin; lock table outbox_router.switch in access exclusive mode";

const CLOSE: &str = "\
    insert into outbox_router.switch as s (relation, state, holder, \"by\") \
    select r, 'closing', $2::text::uuid, $3 from unnest($1::oid[]) r \
    on conflict (relation) do update \
      set state = 'closing', holder = excluded.holder, \"by\" = excluded.\"by\", since = now()";

const STREAM: &str = "\
    insert into outbox_router.switch (relation, state, \"by\") \
    select r, 'stream', $2 from unnest($1::oid[]) r on conflict (relation) do nothing";

const HOLDERS: &str = "\
    select coalesce(max(w.name), 'unknown') || ' (' || count(*) || ' of its shards)' \
    from outbox_router.lease l \
    left join outbox_router.worker w on w.relation = l.relation and w.holder = l.holder \
    where l.relation = any($1::oid[]) and l.holder is distinct from $2::text::uuid \
      and l.holder is not null and l.expires_at >= now() \
    group by l.holder order by 1";
