//! Which column of a Relation message, by position, has which role, according to the configuration.
//!
//! PostgreSQL sends a Relation message before the first row of a table and again after every change
//! of its columns, also within a transaction. So columns are found by *name* each time and never by
//! a remembered position. A table that does not fit fails at its next INSERT, and nothing newer is
//! produced before it is repaired.

use pgoutput::{Relation, TupleColumns, TupleData};

use crate::{
    failure::{Code, Failure},
    routing::{
        mapping::{self, Column, RowPlan, TypeNames},
        table::{OutboxTable, Preset, Role, RoleNames, ValueIndex},
        topic::TopicTemplate,
    },
};
use event::Use;
use find::{Found, Source, find_columns};
use resolution::Resolution;

pub(crate) use event::{Encoding, Event, Value};
pub use find::is_role_required;
pub(crate) use find::{age_and_id, columns_read};

mod event;
mod find;
mod resolution;
mod types;

/// Columns by position, resolved for one relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Columns {
    /// How many columns the relation has.
    width: usize,
    /// The role of each column, up to the last column that has one.
    uses: Vec<Option<Use>>,
    /// Roles that share a column: the one in `uses`, and the other.
    shared: Vec<(ValueIndex, ValueIndex)>,
    /// The columns' names by role, for messages.
    names: RoleNames,
    /// What the configuration asks for beyond one column for each role; `None`: nothing.
    plan: Option<Box<RowPlan>>,
    /// The preset that fits.
    preset: &'static Preset,
    /// The topic of the table under that preset.
    topic: TopicTemplate,
}

impl Columns {
    /// Finds the columns of `table` in the relation, of whose types some were named before. The
    /// labels are those of the enum that its `where` reads, where they are known.
    ///
    /// # Errors
    /// A required column is missing, no preset fits or several do, or Debezium would write a
    /// column's type in another way.
    pub(crate) fn resolve(
        table: &OutboxTable,
        relation: &Relation<'_>,
        types: &TypeNames,
        labels: Option<&[String]>,
    ) -> Result<Self, Failure> {
        let columns: Vec<Column<'_>> =
            relation.columns().map(|column| types.column(&column, table)).collect();
        let names: Vec<&[u8]> = columns.iter().map(|column| column.name).collect();
        let Found { preset, roles, topic, topic_by_columns } = find_columns(table, &names)?;
        let mut resolution = Resolution::new(table, &columns, labels, preset);
        for (role, source) in roles {
            match source {
                Source::Template(template, text) => resolution.template(role, template, text),
                Source::Column(position) => resolution.column(role, position)?,
            }
        }
        if let Some((template, text)) = topic_by_columns {
            resolution.template(Role::AggregateType, template, text);
        }
        let Resolution { mut uses, shared, names, plan_input } = resolution;
        let used = uses.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        uses.truncate(used);
        let plan = mapping::resolve(plan_input)?;
        Ok(Self { width: columns.len(), uses, shared, names, plan, preset, topic })
    }

    /// The preset that fits.
    pub(crate) fn preset(&self) -> &'static Preset {
        self.preset
    }

    /// The topic of the table's events.
    pub(crate) fn topic(&self) -> &TopicTemplate {
        &self.topic
    }

    /// The name of a role's column; the role's own name when the table has no such column.
    pub(crate) fn name(&self, role: Role) -> &str {
        self.names.get(role)
    }

    /// The first role that has a column here, and none in `now`.
    pub(crate) fn lost_in(&self, now: &Self) -> Option<Role> {
        let is_lost =
            |role: &Role| self.names.found(*role).is_some() && now.names.found(*role).is_none();
        Role::ALL.into_iter().find(is_lost)
    }

    /// The columns' names by role.
    pub(crate) fn names(&self) -> &RoleNames {
        &self.names
    }

    /// What is to be done with a row after it was read; `None`: nothing.
    #[inline]
    pub(crate) fn plan(&self) -> Option<&RowPlan> {
        self.plan.as_deref()
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
            self.read_columns(row, event)
        } else {
            Err(misfit(row.len(), self.width))
        }
    }

    /// Reads the values of a row that may be cut short: the columns that arrived whole.
    ///
    /// # Errors
    /// As for [`Columns::read`].
    #[cold]
    #[inline(never)]
    pub(crate) fn read_partial<'a>(
        &self,
        row: TupleColumns<'a>,
        event: &mut Event<'a>,
    ) -> Result<(), Failure> {
        self.read_columns(row, event)
    }

    /// Whether the key of a row of which these columns arrived is known.
    #[cold]
    pub(crate) fn has_key(&self, arrived: TupleColumns<'_>) -> bool {
        let key = Role::AggregateId.value_index();
        let shared = self.shared.iter().find(|(_, to)| Some(*to) == key).map(|(from, _)| *from);
        let is_key = |use_: &Option<Use>| {
            use_.as_ref().is_some_and(|use_| Some(use_.index) == key || Some(use_.index) == shared)
        };
        let own = self.uses.iter().position(is_key);
        let planned = self.plan().into_iter().flat_map(RowPlan::key_positions);
        let arrived = arrived.len();
        own.into_iter().chain(planned).all(|position| position < arrived)
    }

    #[inline]
    fn read_columns<'a>(
        &self,
        row: TupleColumns<'a>,
        event: &mut Event<'a>,
    ) -> Result<(), Failure> {
        for (use_, data) in self.uses.iter().zip(row) {
            let Some(Use { index, encoding }) = *use_ else { continue };
            match data {
                TupleData::Text(bytes) => event.set(index, Value::Some(bytes, encoding)),
                TupleData::Null => event.set(index, Value::Null),
                TupleData::UnchangedToast | TupleData::Binary(_) => return Err(unreadable(index)),
            }
        }
        for (from, to) in &self.shared {
            event.set(*to, event.at(*from));
        }
        Ok(())
    }
}

#[cold]
fn misfit(columns: usize, width: usize) -> Failure {
    Failure::new(Code::ValueForm, format!("a row of {columns} columns for a relation of {width}"))
}

#[cold]
fn unreadable(index: ValueIndex) -> Failure {
    let role = Role::ALL.into_iter().find(|role| role.value_index() == Some(index));
    let role = role.map_or("value", Role::as_str);
    Failure::new(Code::ValueForm, format!("the {role} of a row came neither as text nor as NULL"))
}

#[cfg(test)]
mod tests;
