//! `table.include.list` as `outbox.table`, once for each table that reaches EventRouter.

use super::{
    super::{draft::Text, properties::Property, report::PropertyFinding},
    context::Context,
    predicate::TopicPattern,
    table_name::TableName,
};

/// What becomes of records that do not reach EventRouter.
const END: &str = "end with the connector, because the router reads an outbox alone";

pub(super) fn translate(context: &mut Context<'_>, topics: Option<&TopicPattern>) {
    let mut list = context.carry("table.include.list");
    if let Some(old) = context.carry("table.whitelist") {
        list = list.or(Some(old));
    }
    let items = list.as_ref().map(|list| items(&list.value));
    if let Some(topics) = topics {
        leaves_out(context, topics, items.as_deref());
    }
    context.draft.tables = if context.given.tables.is_empty() {
        match (&list, &items) {
            (Some(list), Some(items)) => of_list(context, list, items, topics),
            _ => vec![without_list(context, topics)],
        }
    } else {
        context.given.tables.iter().map(|table| Text::literal(table)).collect()
    };
}

/// An item of the list.
enum Item<'l> {
    Table(TableName),
    /// A placeholder.
    Later(&'l str),
    Pattern(&'l str),
}

fn items(list: &str) -> Vec<Item<'_>> {
    let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
    let item = |item| match TableName::parse(item) {
        _ if item.contains("${") => Item::Later(item),
        Some(table) => Item::Table(table),
        None => Item::Pattern(item),
    };
    items.map(item).collect()
}

fn without_list(context: &mut Context<'_>, topics: Option<&TopicPattern>) -> Text {
    let (who, table) = match topics {
        Some(topics) => {
            let who =
                "the list is left out, and the predicate chooses those that reach EventRouter";
            (who, topics.table())
        }
        None => ("every table of the database reaches EventRouter", None),
    };
    let text = format!("{who}; the router needs to know which is the outbox");
    let hint = format!("--table {}", named(table.as_ref()));
    context.report.unsupported(PropertyFinding::absent("table.include.list", text).hint(hint));
    Text::literal(&table.map_or_else(|| "public.outbox".to_owned(), |table| table.toml()))
}

fn of_list(
    context: &mut Context<'_>,
    list: &Property,
    items: &[Item<'_>],
    topics: Option<&TopicPattern>,
) -> Vec<Text> {
    let mut tables = Vec::new();
    let is_outbox = |table: &TableName| {
        topics.and_then(|topics| topics.selects(table)).is_none_or(|is_selected| is_selected)
    };
    let has_outbox =
        items.iter().any(|item| matches!(item, Item::Table(table) if is_outbox(table)));
    for item in items {
        let table = match item {
            Item::Table(table) if is_outbox(table) || !has_outbox => table,
            Item::Table(_) => continue,
            Item::Later(item) => {
                let one = Property { value: (*item).to_owned(), ..list.clone() };
                tables.push(context.text(&one, "OUTBOX_TABLE"));
                continue;
            }
            Item::Pattern(item) => {
                let why =
                    format!("{item} is a regular expression; the router needs the names of tables");
                let hint = "--table SCHEMA.TABLE, once for each table";
                context.report.unsupported(PropertyFinding::of(list, why).hint(hint));
                continue;
            }
        };
        let table = table.toml();
        if table.contains('"') {
            let how = format!("Debezium compares names without case; the router reads {table}");
            context.report.different(PropertyFinding::of(list, how));
        }
        tables.push(Text::literal(&table));
    }
    if tables.len() > 1 {
        let how = "one [[outbox]] for each table, all with the options of the one EventRouter";
        context.report.different(PropertyFinding::of(list, how));
    }
    if tables.is_empty() {
        tables.push(Text::literal("public.outbox"));
    }
    tables
}

/// Says which records end with the connector, because the predicate keeps them from EventRouter and
/// the router reads an outbox alone. `--table` says that a person knows.
fn leaves_out(context: &mut Context<'_>, topics: &TopicPattern, items: Option<&[Item<'_>]>) {
    let is_told = !context.given.tables.is_empty();
    let outcome = match items {
        Some(items) => of_items(context, topics, items),
        None => Some((
            format!(
                "the predicate keeps every other table from EventRouter: the records that Debezium \
                 writes to PREFIX.schema.table {END}"
            ),
            topics.table(),
        )),
    };
    let Some((text, table)) = outcome else { return };
    if is_told {
        context.report.different(topics.finding(text));
        return;
    }
    let hint = format!(
        "if somebody reads them, another connector with a slot of its own keeps them; then \
         --table {}",
        named(table.as_ref())
    );
    context.report.unsupported(topics.finding(text).hint(hint));
}

/// What the predicate leaves out of the list, and the outbox if it is known.
fn of_items(
    context: &Context<'_>,
    topics: &TopicPattern,
    items: &[Item<'_>],
) -> Option<(String, Option<TableName>)> {
    let (mut out, mut chosen, mut are_known) = (Vec::new(), Vec::new(), true);
    for item in items {
        match item {
            Item::Table(table) if context.given.tables.contains(&table.toml()) => {}
            Item::Table(table) => match topics.selects(table) {
                Some(true) => chosen.push(table),
                Some(false) => out.push(table),
                None => are_known &= items.len() == 1,
            },
            Item::Later(_) => are_known &= items.len() == 1,
            Item::Pattern(_) => are_known = false,
        }
    }
    let topics = topics.topics(&out);
    if !are_known {
        let text = format!(
            "the predicate may keep tables of table.include.list from EventRouter; which of them \
             is not known here. The records that Debezium writes to PREFIX.schema.table {END}"
        );
        return Some((text, None));
    }
    if out.is_empty() {
        return None;
    }
    if out.len() == items.len() {
        let text = format!(
            "it lets no table of table.include.list reach EventRouter, so Debezium routes no row, \
             and the records in {topics} {END}"
        );
        return Some((text, None));
    }
    let text = format!(
        "the predicate keeps tables from EventRouter: the records that Debezium writes to {topics} \
         {END}"
    );
    Some((text, chosen.first().map(|table| (*table).clone())))
}

/// What follows `--table`.
fn named(table: Option<&TableName>) -> String {
    table.map_or_else(|| "SCHEMA.TABLE".to_owned(), TableName::toml)
}
