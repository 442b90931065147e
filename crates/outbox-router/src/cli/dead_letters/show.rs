//! `dead-letters show`: everything of one event. Its values are shown, since a person asked for
//! them.

use std::io;

use serde_json::{Value, json};

use super::{
    args::{Place, ShowArgs},
    columns::{self, Column},
    selection::Selection,
    table::{Event, Shown, Table, Whole},
};
use crate::{
    cli::{Exit, Form, TaskError, Terminal, shown_bytes},
    wording::count,
};

/// How many bytes of a value are shown to people.
const VALUE_MAX: usize = 2_000;

/// Shows each event that was asked for. Exit code 1 where there is none.
pub(super) async fn show(
    args: &ShowArgs,
    table: &Table<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let by = if args.named.ids.is_empty() { Shown::ByKey } else { Shown::ById };
    let places = table.places(&Selection::named(&args.named), by).await?;
    let (mut shown, mut found) = (false, Vec::new());
    for place in places {
        let Some(whole) = table.whole(place).await? else { continue };
        match args.form {
            Form::Json => writeln!(terminal.out, "{}", document(&whole))?,
            Form::Text => {
                if shown {
                    writeln!(terminal.out)?;
                }
                text(&whole, terminal.out)?;
            }
        }
        shown = true;
        found.push(whole.event);
    }
    if shown {
        return missing(args, &found, terminal);
    }
    let what = match by {
        Shown::ById => "no held event of this pipeline has this id",
        Shown::ByKey => "no dead letter of this pipeline has this key",
    };
    writeln!(terminal.err, "error: {what}\n  hint: outbox-router dead-letters list")?;
    Ok(Exit::Failure)
}

/// Says which ids and keys none of the events has that were found.
fn missing(
    args: &ShowArgs,
    found: &[Event],
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let has_key = |event: &Event, key: &[u8]| event.key.as_deref() == Some(key);
    let named = &args.named;
    let ids = named.ids.iter().filter(|id| !found.iter().any(|event| event.is_named(id)));
    let typed = named.keys.iter().map(String::as_bytes);
    let keys = typed.chain(named.hex_keys.iter().map(|key| key.0.as_slice()));
    let keys = keys.filter(|key| !found.iter().any(|event| has_key(event, key)));
    let ids = ids.map(|id| ("no held event of this pipeline has this id", id.text.as_bytes()));
    let keys = keys.map(|key| ("no dead letter of this pipeline has this key", key));
    let mut exit = Exit::Done;
    for (what, name) in ids.chain(keys) {
        writeln!(terminal.err, "error: {what}: {}", shown_bytes::text(name, VALUE_MAX))?;
        exit = Exit::Failure;
    }
    Ok(exit)
}

fn text(whole: &Whole, out: &mut (dyn io::Write + Send)) -> io::Result<()> {
    let Whole { event, messages, behind, decisions, .. } = whole;
    writeln!(out, "event      {}, at {}", event.id(), event.place)?;
    writeln!(out, "table      {}", event.table)?;
    let bytes = event.key.as_deref().map(|key| format!(" ({})", bytes_text(key.len())));
    writeln!(out, "key        {}{}", event.key(), bytes.unwrap_or_default())?;
    writeln!(out, "committed  {}", event.committed_at)?;
    writeln!(out, "state      {}{}, {}", event.state(), refused_again(whole), times(whole))?;
    if let Some(code) = &event.code {
        let error = whole.error.as_deref().unwrap_or_default();
        writeln!(out, "why        {code}: {}", shown_bytes::text(error.as_bytes(), VALUE_MAX))?;
    }
    writeln!(out, "behind     {} of its key after it", count(*behind, "open event"))?;
    match columns::read(messages) {
        Err(failure) => writeln!(out, "columns    cannot be read: {failure:#}")?,
        Ok(None) => {
            writeln!(out, "columns    not kept: the row is larger than limits.row_bytes")?;
        }
        Ok(Some(columns)) => columns_text(&columns, out)?,
    }
    for (index, decided) in decisions.iter().enumerate() {
        let label = if index == 0 { "decided    " } else { "           " };
        let by = shown_bytes::text(decided.by.as_bytes(), VALUE_MAX);
        write!(out, "{label}{} {} by {by}", decided.at, decided.action)?;
        let reason = decided.reason.as_ref().map(|reason| reason.as_bytes());
        let reason = reason.map(|reason| format!(": {}", shown_bytes::text(reason, VALUE_MAX)));
        writeln!(out, "{}", reason.unwrap_or_default())?;
    }
    for (index, line) in hint(whole).iter().enumerate() {
        let label = if index == 0 { "to do      " } else { "           " };
        writeln!(out, "{label}{line}")?;
    }
    Ok(())
}

/// That the router has tried what was decided, and could not.
fn refused_again(whole: &Whole) -> &'static str {
    let was_requeued = whole.decisions.iter().any(|decided| decided.action == "requeue");
    if whole.event.is_undecided() && was_requeued {
        ", refused again after it was requeued"
    } else {
        ""
    }
}

fn bytes_text(bytes: usize) -> String {
    count(i64::try_from(bytes).unwrap_or(i64::MAX), "byte")
}

fn times(whole: &Whole) -> String {
    let mut times = format!("held since {}", whole.held_at);
    for (what, at) in [("decided", &whole.decided_at), ("closed", &whole.closed_at)] {
        if let Some(at) = at {
            times += &format!(", {what} {at}");
        }
    }
    times
}

fn columns_text(columns: &[Column], out: &mut (dyn io::Write + Send)) -> io::Result<()> {
    let width = columns.iter().map(|column| column.name.chars().count()).max().unwrap_or_default();
    for (index, Column { name, value }) in columns.iter().enumerate() {
        let label = if index == 0 { "columns    " } else { "           " };
        let name = shown_bytes::text(name.as_bytes(), VALUE_MAX);
        match value {
            None => writeln!(out, "{label}{name:width$}  null")?,
            Some(value) => {
                let cut = match value.len() {
                    bytes if bytes > VALUE_MAX => format!(" ({bytes} bytes; --json shows all)"),
                    _ => String::new(),
                };
                let value = shown_bytes::text(value, VALUE_MAX);
                writeln!(out, "{label}{name:width$}  {value}{cut}")?;
            }
        }
    }
    Ok(())
}

/// What to do, in lines.
fn hint(whole: &Whole) -> Vec<String> {
    let event = &whole.event;
    let drop = event.decision("drop");
    match (event.state.as_str(), &event.code) {
        ("held", Some(code)) if event.is_cut() => vec![
            format!("raise limits.row_bytes above the row (outbox-router explain {code}), restart"),
            "the router, and insert the row again under a new id: what was kept of it cannot be"
                .to_owned(),
            "requeued. It waits behind this one, and then".to_owned(),
            drop,
        ],
        ("held", Some(code)) => {
            let mut lines = vec![
                format!("remove the cause (outbox-router explain {code}), then"),
                event.decision("requeue"),
                format!("or give it up: {drop}"),
            ];
            lines.extend(whole.waits_for.map(before));
            lines
        }
        ("held", None) => match whole.waits_for {
            Some(place) => vec!["nothing about this event".to_owned(), before(place)],
            None => vec!["nothing: the router delivers it when it runs".to_owned()],
        },
        ("requeued", _) => vec!["nothing: the router delivers it when it runs".to_owned()],
        ("dropping", _) => vec!["nothing: the router drops it when it runs".to_owned()],
        _ => vec!["nothing".to_owned()],
    }
}

fn before(place: Place) -> String {
    format!("a dead letter of its key comes first: outbox-router dead-letters show --id {place}")
}

fn document(whole: &Whole) -> Value {
    let mut members = whole.event.json();
    let (columns, columns_error) = match columns::read(&whole.messages) {
        Ok(columns) => (columns, None),
        Err(failure) => (None, Some(format!("{failure:#}"))),
    };
    let columns = columns.map(|columns| {
        let column = |column: &Column| {
            let value = shown_bytes::json(column.value.as_deref());
            json!({ "name": column.name, "value": value })
        };
        columns.iter().map(column).collect::<Vec<_>>()
    });
    let decided = |decided: &super::table::Decided| {
        json!({
            "at": decided.at,
            "action": decided.action,
            "by": decided.by,
            "reason": decided.reason,
        })
    };
    let more = [
        ("error", json!(whole.error)),
        ("held_at", json!(whole.held_at)),
        ("decided_at", json!(whole.decided_at)),
        ("closed_at", json!(whole.closed_at)),
        ("behind", json!(whole.behind)),
        ("waits_for", json!(whole.waits_for.map(|place| place.to_string()))),
        ("columns", json!(columns)),
        ("columns_error", json!(columns_error)),
        ("decisions", whole.decisions.iter().map(decided).collect()),
        ("hint", json!(hint(whole).join(" "))),
    ];
    members.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
    Value::from(members)
}

#[cfg(test)]
mod tests {
    use super::{super::wording::tests::event, *};

    fn whole(code: Option<&str>, state: &str) -> Whole {
        let mut event = event(Some("7"), code);
        event.state = state.to_owned();
        Whole {
            event,
            error: code.map(|_| "no such topic".to_owned()),
            held_at: "2026-01-01T00:00:01Z".to_owned(),
            decided_at: None,
            closed_at: None,
            messages: b"\0\0\0".to_vec(),
            behind: 1,
            waits_for: None,
            decisions: Vec::new(),
        }
    }

    #[test]
    fn what_can_be_done_depends_on_what_became_of_the_event() {
        let first = Place { commit_lsn: relay::Lsn::from_u64(1), index: 0 };
        let undecided = hint(&whole(Some("R003"), "held"));
        let requeue = "outbox-router dead-letters requeue --id 7 \
                       --admin-url postgres://ADMIN@HOST:PORT/DATABASE";
        assert_eq!(undecided[1], requeue);
        let later = hint(&Whole { waits_for: Some(first), ..whole(Some("R003"), "held") });
        assert!(later[3].ends_with("comes first: outbox-router dead-letters show --id 0/1:0"));
        let cut = hint(&whole(Some("R005"), "held")).join(" ");
        assert!(cut.contains("dead-letters drop --id 7") && !cut.contains("dead-letters requeue"));
        let behind = hint(&Whole { waits_for: Some(first), ..whole(None, "held") });
        assert!(behind[1].ends_with("show --id 0/1:0"), "{behind:?}");
        assert_eq!(
            hint(&whole(Some("R003"), "requeued")),
            ["nothing: the router delivers it when it runs"]
        );
        assert_eq!(
            hint(&whole(Some("R003"), "dropping")),
            ["nothing: the router drops it when it runs"]
        );
        assert_eq!(hint(&whole(Some("R003"), "delivered")), ["nothing"]);
    }

    #[test]
    fn damaged_messages_hide_nothing_else() {
        let mut out = Vec::new();
        text(&whole(Some("R003"), "held"), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("columns    cannot be read: P007"), "{text}");
        assert!(text.contains("why        R003: no such topic\n"), "{text}");
        let json = document(&whole(Some("R003"), "held"));
        assert!(json["columns_error"].as_str().unwrap().starts_with("P007"), "{json}");
    }

    #[test]
    fn long_values_are_cut_for_people() {
        let column = |value: Option<Vec<u8>>| Column { name: "a".to_owned(), value };
        let mut out = Vec::new();
        columns_text(&[column(Some(vec![b'x'; 3_000])), column(None)], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("x… (3000 bytes; --json shows all)\n"), "{text}");
        assert!(text.ends_with("           a  null\n"), "{text}");
    }
}
