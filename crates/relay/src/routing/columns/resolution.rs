//! Where each column of one relation goes: into the values of an event, or into the input of the
//! row's plan.

use super::{event::Use, types};
use crate::{
    failure::Failure,
    routing::{
        mapping::{Column, PlanInput, ResolvedTemplate, TakenName, TextSource},
        table::{OutboxTable, Preset, Role, RoleNames, ValueIndex},
    },
};

/// What is resolved so far.
pub(super) struct Resolution<'r> {
    /// The role of each column.
    pub(super) uses: Vec<Option<Use>>,
    /// Roles that share a column: the one in `uses`, and the other.
    pub(super) shared: Vec<(ValueIndex, ValueIndex)>,
    pub(super) names: RoleNames,
    pub(super) plan_input: PlanInput<'r>,
}

impl<'r> Resolution<'r> {
    pub(super) fn new(
        table: &'r OutboxTable,
        columns: &'r [Column<'r>],
        labels: Option<&'r [String]>,
        preset: &'static Preset,
    ) -> Self {
        Self {
            uses: vec![None; columns.len()],
            shared: Vec::new(),
            names: RoleNames::default(),
            plan_input: PlanInput {
                table,
                columns,
                labels,
                preset_headers: preset.headers,
                templates: Vec::new(),
                time: None,
                partition: None,
                tracing: None,
                pairs: None,
                taken_names: vec![TakenName::always(&table.headers.id)],
                id: TextSource::Template,
                key: TextSource::Template,
                payload: TextSource::Template,
            },
        }
    }

    /// A template stands for the role, and for no other column that did.
    pub(super) fn template(&mut self, role: Role, template: ResolvedTemplate, text: String) {
        self.names.set(role, text);
        self.plan_input.templates.push((role, template));
        self.plan_input.note_taken(role, None);
    }

    /// The column at this position has the role.
    ///
    /// # Errors
    /// Its type does not suit the role.
    pub(super) fn column(&mut self, role: Role, position: usize) -> Result<(), Failure> {
        let table = self.plan_input.table;
        let (Some(column), Some(use_)) =
            (self.plan_input.columns.get(position), self.uses.get_mut(position))
        else {
            return Ok(());
        };
        self.names.set(role, types::lossy(column.name));
        self.plan_input.note_taken(role, Some(position));
        match role {
            Role::AggregateId => self.plan_input.key = TextSource::Column(position),
            Role::Payload => self.plan_input.payload = TextSource::Column(position),
            Role::Headers if types::is_text_array(column) => {
                self.plan_input.pairs = Some(position);
                return Ok(());
            }
            Role::Timestamp => {
                self.plan_input.time = Some((position, types::time_form(table, column)?));
            }
            Role::Partition => {
                types::require_integer(table, column)?;
                self.plan_input.partition = Some(position);
            }
            Role::Tracing => self.plan_input.tracing = Some(position),
            Role::Id => self.plan_input.id = TextSource::Column(position),
            Role::AggregateType
            | Role::EventType
            | Role::Headers
            | Role::TraceParent
            | Role::TraceState => {}
        }
        let Some(index) = role.value_index() else { return Ok(()) };
        let encoding = types::encoding(table, role, column)?;
        match use_ {
            Some(first) => self.shared.push((first.index, index)),
            None => *use_ = Some(Use { index, encoding }),
        }
        Ok(())
    }
}
