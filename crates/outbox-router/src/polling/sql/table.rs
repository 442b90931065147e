//! A table as it is polled: what the statements about it are made of.

use relay::{
    Code, DryFrame, DryRun, EpochUnit, Failure, HoldKeys, Outboxes, PgTimestamp, Role, TableName,
    polling::{Described, RowId, WaitsKept},
    source::{Oid, TableOids},
};
use tokio_postgres::Client;

use super::{
    conditions::Conditions,
    facts::{Facts, KeyFacts, check_version, shape_of},
    failure::{ALTERED, forbidden, hidden, unfit},
    filter::Filter,
    key::Key,
    literals::literal,
    marks::{Marks, marks},
    order::{self, suffix},
    settings::{OrderColumn, SqlSettings, TableConfig},
    shown::Shown,
};
use crate::{
    created_at,
    postgres::{Strangers, quote_identifier, quote_table},
    republish::{messages, table_row::TableRow},
};

/// A table that was described.
#[derive(Debug, Clone)]
pub struct PolledTable {
    pub(super) name: TableName,
    pub(super) facts: Facts,
    /// As a stream shows it.
    pub(super) row: TableRow,
    pub(super) identity: Vec<IdentityColumn>,
    pub(super) key: Key,
    pub(super) marks: Marks,
    pub(super) order: Vec<OrderColumn>,
    /// When a row was written, as an expression of a row `t`.
    pub(super) written_at: String,
    /// The column of that time, if the table has one.
    pub(super) time: Option<String>,
    /// The column of the event's id, if the table has one.
    pub(super) id: Option<String>,
    /// What a time counts that is a number.
    pub(super) unit: EpochUnit,
    /// `outbox.where`.
    pub(super) filter: Option<Filter>,
    pub(super) settings: SqlSettings,
    /// Whether its transactions refuse views: who looked for code of other roles knows.
    pub(super) strangers: Strangers,
}

/// A column by which a row is found again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IdentityColumn {
    pub(super) name: String,
    /// Its place in the row as a stream shows it.
    pub(super) place: usize,
    /// The type as a cast names it.
    pub(super) sql_type: String,
    /// The equality of its index.
    pub(super) operator: String,
}

impl IdentityColumn {
    /// The type of the elements of an array of its values. PostgreSQL has no array of arrays:
    /// `unnest` would give their elements.
    fn element_type(&self) -> &str {
        if self.is_array() { "text" } else { &self.sql_type }
    }

    fn is_array(&self) -> bool {
        self.sql_type.ends_with("[]")
    }

    /// A value that an array of the [`Self::element_type`] has.
    fn of_element(&self, value: String) -> String {
        if self.is_array() { format!("{value}::{}", self.sql_type) } else { value }
    }
}

impl PolledTable {
    /// That its name is not another table's meanwhile: this worker has no lease of that one, and
    /// its marks would hit the rows of that one.
    pub(super) fn is_the_one_named(&self) -> String {
        format!("to_regclass({})::oid = {}", literal(&self.quoted()), self.oid())
    }

    /// A condition that fails with [`ALTERED`] where columns or keys are not those that were
    /// described: a value would be read as one of another type, and a key may be that of several
    /// rows now.
    pub(super) fn has_its_shape(&self) -> String {
        let shape = shape_of(&self.oid().to_string());
        let described = self.facts.shape;
        format!("(case when {shape} = '{described}' then '1' else '{ALTERED}' end)::int = 1")
    }

    /// Reads what a table looks like, for a command that has a connection of its own.
    ///
    /// # Errors
    /// As [`super::Database::describe`].
    pub async fn read(
        client: &Client,
        config: &TableConfig,
        settings: &SqlSettings,
    ) -> Result<Self, Failure> {
        let facts = Facts::read(client, &config.outbox.name).await?;
        Self::new(config, facts, settings)
    }

    /// Finds out how a table is polled.
    ///
    /// # Errors
    /// It cannot be polled (P041), its rows cannot be routed, or the role may not read or mark them
    /// (P002).
    pub(super) fn new(
        config: &TableConfig,
        facts: Facts,
        settings: &SqlSettings,
    ) -> Result<Self, Failure> {
        let name = config.outbox.name.clone();
        check_version(&facts)?;
        check_select(&name, &facts)?;
        if facts.is("inherited") {
            let what = "other tables inherit from it, and its primary key is unique in it alone: by it \
                        rows of those would be marked, too (a partitioned table may be polled)";
            return Err(unfit(&name, what));
        }
        if !facts.unlogged.is_empty() {
            let set_logged = |table: &String| format!("alter table {table} set logged");
            let statements: Vec<String> = facts.unlogged.iter().map(set_logged).collect();
            let what = format!(
                "it, or a partition of it, is unlogged: a server that crashed, or that was \
                 promoted, has no row of it, also of those that are pending: {}",
                statements.join("; ")
            );
            return Err(unfit(&name, &what));
        }
        let (facts, row, mapped) = Mapped::with_row(config, facts)?;
        let key = Key::of(&name, &facts, &mapped.key)?;
        let identity = identity(&name, &facts, &row)?;
        let marks = marks(&name, &facts, &config.mark, mapped.preset)?;
        if settings.on_error.has_dead_letters() && !marks.records_abandoned() {
            let what = format!(
                "[on_error] makes dead letters, and it has no column in which a row is recorded \
                 as abandoned: {}",
                marks.to_record_abandoned(&name)
            );
            return Err(unfit(&name, &what));
        }
        let time = order::time_column(&facts, mapped.times.iter().map(String::as_str));
        let unit = config.outbox.timestamp_unit;
        let names: Vec<String> = identity.iter().map(|column| column.name.clone()).collect();
        let time_name = time.map(|column| column.name.as_str());
        let order = order::order(&name, &facts, &config.order_by, &names, time_name)?;
        let filter = config.outbox.filter.as_ref();
        let table = Self {
            written_at: order::written_at(time, unit, "t"),
            time: time.map(|column| column.name.clone()),
            unit,
            id: mapped.id.filter(|name| facts.column(name).is_some()),
            filter: filter.map(|rule| Filter::of(&name, &facts, rule)).transpose()?,
            name,
            row,
            identity,
            key,
            marks,
            order,
            settings: settings.clone(),
            strangers: Strangers::None,
            facts,
        };
        table.check_marks(&config.mark)?;
        Ok(table)
    }

    /// What the core needs of it.
    pub fn described(&self) -> Described {
        let types = messages::types(&self.row);
        Described {
            messages: types.chain([messages::relation(&self.row)]).collect(),
            waits: if self.marks.keeps_waits() { WaitsKept::InTable } else { WaitsKept::InMemory },
        }
    }

    /// That a row of `alias` is marked as published; published rows may be none at all.
    pub fn published(&self, alias: &str) -> String {
        self.conditions().is_published(alias).unwrap_or_else(|| "false".to_owned())
    }

    /// Which table it is, also after it was renamed.
    pub fn oid(&self) -> u32 {
        self.facts.oid
    }

    /// Its name.
    pub fn name(&self) -> &TableName {
        &self.name
    }

    pub(super) fn conditions(&self) -> Conditions<'_> {
        Conditions { marks: &self.marks, worker: self.settings.worker, lease: self.settings.lease }
    }

    /// The rows that later rows of their keys wait for, where they do.
    pub(super) fn holds(&self, alias: &str) -> Option<String> {
        let holds = match self.settings.hold_keys {
            HoldKeys::Yes => self.conditions().holds(alias)?,
            HoldKeys::No => return None,
        };
        // What is no event holds none.
        Some(match &self.filter {
            Some(filter) => format!("{holds} and {}", filter.sql(alias)),
            None => holds,
        })
    }

    pub(super) fn quoted(&self) -> String {
        quote_table(&self.name)
    }

    /// The types of the elements of arrays of identities, one array for each column.
    pub(super) fn element_types(&self) -> impl Iterator<Item = &str> {
        self.identity.iter().map(IdentityColumn::element_type)
    }

    /// That a row `t` has the identity that `other` shows in columns whose names `names` gives.
    pub(super) fn same_row(&self, other: &str, name: impl Fn(usize) -> String) -> String {
        let equal = self.identity.iter().enumerate().map(|(index, column)| {
            let own = quote_identifier(&column.name);
            let value = column.of_element(format!("{other}.{}", name(index)));
            format!("t.{own} {} {value}", column.operator)
        });
        equal.collect::<Vec<_>>().join(" and ")
    }

    /// That a row `t` is this one.
    pub(super) fn is_row(&self, row: &RowId) -> String {
        let equal = self.identity.iter().zip(&row.0).map(|(column, text)| {
            let own = quote_identifier(&column.name);
            format!("t.{own} {} {}", column.operator, literal(text))
        });
        equal.collect::<Vec<_>>().join(" and ")
    }

    /// What a row is found again by, whose values `value` gives.
    pub fn row_id<'v>(&self, value: impl Fn(&str) -> Option<&'v str>) -> Option<RowId> {
        let values = self.identity.iter().map(|column| value(&column.name).map(Box::from));
        values.collect::<Option<Box<[Box<str>]>>>().map(RowId)
    }

    /// A column of a row `t`, as a text.
    pub(super) fn text_of(&self, name: &str) -> String {
        self.facts.column(name).map_or(Shown::ByOutput, Shown::of_own).sql("t", name)
    }

    /// The columns of the identity of a row `t`, as texts.
    pub(super) fn identity_texts(&self) -> Vec<String> {
        self.identity.iter().map(|column| self.text_of(&column.name)).collect()
    }

    /// The event's id of a row `t`, else its identity, as a text: what people call it.
    pub(super) fn name_of_row(&self) -> String {
        let identity = format!("concat_ws(',', {})", self.identity_texts().join(", "));
        match &self.id {
            Some(id) => format!("coalesce({}, {identity})", self.text_of(id)),
            None => identity,
        }
    }

    /// `outbox.where`, of rows `alias`, to be appended to a condition.
    pub(super) fn and_filter(&self, alias: &str) -> String {
        let filter = self.filter.as_ref();
        filter.map_or_else(String::new, |filter| format!(" and {}", filter.sql(alias)))
    }

    /// The order, of rows `t`.
    pub(super) fn order_by(&self) -> String {
        let columns = self
            .order
            .iter()
            .map(|column| format!("t.{}{}", quote_identifier(&column.name), suffix(column)));
        columns.collect::<Vec<_>>().join(", ")
    }
}

/// What the core makes of a table's columns.
struct Mapped {
    preset: &'static str,
    /// The column of the record's key, or its template.
    key: String,
    /// The column of the event's id.
    id: Option<String>,
    /// Names of the column that says when a row was written.
    times: Vec<String>,
}

impl Mapped {
    /// Virtual columns are read only where no mapping does without them: each SELECT computes them,
    /// and fails where that fails.
    fn with_row(config: &TableConfig, facts: Facts) -> Result<(Facts, TableRow, Self), Failure> {
        let name = &config.outbox.name;
        let row = facts.row(name);
        let failure = match Self::of(config, &row) {
            Ok(mapped) => return Ok((facts, row, mapped)),
            Err(failure) => failure,
        };
        let Some(facts) = facts.with_virtual() else { return Err(failure) };
        check_select(name, &facts)?;
        let row = facts.row(name);
        match Self::of(config, &row) {
            Ok(mapped) => Ok((facts, row, mapped)),
            Err(_) => Err(failure),
        }
    }

    /// Asks the core, which refuses a table whose rows it cannot route.
    fn of(config: &TableConfig, row: &TableRow) -> Result<Self, Failure> {
        let outboxes = Outboxes { tables: vec![config.outbox.clone()], ..Outboxes::default() };
        let mut run = DryRun::new(outboxes, TableOids::default(), usize::MAX);
        let begin = [messages::begin(PgTimestamp::from_micros(0))].into_iter();
        for message in begin.chain(messages::types(row)).chain([messages::relation(row)]) {
            run.frame(&messages::wal(&message), |_| ())?;
        }
        if let Some(mapping) = run.mapping(Oid::from_u32(row.oid)) {
            let key = mapping.column(Role::AggregateId).unwrap_or_default().to_owned();
            let times = created_at::names(mapping).map(str::to_owned).collect();
            let id = mapping.column(Role::Id).map(str::to_owned);
            return Ok(Self { preset: mapping.preset().name, key, id, times });
        }
        // It says why when it is asked for a row.
        match run.frame(&messages::wal(&messages::insert(row)), |_| ())? {
            DryFrame::Refused(failure, _) => Err(*failure),
            DryFrame::Event
            | DryFrame::FilteredOut
            | DryFrame::LookUpTopic(..)
            | DryFrame::Passed(_)
            | DryFrame::Other => {
                Err(unfit(&config.outbox.name, "the core knows no mapping of its columns"))
            }
        }
    }
}

fn check_select(name: &TableName, facts: &Facts) -> Result<(), Failure> {
    let role = quote_identifier(&facts.role);
    if !facts.is("usage") {
        let schema = quote_identifier(&name.schema);
        let grant = format!("grant usage on schema {schema} to {role}");
        return Err(forbidden(name, &facts.role, "use the schema of", &grant));
    }
    if !facts.columns.iter().all(|column| column.is("select") || column.is("virtual")) {
        let grant = format!("grant select on {} to {role}", quote_table(name));
        return Err(forbidden(name, &facts.role, "read", &grant));
    }
    if facts.is("row_security") {
        return Err(hidden(name, &facts.role));
    }
    Ok(())
}

/// The primary key, or another unique index whose columns are never NULL.
pub(super) fn identity(
    name: &TableName,
    facts: &Facts,
    row: &TableRow,
) -> Result<Vec<IdentityColumn>, Failure> {
    let of = |key: &KeyFacts| -> Option<Vec<IdentityColumn>> {
        let columns = key.columns.as_ref().filter(|columns| columns.len() == key.width)?;
        let columns = columns.iter().map(|column| {
            let place = row.columns.iter().position(|known| known.name == column.name)?;
            Some(IdentityColumn {
                name: column.name.clone(),
                place,
                sql_type: facts.column(&column.name)?.sql_type.clone(),
                operator: format!(
                    "operator({}.{})",
                    quote_identifier(&column.schema),
                    column.operator
                ),
            })
        });
        columns.collect()
    };
    facts.keys.iter().find_map(of).ok_or_else(|| {
        let what = format!(
            "it has no primary key, by which a row is found again (none does that has a composite \
             type): alter table {} add primary key (…), or unique (…) of columns that are not null",
            quote_table(name)
        );
        unfit(name, &what)
    })
}

/// A table that was not described before it was read.
pub(crate) fn not_described(table: usize) -> Failure {
    let what = format!("the table with the number {table} was not described");
    Failure::new(Code::Polling, what)
}

#[cfg(test)]
pub(super) mod samples {
    use std::time::Duration;

    use relay::{ErrorPolicy, OutboxTable};
    use tokio_postgres::types::Type;
    use uuid::Uuid;

    use super::{
        super::{
            facts::{ColumnFacts, samples},
            settings::{MarkConfig, RowScope, StreamNames},
        },
        *,
    };

    /// A table of the preset `default`, with these columns.
    pub(in super::super) fn table(more: Vec<ColumnFacts>) -> PolledTable {
        table_of(more, MarkConfig::default()).unwrap()
    }

    pub(in super::super) fn table_of(
        more: Vec<ColumnFacts>,
        mark: MarkConfig,
    ) -> Result<PolledTable, Failure> {
        let column = |name: &str, of: &Type| samples::column(name, of, &[]);
        let own = vec![
            column("id", &Type::INT8),
            column("aggregate_type", &Type::TEXT),
            column("aggregate_id", &Type::TEXT),
            column("event_type", &Type::TEXT),
            column("payload", &Type::JSONB),
            column("created_at", &Type::TIMESTAMPTZ),
        ];
        let facts = samples::table(own.into_iter().chain(more).collect());
        let name = TableName { schema: "public".into(), name: "outbox".into() };
        let outbox = OutboxTable::with_defaults(name);
        let config = TableConfig { outbox, order_by: Vec::new(), mark };
        let settings = SqlSettings {
            worker: Uuid::nil(),
            name: "w".into(),
            lease: Duration::from_secs(10),
            hold_keys: HoldKeys::Yes,
            row_bytes: 1 << 20,
            keep_bytes: 1_000,
            on_error: ErrorPolicy::default(),
            scope: RowScope::All,
            stream: StreamNames { slot: "shop".to_owned(), publication: "shop".to_owned() },
        };
        PolledTable::new(&config, facts, &settings)
    }

    /// The columns of a table whose rows are taken and tried again.
    pub(in super::super) fn states() -> Vec<ColumnFacts> {
        let mut status = samples::column("status", &Type::TEXT, &[]);
        status.default = Some("'PENDING'::text".into());
        vec![
            status,
            samples::column("attempts", &Type::INT2, &[]),
            samples::column("available_at", &Type::TIMESTAMPTZ, &[]),
            samples::column("last_error", &Type::TEXT, &[]),
            samples::column("locked_by", &Type::TEXT, &[]),
            samples::column("locked_until", &Type::TIMESTAMPTZ, &[]),
        ]
    }

    /// The column of a table whose rows are only marked.
    pub(in super::super) fn time() -> Vec<ColumnFacts> {
        vec![samples::column("published_at", &Type::TIMESTAMPTZ, &[])]
    }
}
