//! Exit codes: what a supervisor or script may rely on.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done; for `run`: drained, nothing unconfirmed.
    Done,
    /// The command failed, or `status` has findings.
    Failure,
    /// The command line was wrong.
    Usage,
    /// A bug in this program.
    Bug,
    /// Stopped; events that were read are not confirmed, and the server sends them again.
    Unconfirmed,
    /// The configuration is wrong.
    Configuration,
    /// With `--exit-on-fatal`: the state became `failed`, so a person is needed.
    PersonNeeded,
}

impl Exit {
    /// The number; those above 64 are `sysexits.h`'s, except 79, which is free there.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::Bug => 70,
            Self::Unconfirmed => 75,
            Self::Configuration => 78,
            Self::PersonNeeded => 79,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
