//! What a test has proved of which codes: that they are found where their fault was planted, and
//! that they are not found elsewhere.

use std::{cell::RefCell, collections::BTreeSet};

use outbox_router::{cli::Exit, codes::Advice};

use super::found::Found;

/// A server whose time is over has it by itself, from a certain day on.
const BY_TIME: &str = Advice::VersionUnsupported.as_str();

/// See the module's header. Mismatches are reported at the end, all together, because the servers
/// take long to start.
#[derive(Default)]
pub(super) struct Ledger {
    /// Codes that were found where they were to be.
    planted: RefCell<BTreeSet<String>>,
    /// Codes whose check was run and did not report them.
    quiet: RefCell<BTreeSet<String>>,
    /// What was found of other faults than the planted ones, or not found of those.
    mismatches: RefCell<Vec<String>>,
}

impl Ledger {
    /// Notes whether what was found has this code and no other of an error or a warning; where the
    /// code is a note, no other code at all.
    pub(super) fn expect(&self, code: &str, place: &str, found: &Found) {
        let notes = found.codes("note");
        let mut actual = found.serious();
        if notes.iter().any(|note| note == code) {
            actual.extend(notes.into_iter().filter(|note| note == code || note != BY_TIME));
        }
        self.note(&[code], actual, place, found);
    }

    /// Notes whether what was found has these codes and no other ones of an error or a warning.
    pub(super) fn expect_all(&self, codes: &[&str], place: &str, found: &Found) {
        self.note(codes, found.serious(), place, found);
    }

    /// Nothing is wrong, as far as errors and warnings go.
    pub(super) fn expect_nothing(&self, place: &str, found: &Found) {
        self.note(&[], found.serious(), place, found);
    }

    fn note(&self, expected: &[&str], actual: BTreeSet<String>, place: &str, found: &Found) {
        self.quiet.borrow_mut().extend(found.quiet());
        let codes: BTreeSet<String> = expected.iter().map(|&code| code.to_owned()).collect();
        let exit = if found.errors() > 0 { Exit::Failure } else { Exit::Done };
        if actual == codes && found.exit == exit {
            self.planted.borrow_mut().extend(codes);
            return;
        }
        let Found { err, exit, .. } = found;
        let (findings, not_run) = (found.part("findings"), found.part("not_run"));
        let what = format!("{place} {expected:?}: {exit:?} {findings:#} {not_run} {err}");
        self.mismatches.borrow_mut().push(what);
    }

    /// Every planted fault was named, and nothing else; each of these codes was found, and each of
    /// doctor's own was not found somewhere, too.
    #[track_caller]
    pub(super) fn assert_proved(&self, codes: &[&str]) {
        let mismatches = self.mismatches.borrow();
        assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
        let (planted, quiet) = (self.planted.borrow(), self.quiet.borrow());
        for &code in codes {
            assert!(planted.contains(code), "{code} was not planted");
            let is_own = Advice::ALL.iter().any(|advice| advice.as_str() == code);
            assert!(!is_own || quiet.contains(code), "{code} was never absent");
        }
    }
}
