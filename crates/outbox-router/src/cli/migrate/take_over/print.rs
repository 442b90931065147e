//! The steps as a person or a program reads them.

use std::io;

use serde_json::{Value, json};

use super::step::{Step, StepState};

/// What was checked.
pub(super) struct Steps {
    /// What is handed over, from whom to whom.
    pub(super) title: String,
    pub(super) steps: Vec<Step>,
    /// What to type when every step is ready.
    pub(super) then: String,
    /// The other way.
    pub(super) back: String,
}

impl Steps {
    /// Whether nothing is left to do.
    pub(super) fn is_ready(&self) -> bool {
        self.steps.iter().all(|step| step.state == StepState::Ready)
    }

    /// For people.
    pub(super) fn text(&self, out: &mut (dyn io::Write + Send)) -> io::Result<()> {
        writeln!(out, "{}\n", self.title)?;
        let width = self.steps.iter().map(|step| step.name.len()).max().unwrap_or_default();
        let indent = " ".repeat(width + 18);
        for (number, step) in (1..).zip(&self.steps) {
            let Step { name, state, text, .. } = step;
            writeln!(out, "{number}  {name:width$}  {:11}  {text}", state.as_str())?;
            for detail in &step.details {
                writeln!(out, "{indent}{detail}")?;
            }
            for command in &step.commands {
                writeln!(out, "{indent}$ {command}")?;
            }
        }
        writeln!(out)?;
        if self.is_ready() {
            writeln!(out, "ready  {}", self.then)?;
        } else {
            writeln!(out, "to do  what the steps say, from the top; then the same command again")?;
        }
        writeln!(out, "back   {}", self.back)
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let step = |step: &Step| {
            json!({
                "name": step.name,
                "state": step.state.as_str(),
                "text": step.text,
                "details": step.details,
                "commands": step.commands,
                "twice": step.twice,
            })
        };
        json!({
            "title": self.title,
            "ready": self.is_ready(),
            "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
            "then": self.then,
            "back": self.back,
        })
    }
}
