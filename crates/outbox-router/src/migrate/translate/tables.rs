//! `table.include.list` as `outbox.table`, once for each table.

use super::{
    super::{draft::Text, properties::Property, report::PropertyFinding},
    context::Context,
};

/// What makes a name a regular expression. A dot stands for itself here, as everybody means it.
const REGEX: [char; 11] = ['*', '+', '?', '[', ']', '(', ')', '{', '}', '|', '^'];

pub(super) fn translate(context: &mut Context<'_>) {
    let mut list = context.carry("table.include.list");
    if let Some(old) = context.carry("table.whitelist") {
        list = list.or(Some(old));
    }
    context.draft.tables = if context.given.tables.is_empty() {
        match &list {
            Some(list) => of_list(context, list),
            None => {
                let text = "every table of the database reaches EventRouter; the router needs to \
                            know which is the outbox";
                let hint = "--table SCHEMA.TABLE";
                let finding = PropertyFinding::absent("table.include.list", text);
                context.report.unsupported(finding.hint(hint));
                vec![Text::literal("public.outbox")]
            }
        }
    } else {
        context.given.tables.iter().map(|table| Text::literal(table)).collect()
    };
}

fn of_list(context: &mut Context<'_>, list: &Property) -> Vec<Text> {
    let mut tables = Vec::new();
    for item in list.value.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let one = Property { value: item.to_owned(), ..list.clone() };
        let text = context.text(&one, "OUTBOX_TABLE");
        let Some(literal) = text.as_literal() else {
            tables.push(text);
            continue;
        };
        let Some(table) = table(literal) else {
            let why =
                format!("{item} is a regular expression; the router needs the names of tables");
            let hint = "--table SCHEMA.TABLE, once for each table";
            context.report.unsupported(PropertyFinding::of(list, why).hint(hint));
            continue;
        };
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

/// `schema.table` as `outbox.table` takes it; `None` for a pattern.
fn table(item: &str) -> Option<String> {
    // Java's escape for a literal dot; in a .properties file it may have been written twice.
    let plain = item.replace("\\\\.", ".").replace("\\.", ".");
    let plain = plain.trim_end_matches('$');
    if plain.contains(REGEX) || plain.contains('\\') {
        return None;
    }
    let (schema, name) = plain.split_once('.')?;
    let is_plain = |part: &str| {
        let first = part.chars().next().is_some_and(|c| c.is_ascii_lowercase() || c == '_');
        first && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let quoted = |part: &str| {
        if is_plain(part) { part.to_owned() } else { format!("\"{}\"", part.replace('"', "\"\"")) }
    };
    (!schema.is_empty() && !name.is_empty()).then(|| format!("{}.{}", quoted(schema), quoted(name)))
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn names_are_told_from_patterns() {
        for (item, expected) in [
            ("public.outbox", Some("public.outbox")),
            ("public\\.outbox", Some("public.outbox")),
            ("public.Outbox", Some("public.\"Outbox\"")),
            ("a-b.outbox", Some("\"a-b\".outbox")),
            (".*\\.outbox", None),
            ("public.outbox.*", None),
            ("outbox", None),
        ] {
            assert_eq!(table(item).as_deref(), expected, "{item}");
        }
    }
}
