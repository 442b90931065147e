//! `dead-letters list`: what is held, and where a person has to decide.

use serde_json::{Value, json};

use super::{
    args::{Lines, ListArgs},
    keys::{KeyLine, Leaving},
    selection::Selection,
    table::Table,
    wording::columns,
};
use crate::{
    cli::{Exit, Form, TaskError, Terminal, open_events::OpenEvents},
    config::Config,
    wording::count,
};

/// Lists. Exit code 1 where a dead letter waits for a decision.
pub(super) async fn list(
    args: &ListArgs,
    config: &Config,
    table: &Table<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let since = match table.since(args.select.since.as_ref()).await? {
        Ok(since) => since,
        Err(message) => {
            writeln!(terminal.err, "error: {message}")?;
            return Ok(Exit::Usage);
        }
    };
    let selection = Selection::of(&args.select, since);
    if args.lines == Lines::Event {
        return events(args.form, &selection, table, terminal).await;
    }
    let keys = table.keys(&selection).await?;
    let others = OpenEvents::others(table.client, config).await?;
    match args.form {
        Form::Text => {
            for line in text(&keys, &selection, &others) {
                writeln!(terminal.out, "{line}")?;
            }
        }
        Form::Json => writeln!(terminal.out, "{:#}", document(&keys, &others, table))?,
    }
    Ok(exit(Totals::of(&keys).undecided))
}

/// Dead letters about which nobody has decided are findings.
const fn exit(undecided: i64) -> Exit {
    if undecided > 0 { Exit::Failure } else { Exit::Done }
}

/// That there is nothing to list.
const fn nothing(selection: &Selection) -> &'static str {
    if selection.is_all() { "nothing is held" } else { "nothing that is held is selected" }
}

fn text(keys: &[KeyLine], selection: &Selection, others: &[OpenEvents]) -> Vec<String> {
    let mut text = if keys.is_empty() { vec![nothing(selection).to_owned()] } else { table(keys) };
    if !others.is_empty() {
        text.push(String::new());
        text.extend(others.iter().map(OpenEvents::of_other));
    }
    text
}

fn table(keys: &[KeyLine]) -> Vec<String> {
    let head = ["key", "dead letters", "behind", "oldest", "code", "id", "to do"];
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(keys.iter().map(|line| {
        let first = &line.first;
        [
            first.key(),
            (line.undecided + line.decided).to_string(),
            line.behind.to_string(),
            line.oldest.clone(),
            first.code().to_owned(),
            first.id(),
            hint(line),
        ]
    }));
    let mut text = columns(&lines);
    text.extend([String::new(), Totals::of(keys).text()]);
    text.extend(not_carried_out(&leaving(keys)));
    text
}

/// What may leave, of all keys.
fn leaving(keys: &[KeyLine]) -> Leaving {
    let leaving = || keys.iter().map(|line| &line.leaving);
    Leaving {
        events: leaving().map(|leaving| leaving.events).sum(),
        since: leaving().filter_map(|leaving| leaving.since.clone()).min(),
    }
}

/// A router that runs leaves nothing behind for long; otherwise nobody else says so.
fn not_carried_out(Leaving { events, since }: &Leaving) -> Option<String> {
    let since = since.as_ref().map(|since| format!(", since {since}")).unwrap_or_default();
    (*events > 0).then(|| {
        format!(
            "decided, and not carried out yet: {}{since}; start the router, or see why it waits: \
             outbox-router status",
            count(*events, "event")
        )
    })
}

/// What to type.
fn hint(line: &KeyLine) -> String {
    if line.undecided > 0 {
        return line.first.command("show");
    }
    match line.first.state() {
        "dropping" => "nothing: the router drops it when it runs".to_owned(),
        _ => "nothing: the router delivers it when it runs".to_owned(),
    }
}

/// Sums over keys.
#[derive(Default)]
struct Totals {
    keys: usize,
    undecided: i64,
    decided: i64,
    behind: i64,
}

impl Totals {
    fn of(keys: &[KeyLine]) -> Self {
        let sum = |of: fn(&KeyLine) -> i64| keys.iter().map(of).sum();
        Self {
            keys: keys.len(),
            undecided: sum(|line| line.undecided),
            decided: sum(|line| line.decided),
            behind: sum(|line| line.behind),
        }
    }

    fn text(&self) -> String {
        let letters = count(self.undecided + self.decided, "dead letter");
        let decided = match self.decided {
            0 => String::new(),
            decided => format!(" ({decided} decided)"),
        };
        let keys = count(i64::try_from(self.keys).unwrap_or(i64::MAX), "key");
        format!("{letters}{decided} of {keys}, {} held behind", count(self.behind, "event"))
    }
}

fn document(keys: &[KeyLine], others: &[OpenEvents], table: &Table<'_>) -> Value {
    let (totals, leaving) = (Totals::of(keys), leaving(keys));
    let others: Vec<Value> = others.iter().map(OpenEvents::other_json).collect();
    let lines: Vec<Value> = keys.iter().map(key_json).collect();
    json!({
        "name": table.pipeline,
        "slot": table.slot,
        "keys": lines,
        "keys_held": totals.keys,
        "dead_letters": totals.undecided + totals.decided,
        "undecided": totals.undecided,
        "behind": totals.behind,
        "not_carried_out": { "events": leaving.events, "since": leaving.since },
        "other_pipelines": others,
    })
}

fn key_json(line: &KeyLine) -> Value {
    let mut of_first = line.first.json();
    let mut first = |name: &str| of_first.remove(name).unwrap_or_default();
    json!({
        "key": first("key"),
        "dead_letters": line.undecided + line.decided,
        "undecided": line.undecided,
        "behind": line.behind,
        "oldest": line.oldest,
        "code": first("code"),
        "id": first("id"),
        "at": first("at"),
        "hint": hint(line),
    })
}

/// All pages show the table at one time. Each continues in the primary key, which has their order;
/// a server without statistics would sort the whole table for each of them.
const BEGIN_PAGES: &str = "\
    begin isolation level repeatable read read only; set local enable_sort = off; \
    set local enable_incremental_sort = off; set local enable_bitmapscan = off";

/// Lists every event, page by page, since there may be a million.
async fn events(
    form: Form,
    selection: &Selection,
    table: &Table<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    table.client.batch_execute(BEGIN_PAGES).await?;
    let (mut after, mut letters, mut behind, mut undecided) = (None, 0_i64, 0_i64, 0_i64);
    loop {
        let page = table.events(selection, after).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.place);
        for event in &page {
            *(if event.code.is_some() { &mut letters } else { &mut behind }) += 1;
            undecided += i64::from(event.is_undecided());
        }
        match form {
            Form::Json => {
                for event in &page {
                    writeln!(terminal.out, "{}", Value::from(event.json()))?;
                }
            }
            Form::Text => {
                let line = |event: &super::table::Event| {
                    let place = event.place.to_string();
                    let (committed_at, table) = (event.committed_at.clone(), event.table.clone());
                    let (code, state) = (event.code().to_owned(), event.state().to_owned());
                    [place, committed_at, state, code, event.key(), event.id(), table]
                };
                let lines: Vec<_> = page.iter().map(line).collect();
                for line in columns(&lines) {
                    writeln!(terminal.out, "{line}")?;
                }
            }
        }
    }
    table.client.batch_execute("commit").await?;
    match (form, after) {
        (Form::Json, _) => {}
        (Form::Text, None) => writeln!(terminal.out, "{}", nothing(selection))?,
        (Form::Text, Some(_)) => {
            let (letters, behind) = (count(letters, "dead letter"), count(behind, "event"));
            writeln!(terminal.out, "\n{letters}, {behind} held behind")?;
        }
    }
    Ok(exit(undecided))
}

#[cfg(test)]
mod tests {
    use super::{super::wording::tests::event, *};

    fn line(undecided: i64, decided: i64, state: &str) -> KeyLine {
        let mut first = event(Some("7"), Some("R003"));
        first.state = state.to_owned();
        let oldest = first.committed_at.clone();
        let leaving = Leaving::default();
        KeyLine { first, undecided, decided, behind: 2, oldest, leaving }
    }

    #[test]
    fn each_key_has_a_line_that_says_what_to_type() {
        let lines = [line(1, 0, "held"), line(0, 1, "requeued"), line(0, 1, "dropping")];
        let text = text(&lines, &Selection::default(), &[]);
        let show = "order-7  1             2       2026-01-01T00:00:00Z  R003  7   \
                    outbox-router dead-letters show --id 7";
        assert_eq!(text[1], show);
        assert!(text[2].ends_with("  nothing: the router delivers it when it runs"), "{}", text[2]);
        assert!(text[3].ends_with("  nothing: the router drops it when it runs"), "{}", text[3]);
        assert_eq!(text[5], "3 dead letters (2 decided) of 3 keys, 6 events held behind");
    }

    #[test]
    fn a_key_for_programs_has_the_documented_members() {
        let mut names = Vec::new();
        if let Value::Object(members) = key_json(&line(1, 0, "held")) {
            names.extend(members.into_iter().map(|(name, _)| name));
        }
        names.sort();
        let expected =
            ["at", "behind", "code", "dead_letters", "hint", "id", "key", "oldest", "undecided"];
        assert_eq!(names, expected);
    }
}
