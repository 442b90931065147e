//! How events are named for people and programs.

use serde_json::{Map, Value, json};

use super::{args::EventRef, table::Event};
use crate::{cli::shown_bytes, codes::ADMIN, held::CUT};

/// How many bytes of a key, an id or an error are shown to people in one line.
const SHOWN_MAX: usize = 40;

impl Event {
    /// Its id where a shell reads it as one plain word, else its place: what may be pasted after
    /// `--id`.
    pub(super) fn named(&self) -> String {
        let is_plain = |id: &&String| {
            let first = id.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+,".contains(c);
            first && id.len() <= 2 * SHOWN_MAX && id.chars().all(is_plain)
        };
        self.event_id.as_ref().filter(is_plain).cloned().unwrap_or_else(|| self.place.to_string())
    }

    /// Whether a person has named it so, by its id or its place.
    pub(super) fn is_named(&self, by: &EventRef) -> bool {
        self.event_id.as_ref() == Some(&by.text) || by.place == Some(self.place)
    }

    /// What to type after `outbox-router dead-letters`.
    pub(super) fn command(&self, verb: &str) -> String {
        format!("outbox-router dead-letters {verb} --id {}", self.named())
    }

    /// The same for a decision, which the router's role may not write.
    pub(super) fn decision(&self, verb: &str) -> String {
        format!("{} {ADMIN}", self.command(verb))
    }

    /// Whether a person has to decide about it.
    pub(super) fn is_undecided(&self) -> bool {
        self.code.is_some() && self.state == "held"
    }

    /// Whether the row did not arrive whole, so that there is nothing that could be delivered.
    pub(super) fn is_cut(&self) -> bool {
        self.code.as_deref() == Some(CUT)
    }

    /// What it is, in one word or two.
    pub(super) fn state(&self) -> &str {
        match (self.state.as_str(), &self.code) {
            ("held", Some(_)) => "undecided",
            ("held", None) => "held behind",
            (state, _) => state,
        }
    }

    pub(super) fn key(&self) -> String {
        self.key.as_deref().map_or_else(|| "(no key)".to_owned(), short)
    }

    pub(super) fn id(&self) -> String {
        self.event_id.as_deref().map_or_else(|| "(no id)".to_owned(), |id| short(id.as_bytes()))
    }

    pub(super) fn code(&self) -> &str {
        self.code.as_deref().unwrap_or("-")
    }

    /// For programs.
    pub(super) fn json(&self) -> Map<String, Value> {
        let members = [
            ("at", json!(self.place.to_string())),
            ("id", json!(self.event_id)),
            ("table", json!(self.table)),
            ("key", shown_bytes::json(self.key.as_deref())),
            ("committed_at", json!(self.committed_at)),
            ("code", json!(self.code)),
            ("state", json!(self.state)),
        ];
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

fn short(bytes: &[u8]) -> String {
    shown_bytes::text(bytes, SHOWN_MAX)
}

/// Lines in columns; the last column is as long as it is.
pub(super) fn columns<const N: usize>(lines: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |line: &[String; N]| {
        let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cli::dead_letters::args::Place;

    pub(in super::super) fn event(id: Option<&str>, code: Option<&str>) -> Event {
        Event {
            place: Place { commit_lsn: relay::Lsn::from_u64(0x16B_3748), index: 2 },
            event_id: id.map(str::to_owned),
            table: "public.outbox".to_owned(),
            key: Some(b"order-7".to_vec()),
            committed_at: "2026-01-01T00:00:00Z".to_owned(),
            code: code.map(str::to_owned),
            state: "held".to_owned(),
        }
    }

    #[test]
    fn what_is_to_be_typed_is_one_plain_word() {
        assert_eq!(event(Some("0198c3f2-7d1a"), None).named(), "0198c3f2-7d1a");
        for id in ["a b", "$(reboot)", "'", "--all", "", "a\nb", "ü", &"7".repeat(81)] {
            assert_eq!(event(Some(id), None).named(), "0/16B3748:2", "{id}");
        }
        assert_eq!(
            event(None, None).command("show"),
            "outbox-router dead-letters show --id 0/16B3748:2"
        );
    }

    #[test]
    fn only_a_dead_letter_is_undecided() {
        assert!(event(None, Some("R003")).is_undecided() && !event(None, None).is_undecided());
        let requeued = Event { state: "requeued".to_owned(), ..event(None, Some("R003")) };
        assert!(!requeued.is_undecided());
        assert_eq!((requeued.state(), event(None, None).state()), ("requeued", "held behind"));
        assert!(event(None, Some("R005")).is_cut() && !event(None, Some("R003")).is_cut());
    }

    #[test]
    fn keys_are_shortened_and_hold_no_control_character() {
        let long = Event { key: Some(vec![b'k'; 100]), ..event(None, None) };
        assert_eq!(long.key(), format!("{}…", "k".repeat(40)));
        let odd = Event { key: Some(b"\x1b[2J".to_vec()), ..event(Some("\x07"), None) };
        assert_eq!((odd.key().as_str(), odd.id().as_str()), ("\\u{1b}[2J", "\\u{7}"));
        assert_eq!(Event { key: None, ..event(None, None) }.key(), "(no key)");
    }

    #[test]
    fn columns_stand_below_each_other() {
        let cell = |text: &str| text.to_owned();
        let lines = [[cell("ü"), cell("b")], [cell("ccc"), cell("")]];
        assert_eq!(columns(&lines), ["ü    b", "ccc"]);
    }
}
