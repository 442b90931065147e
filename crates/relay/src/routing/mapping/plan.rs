//! What is to be done for each row of one relation, and how.

use std::borrow::Cow;

use pgoutput::TupleColumns;

use super::{
    column_text::text,
    filter::Filter,
    form::Form,
    headers::{self, MappedHeader, Pairs},
    render,
    resolved_template::{ResolvedTemplate, Unfilled},
    row::MappedRow,
    value::{ValueRule, Written},
};
use crate::{
    failure::{Case, Code},
    routing::{
        headers::RowHeaders,
        table::{Format, Role, RoleNames},
        timestamp::{self, TimeForm},
    },
};

/// What is to be done for each row of one relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowPlan {
    pub(super) format: Format,
    pub(super) filter: Option<Filter>,
    /// Roles whose text columns fill.
    pub(super) templates: Vec<(Role, ResolvedTemplate)>,
    /// The column of [`Role::Timestamp`], and what its text says.
    pub(super) time: Option<(usize, TimeForm)>,
    /// The column of [`Role::Partition`].
    pub(super) partition: Option<usize>,
    pub(super) headers: Vec<MappedHeader>,
    /// The column of [`Role::Tracing`].
    pub(super) tracing: Option<usize>,
    pub(super) pairs: Option<Pairs>,
    /// Roles whose text is written anew.
    pub(super) rendered: Vec<Rendered>,
    pub(super) value: Option<(TextSource, ValueRule)>,
}

/// A role whose text is written anew, in place of the column's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rendered {
    pub(super) role: Role,
    pub(super) source: TextSource,
    pub(super) form: Form,
    pub(super) written_as: WrittenAs,
}

/// How a text is written anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WrittenAs {
    Json,
    Characters,
}

/// Where the text of a role comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextSource {
    Column(usize),
    Template,
}

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowIs {
    Event,
    FilteredOut,
}

/// Why a row cannot be mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unmappable {
    pub(crate) code: Code,
    pub(crate) case: Option<Case>,
    /// What is wrong, with no value of the row.
    pub(crate) what: String,
}

impl Unmappable {
    fn of(case: Case, what: String) -> Self {
        Self { code: case.code(), case: Some(case), what }
    }
}

impl From<(Code, String)> for Unmappable {
    fn from((code, what): (Code, String)) -> Self {
        Self { code, case: None, what }
    }
}

/// The answer about a row that the filter does not take; `None`: it takes the row.
#[inline(never)]
fn filtered_out(filter: &Filter, row: TupleColumns<'_>) -> Option<Result<RowIs, Unmappable>> {
    match filter.takes(text(row, filter.position)) {
        Ok(true) => None,
        Ok(false) => Some(Ok(RowIs::FilteredOut)),
        Err(what) => Some(Err(Unmappable::of(Case::FilterLabel, what))),
    }
}

impl RowPlan {
    /// Does what the configuration asks for with one row. `headers` has none yet.
    ///
    /// # Errors
    /// A value of the row cannot be used in this way.
    #[cold]
    #[inline(never)]
    pub(crate) fn apply(
        &self,
        names: &RoleNames,
        row: TupleColumns<'_>,
        mapped: &mut MappedRow,
        headers: &mut RowHeaders,
    ) -> Result<RowIs, Unmappable> {
        mapped.clear();
        if let Some(filter) = &self.filter
            && let Some(out) = filtered_out(filter, row)
        {
            return out;
        }
        self.fill_templates(|_| true, names, row, mapped)?;
        self.read_time(names, row, mapped)?;
        self.read_partition(names, row, mapped)?;
        self.write_headers(row, headers)?;
        self.render(|_| true, names, row, mapped)?;
        self.write_value(row, mapped)?;
        Ok(RowIs::Event)
    }

    /// Does only what the key needs, for a row of which other values may be unusable.
    ///
    /// # Errors
    /// The key's own values cannot be used.
    pub(crate) fn apply_to_key(
        &self,
        names: &RoleNames,
        row: TupleColumns<'_>,
        mapped: &mut MappedRow,
    ) -> Result<RowIs, Unmappable> {
        mapped.clear();
        if let Some(filter) = &self.filter
            && let Some(out) = filtered_out(filter, row)
        {
            return out;
        }
        let is_key = |role| role == Role::AggregateId;
        self.fill_templates(is_key, names, row, mapped)?;
        self.render(is_key, names, row, mapped)?;
        Ok(RowIs::Event)
    }

    /// Does each thing by itself, for a row that is an event and of which some values may be
    /// unusable. `headers` has none yet. Returns the roles that have no value for this reason.
    #[cold]
    pub(crate) fn apply_each(
        &self,
        names: &RoleNames,
        row: TupleColumns<'_>,
        mapped: &mut MappedRow,
        headers: &mut RowHeaders,
    ) -> Vec<Role> {
        mapped.clear();
        let mut unusable = Vec::new();
        for (role, _) in &self.templates {
            if self.fill_templates(|other| other == *role, names, row, mapped).is_err() {
                unusable.push(*role);
            }
        }
        for header in &self.headers {
            headers.whole_or_nothing(|headers| header.write(row, self.format, headers));
        }
        if let Some(text) = self.tracing.and_then(|position| text(row, position)) {
            headers.whole_or_nothing(|headers| headers::trace_context(text, headers));
        }
        if let Some(pairs) = &self.pairs {
            headers.whole_or_nothing(|headers| pairs.write(row, headers));
        }
        for Rendered { role, .. } in &self.rendered {
            if self.render(|other| other == *role, names, row, mapped).is_err() {
                unusable.push(*role);
            }
        }
        if !unusable.contains(&Role::Payload) && self.write_value(row, mapped).is_err() {
            unusable.push(Role::Payload);
        }
        unusable
    }

    /// The roles whose value is another than that of their column.
    pub(crate) fn written_roles(&self) -> impl Iterator<Item = Role> {
        let templates = self.templates.iter().map(|(role, _)| *role);
        let rendered = self.rendered.iter().map(|rendered| rendered.role);
        templates.chain(rendered).chain(self.value.as_ref().map(|_| Role::Payload))
    }

    /// The columns that say whether a row is an event, and of which key, beside the key's own.
    pub(crate) fn key_positions(&self) -> impl Iterator<Item = usize> {
        let is_key = |(role, _): &&(Role, ResolvedTemplate)| *role == Role::AggregateId;
        let templates = self.templates.iter().filter(is_key);
        let filter = self.filter.iter().map(|filter| filter.position);
        filter.chain(templates.flat_map(|(_, template)| template.positions()))
    }

    fn fill_templates(
        &self,
        is_wanted: impl Fn(Role) -> bool,
        names: &RoleNames,
        row: TupleColumns<'_>,
        mapped: &mut MappedRow,
    ) -> Result<(), Unmappable> {
        for (role, template) in self.templates.iter().filter(|(role, _)| is_wanted(*role)) {
            let start = mapped.text.len();
            match template.write(row, &mut mapped.text) {
                Ok(()) => mapped.set_written(*role, start),
                Err(Unfilled::Null) => {
                    mapped.text.truncate(start);
                    mapped.values.push((*role, None));
                }
                Err(Unfilled::NotJson) => {
                    let what = format!("{}: a column with a # holds no JSON", names.get(*role));
                    return Err((Code::NotJson, what).into());
                }
                Err(Unfilled::Form) => {
                    let what = format!("{}: a value is not UTF-8", names.get(*role));
                    return Err((Code::ValueForm, what).into());
                }
            }
        }
        Ok(())
    }

    fn read_time(
        &self,
        names: &RoleNames,
        row: TupleColumns<'_>,
        mapped: &mut MappedRow,
    ) -> Result<(), Unmappable> {
        let Some((position, form)) = self.time else { return Ok(()) };
        if let Some(text) = text(row, position) {
            let millis = timestamp::millis(text, form).map_err(|why| {
                let column = names.get(Role::Timestamp);
                let what = format!("column {column} is no timestamp of a record: {why}");
                (Code::TimestampUnusable, what)
            })?;
            mapped.time = Some(millis);
        }
        Ok(())
    }

    fn read_partition(
        &self,
        names: &RoleNames,
        row: TupleColumns<'_>,
        mapped: &mut MappedRow,
    ) -> Result<(), Unmappable> {
        let Some(position) = self.partition else { return Ok(()) };
        if let Some(text) = text(row, position) {
            let number = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            let Some(number) = number.filter(|number: &i32| *number >= 0) else {
                let column = names.get(Role::Partition);
                let what = format!("column {column} is no partition: it is negative or too large");
                return Err(Unmappable::of(Case::PartitionNumber, what));
            };
            mapped.partition = Some(number);
        }
        Ok(())
    }

    fn write_headers(
        &self,
        row: TupleColumns<'_>,
        headers: &mut RowHeaders,
    ) -> Result<(), Unmappable> {
        for header in &self.headers {
            header
                .write(row, self.format, headers)
                .map_err(|what| Unmappable::of(Case::ExtraHeader, what))?;
        }
        if let Some(text) = self.tracing.and_then(|position| text(row, position)) {
            headers::trace_context(text, headers)
                .map_err(|what| Unmappable::of(Case::TracingMalformed, what))?;
        }
        if let Some(pairs) = &self.pairs {
            pairs.write(row, headers).map_err(|why| {
                (Code::HeadersMalformed, format!("its headers cannot be used: {why}"))
            })?;
        }
        Ok(())
    }

    fn render(
        &self,
        is_wanted: impl Fn(Role) -> bool,
        names: &RoleNames,
        row: TupleColumns<'_>,
        mapped: &mut MappedRow,
    ) -> Result<(), Unmappable> {
        for Rendered { role, source, form, written_as } in &self.rendered {
            if !is_wanted(*role) {
                continue;
            }
            let Some(text) = source.text(*role, row, mapped) else { continue };
            let start = mapped.text.len();
            let written = match written_as {
                WrittenAs::Json => render::json(*form, &text, self.format, &mut mapped.text),
                WrittenAs::Characters => {
                    render::characters(*form, &text, self.format, &mut mapped.text)
                }
            };
            written.map_err(|why| {
                let what = format!("column {} cannot be written: {why}", names.get(*role));
                (Code::ValueForm, what)
            })?;
            mapped.set_written(*role, start);
        }
        Ok(())
    }

    /// `apply` is to contain it, although `apply_each` calls it, too; `scripts/instructions.sh`
    /// shows what a call costs.
    #[inline(always)]
    fn write_value(&self, row: TupleColumns<'_>, mapped: &mut MappedRow) -> Result<(), Unmappable> {
        let Some((source, rule)) = &self.value else { return Ok(()) };
        let payload = source.text(Role::Payload, row, mapped);
        let start = mapped.text.len();
        let written = rule.write(row, payload.as_deref(), &mut mapped.text);
        match written.map_err(|what| (Code::NotJson, what))? {
            Written::AsItIs => {}
            Written::Null => mapped.values.push((Role::Payload, None)),
            Written::Value => mapped.set_written(Role::Payload, start),
        }
        Ok(())
    }
}

impl TextSource {
    /// The text of a role in one row; `None` for NULL. What a template gave is copied, since what
    /// is made of it goes into the same buffer.
    fn text<'r>(
        self,
        role: Role,
        row: TupleColumns<'r>,
        mapped: &MappedRow,
    ) -> Option<Cow<'r, [u8]>> {
        match self {
            Self::Column(position) => text(row, position).map(Cow::Borrowed),
            Self::Template => {
                let filled = mapped.value(role).flatten();
                filled.map(|text| Cow::Owned(text.as_bytes().to_vec()))
            }
        }
    }
}
