//! What persons type.

use super::{
    actor::{Actor, Command},
    compare::Selected,
    others::Replay,
    pipeline::Pipeline,
    recover::{Recover, Typed},
    site::{BEGIN, Ids, seconds},
    switch::ToPolling,
    world::RepairsWorld,
};

impl RepairsWorld {
    /// A person types a command.
    pub(super) fn person(&mut self) -> Option<&'static str> {
        if self.actors.len() >= 3 || self.site.database.lock.is_some() && self.random.one_in(2) {
            return None;
        }
        self.next_actor += 1;
        let number = self.next_actor;
        if let Some(command) = self.handing(number) {
            self.actors.push(Actor { number, command });
            return None;
        }
        let witness = self.site.pipeline.witness.as_ref();
        let is_open = witness.is_some_and(|witness| !witness.open_findings().is_empty())
            || self.site.database.slot.is_none_or(|slot| slot.is_lost);
        let command = match (is_open, self.random.below(12)) {
            (false, 2) if self.random.one_in(3) => {
                Command::ToPolling(Box::new(ToPolling::new(number)))
            }
            (true, 0 | 1) | (false, 0) => Command::Accept(Box::default()),
            (true, 2 | 7..=10) | (false, 1) => {
                Command::Recover(Box::new(Recover::new(number, self.typed())))
            }
            (_, 3..=6 | 11) => Command::Replay(Replay::new(number, &mut self.random)),
            _ => return None,
        };
        self.actors.push(Actor { number, command });
        None
    }

    /// What a person types who says what is so.
    fn typed(&mut self) -> Typed {
        let Pipeline { is_mixed, is_numbered_again, witness, .. } = &self.site.pipeline;
        let setup = &self.site.setup;
        let may_be_unique = !is_mixed
            && !is_numbered_again
            && !setup.shares_a_topic()
            && setup.shapes.iter().all(|shape| shape.ids != Ids::Requests);
        let at = witness.as_ref().and_then(|witness| witness.mark().at);
        let since = match self.random.below(6) {
            0 | 1 => Some(BEGIN),
            2 | 3 => at.as_deref().map(seconds),
            _ => None,
        };
        let is_unique = setup.shapes.iter().all(|shape| shape.ids == Ids::Uuids);
        let selected = match self.random.below(8) {
            0 => Selected::All,
            1 => Selected::Missing,
            _ if is_unique => Selected::Missing,
            _ if may_be_unique => Selected::MissingIdsUnique,
            _ => Selected::All,
        };
        Typed {
            selected,
            since,
            drops_slot: self.random.one_in(2),
            mends: !self.random.one_in(4),
            skips_bad: !self.random.one_in(3),
            gives_up_filtered: self.random.one_in(2),
        }
    }
}
