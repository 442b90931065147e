//! A case: a table, rows, and a configuration of Debezium.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

use crate::random::RandomRows;

/// A case, as its file has it. Its name is the file's.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The name of its file.
    #[serde(skip)]
    pub name: String,
    /// What it shows.
    pub about: String,
    /// Statements before the table is made.
    #[serde(default)]
    pub before: String,
    /// Columns that differ from the usual ones, or are added: `name type`.
    #[serde(default)]
    pub columns: Vec<String>,
    /// Columns of the usual ones that the table does not have.
    #[serde(default)]
    pub without: Vec<String>,
    /// The converter of the key.
    #[serde(default)]
    pub key: Converter,
    /// The converter of the value.
    #[serde(default)]
    pub value: Converter,
    /// Options of `EventRouter`.
    #[serde(default)]
    pub router: BTreeMap<String, String>,
    /// Options of the connector.
    #[serde(default)]
    pub connector: BTreeMap<String, String>,
    /// Properties that `migrate` has to list as what behaves differently.
    #[serde(default)]
    pub listed: Vec<String>,
    /// Debezium's records have something in them that no two runs share.
    #[serde(default)]
    pub varies: bool,
    /// Why the records of its rows differ, where they do and a row does not say itself.
    pub differs: Option<Reason>,
    /// The rows, each in a transaction of its own.
    #[serde(default)]
    pub rows: Vec<Row>,
    /// Rows of random values, which follow.
    #[serde(default)]
    pub random: Option<RandomRows>,
    /// Statements before the last row, each in a transaction of its own. No record comes of them,
    /// and that row, a usual one, shows whether Debezium and the router went on.
    #[serde(default)]
    pub before_last_row: Vec<String>,
}

/// A converter of Kafka Connect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Converter {
    /// `StringConverter`
    #[default]
    String,
    /// `JsonConverter` without schemas
    Json,
    /// Debezium's `BinaryDataConverter`
    Bytes,
}

impl Converter {
    fn properties(self, part: &str) -> String {
        match self {
            Self::String => {
                format!("{part}.converter=org.apache.kafka.connect.storage.StringConverter\n")
            }
            Self::Json => format!(
                "{part}.converter=org.apache.kafka.connect.json.JsonConverter\n\
                 {part}.converter.schemas.enable=false\n"
            ),
            Self::Bytes => {
                format!("{part}.converter=io.debezium.converters.BinaryDataConverter\n")
            }
        }
    }
}

/// A row: what is not as usual in it, and why its record differs, where it does.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Row {
    /// Why the records differ; else the case's reason counts.
    pub differs: Option<Reason>,
    /// SQL by column.
    #[serde(flatten)]
    pub values: BTreeMap<String, String>,
}

/// Why records differ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The router does more, or what is right.
    Better(String),
    /// On purpose.
    Different(String),
    /// The router should do what Debezium does, and does not yet.
    Wrong(String),
}

/// The columns of Debezium's table: name, type, and the SQL of the value in a row that gives none.
/// `NUMBER` in it is replaced by the row's number.
const USUAL: [(&str, &str, &str); 5] = [
    ("id", "uuid", "'da8d6de6-3b77-45ff-8f44-NUMBER'"),
    ("aggregatetype", "varchar(255)", "'User'"),
    ("aggregateid", "varchar(255)", "'10711fa5'"),
    ("type", "varchar(255)", "'UserCreated'"),
    ("payload", "jsonb", "'{}'"),
];

impl Case {
    /// Reads every case, by name.
    ///
    /// # Errors
    ///
    /// A file is not a case.
    pub fn all() -> anyhow::Result<Vec<Self>> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
        let mut cases = Vec::new();
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            let text = std::fs::read_to_string(&path)?;
            let case: Self =
                toml::from_str(&text).with_context(|| format!("{} is no case", path.display()))?;
            let name = path.file_stem().context("no name")?.to_string_lossy().into_owned();
            let random = case.random.as_ref().map(RandomRows::rows).unwrap_or_default();
            let last = (!case.before_last_row.is_empty()).then(Row::default);
            let rows = case.rows.iter().cloned().chain(random).chain(last).collect();
            cases.push(Self { name, rows, ..case });
        }
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(cases)
    }

    /// The cases with random rows, of which the rows follow from this seed and no others are left.
    ///
    /// # Errors
    ///
    /// As [`Self::all`].
    pub fn random(seed: u64) -> anyhow::Result<Vec<Self>> {
        let mut cases = Self::all()?;
        cases.retain_mut(|case| {
            let random = case.random.take().map(|random| random.with_seed(seed));
            case.rows = random.as_ref().map(RandomRows::rows).unwrap_or_default();
            case.random = random;
            case.random.is_some()
        });
        Ok(cases)
    }

    /// How many rows come before the other statements.
    pub fn rows_before_others(&self) -> usize {
        self.rows.len() - usize::from(!self.before_last_row.is_empty())
    }

    /// The reason that is given for a row's difference.
    pub fn reason<'c>(&'c self, row: &'c Row) -> Option<&'c Reason> {
        row.differs.as_ref().or(self.differs.as_ref())
    }

    /// The name of table, publication and slot.
    pub fn identifier(&self) -> String {
        format!("outbox_{}", self.name.replace('-', "_"))
    }

    /// SQL that makes the table.
    pub fn create_table(&self) -> String {
        let mut columns: Vec<String> = Vec::new();
        let declared =
            |column: &str| self.columns.iter().find(|own| own.split(' ').next() == Some(column));
        for (name, kind, _) in USUAL {
            if !self.without.iter().any(|without| without == name) {
                let own = declared(name).cloned();
                columns.push(own.unwrap_or_else(|| format!("{name} {kind}")));
            }
        }
        let is_usual =
            |own: &&String| USUAL.iter().any(|(name, ..)| own.split(' ').next() == Some(name));
        columns.extend(self.columns.iter().filter(|own| !is_usual(own)).cloned());
        let (table, columns) = (self.identifier(), columns.join(", "));
        format!("{}\nCREATE TABLE {table} ({columns});", self.before)
    }

    /// SQL that inserts a row.
    pub fn insert(&self, number: usize, row: &Row) -> String {
        let mut values = row.values.clone();
        for (name, _, usual) in USUAL {
            if !self.without.iter().any(|without| without == name) {
                let usual = usual.replace("NUMBER", &format!("{number:012x}"));
                values.entry(name.to_owned()).or_insert(usual);
            }
        }
        let columns: Vec<&str> = values.keys().map(String::as_str).collect();
        let sql: Vec<&str> = values.values().map(String::as_str).collect();
        let (table, columns, sql) = (self.identifier(), columns.join(", "), sql.join(", "));
        format!("INSERT INTO {table} ({columns}) VALUES ({sql})")
    }

    /// The connector's configuration. The topic carries the case's name unless the case says how
    /// rows are routed, so that cases do not meet in a topic.
    pub fn properties(&self, port: u16) -> String {
        let identifier = self.identifier();
        let mut text = format!(
            "name={}\n\
             connector.class=io.debezium.connector.postgresql.PostgresConnector\n\
             tasks.max=1\n\
             database.hostname=127.0.0.1\ndatabase.port={port}\ndatabase.sslmode=disable\n\
             database.user=postgres\ndatabase.password=unused\ndatabase.dbname=shop\n\
             topic.prefix={}\n\
             plugin.name=pgoutput\nslot.name={identifier}\n\
             publication.name={identifier}\npublication.autocreate.mode=disabled\n\
             snapshot.mode=no_data\ntable.include.list=public.{identifier}\n\
             transforms=outbox\n\
             transforms.outbox.type=io.debezium.transforms.outbox.EventRouter\n",
            self.name, self.name
        );
        text.push_str(&self.key.properties("key"));
        text.push_str(&self.value.properties("value"));
        let mut connector = self.connector.clone();
        connector.entry("extended.headers.enabled".to_owned()).or_insert("false".to_owned());
        let mut router = self.router.clone();
        router
            .entry("route.topic.replacement".to_owned())
            .or_insert_with(|| format!("{}.${{routedByValue}}", self.name));
        for (name, value) in &connector {
            text.push_str(&format!("{name}={}\n", escaped(value)));
        }
        for (name, value) in &router {
            text.push_str(&format!("transforms.outbox.{name}={}\n", escaped(value)));
        }
        text
    }

    /// Whether a topic is one of this case's.
    pub fn has_topic(&self, topic: &str) -> bool {
        topic.split('.').any(|part| part == self.name)
    }
}

/// As `java.util.Properties` wants it, which reads bytes as ISO 8859-1.
fn escaped(value: &str) -> String {
    let mut text = String::new();
    for unit in value.replace('\\', "\\\\").encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii() => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\u{unit:04x}")),
        }
    }
    text
}
