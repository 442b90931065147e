//! What `tap` prints of an answer's lines.

use std::{
    io::{self, Write},
    num::NonZeroU64,
};

use super::args::TapContent;
use crate::{
    cli::{form::Form, shown_bytes},
    tap::{EventLine, Line, Part},
};

/// How many bytes of a key or a value are shown to people.
const SHOWN_MAX: usize = 200;

/// See the module's header. Columns grow with what they have shown, so that lines stay aligned.
pub(super) struct Printer {
    form: Form,
    content: TapContent,
    left: Option<u64>,
    place: usize,
    sizes: usize,
    types: usize,
}

impl Printer {
    pub(super) fn new(form: Form, content: TapContent, limit: Option<NonZeroU64>) -> Self {
        let (place, sizes, types) = (0, 0, 0);
        Self { form, content, left: limit.map(NonZeroU64::get), place, sizes, types }
    }

    /// Whether as many events were printed as were asked for.
    pub(super) fn is_enough(&self) -> bool {
        self.left == Some(0)
    }

    /// Prints a line.
    ///
    /// # Errors
    /// Fails when `out` cannot be written.
    pub(super) fn line(&mut self, line: &Line, out: &mut (dyn Write + Send)) -> io::Result<()> {
        match line {
            Line::Event(event) => {
                self.left = self.left.map(|left| left.saturating_sub(1));
                match self.form {
                    Form::Text => self.event(event, out),
                    Form::Json => write!(out, "{}", line.written()),
                }
            }
            Line::NotShown { events } => match self.form {
                Form::Text => not_shown(*events, out),
                Form::Json => write!(out, "{}", line.written()),
            },
            Line::Tap { .. } => Ok(()),
        }
    }

    fn event(&mut self, event: &EventLine, out: &mut (dyn Write + Send)) -> io::Result<()> {
        let time = event.committed_at.as_deref().or(event.written_at.as_deref());
        let time = time.and_then(|at| at.split(['T', 'Z']).nth(1));
        let outcome = match &event.code {
            Some(code) => format!("{} {code}", event.outcome.as_str()),
            None => event.outcome.as_str().to_owned(),
        };
        let place = place(event);
        let sizes = sizes(event);
        let types = types(event);
        self.place = self.place.max(place.chars().count());
        self.sizes = self.sizes.max(sizes.chars().count());
        self.types = self.types.max(types.chars().count());
        let (wide, sized, typed) = (self.place, self.sizes, self.types);
        write!(
            out,
            "{:<12}  {outcome:<9}  {place:<wide$}  {sizes:<sized$}  {types:<typed$}  {}  {}",
            time.unwrap_or("-"),
            row(event),
            plain(&event.table),
        )?;
        if self.content == TapContent::Show
            && let Some(content) = &event.content
        {
            let key = content.key.as_ref().map_or_else(|| "null".to_owned(), part);
            let value = content.value.as_ref().map_or_else(|| "null".to_owned(), part);
            write!(out, "  key={key}  {value}")?;
        }
        writeln!(out)
    }
}

/// What the row is found again by.
fn row(event: &EventLine) -> String {
    match (&event.commit_lsn, event.index, &event.id) {
        (Some(lsn), Some(index), _) => format!("{lsn}#{index}"),
        (_, _, Some(id)) => {
            let values: Vec<String> = id.iter().map(|value| plain(value)).collect();
            values.join(",")
        }
        (_, _, None) => "-".to_owned(),
    }
}

/// Where the event went, or would have gone.
fn place(event: &EventLine) -> String {
    let topic = event.topic.as_deref().map_or_else(|| "-".to_owned(), plain);
    match event.partition {
        Some(partition) => format!("{topic}-{partition}"),
        None => topic,
    }
}

fn sizes(event: &EventLine) -> String {
    let bytes = |bytes: Option<usize>| bytes.map_or_else(|| "?".to_owned(), |b| format!("{b} B"));
    let value = if event.tombstone { "tombstone".to_owned() } else { bytes(event.value_bytes) };
    let plural = if event.headers == 1 { "" } else { "s" };
    format!("key {}, value {value}, {} header{plural}", bytes(event.key_bytes), event.headers)
}

fn types(event: &EventLine) -> String {
    let types = [&event.aggregate_type, &event.event_type];
    let types: Vec<String> = types.into_iter().flatten().map(|text| plain(text)).collect();
    if types.is_empty() { "-".to_owned() } else { types.join(" ") }
}

fn part(part: &Part) -> String {
    match part {
        Part::Text(text) => plain(text),
        Part::CutText { text, of_bytes } => format!("{} ({of_bytes} B)", plain(text)),
        Part::Hex { hex, of_bytes } => format!("\\x{} ({of_bytes} B)", plain(hex)),
    }
}

/// Without control characters, which would be commands to a terminal.
fn plain(text: &str) -> String {
    shown_bytes::text(text.as_bytes(), SHOWN_MAX)
}

fn not_shown(events: u64, out: &mut (dyn Write + Send)) -> io::Result<()> {
    let (were, they) = if events == 1 { (" was", "it was") } else { ("s were", "they were") };
    writeln!(
        out,
        "    {} event{were} not shown: {they} routed faster than this listener reads",
        grouped(events)
    )
}

/// `1,203`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> EventLine {
        let line = r#"{"outcome":"routed","topic":"outbox.event.order","partition":3,
            "key_bytes":7,"value_bytes":15,"tombstone":false,"headers":2,"table":"public.outbox",
            "aggregate_type":"order","event_type":"Placed","commit_lsn":"0/16B3748","index":0,
            "committed_at":"2026-01-31T10:00:01.204Z"}"#;
        serde_json::from_str(line).unwrap()
    }

    fn printed(printer: &mut Printer, line: &Line) -> String {
        let mut out = Vec::new();
        printer.line(line, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_are_aligned_and_show_no_control_character() {
        let mut printer = Printer::new(Form::Text, TapContent::Hide, None);
        let first = printed(&mut printer, &Line::Event(Box::new(event())));
        assert_eq!(
            first,
            "10:00:01.204  routed     outbox.event.order-3  key 7 B, value 15 B, 2 headers  \
             order Placed  0/16B3748#0  public.outbox\n"
        );
        let other = EventLine {
            topic: Some("t".to_owned()),
            event_type: Some("\x1b".to_owned()),
            partition: None,
            ..event()
        };
        let second = printed(&mut printer, &Line::Event(Box::new(other)));
        assert_eq!(second.find("0/16B3748"), first.find("0/16B3748"), "{first}{second}");
        assert!(second.contains("order \\u{1b} "), "{second}");
    }

    #[test]
    fn a_row_that_was_polled_has_its_primary_key() {
        let mut printer = Printer::new(Form::Text, TapContent::Hide, None);
        let id = Some(vec!["7".to_owned(), "a\x1b".to_owned()]);
        let written_at = Some("2026-01-31T11:00:01.204Z".to_owned());
        let line = EventLine {
            commit_lsn: None,
            index: None,
            committed_at: None,
            id,
            written_at,
            ..event()
        };
        let text = printed(&mut printer, &Line::Event(Box::new(line)));
        assert!(text.starts_with("11:00:01.204  "), "{text}");
        assert!(text.ends_with("order Placed  7,a\\u{1b}  public.outbox\n"), "{text}");
    }

    #[test]
    fn a_limit_counts_events_alone() {
        let mut printer = Printer::new(Form::Json, TapContent::Hide, NonZeroU64::new(1));
        let missed = printed(&mut printer, &Line::NotShown { events: 3 });
        assert_eq!(missed, "{\"kind\":\"not_shown\",\"events\":3}\n");
        assert!(!printer.is_enough());
        printed(&mut printer, &Line::Event(Box::new(event())));
        assert!(printer.is_enough());
    }

    #[test]
    fn what_was_not_shown_is_said() {
        let mut printer = Printer::new(Form::Text, TapContent::Hide, None);
        let told = printed(&mut printer, &Line::NotShown { events: 1_203 });
        assert!(told.contains("1,203 events were not shown"), "{told}");
        let told = printed(&mut printer, &Line::NotShown { events: 1 });
        assert!(told.contains("1 event was not shown: it was"), "{told}");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000_000), "1,000,000");
    }
}
