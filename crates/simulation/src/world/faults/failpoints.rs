//! A router is killed at a failpoint.

use relay::{Code, Input, ServerNotice, failpoint::Failpoint};

use crate::{
    coverage,
    world::{World, injection::Injection},
};

/// How many rounds are run so that the router reaches the failpoint.
const ROUNDS: u32 = 40;

impl World {
    pub(super) fn kill_at_a_failpoint(&mut self) -> Injection {
        let router = self.some_router();
        if !self.routers[router].runs() {
            return Injection::NotApplicable;
        }
        let point = Failpoint::ALL[self.random.index(Failpoint::ALL.len())];
        if is_of_held(point) && !self.has_dead_letters() {
            return Injection::NotApplicable;
        }
        self.checker.note_interruption();
        coverage::arm(point, 1);
        match point {
            // Some places are reached only if something is done for it.
            Failpoint::DrainBegun | Failpoint::DrainConfirmed | Failpoint::DrainEnded => {
                self.input(router, Input::Shutdown);
            }
            Failpoint::StreamEnded => {
                self.server.stop(self.at);
                self.run_until_killed();
            }
            Failpoint::DeliveryFailed => self.kafka.rejects = Some(Code::DeliveryFailed),
            Failpoint::SlotChecked | Failpoint::Connected | Failpoint::ReplicationStarted => {
                self.server.end_walsenders(Code::ServerUnreachable);
            }
            Failpoint::WarningTaken => {
                let notice = ServerNotice {
                    code: "01000".to_owned(),
                    message: "a warning without consequences".to_owned(),
                    routine: None,
                };
                self.input(router, Input::Notice(&notice));
            }
            Failpoint::CoveredPassed => {
                // A slot that somebody has re-created was saved then, and cannot go back further.
                if self.expected_failure.allows_nothing() {
                    self.server.revert_saved_position();
                }
                self.server.crash(self.at);
                self.run_until_killed();
            }
            Failpoint::QueueFull => self.fill_the_queue(),
            Failpoint::BeforeHold
            | Failpoint::Held
            | Failpoint::Released
            | Failpoint::ReleaseClosed => self.hold_and_release(),
            Failpoint::RelationTaken
            | Failpoint::BeginTaken
            | Failpoint::BeforeEnqueue
            | Failpoint::AfterEnqueue
            | Failpoint::CommitTaken
            | Failpoint::KeepaliveTaken
            | Failpoint::BeforeAcks
            | Failpoint::AfterAcks
            | Failpoint::AckedButOpen
            | Failpoint::BeforeAdvance
            | Failpoint::AfterAdvance
            | Failpoint::BeforeWitness
            | Failpoint::WitnessAcked
            | Failpoint::BeforeStatus
            | Failpoint::AfterStatus => {
                let nth = u32::try_from(1 + self.random.below(4)).expect("small");
                coverage::arm(point, nth);
                // In the other half of the cases the plan continues as it is.
                if self.random.one_in(2) {
                    self.run_until_killed();
                }
            }
        }
        Injection::Done
    }

    /// Runs rounds until the failpoint has fired. The steps between two faults are few: a
    /// router that has to reconnect has rarely done so before the next fault.
    fn run_until_killed(&mut self) {
        for _ in 0..ROUNDS {
            if !coverage::is_armed() {
                break;
            }
            self.run_round();
        }
    }

    /// Events are held, and a person decides about them, until the failpoint has fired.
    fn hold_and_release(&mut self) {
        for round in 0..ROUNDS {
            if !coverage::is_armed() {
                break;
            }
            if round % 8 == 0 {
                self.write_poison();
            }
            self.run_round();
            self.decide();
        }
    }

    /// Rows are written and read, and nothing is acknowledged.
    fn fill_the_queue(&mut self) {
        let until_it_streams = 10;
        for _ in 0..until_it_streams {
            self.run_round();
        }
        for _ in 0..ROUNDS {
            for router in 0..self.routers.len() {
                if !coverage::is_armed() {
                    return;
                }
                self.server.write(&mut self.random);
                self.server.send(&mut self.random);
                self.read(router, 64);
            }
        }
    }
}

/// Whether only a router with dead letters reaches it.
fn is_of_held(point: Failpoint) -> bool {
    matches!(
        point,
        Failpoint::BeforeHold | Failpoint::Held | Failpoint::Released | Failpoint::ReleaseClosed
    )
}
