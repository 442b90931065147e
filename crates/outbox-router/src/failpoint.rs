//! `kill -9` from within, exactly at a place of the core's or the shell's, so that a test can look
//! at what is left.
//!
//! `OUTBOX_ROUTER_FAILPOINT=after-enqueue:17` ends the process when that place is reached for the
//! 17th time: no destructor, no flush, no farewell runs. `OUTBOX_ROUTER_FAILPOINT=list` prints the
//! names and ends. All of it exists with the feature `failpoints` alone, and a build without debug
//! assertions, which a release is, refuses that feature.

use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

use relay::failpoint::{self, Failpoint};

#[cfg(not(debug_assertions))]
compile_error!("the feature `failpoints` is for tests: it must not be in a release");

/// The variable that names the place.
pub const VARIABLE: &str = "OUTBOX_ROUTER_FAILPOINT";

static ARMED: OnceLock<Armed> = OnceLock::new();

/// Where to end, and after how many times.
#[derive(Debug)]
struct Armed {
    point: Failpoint,
    at: NonZeroU32,
    reached: AtomicU32,
}

impl Armed {
    fn parse(text: &str) -> Option<Self> {
        let (name, times) = text.split_once(':')?;
        let (point, at) = (Failpoint::parse(name)?, times.parse().ok()?);
        Some(Self { point, at, reached: AtomicU32::new(0) })
    }

    /// Whether this is the place, and the time.
    fn is_now(&self, point: Failpoint) -> bool {
        point == self.point && self.reached.fetch_add(1, Ordering::Relaxed) + 1 == self.at.get()
    }
}

/// Does what the variable says.
///
/// # Errors
/// How the process is to end at once: the names were asked for, or the variable holds none of them.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a test asks, before there is a log")]
pub fn arm(variable: Option<&str>) -> Result<(), ExitCode> {
    let Some(text) = variable else { return Ok(()) };
    if text == "list" {
        Failpoint::ALL.iter().for_each(|point| println!("{}", point.as_str()));
        return Err(ExitCode::SUCCESS);
    }
    let Some(armed) = Armed::parse(text) else {
        eprintln!("{VARIABLE} is {text:?}: expected a name and a count, such as after-enqueue:17");
        return Err(ExitCode::FAILURE);
    };
    // Both are set once: this is called once, at the start.
    let is_first = ARMED.set(armed).is_ok() && failpoint::set_hook(end_if_armed).is_ok();
    if is_first { Ok(()) } else { Err(ExitCode::FAILURE) }
}

fn end_if_armed(point: Failpoint) {
    if let Some(armed) = ARMED.get().filter(|armed| armed.is_now(point)) {
        end(armed);
    }
}

#[expect(clippy::print_stderr, reason = "the last word of the process, which the test waits for")]
fn end(armed: &Armed) -> ! {
    eprintln!("failpoint {} reached {} times: SIGKILL", armed.point.as_str(), armed.at);
    // The signal is delivered before this call returns; should it be refused, abort runs no
    // destructor either.
    let _refused =
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_time_at_the_chosen_place_and_count_only() {
        let armed = Armed::parse("after-acks:2").unwrap();
        let places = [
            Failpoint::AfterAcks,
            Failpoint::BeforeAcks,
            Failpoint::AfterAcks,
            Failpoint::AfterAcks,
        ];
        assert_eq!(places.map(|place| armed.is_now(place)), [false, false, true, false]);
    }

    #[test]
    fn what_names_no_place_or_no_count_is_refused() {
        for text in ["", "after-acks", "after-acks:0", "after-acks:x", "nowhere:1"] {
            assert!(Armed::parse(text).is_none(), "{text}");
            assert!(arm(Some(text)).is_err(), "{text}");
        }
        assert!(arm(None).is_ok());
    }
}
