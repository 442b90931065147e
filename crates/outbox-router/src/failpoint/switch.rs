//! The places in `switch` at which a test ends it: one between each two writes that outlive the
//! process.

use clap::ValueEnum;

/// In the order in which `switch stream` reaches them, and then `switch polling`. The name of a
/// place is that of its command, and what is written when it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SwitchPlace {
    /// The role is made, or has its right.
    StreamRoleMade,
    /// The state topic is made.
    StreamTopicMade,
    /// Either command: the tables of the switch are made.
    TablesMade,
    /// The workers are told to give back their keys.
    StreamClosed,
    /// They hold nothing any more.
    StreamWorkersGone,
    /// It is noted that the publication is made by the switch.
    StreamPublicationNoted,
    /// The publication is made.
    StreamPublicationMade,
    /// The slot of an earlier run is dropped, if there was one.
    StreamFormerSlotDropped,
    /// Which rows that slot's snapshot has seen is forgotten.
    StreamRowsForgotten,
    /// The slot is made.
    StreamSlotMade,
    /// The rows that its snapshot sees are noted.
    StreamRowsNoted,
    /// The worker is at work on these rows: some may be marked, and some sent and not marked.
    StreamSending,
    /// All are sent and marked.
    StreamSent,
    /// That is noted.
    StreamSentNoted,
    /// The witness is written.
    StreamWitnessWritten,
    /// It is noted that the tables are streamed.
    StreamHandedOver,
    /// Which rows were sent is forgotten: nothing is left to be done.
    StreamComplete,
    /// It is noted that the tables were streamed, where nothing was noted.
    PollingStreamNoted,
    /// A batch of delivered rows is about to be marked, and those before it are.
    PollingMarking,
    /// All are marked.
    PollingMarked,
    /// That is noted.
    PollingMarkedNoted,
    /// The slot is dropped.
    PollingSlotDropped,
    /// The witness is deleted.
    PollingWitnessDeleted,
    /// The publication is dropped.
    PollingPublicationDropped,
    /// Which rows a switch to the stream would have sent is forgotten.
    PollingRowsForgotten,
    /// The shards of the tables are made, which say that workers have them.
    PollingShardsMade,
    /// Workers may take the tables: nothing is left to be done.
    PollingOpened,
}

impl SwitchPlace {
    /// Its name outside the code: kebab-case, behind `switch-`.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        let name = value.as_ref().map_or("", |value| value.get_name());
        format!("switch-{name}")
    }
}
