//! How far the tables of the configuration are handed over: their rows in `outbox_router.switch`.

use relay::{Code, Failure, Name, TableName};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::{
    cli::TaskError,
    held,
    polling::sql::{
        setup::lease_statements,
        switch::{SwitchState, row_table},
    },
};

/// The tables that are switched together, by their OIDs.
pub(super) struct Switched {
    oids: Vec<u32>,
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
        Ok(Self { oids })
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
        let query = "select state, made_publication from outbox_router.switch \
                     where relation = any($1)";
        let rows = client.query(query, &[&self.oids]).await?;
        let mut standings = Vec::with_capacity(rows.len());
        for row in &rows {
            let text: String = row.try_get(0)?;
            let made_publication = row.try_get(1)?;
            let state = SwitchState::of(&text).ok_or_else(|| of_later_version(&text))?;
            standings.push(Standing { state: Some(state), made_publication });
        }
        let Some(first) = standings.first().copied() else { return Ok(Standing::default()) };
        let may_join = towards == Towards::Polling && first.state == Some(SwitchState::Stream);
        if (standings.len() != self.oids.len() && !may_join)
            || standings.iter().any(|other| other.state != first.state)
        {
            let what = "outbox_router.switch has some tables of this configuration and not all: \
                        name the tables in it that were switched together";
            return Err(Failure::new(Code::Switched, what).into());
        }
        let made_publication = standings.iter().any(|standing| standing.made_publication);
        Ok(Standing { made_publication, ..first })
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

    /// Makes the tables of the switch, and lets the router read the one that it asks.
    pub(super) async fn make_tables(
        &self,
        client: &Client,
        role: Option<&str>,
    ) -> Result<(), TaskError> {
        for statement in lease_statements(role).into_iter().chain([row_table()]) {
            client.batch_execute(&statement.sql).await?;
            reached!(TableMade);
        }
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
                      where relation = any($1)";
        client.execute(update, &[&self.oids, &state.as_str()]).await?;
        Ok(())
    }

    /// Notes that the publication is made by the switch.
    pub(super) async fn note_publication(&self, client: &Client) -> Result<(), TaskError> {
        let update =
            "update outbox_router.switch set made_publication = true where relation = any($1)";
        client.execute(update, &[&self.oids]).await?;
        Ok(())
    }

    /// Commits something, so that WAL is written past everything that was committed before. It
    /// waits for no standby.
    pub(super) async fn touch(&self, client: &Client) -> Result<(), TaskError> {
        client.batch_execute("begin; set local synchronous_commit = local").await?;
        let update = "update outbox_router.switch set since = since where relation = any($1)";
        client.execute(update, &[&self.oids]).await?;
        client.batch_execute("commit").await?;
        Ok(())
    }

    /// Forgets which rows were older than the slot.
    pub(super) async fn forget_rows(&self, client: &Client) -> Result<(), TaskError> {
        let delete = "delete from outbox_router.switch_row where relation = any($1)";
        client.execute(delete, &[&self.oids]).await?;
        Ok(())
    }

    /// Lets workers poll the tables.
    pub(super) async fn open(&self, client: &Client) -> Result<(), TaskError> {
        let delete = "delete from outbox_router.switch where relation = any($1)";
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
    where l.relation = any($1) and l.holder is distinct from $2::text::uuid \
      and l.holder is not null and l.expires_at >= now() \
    group by l.holder order by 1";
