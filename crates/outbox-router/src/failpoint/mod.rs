//! Ends this process by SIGKILL at a named place in the core, the shell or the command `switch`, so
//! that a test can examine what is left.
//!
//! `OUTBOX_ROUTER_FAILPOINT=after-enqueue:17` ends the process when that place is reached for the
//! 17th time: no destructor and no flush runs, and no final status update is sent.
//! `OUTBOX_ROUTER_FAILPOINT=list` prints the names and ends. This module exists only with the
//! feature `failpoints`. A build without debug assertions, such as a release, refuses that feature.

mod switch;

use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

use clap::ValueEnum as _;
use relay::failpoint::{self, Failpoint};

pub use switch::SwitchPlace;

#[cfg(not(debug_assertions))]
compile_error!("the feature `failpoints` is for tests: it must not be in a release");

/// The environment variable that names the place and the count.
pub const VARIABLE: &str = "OUTBOX_ROUTER_FAILPOINT";

static ARMED: OnceLock<Armed> = OnceLock::new();

/// A place at which the process can be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In `run`.
    Run(Failpoint),
    Switch(SwitchPlace),
}

impl Place {
    /// Every one there is.
    fn all() -> impl Iterator<Item = Self> {
        let switch = SwitchPlace::value_variants().iter().copied();
        Failpoint::ALL.into_iter().map(Self::Run).chain(switch.map(Self::Switch))
    }

    fn name(self) -> String {
        match self {
            Self::Run(point) => point.as_str().to_owned(),
            Self::Switch(place) => place.name(),
        }
    }
}

/// At which place to end the process, and at which time that the place is reached (1 is the first).
#[derive(Debug)]
struct Armed {
    place: Place,
    at: NonZeroU32,
    reached: AtomicU32,
}

impl Armed {
    fn parse(text: &str) -> Option<Self> {
        let (name, times) = text.split_once(':')?;
        let place = Place::all().find(|place| place.name() == name)?;
        Some(Self { place, at: times.parse().ok()?, reached: AtomicU32::new(0) })
    }

    /// Counts if `place` is the armed one. True when the process is to end now.
    fn is_now(&self, place: Place) -> bool {
        place == self.place && self.reached.fetch_add(1, Ordering::Relaxed) + 1 == self.at.get()
    }
}

/// Arms the failpoint that the variable names, or prints the names.
///
/// # Errors
/// The exit code with which the process is to end at once: success when the names were asked for,
/// failure when the variable holds no name and count, or when a failpoint is armed already.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a test asks, before there is a log")]
pub fn arm(variable: Option<&str>) -> Result<(), ExitCode> {
    let Some(text) = variable else { return Ok(()) };
    if text == "list" {
        Place::all().for_each(|place| println!("{}", place.name()));
        return Err(ExitCode::SUCCESS);
    }
    let Some(armed) = Armed::parse(text) else {
        eprintln!("{VARIABLE} is {text:?}: expected a name and a count, such as after-enqueue:17");
        return Err(ExitCode::FAILURE);
    };
    // Neither is set before, because `arm` is called once, at the start.
    let is_first = ARMED.set(armed).is_ok() && failpoint::set_hook(reached_in_run).is_ok();
    if is_first { Ok(()) } else { Err(ExitCode::FAILURE) }
}

fn reached_in_run(point: Failpoint) {
    end_if_armed(Place::Run(point));
}

/// The command `switch` is at this place.
pub fn reached_in_switch(place: SwitchPlace) {
    end_if_armed(Place::Switch(place));
}

fn end_if_armed(place: Place) {
    if let Some(armed) = ARMED.get().filter(|armed| armed.is_now(place)) {
        end(armed);
    }
}

#[expect(clippy::print_stderr, reason = "the last word of the process, which the test waits for")]
fn end(armed: &Armed) -> ! {
    eprintln!("failpoint {} reached {} times: SIGKILL", armed.place.name(), armed.at);
    // The signal is delivered before this call returns. If the call fails, `abort` runs no
    // destructor either.
    let _refused =
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_failpoint_fires_at_the_chosen_place_and_count_only() {
        let armed = Armed::parse("after-acks:2").unwrap();
        let places = [
            Failpoint::AfterAcks,
            Failpoint::BeforeAcks,
            Failpoint::AfterAcks,
            Failpoint::AfterAcks,
        ]
        .map(Place::Run);
        assert_eq!(places.map(|place| armed.is_now(place)), [false, false, true, false]);
    }

    #[test]
    fn names_are_distinct_and_those_of_switch_say_so() {
        let names: BTreeSet<String> = Place::all().map(Place::name).collect();
        assert_eq!(names.len(), Place::all().count());
        let of_switch = names.iter().filter(|name| name.starts_with("switch-")).count();
        assert_eq!(of_switch, SwitchPlace::value_variants().len());
        let armed = Armed::parse("switch-stream-slot-made:1").unwrap();
        assert_eq!(armed.place, Place::Switch(SwitchPlace::StreamSlotMade));
    }

    #[test]
    fn what_names_no_place_or_no_count_is_refused() {
        for text in ["", "after-acks", "after-acks:0", "after-acks:x", "nowhere:1", "switch-:1"] {
            assert!(Armed::parse(text).is_none(), "{text}");
            assert!(arm(Some(text)).is_err(), "{text}");
        }
        assert!(arm(None).is_ok());
    }
}
