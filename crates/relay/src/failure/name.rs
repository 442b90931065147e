//! The names that a remedy contains.

use std::collections::BTreeMap;

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// What a remedy's text names; `{table}` in it stands for [`Name::Table`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Name { $($(#[$doc])* $name,)* }

        impl Name {
            /// Every name there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// As it stands in a remedy's text and in the pipeline's witness.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

names! {
    /// Statements that put tables into the publication.
    AddTables = "add_tables",
    /// Statements that put a table into the publication again, with all of its rows and columns.
    AddAgain = "add_again",
    /// Statements that give a table its former name.
    RenameBack = "rename_back",
    /// Statements that end transactions.
    EndTransactions = "end_transactions",
    /// The slot.
    Slot = "slot",
    /// The publication, as an SQL identifier.
    Publication = "publication",
    /// A table, as messages name it.
    Table = "table",
    /// A table, as an SQL identifier.
    QuotedTable = "quoted_table",
    /// Tables, as messages name them, separated by commas.
    Tables = "tables",
    /// A partition, as messages name it.
    Partition = "partition",
    /// A role or several, as SQL identifiers, separated by commas.
    Role = "role",
    /// A database.
    Database = "database",
    /// The database that the router connects to.
    RouterDatabase = "router_database",
    /// The process id of a server process.
    Pid = "pid",
    /// A run in `outbox_router.republication`, by its number.
    Run = "run",
    /// A version of PostgreSQL.
    Version = "version",
    /// The server's own hint.
    ServerHint = "server_hint",
    /// Flags that a person has typed, each after a blank.
    TypedFlags = "typed_flags",
    /// The flags of `recover` and `accept` that give tables up, each after a blank.
    GiveUp = "give_up",
    /// Statements for a person to run.
    Statements = "statements",
    /// The id of the row concerned, where messages may show it.
    RowId = "row_id",
    /// The column of the row's id, as an SQL identifier.
    IdColumn = "id_column",
    /// The column that the record's key is made from, as an SQL identifier.
    KeyColumn = "key_column",
    /// What `[on_error]` has for the row, where it is `dead_letter`: it waits for nobody.
    OnError = "on_error",
    /// A topic.
    Topic = "topic",
    /// The argument of `--bootstrap-server`.
    Brokers = "brokers",
    /// A replication factor that the cluster can give.
    ReplicationFactor = "replication_factor",
    /// Settings of a topic, as `--add-config` takes them.
    Settings = "settings",
    /// The option `--replication-factor`, with a space before it.
    ReplicationOption = "replication_option",
    /// A partition reassignment, as JSON.
    Reassignment = "reassignment",
    /// A size in bytes.
    Bytes = "bytes",
    /// The presets that one may be chosen from, separated by "or".
    Presets = "presets",
}

impl Name {
    /// The name with this text, as [`Name::as_str`] prints it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|name| name.as_str() == text)
    }
}

/// The names of one failure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(BTreeMap<Name, String>);

impl Names {
    /// The value of a name, if the failure has one.
    pub fn get(&self, name: Name) -> Option<&str> {
        self.0.get(&name).map(String::as_str)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (Name, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Sets a name; an earlier value is replaced.
    pub fn set(&mut self, name: Name, value: String) {
        self.0.insert(name, value);
    }
}
