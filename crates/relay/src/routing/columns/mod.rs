//! Which column of a Relation message, by position, has which role, according to the configuration.
//!
//! PostgreSQL sends a Relation message before the first row of a table and again after every change
//! of its columns, also within a transaction. So columns are found by *name* each time and never by
//! a remembered position. A table that does not fit fails at its next INSERT, and nothing newer is
//! produced before it is repaired.

use pgoutput::{Relation, RelationColumn, TupleColumns, TupleData};

use crate::{
    failure::{Case, Code, Failure},
    routing::{
        table::{Format, OutboxTable, Preset, Role, TableName, Timestamp},
        timestamp::TimeForm,
    },
};

/// Columns by position, resolved for one relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Columns {
    /// How many columns the relation has.
    width: usize,
    /// The role of each column, up to the last column that has one.
    uses: Vec<Option<Use>>,
    /// Roles that share a column: (the role in `uses`, the other role).
    shared: Vec<(Role, Role)>,
    /// The columns' names by role, for messages.
    names: Vec<(Role, String)>,
    /// What the text of the column of [`Role::Timestamp`] says, if there is one.
    time_form: Option<TimeForm>,
}

/// The role of one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Use {
    role: Role,
    encoding: Encoding,
}

/// How a value's text encodes its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The text itself.
    Text,
    /// `\x` and two hexadecimal digits per byte (the connection sets `bytea_output = hex`).
    Hex,
}

/// The value of one role in one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Value<'a> {
    /// The table has no such column.
    #[default]
    Absent,
    /// SQL NULL.
    Null,
    /// The value's text as the server sent it.
    Some(&'a [u8], Encoding),
}

/// An outbox row: its values by role.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Event<'a> {
    values: [Value<'a>; Role::ALL.len()],
}

impl<'a> Event<'a> {
    /// The value of one role.
    #[inline]
    pub(crate) fn get(&self, role: Role) -> Value<'a> {
        self.values.get(role.index()).copied().unwrap_or_default()
    }

    #[inline]
    fn set(&mut self, role: Role, value: Value<'a>) {
        if let Some(place) = self.values.get_mut(role.index()) {
            *place = value;
        }
    }
}

impl Columns {
    /// Finds the columns of `table` in the relation.
    ///
    /// # Errors
    /// A required column is missing, no preset fits or several do, or Debezium would write a
    /// column's type in another way.
    pub(crate) fn resolve(table: &OutboxTable, relation: &Relation<'_>) -> Result<Self, Failure> {
        let columns: Vec<RelationColumn<'_>> = relation.columns().collect();
        let names: Vec<&[u8]> = columns.iter().map(|column| column.name).collect();
        let roles = map_columns(table, &names)?;
        let mut uses: Vec<Option<Use>> = vec![None; columns.len()];
        let (mut shared, mut named, mut time_form) = (Vec::new(), Vec::new(), None);
        for (role, position) in roles {
            let (Some(column), Some(place)) = (columns.get(position), uses.get_mut(position))
            else {
                continue;
            };
            named.push((role, lossy(column.name)));
            let encoding = if role == Role::Timestamp {
                time_form = Some(column_time_form(table, column)?);
                Encoding::Text
            } else if role == Role::Partition {
                column_partition(table, column)?
            } else {
                encoding(table, role, column)?
            };
            match place {
                Some(first) => shared.push((first.role, role)),
                None => *place = Some(Use { role, encoding }),
            }
        }
        let used = uses.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        uses.truncate(used);
        Ok(Self { width: columns.len(), uses, shared, names: named, time_form })
    }

    /// The name of a role's column; the role's own name when the table has no such column.
    pub(crate) fn name(&self, role: Role) -> &str {
        let found = self.names.iter().find(|(known, _)| *known == role);
        found.map_or(role.as_str(), |(_, name)| name)
    }

    /// What the text of the column of [`Role::Timestamp`] says, if there is one.
    pub(crate) fn time_form(&self) -> Option<TimeForm> {
        self.time_form
    }

    /// Reads the values of one row into `event`, which must be empty.
    ///
    /// # Errors
    /// The row has another number of columns than its relation, or a value is binary or an
    /// unchanged TOAST value, which an INSERT in text format never has.
    #[inline]
    pub(crate) fn read<'a>(
        &self,
        row: TupleColumns<'a>,
        event: &mut Event<'a>,
    ) -> Result<(), Failure> {
        if row.len() == self.width {
            self.read_partial(row, event)
        } else {
            Err(misfit(row.len(), self.width))
        }
    }

    /// Reads the values of a row that was cut short: the columns that arrived whole.
    #[inline]
    pub(crate) fn read_partial<'a>(
        &self,
        row: TupleColumns<'a>,
        event: &mut Event<'a>,
    ) -> Result<(), Failure> {
        for (use_, data) in self.uses.iter().zip(row) {
            let Some(Use { role, encoding }) = *use_ else { continue };
            match data {
                TupleData::Text(bytes) => event.set(role, Value::Some(bytes, encoding)),
                TupleData::Null => event.set(role, Value::Null),
                TupleData::UnchangedToast | TupleData::Binary(_) => return Err(unreadable(role)),
            }
        }
        for (from, to) in &self.shared {
            event.set(*to, event.get(*from));
        }
        Ok(())
    }
}

#[cold]
fn misfit(columns: usize, width: usize) -> Failure {
    Failure::new(Code::ValueForm, format!("a row of {columns} columns for a relation of {width}"))
}

#[cold]
fn unreadable(role: Role) -> Failure {
    let role = role.as_str();
    Failure::new(Code::ValueForm, format!("the {role} of a row came neither as text nor as NULL"))
}

/// Roles with the positions of their columns.
type Roles = Vec<(Role, usize)>;

/// Which of a table's columns, by position, has which role: by the table's own mapping, or by the
/// preset that fits.
///
/// # Errors
/// [`Code::PresetUnclear`]: no preset fits, or several do. [`Code::ColumnMissing`]: a required or
/// configured column is missing.
pub fn map_columns(table: &OutboxTable, columns: &[&[u8]]) -> Result<Vec<(Role, usize)>, Failure> {
    let fit = |preset| fit(table, preset, columns);
    match table.preset {
        Preset::Auto => the_one_that_fits(&table.name, fit),
        preset @ (Preset::Default | Preset::Debezium) => fit(preset).map_err(|missing| {
            let roles = missing.join(", ");
            Failure::new(Code::ColumnMissing, format!("{} has no column for {roles}", table.name))
        }),
    }
}

/// The roles under the preset that fits; presets that map alike count as one.
fn the_one_that_fits(
    table: &TableName,
    fit: impl Fn(Preset) -> Result<Roles, Vec<&'static str>>,
) -> Result<Roles, Failure> {
    let (mut fitting, mut lacking) = (Vec::<(Preset, Roles)>::new(), Vec::new());
    for preset in Preset::CONCRETE {
        match fit(preset) {
            Ok(roles) if fitting.iter().any(|(_, known)| *known == roles) => {}
            Ok(roles) => fitting.push((preset, roles)),
            Err(roles) => lacking.push(format!("{} lacks {}", preset.as_str(), roles.join(", "))),
        }
    }
    let names: Vec<&str> = fitting.iter().map(|(preset, _)| preset.as_str()).collect();
    let names = names.join(" and ");
    match (fitting.pop(), fitting.is_empty()) {
        (Some((_, roles)), true) => Ok(roles),
        (Some(_), false) => Err(Failure::of(
            Case::SeveralPresetsFit,
            format!("{table} has the columns of the presets {names}"),
        )),
        (None, _) => Err(Failure::new(
            Code::PresetUnclear,
            format!("no preset fits {table}: {}", lacking.join(", ")),
        )),
    }
}

/// The positions of the roles under one preset, or the required roles for which there is no column.
fn fit(table: &OutboxTable, preset: Preset, columns: &[&[u8]]) -> Result<Roles, Vec<&'static str>> {
    let position = |name: &str| columns.iter().position(|column| *column == name.as_bytes());
    let mut roles = Roles::new();
    let mut missing = Vec::new();
    for role in Role::ALL.into_iter().filter(|role| is_used(table, *role)) {
        let found = match table.columns.get(role) {
            Some(names) => names.iter().find_map(|name| position(name)),
            None => preset.columns(role).iter().find_map(|name| position(name)),
        };
        match found {
            Some(position) => roles.push((role, position)),
            // A column that the configuration names is required, whatever its role.
            None if is_required(table, role)
                || table.columns.get(role).is_some_and(|names| !names.is_empty()) =>
            {
                missing.push(role.as_str());
            }
            None => {}
        }
    }
    if missing.is_empty() { Ok(roles) } else { Err(missing) }
}

/// Whether a column of this role would be read.
fn is_used(table: &OutboxTable, role: Role) -> bool {
    role != Role::Timestamp || table.timestamp == Timestamp::Column
}

fn is_required(table: &OutboxTable, role: Role) -> bool {
    match role {
        // A time's column is asked for only where it is used.
        Role::Id | Role::AggregateId | Role::Payload | Role::Timestamp => true,
        Role::AggregateType => table.topic.depends_on_row(),
        Role::EventType => table.format == Format::Plain,
        Role::Headers | Role::TraceParent | Role::TraceState | Role::Partition => false,
    }
}

/// OIDs of `src/include/catalog/pg_type.dat`, stable across versions.
mod oid {
    pub(super) const BYTEA: u32 = 17;
    /// Types whose text is what Debezium's `StringConverter` writes: `name`, `int8`, `int2`,
    /// `int4`, `text`, `json`, `bpchar`, `varchar`, `uuid`, `jsonb`.
    pub(super) const SAME_TEXT: [u32; 10] = [19, 20, 21, 23, 25, 114, 1042, 1043, 2950, 3802];
    /// `int8`, `int2`, `int4`.
    pub(super) const INTEGERS: [u32; 3] = [20, 21, 23];
    /// `date`, `timestamp`, `timestamptz`.
    pub(super) const TIMES: [u32; 3] = [1082, 1114, 1184];
    /// `FirstNormalObjectId`: types from here on are not built in, such as enums, domains and
    /// `citext`.
    pub(super) const FIRST_NORMAL: u32 = 16384;
}

fn encoding(
    table: &OutboxTable,
    role: Role,
    column: &RelationColumn<'_>,
) -> Result<Encoding, Failure> {
    let type_oid = column.type_oid.as_u32();
    if type_oid == oid::BYTEA {
        return Ok(Encoding::Hex);
    }
    let same_text = oid::SAME_TEXT.contains(&type_oid) || type_oid >= oid::FIRST_NORMAL;
    if table.format == Format::Debezium && !same_text {
        return Err(unfit(table, role, column, "whose text differs from what Debezium writes"));
    }
    Ok(Encoding::Text)
}

fn column_time_form(table: &OutboxTable, column: &RelationColumn<'_>) -> Result<TimeForm, Failure> {
    let type_oid = column.type_oid.as_u32();
    if oid::TIMES.contains(&type_oid) {
        Ok(TimeForm::Calendar)
    } else if oid::INTEGERS.contains(&type_oid) {
        Ok(TimeForm::Epoch(table.timestamp_unit))
    } else {
        let why = "and a record's time is a timestamp, a date or an integer";
        Err(unfit(table, Role::Timestamp, column, why))
    }
}

fn column_partition(table: &OutboxTable, column: &RelationColumn<'_>) -> Result<Encoding, Failure> {
    if oid::INTEGERS.contains(&column.type_oid.as_u32()) {
        Ok(Encoding::Text)
    } else {
        Err(unfit(table, Role::Partition, column, "and a partition is an integer"))
    }
}

#[cold]
fn unfit(table: &OutboxTable, role: Role, column: &RelationColumn<'_>, why: &str) -> Failure {
    let (name, type_oid) = (lossy(column.name), column.type_oid.as_u32());
    let (table, role) = (&table.name, role.as_str());
    let what = format!("column {name} of {table} ({role}) has type oid {type_oid}, {why}");
    Failure::new(Code::ColumnType, what)
}

fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

#[cfg(test)]
mod tests;
