//! A step: what was checked, how it stands, and what to type.

/// How a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepState {
    /// As it must be.
    Ready,
    /// A person has to type something.
    ToDo,
    /// Something is wrong, and no command here repairs it.
    Failed,
    /// It could not be checked.
    NotChecked,
}

impl StepState {
    /// The word in the output.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ok",
            Self::ToDo => "to do",
            Self::Failed => "failed",
            Self::NotChecked => "not checked",
        }
    }
}

/// One step.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) state: StepState,
    /// What was found.
    pub(super) text: String,
    /// What else was found, a line each.
    pub(super) details: Vec<String>,
    /// What to type, a line each.
    pub(super) commands: Vec<String>,
    /// How many events come twice, where the step counts them.
    pub(super) twice: Option<u64>,
}

impl Step {
    fn new(name: &'static str, state: StepState, text: impl Into<String>) -> Self {
        let (details, commands) = (Vec::new(), Vec::new());
        Self { name, state, text: text.into(), details, commands, twice: None }
    }

    pub(super) fn ready(name: &'static str, text: impl Into<String>) -> Self {
        Self::new(name, StepState::Ready, text)
    }

    pub(super) fn to_do(name: &'static str, text: impl Into<String>) -> Self {
        Self::new(name, StepState::ToDo, text)
    }

    pub(super) fn failed(name: &'static str, text: impl Into<String>) -> Self {
        Self::new(name, StepState::Failed, text)
    }

    pub(super) fn not_checked(name: &'static str, why: impl Into<String>) -> Self {
        Self::new(name, StepState::NotChecked, why)
    }

    /// Adds what else was found.
    #[must_use]
    pub(super) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.details.push(detail.into());
        self
    }

    /// Adds how many events come twice.
    #[must_use]
    pub(super) fn twice(self, events: u64) -> Self {
        Self { twice: Some(events), ..self }
    }

    /// Adds what to type.
    #[must_use]
    pub(super) fn command(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }
}
