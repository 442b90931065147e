//! Which columns of a table stand for which roles: by the table's own mapping, or by the preset
//! that fits.

use crate::{
    failure::{Case, Code, Failure, Name},
    routing::{
        mapping::{self, ResolvedTemplate},
        table::{
            ColumnName, DEFAULT, Format, OutboxTable, PRESETS, Preset, Role, TableName, Timestamp,
        },
        topic::{IllegalTemplate, TopicTemplate},
    },
};

/// What was found in a table's columns, under the preset that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) preset: &'static Preset,
    pub(super) roles: Vec<(Role, Source)>,
    pub(super) topic: TopicTemplate,
    /// The topic, where columns fill it, and its text.
    pub(super) topic_by_columns: Option<(ResolvedTemplate, String)>,
}

/// What stands for a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// The column at this position.
    Column(usize),
    /// A template, and its text.
    Template(ResolvedTemplate, String),
}

impl Found {
    /// Whether two presets make the same of a table.
    fn maps_like(&self, other: &Self) -> bool {
        (&self.roles, &self.topic, self.preset.headers)
            == (&other.roles, &other.topic, other.preset.headers)
    }
}

/// The positions of the columns that the router reads of a table.
///
/// # Errors
/// [`Code::PresetUnclear`]: no preset fits, or several do. [`Code::ColumnMissing`]: a required or
/// configured column is missing.
pub(crate) fn columns_read(table: &OutboxTable, columns: &[&[u8]]) -> Result<Vec<usize>, Failure> {
    let found = find_columns(table, columns)?;
    let position = |name: &str| columns.iter().position(|column| *column == name.as_bytes());
    let mut read = Vec::new();
    for (_, source) in &found.roles {
        match source {
            Source::Column(position) => read.push(*position),
            Source::Template(template, _) => read.extend(template.positions()),
        }
    }
    read.extend(found.topic_by_columns.iter().flat_map(|(template, _)| template.positions()));
    let named = found.preset.headers.iter().copied().chain(table.named_columns());
    read.extend(named.filter_map(position));
    let mut unique = Vec::new();
    for position in read {
        if !unique.contains(&position) {
            unique.push(position);
        }
    }
    Ok(unique)
}

/// The columns by which a row has an age and an id, by position. A template is no column.
///
/// # Errors
/// As [`columns_read`].
pub(crate) fn age_and_id(
    table: &OutboxTable,
    columns: &[&[u8]],
) -> Result<(Option<usize>, Option<usize>), Failure> {
    let found = find_columns(table, columns)?;
    let id = found.roles.iter().find_map(|(role, source)| match source {
        Source::Column(position) if *role == Role::Id => Some(*position),
        Source::Column(_) | Source::Template(..) => None,
    });
    // Routing reads a time's column only where a record's time is taken from it.
    let position = |name: &str| columns.iter().position(|column| *column == name.as_bytes());
    let age = match table.columns.get(Role::Timestamp) {
        Some(names) => names.iter().find_map(|name| match name {
            ColumnName::Column(name) => position(name),
            ColumnName::Template(_) => None,
        }),
        None => found.preset.alternatives(Role::Timestamp).iter().find_map(|name| position(name)),
    };
    Ok((age, id))
}

/// Which of a table's columns, by position, has which role: by the table's own mapping, or by the
/// preset that fits.
pub(super) fn find_columns(table: &OutboxTable, columns: &[&[u8]]) -> Result<Found, Failure> {
    let fit = |preset| fit(table, preset, columns);
    let found = match table.preset {
        None => the_one_that_fits(&table.name, fit)?,
        Some(preset) => fit(preset).map_err(|missing| {
            let what = lacking(preset, &missing);
            Failure::new(Code::ColumnMissing, format!("{} {what}", table.name))
        })?,
    };
    check_unambiguous(table, found.preset, columns)?;
    Ok(found)
}

/// The words for a table's lack: columns by which a preset is known have that name, and no other
/// one that the configuration gives them.
fn lacking(preset: &Preset, missing: &[String]) -> String {
    let is_own = |name: &&String| preset.signature.contains(&name.as_str());
    let names = |all: Vec<&String>| all.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(", ");
    let (own, roles): (Vec<_>, Vec<_>) = missing.iter().partition(is_own);
    let of_roles = (!roles.is_empty()).then(|| format!("has no column for {}", names(roles)));
    let of_preset = (!own.is_empty()).then(|| {
        format!(
            "has no column called {}, which every table of the preset {} has: another preset, with \
             columns named, does without",
            names(own),
            preset.name
        )
    });
    let both: Vec<String> = of_roles.into_iter().chain(of_preset).collect();
    both.join(", and it ")
}

/// Refuses the column that a preset, or a list in the configuration, takes for a part of the record
/// where another one that may be it stands before it in the table: the first may have been added
/// just now, and be NULL in every row. In presets an id is the key of tables that have no other.
fn check_unambiguous(
    table: &OutboxTable,
    preset: &Preset,
    columns: &[&[u8]],
) -> Result<(), Failure> {
    for role in [Role::Payload, Role::AggregateId, Role::EventType, Role::Headers] {
        let position = |name: &str| columns.iter().position(|column| *column == name.as_bytes());
        let names: Vec<&str> = match table.columns.get(role) {
            Some(names) => names.iter().filter_map(column_named).collect(),
            None => preset.alternatives(role).iter().copied().filter(|it| *it != "id").collect(),
        };
        let mut fitting = names.into_iter().filter_map(|name| Some((position(name)?, name)));
        let Some((taken, name)) = fitting.next() else { continue };
        let Some((_, former)) = fitting.find(|(position, _)| *position < taken) else { continue };
        let (table, role) = (&table.name, role.as_str());
        let what = format!(
            "{table} has the columns {former} and {name}, and either may be its {role}: name the \
             one that is, columns.{role} = \"{former}\" or = \"{name}\""
        );
        return Err(Failure::of(Case::SeveralColumnsFit, what).naming(Name::Table, table));
    }
    Ok(())
}

fn column_named(name: &ColumnName) -> Option<&str> {
    match name {
        ColumnName::Column(name) => Some(name),
        ColumnName::Template(_) => None,
    }
}

/// How many presets are named of those that nearly fit.
const NEAREST: usize = 3;

/// What is found under the preset that fits; presets that map alike count as one.
fn the_one_that_fits(
    table: &TableName,
    fit: impl Fn(&'static Preset) -> Result<Found, Vec<String>>,
) -> Result<Found, Failure> {
    let (mut fitting, mut lacking) = (Vec::<Found>::new(), Vec::<(usize, String)>::new());
    for preset in PRESETS {
        match fit(preset) {
            Ok(found) if fitting.iter().any(|known| known.maps_like(&found)) => {}
            Ok(found) => fitting.push(found),
            Err(missing) => {
                let what = format!("{} lacks {}", preset.name, missing.join(", "));
                lacking.push((missing.len(), what));
            }
        }
    }
    let names: Vec<&str> = fitting.iter().map(|found| found.preset.name).collect();
    match (fitting.pop(), fitting.is_empty()) {
        (Some(found), true) => Ok(found),
        (Some(_), false) => Err(Failure::of(
            Case::SeveralPresetsFit,
            format!("{table} has the columns of the presets {}", names.join(" and ")),
        )
        .naming(Name::Presets, names.join(" or "))),
        (None, _) => {
            lacking.sort_by_key(|(missing, _)| *missing);
            let nearest: Vec<&str> =
                lacking.iter().take(NEAREST).map(|(_, what)| what.as_str()).collect();
            let what = format!("no preset fits {table}; the nearest: {}", nearest.join("; "));
            Err(Failure::new(Code::PresetUnclear, what))
        }
    }
}

/// What is found under one preset, or what is required and missing.
fn fit(
    table: &OutboxTable,
    preset: &'static Preset,
    columns: &[&[u8]],
) -> Result<Found, Vec<String>> {
    let position = |name: &str| columns.iter().position(|column| *column == name.as_bytes());
    let source = |name: &ColumnName| match name {
        ColumnName::Column(name) => position(name).map(Source::Column),
        ColumnName::Template(template) => {
            let resolved = ResolvedTemplate::new(template, position).ok()?;
            Some(Source::Template(resolved, template.to_string()))
        }
    };
    let mut missing: Vec<String> = preset
        .signature
        .iter()
        .filter(|name| position(name).is_none())
        .map(|name| (*name).to_owned())
        .collect();
    let topic = table.topic_template(preset).map_err(|error| vec![error.to_string()])?;
    let mut roles = Vec::new();
    for role in Role::ALL.into_iter().filter(|role| is_used(table, *role)) {
        let found = match table.columns.get(role) {
            Some(names) => names.iter().find_map(source),
            None => {
                let names = preset.alternatives(role).iter();
                names.filter_map(|name| ColumnName::parse(name).ok()).find_map(|name| source(&name))
            }
        };
        match found {
            Some(source) => roles.push((role, source)),
            // A column that the configuration names is required, whatever its role.
            None if is_required(table, preset, &topic, role)
                || table.columns.get(role).is_some_and(|names| !names.is_empty()) =>
            {
                missing.push(role.as_str().to_owned());
            }
            None => {}
        }
    }
    // One trace context is enough: the column that holds it as it is.
    if roles.iter().any(|(role, _)| *role == Role::TraceParent) {
        roles.retain(|(role, _)| *role != Role::Tracing);
    }
    let topic_by_columns = match topic_by_columns(table, &topic, &roles, position) {
        Ok(found) => found,
        Err(placeholder) => {
            missing.push(format!("{placeholder} of the topic"));
            None
        }
    };
    if missing.is_empty() {
        Ok(Found { preset, roles, topic, topic_by_columns })
    } else {
        Err(missing)
    }
}

/// The topic's template over columns, if it names any. The aggregate type is the role's column
/// there, whatever that is called.
fn topic_by_columns(
    table: &OutboxTable,
    topic: &TopicTemplate,
    roles: &[(Role, Source)],
    position: impl Fn(&str) -> Option<usize>,
) -> Result<Option<(ResolvedTemplate, String)>, String> {
    let (None, Some(template)) = (&table.route_regex, topic.of_columns()) else { return Ok(None) };
    let of_type = roles.iter().find_map(|(role, source)| match source {
        Source::Column(position) if *role == Role::AggregateType => Some(*position),
        Source::Column(_) | Source::Template(..) => None,
    });
    let found = |name: &str| match name {
        "aggregate_type" => of_type.or_else(|| position(name)),
        name => position(name),
    };
    ResolvedTemplate::new(&template, found).map(|resolved| Some((resolved, template.to_string())))
}

/// Whether a column of this role would be read.
fn is_used(table: &OutboxTable, role: Role) -> bool {
    match role {
        Role::Timestamp => table.timestamp == Timestamp::Column,
        Role::Tracing => mapping::reads_tracing(table),
        Role::Id
        | Role::AggregateType
        | Role::AggregateId
        | Role::EventType
        | Role::Payload
        | Role::Headers
        | Role::TraceParent
        | Role::TraceState
        | Role::Partition => true,
    }
}

fn is_required(table: &OutboxTable, preset: &Preset, topic: &TopicTemplate, role: Role) -> bool {
    match role {
        // A time's column is asked for only where it is used.
        Role::Id | Role::AggregateId | Role::Payload | Role::Timestamp => true,
        Role::AggregateType => table.route_regex.is_some() || topic.depends_on_type(),
        Role::EventType => {
            table.format == Format::Plain && !preset.alternatives(Role::EventType).is_empty()
        }
        Role::Headers | Role::TraceParent | Role::TraceState | Role::Partition | Role::Tracing => {
            false
        }
    }
}

/// Whether every event of a table needs a column of this role, whatever its columns are called,
/// and whichever preset fits.
pub fn is_role_required(table: &OutboxTable, role: Role) -> bool {
    let with = |preset: &Preset| {
        let topic: Result<TopicTemplate, IllegalTemplate> = table.topic_template(preset);
        topic.ok().map(|topic| is_used(table, role) && is_required(table, preset, &topic, role))
    };
    match table.preset {
        Some(preset) => with(preset) == Some(true),
        None => with(&DEFAULT) == Some(true) && PRESETS.iter().all(|it| with(it) != Some(false)),
    }
}
