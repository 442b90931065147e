//! Commands that persons type. Each takes one step at a time, so that anything may happen in
//! between, and may be killed after each.

use super::{
    backfill::Backfill,
    others::{Accept, Replay},
    recover::Recover,
    site::Site,
    slot::Holder,
    step::Step,
    switch::ToPolling,
    to_stream::ToStream,
};
use crate::random::Random;

/// A command that runs.
#[derive(Debug)]
pub enum Command {
    /// `recover`
    Recover(Box<Recover>),
    /// `accept`
    Accept(Box<Accept>),
    /// `replay`
    Replay(Replay),
    /// `switch polling`
    ToPolling(Box<ToPolling>),
    /// `switch stream`
    ToStream(Box<ToStream>),
    /// `setup --backfill`
    Backfill(Box<Backfill>),
}

/// A command, by its number.
#[derive(Debug)]
pub struct Actor {
    /// Its number.
    pub number: u32,
    /// The command.
    pub command: Command,
}

impl Actor {
    /// Its next step.
    pub fn step(&mut self, site: &mut Site, random: &mut Random) -> Step {
        match &mut self.command {
            Command::Recover(recover) => recover.step(site),
            Command::Accept(accept) => accept.step(site),
            Command::Replay(replay) => replay.step(site, random),
            Command::ToPolling(switch) => switch.step(site, random),
            Command::ToStream(switch) => switch.step(site),
            Command::Backfill(backfill) => backfill.step(site, random),
        }
    }

    /// Whether it has made a slot that it does not hold yet.
    pub fn is_to_hold(&self) -> bool {
        match &self.command {
            Command::Recover(recover) => recover.is_to_hold(),
            Command::ToStream(switch) => switch.is_to_hold(),
            Command::Backfill(backfill) => backfill.is_to_hold(),
            Command::Accept(_) | Command::Replay(_) | Command::ToPolling(_) => false,
        }
    }

    /// Whether it divides the rows of the tables between itself and a slot.
    pub const fn is_dividing(&self) -> bool {
        matches!(self.command, Command::ToStream(_) | Command::Backfill(_))
    }

    /// Whether it has sent all rows, and is about to write the witness.
    pub const fn is_to_witness(&self) -> bool {
        matches!(&self.command, Command::Backfill(backfill) if backfill.is_to_witness())
    }

    /// Its connections end.
    pub fn leave(&self, site: &mut Site) {
        if let Command::Backfill(backfill) = &self.command {
            site.pipeline.filled.interrupt(backfill.not_noted());
        }
        let database = &mut site.database;
        database.lock.take_if(|by| *by == self.number);
        database.creation.take_if(|creation| creation.by == self.number);
        if let Some(slot) = &mut database.slot {
            slot.holder.take_if(|by| *by == Holder::Command(self.number));
        }
    }
}
