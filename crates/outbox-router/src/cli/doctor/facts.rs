//! Everything that was read, before anything is judged.

use std::{collections::HashMap, path::PathBuf};

use relay::{
    Failure, Names, Outboxes, TopicName,
    handover::PastRun,
    source::{Catalog, RowMovePrivileges, SlotKind, SlotReading},
    witness::Witness,
};

use super::not_run::NotRun;
use crate::{
    config::CreateTopics,
    kafka::{Operations, PartitionLayout, StateTopicInspected, TopicInspected},
    monitor::pins::WalPin,
    polling::sql::{ColumnAdvice, TableSurvey, UpkeepFacts},
    republish::left_out,
    shell::SourceReading,
};

/// A part that was read, or why it was not.
pub(super) type Part<T> = Result<T, Failure>;

/// See the module's header.
pub(super) struct Facts {
    pub(super) configuration: ConfigurationFacts,
    pub(super) postgres: Part<PostgresFacts>,
    /// What is read of polled tables; `None` where rows come from a slot.
    pub(super) polled: Option<Part<PolledFacts>>,
    pub(super) kafka: Part<KafkaFacts>,
    /// The pipeline's witness; `None` where none is kept.
    pub(super) witness: Option<Part<WitnessFacts>>,
    /// What a running router says; `None` where none of this slot answers.
    pub(super) router: Option<RouterFacts>,
}

/// What a running router says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RouterFacts {
    pub(super) state: String,
    /// Why it is in this state.
    pub(super) code: Option<String>,
    pub(super) message: Option<String>,
    pub(super) hint: Option<String>,
}

impl Facts {
    pub(super) fn postgres(&self) -> Result<&PostgresFacts, NotRun> {
        self.postgres.as_ref().map_err(NotRun::from)
    }

    pub(super) fn server(&self) -> Result<&ServerFacts, NotRun> {
        self.postgres()?.server.as_ref().map_err(NotRun::from)
    }

    pub(super) fn slots(&self) -> Result<&SlotFacts, NotRun> {
        self.postgres()?.slots.as_ref().map_err(NotRun::from)
    }

    pub(super) fn publication(&self) -> Result<&PublicationFacts, NotRun> {
        self.postgres()?.publication.as_ref().map_err(NotRun::from)
    }

    pub(super) fn tables(&self) -> Result<&[TableFacts], NotRun> {
        self.postgres()?.tables.as_deref().map_err(NotRun::from)
    }

    pub(super) fn polled(&self) -> Result<&PolledFacts, NotRun> {
        match &self.polled {
            Some(Ok(polled)) => Ok(polled),
            Some(Err(failure)) => Err(NotRun::from(failure)),
            None => Err(NotRun("rows are not polled".to_owned())),
        }
    }

    pub(super) fn kafka(&self) -> Result<&KafkaFacts, NotRun> {
        self.kafka.as_ref().map_err(NotRun::from)
    }
}

impl PostgresFacts {
    /// Why there is no slot, where that is no fault: a switch has not made it yet, has dropped it,
    /// or was never typed.
    pub(super) fn kept_from_slot(&self) -> Option<&Failure> {
        let is_missing = self.slots.as_ref().is_ok_and(|slots| slots.reading.slot.is_none());
        self.kept_from_stream.as_ref().ok()?.first().filter(|_| is_missing)
    }
}

/// What is read of the polled tables.
pub(super) struct PolledFacts {
    /// Why the tables of leases cannot be used.
    pub(super) leases: Option<Failure>,
    /// Tables that the slot of this configuration streams.
    pub(super) streamed: Vec<Failure>,
    /// Tables that a switch has handed to the stream, or whose switch is not complete.
    pub(super) handed: Vec<Failure>,
    /// Tables with pending rows that were polled, and that the configuration names no more.
    pub(super) former: Vec<Failure>,
    pub(super) tables: Vec<PolledTableFacts>,
    /// Why rows cannot be removed; empty also where [retention] is off.
    pub(super) retention: Vec<Failure>,
    pub(super) notify: Notify,
    /// Whether a pooler gives each transaction another session.
    pub(super) is_pooled: bool,
}

/// `polling.notify`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notify {
    /// The router listens.
    Heard,
    /// Nobody does.
    Unheard,
}

/// What is read of one of them.
pub(super) struct PolledTableFacts {
    pub(super) name: String,
    pub(super) quoted: String,
    /// What is found beside its rows; or why it cannot be polled.
    pub(super) upkeep: Part<UpkeepFacts>,
    /// Its rows, by their states; or why they could not be counted.
    pub(super) survey: Part<TableSurvey>,
    /// What its columns say; `None` where it cannot be polled.
    pub(super) columns: Option<ColumnAdvice>,
    /// The time zones that its writers may have.
    pub(super) zones: Part<Vec<WriterZone>>,
}

/// A time zone that sessions have unless they set another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WriterZone {
    /// The role that has one of its own; `None`: all others.
    pub(super) role: Option<String>,
    /// `TimeZone`
    pub(super) zone: String,
}

/// What the state topic has of the pipeline.
#[derive(Debug, Clone)]
pub(super) struct WitnessFacts {
    /// Kafka's cluster id.
    pub(super) cluster: String,
    /// What all records of the pipeline say together; `None`: there are none.
    pub(super) witness: Option<Witness>,
}

/// What the configuration says, and where its secrets are.
#[derive(Debug, Clone)]
pub(super) struct ConfigurationFacts {
    pub(super) admin: std::net::SocketAddr,
    pub(super) has_state_topic: bool,
    pub(super) file: Option<PathBuf>,
    /// Keys whose values stand in the file as they are, and are secret.
    pub(super) plain_secrets: Vec<String>,
    /// What the connection string gives cause to warn of.
    pub(super) connection_warnings: Vec<String>,
    /// `security.protocol` in lower case, where it is set.
    pub(super) kafka_protocol: Option<String>,
    /// `monitor.bytes_behind.critical`.
    pub(super) critical_bytes: u64,
}

/// What PostgreSQL says.
pub(super) struct PostgresFacts {
    /// What `run` reads before a stream starts, on a replication connection; or why it could not.
    pub(super) source: Part<Box<SourceReading>>,
    /// Why `run` would refuse the server or the role.
    pub(super) refused: Option<Failure>,
    pub(super) server: Part<ServerFacts>,
    pub(super) sessions: SessionFacts,
    pub(super) slots: Part<SlotFacts>,
    pub(super) pin: Part<Option<WalPin>>,
    pub(super) publication: Part<PublicationFacts>,
    pub(super) tables: Part<Vec<TableFacts>>,
    /// What keeps the tables from being streamed, as failures.
    pub(super) kept_from_stream: Part<Vec<Failure>>,
    /// A back-fill of the slot that is not complete, and that no command carries out.
    pub(super) unfinished_backfill: Part<Option<PastRun>>,
    /// Rows that a person has left out of what was sent.
    pub(super) left_out: Part<Vec<left_out::LeftOutRows>>,
    /// Which roles may move rows of partitioned outboxes.
    pub(super) moves: Part<Vec<RowMovePrivileges>>,
    /// Views of the system that the role may not read.
    pub(super) denied: Vec<DeniedView>,
    /// Why rows cannot be removed; `None` where [retention] is off.
    pub(super) retention: Option<Vec<Failure>>,
    /// Why events cannot be held; `None` where no class of errors makes dead letters.
    pub(super) dead_letters: Option<Vec<Failure>>,
}

/// A view that the role may not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DeniedView {
    pub(super) name: &'static str,
    /// Whether `run` reads it before a stream.
    pub(super) is_needed: bool,
}

/// The process ids that sessions have seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SessionFacts {
    /// Of a replication connection.
    pub(super) replication: ProcessIds,
    /// Of an SQL session: a pooler that passes no replication on is seen there alone.
    pub(super) sql: ProcessIds,
    /// What `pg_backend_pid()` says at the begin and at the end of one SQL session.
    pub(super) first: Option<i32>,
    pub(super) last: Option<i32>,
}

/// The process ids of one connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ProcessIds {
    /// What was announced when it began.
    pub(super) announced: Option<i32>,
    /// What `pg_backend_pid()` says there.
    pub(super) answered: Option<i32>,
}

/// The server and the role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerFacts {
    /// `server_version_num`.
    pub(super) version: i32,
    /// The role, as an SQL identifier.
    pub(super) role: String,
    pub(super) is_superuser: bool,
    pub(super) database: String,
    /// The server's clock minus this machine's, in microseconds.
    pub(super) clock_ahead: i64,
    /// How wrong that may be: half of the time that the answer took.
    pub(super) clock_margin: i64,
    /// The server's clock, in microseconds since 1970.
    pub(super) clock: i64,
    /// `max_slot_wal_keep_size` in bytes; `None`: no limit.
    pub(super) wal_limit: Option<u64>,
    /// `idle_replication_slot_timeout`, as the server prints it; `None`: off, or before 18.
    pub(super) idle_timeout: Option<String>,
    /// `synchronized_standby_slots`, from 17 on.
    pub(super) standby_slots: Vec<String>,
    pub(super) slots_max: i64,
}

/// The router's slot, and the others of the server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SlotFacts {
    pub(super) name: String,
    pub(super) reading: SlotReading,
    /// `application_name` of the session that reads the slot; `None` also where the role may not
    /// see it.
    pub(super) reader: Option<String>,
    /// The router's `application_name`.
    pub(super) own: String,
    pub(super) others: Vec<OtherSlot>,
}

/// A slot that is not the router's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OtherSlot {
    pub(super) name: String,
    pub(super) kind: SlotKind,
    pub(super) used: SlotUse,
    /// Bytes of WAL that it keeps.
    pub(super) kept: Option<u64>,
}

/// Whether a slot does anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotUse {
    /// Somebody reads it.
    Active,
    /// Nobody does.
    Inactive,
    /// It can never be used again.
    Lost,
}

/// The publication, and what the witness remembers of it.
#[derive(Debug, Clone)]
pub(super) struct PublicationFacts {
    pub(super) name: String,
    pub(super) outboxes: Outboxes,
    pub(super) catalog: Catalog,
    pub(super) remembered: Option<Catalog>,
    /// What it publishes; `None` where it does not exist.
    pub(super) extent: Option<PublicationExtent>,
}

/// What a publication publishes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PublicationExtent {
    pub(super) is_for_all_tables: bool,
    /// `update`, `delete`, `truncate`, as far as it publishes them.
    pub(super) operations: Vec<&'static str>,
    /// Published tables that are no outboxes; at most some of them.
    pub(super) others: Vec<String>,
}

/// An outbox table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TableFacts {
    /// As messages name it.
    pub(super) name: String,
    /// As an SQL identifier.
    pub(super) quoted: String,
    /// Why no row of it can become a record.
    pub(super) unsuitable: Option<Failure>,
    pub(super) owner: Owner,
    pub(super) layout: Layout,
    /// Default partitions that have rows, or had some.
    pub(super) defaults: Vec<DefaultPartition>,
    /// With indexes and TOAST.
    pub(super) bytes: u64,
    /// Updates of rows that are no marks of workers.
    pub(super) updated: u64,
    pub(super) deleted: u64,
    /// Rules on INSERT, as SQL identifiers.
    pub(super) rules: Vec<String>,
    /// Columns in which a NULL stops the router, and which may be NULL; as SQL identifiers.
    pub(super) nullable: Vec<String>,
    pub(super) id: Option<ColumnIndex>,
    pub(super) ids: Ids,
    /// Subscriptions that write into it, as SQL identifiers.
    pub(super) subscriptions: Vec<String>,
    pub(super) time: Option<ColumnIndex>,
    pub(super) removal: Removal,
    /// The template of its topic, where its columns fit.
    pub(super) template: Option<String>,
}

/// Whether an id may be that of several rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ids {
    /// An index has each id once, within a partition at least.
    Unique,
    MayRepeat,
    /// More rows were inserted than the sequence of the column has given ids.
    Repeated {
        /// As SQL has it in a literal.
        sequence: String,
        given: i64,
        inserted: i64,
    },
}

/// A default partition, with the estimates of the statistics.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub(super) struct DefaultPartition {
    /// As messages name it.
    pub(super) name: String,
    pub(super) rows: i64,
    pub(super) deleted: i64,
}

/// Who owns a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The router's role, or one that it is a member of.
    Router,
    /// Another role.
    Other,
}

/// Where a table's rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// In the table itself.
    Plain,
    /// In so many partitions.
    Partitioned(u64),
}

/// Who removes rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removal {
    /// The router, by [retention].
    ByRouter,
    /// The application, or nobody.
    Elsewhere,
}

/// A column, as an SQL identifier, and whether an index begins with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ColumnIndex {
    pub(super) column: String,
    pub(super) is_indexed: bool,
}

/// What Kafka says.
pub(super) struct KafkaFacts {
    /// The argument of `--bootstrap-server`, and how many replicas the cluster can give.
    pub(super) names: Names,
    pub(super) brokers: Vec<i32>,
    pub(super) state_topic: Option<(TopicName, Part<StateTopicInspected>)>,
    /// The state topic's one partition, where the topic is suitable.
    pub(super) state_partitions: Vec<PartitionLayout>,
    pub(super) topics: Vec<TopicReading>,
    /// The templates of topics, and whether a topic of each exists.
    pub(super) templates: Vec<(String, bool)>,
    /// What the principal may do with each topic, as far as it is known.
    pub(super) operations: HashMap<String, Operations>,
    pub(super) on_cluster: Option<Operations>,
    pub(super) create: Option<CreateTopics>,
    pub(super) row_bytes: u64,
}

/// A topic that records go to.
pub(super) struct TopicReading {
    pub(super) name: TopicName,
    pub(super) found: Part<TopicInspected>,
}
