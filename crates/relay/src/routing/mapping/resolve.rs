//! From the configuration of a table and the columns of its relation to what is to be done for each
//! row.

use super::{
    filter::{Filter, Labels},
    form::{DecimalAs, Form},
    headers::{MappedHeader, MappedHeaderValue, Pairs, TakenName},
    plan::{Rendered, RowPlan, TextSource, WrittenAs},
    render,
    resolved_template::ResolvedTemplate,
    type_names::Column,
    value::{Member, ValueRule, ValueShape},
    words::FIRST_OF_USERS,
};
use crate::{
    failure::{Case, Code, Failure},
    routing::{
        table::{BytesFormat, Format, HeaderValue, MissingColumns, OutboxTable, Role, TombstoneOn},
        timestamp::TimeForm,
    },
};

/// A table's configuration, the columns of its relation, and what was found of its roles.
pub(crate) struct PlanInput<'f> {
    pub(crate) table: &'f OutboxTable,
    pub(crate) columns: &'f [Column<'f>],
    /// The labels of the enum that `where` reads, if it is one.
    pub(crate) labels: Option<&'f [String]>,
    /// Headers that the preset adds: the column and the name.
    pub(crate) preset_headers: &'f [&'f str],
    pub(crate) templates: Vec<(Role, ResolvedTemplate)>,
    pub(crate) time: Option<(usize, TimeForm)>,
    pub(crate) partition: Option<usize>,
    pub(crate) tracing: Option<usize>,
    /// The column of [`Role::Headers`], where it is an array.
    pub(crate) pairs: Option<usize>,
    /// The names of the headers that the format writes.
    pub(crate) taken_names: Vec<TakenName>,
    /// Where the id's text comes from.
    pub(crate) id: TextSource,
    /// Where the key's text comes from.
    pub(crate) key: TextSource,
    /// Where the payload's text comes from.
    pub(crate) payload: TextSource,
}

/// What is to be done for each row; `None`: nothing.
///
/// # Errors
/// The table lacks a column, or one has a type that cannot be used in this way.
pub(crate) fn resolve(input: PlanInput<'_>) -> Result<Option<Box<RowPlan>>, Failure> {
    let plan = RowPlan {
        format: input.table.format,
        filter: input.filter()?,
        headers: input.headers()?,
        rendered: input.rendered()?,
        value: input.value()?,
        templates: input.templates,
        time: input.time,
        partition: input.partition,
        tracing: input.tracing,
        pairs: input.pairs.map(|column| Pairs { column, taken: input.taken_names }),
    };
    Ok((!plan.is_empty()).then(|| Box::new(plan)))
}

impl RowPlan {
    fn is_empty(&self) -> bool {
        let Self {
            format: _,
            filter,
            templates,
            time,
            partition,
            headers,
            tracing,
            pairs,
            rendered,
            value,
        } = self;
        filter.is_none()
            && templates.is_empty()
            && time.is_none()
            && partition.is_none()
            && headers.is_empty()
            && tracing.is_none()
            && pairs.is_none()
            && rendered.is_empty()
            && value.is_none()
    }
}

impl<'f> PlanInput<'f> {
    /// Notes the name of the header that the format writes for a role, from a column or a template.
    pub(crate) fn note_taken(&mut self, role: Role, column: Option<usize>) {
        if self.table.format != Format::Plain {
            return;
        }
        let taken = match role {
            Role::EventType => TakenName::always(&self.table.headers.event_type),
            Role::TraceParent => TakenName::unless_null("traceparent", column),
            Role::TraceState => TakenName::unless_null("tracestate", column),
            Role::Id
            | Role::AggregateType
            | Role::AggregateId
            | Role::Payload
            | Role::Headers
            | Role::Timestamp
            | Role::Partition
            | Role::Tracing => return,
        };
        self.taken_names.push(taken);
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name.as_bytes())
    }

    fn lacking(&self, what: &str) -> Failure {
        Failure::new(Code::ColumnMissing, format!("{} has no column {what}", self.table.name))
    }

    /// The column that `what` needs; `None` where the configuration lets it be missing.
    fn column(&self, what: &str, name: &str) -> Result<Option<(usize, Form)>, Failure> {
        let found = self.position(name).map(|position| (position, self.form_at(position)));
        match (found, self.table.missing_columns) {
            (Some((_, form)), _) if !render::can_write(form, self.table.format) => {
                let what = format!(
                    "column {name} of {} ({what}) has a type that cannot be written as Debezium \
                     writes it",
                    self.table.name
                );
                Err(Failure::new(Code::ColumnType, what))
            }
            (Some(found), _) => Ok(Some(found)),
            (None, MissingColumns::Ignore) => Ok(None),
            (None, MissingColumns::Error) => Err(self.lacking(&format!("{name} for {what}"))),
        }
    }

    fn filter(&self) -> Result<Option<Filter>, Failure> {
        let Some(filter) = &self.table.filter else { return Ok(None) };
        let position = self
            .position(&filter.column)
            .ok_or_else(|| self.lacking(&format!("{} for the filter", filter.column)))?;
        let Some(column) = self.columns.get(position) else { return Ok(None) };
        let values = filter
            .written(&self.table.name, column.value_type)
            .map_err(|what| Failure::of(Case::FilterWord, what))?;
        // Rows from before the column became an enum have texts.
        let labels = self.labels.filter(|_| column.value_type.oid >= FIRST_OF_USERS);
        let labels = labels.map(|labels| Labels::new(&filter.column, labels, &values));
        let compared = column.value_type.compared();
        Ok(Some(Filter { position, values, kind: filter.kind, compared, labels }))
    }

    fn headers(&self) -> Result<Vec<MappedHeader>, Failure> {
        let mut headers = Vec::new();
        for name in self.preset_headers {
            if let Some(position) = self.position(name) {
                let form = self.form_at(position);
                let value = MappedHeaderValue::Column(position, form);
                headers.push(MappedHeader { name: (*name).to_owned(), value });
            }
        }
        for header in &self.table.extra_headers {
            let what = format!("header {}", header.name);
            let value = match &header.value {
                HeaderValue::Column(column) => match self.column(&what, column)? {
                    Some((position, form)) => MappedHeaderValue::Column(position, form),
                    None => continue,
                },
                HeaderValue::Template(template) => {
                    let position = |name: &str| self.position(name);
                    match (ResolvedTemplate::new(template, position), self.table.missing_columns) {
                        (Ok(template), _) => MappedHeaderValue::Template(template),
                        (Err(_), MissingColumns::Ignore) => continue,
                        (Err(placeholder), MissingColumns::Error) => {
                            return Err(self.lacking(&format!("{placeholder} for {what}")));
                        }
                    }
                }
            };
            headers.push(MappedHeader { name: header.name.clone(), value });
        }
        Ok(headers)
    }

    fn form_at(&self, position: usize) -> Form {
        self.columns.get(position).map_or(Form::Text, |column| column.form)
    }

    fn form_of(&self, source: TextSource) -> Form {
        match source {
            TextSource::Template => Form::Text,
            TextSource::Column(position) => self.form_at(position),
        }
    }

    /// The id and the key, where they are not the column's text as it is.
    fn rendered(&self) -> Result<Vec<Rendered>, Failure> {
        let mut rendered = Vec::new();
        let form = self.form_of(self.id);
        if is_written(self.table, Role::Id, form) {
            let written_as = WrittenAs::Characters;
            rendered.push(Rendered { role: Role::Id, source: self.id, form, written_as });
        }
        let form = self.form_of(self.key);
        let is_json = self.check_bytes("key", self.table.key_format, form)?;
        if is_written(self.table, Role::AggregateId, form) {
            let written_as = if is_json { WrittenAs::Json } else { WrittenAs::Characters };
            rendered.push(Rendered { role: Role::AggregateId, source: self.key, form, written_as });
        }
        Ok(rendered)
    }

    fn value(&self) -> Result<Option<(TextSource, ValueRule)>, Failure> {
        let table = self.table;
        let form = self.form_of(self.payload);
        let is_json = self.check_bytes("value", table.value_format, form)?;
        let shape = if !table.envelope.is_empty() {
            if !render::can_write(form, table.format) {
                let what = format!(
                    "the payload of {} stands in an envelope, and its column has a type that \
                     Debezium writes in another way",
                    table.name
                );
                return Err(Failure::new(Code::ColumnType, what));
            }
            ValueShape::Envelope(self.members()?)
        } else if is_json {
            ValueShape::Json
        } else if is_written(table, Role::Payload, form) {
            ValueShape::Characters
        } else if table.tombstone_on == TombstoneOn::default() {
            return Ok(None);
        } else {
            ValueShape::Payload
        };
        let rule = ValueRule {
            format: table.format,
            form,
            tombstone_on: table.tombstone_on.clone(),
            expand: table.expand_json,
            on_not_json: table.on_not_json,
            shape,
        };
        Ok(Some((self.payload, rule)))
    }

    fn members(&self) -> Result<Vec<Member>, Failure> {
        let mut members = Vec::new();
        for member in &self.table.envelope {
            let what = format!("member {} of the envelope", member.name);
            if let Some((position, form)) = self.column(&what, &member.column)? {
                members.push(Member { name: member.name.clone(), position, form });
            }
        }
        Ok(members)
    }

    /// Whether the bytes are JSON.
    fn check_bytes(&self, part: &str, format: BytesFormat, form: Form) -> Result<bool, Failure> {
        let name = &self.table.name;
        let wrong = |what: &str| {
            Failure::new(Code::ColumnType, format!("the {part} format of {name} is {what}"))
        };
        let excluded = |what: &str| Err(wrong(what).with_case(Case::BytesType));
        match (format, form) {
            (BytesFormat::Auto, _) => Ok(false),
            (BytesFormat::String, Form::Bytea) => excluded("\"string\", and its column is a bytea"),
            (BytesFormat::String, _) => Ok(false),
            (BytesFormat::Bytes, Form::Bytea) => Ok(false),
            (BytesFormat::Bytes, _) => excluded("\"bytes\", and its column is no bytea"),
            (BytesFormat::Json, form) if render::can_write(form, self.table.format) => Ok(true),
            (BytesFormat::Json, _) => Err(wrong(
                "\"json\", and its column has a type that Debezium writes in another way",
            )),
        }
    }
}

/// Whether a role's text is written anew, in place of the column's: as JSON, or as the characters
/// that Debezium writes of such a type.
pub(crate) fn is_written(table: &OutboxTable, role: Role, form: Form) -> bool {
    let is_debezium = table.format == Format::Debezium;
    let has_characters = is_debezium && render::has_characters_of_its_own(form);
    match role {
        // A header of bytes is Base64; keys and values are the bytes.
        Role::Id => has_characters || (is_debezium && is_header_of_its_own(form)),
        Role::AggregateId => table.key_format == BytesFormat::Json || has_characters,
        Role::Payload => {
            table.value_format == BytesFormat::Json || !table.envelope.is_empty() || has_characters
        }
        Role::AggregateType
        | Role::EventType
        | Role::Headers
        | Role::TraceParent
        | Role::TraceState
        | Role::Timestamp
        | Role::Partition
        | Role::Tracing => false,
    }
}

/// Whether Debezium writes a header of this form in other characters than PostgreSQL, though not
/// the bytes of a key.
const fn is_header_of_its_own(form: Form) -> bool {
    matches!(form, Form::Bytea | Form::Array(_) | Form::Decimal(DecimalAs::ScaleAndBytes))
}

/// Whether a trace context in properties is read: not by default in Debezium's format, whose
/// records have the headers that the configuration names and no others.
pub(crate) fn reads_tracing(table: &OutboxTable) -> bool {
    table.format == Format::Plain || table.columns.get(Role::Tracing).is_some()
}
