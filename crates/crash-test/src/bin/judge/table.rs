//! The outbox tables of a round, and the expressions by which writers fill them.

use crate::scenario::{
    Abandoned, DefaultPartition, IdType, Layout, Mark, Removal, Rows, Scenario, TimeType,
};

/// The role that owns the tables, and that the router connects as.
pub(crate) const ROLE: &str = "judge";
/// The table that is there from the beginning.
pub(crate) const FIRST: &str = "outbox";
/// The table that joins later.
pub(crate) const LATER: &str = "outbox_later";

/// What a person calls a partition that is to be kept.
pub(crate) const KEPT: &str = "outbox_kept";

/// A word of a status that no router knows.
pub(crate) const UNKNOWN_WORD: &str = "STRANDED";

/// How long a partition lasts, where the router makes them.
pub(crate) const PARTITION_SECONDS: u32 = 2;

/// What a writer puts into the time column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowTime {
    Default,
    Clock,
    /// So many seconds from now.
    Shifted(i64),
    Null,
}

impl Scenario {
    pub(crate) const fn id_type(&self) -> &'static str {
        match self.id {
            IdType::Uuid => "uuid",
            IdType::Bigint => "bigint",
            IdType::Text => "text",
            IdType::Char20 => "char(20)",
        }
    }

    pub(crate) const fn time_type(&self) -> &'static str {
        match self.time {
            TimeType::Timestamptz => "timestamptz",
            TimeType::Timestamp => "timestamp",
            TimeType::Date => "date",
        }
    }

    /// The SQL of a time. Where the router makes partitions, a time without a zone is UTC: it makes
    /// them so.
    pub(crate) fn time_sql(&self, time: RowTime) -> String {
        let is_by_time = matches!(self.layout, Layout::ByTime(_));
        let zone =
            if is_by_time && self.time == TimeType::Timestamp { " at time zone 'UTC'" } else { "" };
        let kind = self.time_type();
        match time {
            RowTime::Default => format!("(now(){zone})::{kind}"),
            RowTime::Clock => format!("(clock_timestamp(){zone})::{kind}"),
            RowTime::Shifted(seconds) => {
                format!("((now() + interval '{seconds} seconds'){zone})::{kind}")
            }
            RowTime::Null => format!("null::{kind}"),
        }
    }

    /// Whether the time column may be NULL.
    pub(crate) fn has_null_times(&self) -> bool {
        !matches!(self.layout, Layout::ByTime(DefaultPartition::Absent))
    }

    /// The SQL that makes an outbox table, its archive and its indexes, all owned by [`ROLE`].
    pub(crate) fn create_sql(&self, name: &str) -> String {
        let (id, time, default) =
            (self.id_type(), self.time_type(), self.time_sql(RowTime::Default));
        let nullable = if self.has_null_times() { "" } else { "not null" };
        let (key, storage) = self.storage(name);
        let marks = self.mark_columns();
        let mut sql = format!(
            "create sequence {name}_seq;
             create table {name} (id {id} not null, aggregate_type text not null, \
               aggregate_id text not null, event_type text not null, payload jsonb, \
               created_at {time} {nullable} default {default}, \
               seq bigint not null default nextval('{name}_seq'){marks}{key}) {storage}
             create index on {name} (created_at);
             alter sequence {name}_seq owner to {ROLE};
             alter table {name} owner to {ROLE};"
        );
        if self.removal == Removal::Archive {
            sql.push_str(&format!(
                "create table {name}_archive (like {name}); \
                 alter table {name}_archive owner to {ROLE};"
            ));
        }
        sql
    }

    /// The keys of the table, and what follows its columns.
    fn storage(&self, name: &str) -> (&'static str, String) {
        match self.layout {
            Layout::Plain if self.rows == Rows::Versions => {
                (", primary key (id), unique (aggregate_id)", ";".to_owned())
            }
            Layout::Plain => (", primary key (id)", ";".to_owned()),
            Layout::ByHash => {
                let part = |n| {
                    format!(
                        "create table {name}_{n} partition of {name} \
                         for values with (modulus 3, remainder {n}); \
                         alter table {name}_{n} owner to {ROLE};"
                    )
                };
                let parts: String = (0..3).map(part).collect();
                (", primary key (id)", format!("partition by hash (id); {parts}"))
            }
            Layout::ByTime(DefaultPartition::Absent) => {
                (", primary key (id, created_at)", "partition by range (created_at);".to_owned())
            }
            Layout::ByTime(DefaultPartition::Present) => (
                "",
                format!(
                    "partition by range (created_at); create index on {name} (id); \
                     create table {name}_other partition of {name} default; \
                     alter table {name}_other owner to {ROLE};"
                ),
            ),
        }
    }

    fn mark_columns(&self) -> String {
        let mark = match self.mark {
            None => return String::new(),
            Some(Mark::Time) => ", published_at timestamptz",
            Some(Mark::Status) => {
                ", status text not null default 'PENDING', locked_by text, \
                 locked_until timestamptz, attempts int not null default 0, last_error text"
            }
            Some(Mark::Delete) => "",
        };
        let abandoned =
            if self.abandoned == Abandoned::Column { ", abandoned_at timestamptz" } else { "" };
        format!("{mark}{abandoned}")
    }

    /// What an application sets to make a row pending again.
    pub(crate) const fn pending_sql(&self) -> &'static str {
        match self.mark {
            Some(Mark::Time) => ", published_at = null",
            Some(Mark::Status) => ", status = 'PENDING'",
            Some(Mark::Delete) | None => "",
        }
    }

    /// An expression that says of a row whether it is `pending`, `marked` or `abandoned`; `kept`
    /// where no router marks rows.
    pub(crate) fn state_sql(&self) -> String {
        let Some(mark) = self.mark else { return "'kept'".to_owned() };
        let abandoned = if self.abandoned == Abandoned::Column {
            "when r.abandoned_at is not null then 'abandoned'"
        } else {
            ""
        };
        let marked = match mark {
            Mark::Time => "when r.published_at is not null then 'marked'",
            Mark::Status => {
                "when r.status = 'PUBLISHED' then 'marked' \
                 when r.status = 'ABANDONED' then 'abandoned' \
                 when r.status = 'STRANDED' then 'kept'"
            }
            Mark::Delete => "",
        };
        if abandoned.is_empty() && marked.is_empty() {
            return "'pending'".to_owned();
        }
        format!("case {marked} {abandoned} else 'pending' end")
    }
}
