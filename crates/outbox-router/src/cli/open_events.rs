//! Open rows of `outbox_router.held`, counted by pipeline. A pipeline is a `name` and a slot: after
//! a change of either in the configuration no router and no command sees the rows of the former,
//! so they are named where somebody looks or changes something. Another pipeline may just as well
//! be one that runs, so it is no finding.

use serde_json::{Value, json};
use tokio_postgres::Client;

use super::{TaskError, shown_bytes};
use crate::{config::Config, held::is_table_readable, wording::count};

/// What is open of one pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenEvents {
    name: String,
    slot: String,
    events: i64,
    keys: i64,
}

/// What is open of the configuration's pipeline, and of every other in the database.
#[derive(Debug, Default)]
pub(super) struct AllOpen {
    pub(super) own: Option<OpenEvents>,
    pub(super) others: Vec<OpenEvents>,
}

impl AllOpen {
    /// Both; nothing where nothing is held, or the role may not see it.
    pub(super) async fn read(client: &Client, config: &Config) -> Result<Self, TaskError> {
        let open = read(client, config, Whose::All).await?;
        let is_own = |open: &OpenEvents| {
            open.name == config.name && open.slot == config.postgres.slot.as_str()
        };
        let (mut own, others): (Vec<_>, _) = open.into_iter().partition(is_own);
        Ok(Self { own: own.pop(), others })
    }
}

/// Whose events are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Those of the configuration's pipeline.
    Own,
    /// Those of every other.
    Others,
    All,
}

impl Whose {
    /// Whether only the own pipeline's are counted, or only the others'.
    const fn is_own(self) -> Option<bool> {
        match self {
            Self::Own => Some(true),
            Self::Others => Some(false),
            Self::All => None,
        }
    }
}

/// The longest name that is shown; no configuration has a longer one.
const NAME_MAX: usize = 63;

/// One probe of the index `held_open` for each pipeline. Only this index has the order by the key,
/// too; a sort is taken only where it is missing.
const PIPELINES: &str = "\
    with recursive pipelines as ( \
      (select pipeline, slot from outbox_router.held \
        where state in ('held', 'requeued', 'dropping') \
        order by pipeline, slot, key_hash, commit_lsn, event_index limit 1) \
      union all \
      select n.pipeline, n.slot from pipelines p \
      cross join lateral (select pipeline, slot from outbox_router.held h \
        where state in ('held', 'requeued', 'dropping') \
          and (h.pipeline, h.slot) > (p.pipeline, p.slot) \
        order by pipeline, slot, key_hash, commit_lsn, event_index limit 1) n) \
    select pipeline, slot from pipelines \
    where $3::bool is null or ((pipeline, slot) = ($1, $2)) = $3 order by pipeline, slot";

/// In the order of the table: in that of the index, nearly every row is on another page.
const COUNT: &str = "\
    select coalesce(sum(events), 0)::int8, count(*) \
    from (select count(*) as events from outbox_router.held \
      where pipeline = $1 and slot = $2 and state in ('held', 'requeued', 'dropping') \
      group by key_hash) of_key";

const BY_INDEX: &str = "\
    begin read only; set local jit = off; set local enable_sort = off; \
    set local enable_incremental_sort = off";

const BY_TABLE: &str = "\
    set local enable_indexscan = off; set local enable_indexonlyscan = off";

impl OpenEvents {
    /// Those of this pipeline; `None` where nothing is held, or the role may not see it.
    pub(super) async fn own(client: &Client, config: &Config) -> Result<Option<Self>, TaskError> {
        Ok(read(client, config, Whose::Own).await?.pop())
    }

    /// Those of every other pipeline in this database.
    pub(super) async fn others(client: &Client, config: &Config) -> Result<Vec<Self>, TaskError> {
        read(client, config, Whose::Others).await
    }

    /// How many there are.
    pub(super) fn counted(&self) -> String {
        format!("{} of {}", count(self.events, "event"), count(self.keys, "key"))
    }

    /// That they are held; the beginning of a sentence.
    pub(super) fn are_held(&self) -> String {
        format!("{} {} held", self.counted(), if self.events == 1 { "is" } else { "are" })
    }

    /// How many of which pipeline, and what lists them.
    pub(super) fn of_other(&self) -> String {
        let [name, slot] =
            [&self.name, &self.slot].map(|name| shown_bytes::text(name.as_bytes(), NAME_MAX));
        let command = self.command().map(|command| format!(": {command}")).unwrap_or_default();
        format!("{} for the pipeline {name} (slot {slot}){command}", self.counted())
    }

    /// What lists them; `None` where no configuration could have these names.
    fn command(&self) -> Option<String> {
        let Self { name, slot, .. } = self;
        let is_plain = |name: &String| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            (1..=NAME_MAX).contains(&name.len()) && name.chars().all(plain)
        };
        let list = "outbox-router dead-letters list";
        [name, slot]
            .into_iter()
            .all(is_plain)
            .then(|| format!("{list} --set name={name} --set postgres.slot={slot}"))
    }

    /// For programs, where they are this pipeline's own.
    pub(super) fn own_json(&self) -> Value {
        json!({ "events": self.events, "keys": self.keys })
    }

    /// For programs, where they are another pipeline's.
    pub(super) fn other_json(&self) -> Value {
        let Self { name, slot, events, keys } = self;
        let hint = self.command();
        json!({ "name": name, "slot": slot, "events": events, "keys": keys, "hint": hint })
    }
}

async fn read(
    client: &Client,
    config: &Config,
    whose: Whose,
) -> Result<Vec<OpenEvents>, TaskError> {
    if !is_table_readable(client).await? {
        return Ok(Vec::new());
    }
    let (name, slot) = (config.name.as_str(), config.postgres.slot.as_str());
    client.batch_execute(BY_INDEX).await?;
    let pipelines = client.query(PIPELINES, &[&name, &slot, &whose.is_own()]).await?;
    client.batch_execute(BY_TABLE).await?;
    let mut open = Vec::with_capacity(pipelines.len());
    for pipeline in &pipelines {
        let (name, slot): (String, String) = (pipeline.try_get(0)?, pipeline.try_get(1)?);
        let counted = client.query_one(COUNT, &[&name, &slot]).await?;
        let (events, keys) = (counted.try_get(0)?, counted.try_get(1)?);
        open.push(OpenEvents { name, slot, events, keys });
    }
    client.batch_execute("commit").await?;
    // What was found may have left before it was counted.
    open.retain(|open| open.events > 0);
    Ok(open)
}
