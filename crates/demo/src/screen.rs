//! What people see: facts, steps with their time, and one live line that is drawn over itself.
//!
//! Where standard output is no terminal, or `NO_COLOR` is set, nothing is drawn over: the live line
//! becomes a plain line now and then, so that a log of the demo can be read as well.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use tokio::time::Instant;

use crate::live::LiveStatus;

/// How often the live line is written where it cannot be drawn over.
const PLAIN_INTERVAL: Duration = Duration::from_secs(2);

/// Returns to the start of the line; lines that are too long are cut instead of wrapped, because a
/// wrapped line cannot be drawn over.
const REDRAW: &str = "\r\x1b[?7l";
const REDRAWN: &str = "\x1b[K\x1b[?7h";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Terminal,
    Plain,
}

/// Whether the cursor is on a live line, below which the next line belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cursor {
    OnFreshLine,
    OnLiveLine,
}

/// The screen.
pub(crate) struct Screen {
    out: Box<dyn Write>,
    style: Style,
    cursor: Cursor,
    started: Instant,
    /// State in the live line that was written last, and when.
    last_live: Option<(String, Instant)>,
}

impl Screen {
    /// Standard output, in the style that it can show.
    pub(crate) fn of_this_process() -> Self {
        let plain = !io::stdout().is_terminal()
            || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self::new(Box::new(io::stdout()), if plain { Style::Plain } else { Style::Terminal })
    }

    fn new(out: Box<dyn Write>, style: Style) -> Self {
        let started = Instant::now();
        Self { out, style, cursor: Cursor::OnFreshLine, started, last_live: None }
    }

    /// The title of the demo.
    pub(crate) fn title(&mut self, text: &str) -> io::Result<()> {
        let text = self.bold(text);
        self.line(&format!("{text}\n"))
    }

    /// Something that holds from now on; further lines of `text` are set below the first.
    pub(crate) fn fact(&mut self, name: &str, text: &str) -> io::Result<()> {
        let mut name = name;
        for line in text.lines() {
            self.line(&format!("  {name:<12}{}", line.trim_start()))?;
            name = "";
        }
        Ok(())
    }

    /// Something that happens now, and why it matters.
    pub(crate) fn step(&mut self, name: &str, text: &str) -> io::Result<()> {
        let seconds = self.started.elapsed().as_secs_f64();
        let name = self.bold(&format!("{name:<12}"));
        self.last_live = None;
        self.line(&format!("\n{seconds:>5.1} s  {name}{text}"))
    }

    /// A remark.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        self.line(&format!("  {text}"))
    }

    /// An empty line.
    pub(crate) fn gap(&mut self) -> io::Result<()> {
        self.line("")
    }

    /// The last line, with the result of the count.
    pub(crate) fn result(&mut self, text: &str) -> io::Result<()> {
        let text = self.bold(text);
        self.line(&text)
    }

    /// Why the demo ended early.
    pub(crate) fn failure(&mut self, text: &str) -> io::Result<()> {
        self.line(&format!("demo: {text}"))
    }

    /// The live line, drawn over the one before.
    pub(crate) fn live(&mut self, live_status: &LiveStatus) -> io::Result<()> {
        match self.style {
            Style::Terminal => {
                write!(self.out, "{REDRAW}{DIM}         {live_status}{RESET}{REDRAWN}")?;
                self.cursor = Cursor::OnLiveLine;
                self.out.flush()
            }
            Style::Plain => {
                let now = Instant::now();
                let due = self.last_live.as_ref().is_none_or(|(state, at)| {
                    *state != live_status.state || now.duration_since(*at) >= PLAIN_INTERVAL
                });
                if due {
                    self.last_live = Some((live_status.state.clone(), now));
                    self.line(&format!("         {live_status}"))?;
                }
                Ok(())
            }
        }
    }

    /// Makes the next live line appear also where it cannot be drawn over.
    pub(crate) fn show_next(&mut self) {
        self.last_live = None;
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        if self.cursor == Cursor::OnLiveLine {
            // The last live line of a step stays, and what follows begins below it.
            writeln!(self.out)?;
        }
        self.cursor = Cursor::OnFreshLine;
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    fn bold(&self, text: &str) -> String {
        match self.style {
            Style::Terminal => format!("{BOLD}{text}{RESET}"),
            Style::Plain => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for SharedBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn screen(style: Style) -> (Screen, SharedBuffer) {
        let buffer = SharedBuffer::default();
        (Screen::new(Box::new(buffer.clone()), style), buffer)
    }

    fn written(buffer: &SharedBuffer) -> String {
        String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap()
    }

    fn live_status(state: &str) -> LiveStatus {
        LiveStatus { state: state.to_owned(), ..LiveStatus::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_terminal_the_live_line_is_written_at_intervals_and_when_the_state_changes() {
        let (mut screen, buffer) = screen(Style::Plain);
        for state in ["streaming", "streaming", "blocked"] {
            screen.live(&live_status(state)).unwrap();
        }
        tokio::time::advance(PLAIN_INTERVAL).await;
        screen.live(&live_status("blocked")).unwrap();
        screen.result("sent 1").unwrap();
        let text = written(&buffer);
        let states: Vec<_> = text.lines().filter_map(|l| l.split_whitespace().next()).collect();
        assert_eq!(states, ["streaming", "blocked", "blocked", "sent"]);
        assert!(!text.contains('\x1b') && !text.contains('\r'), "{text:?}");
    }

    #[test]
    fn on_a_terminal_the_live_line_is_redrawn_and_other_lines_go_below_it() {
        let (mut screen, buffer) = screen(Style::Terminal);
        for _ in 0..3 {
            screen.live(&live_status("streaming")).unwrap();
        }
        screen.note("done").unwrap();
        let text = written(&buffer);
        assert_eq!(text.matches('\r').count(), 3);
        assert_eq!(text.lines().count(), 2);
        assert!(text.ends_with("\n  done\n"), "{text:?}");
    }
}
