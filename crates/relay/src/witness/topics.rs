//! Which topics the pipeline has produced to, by the ids that Kafka gave them (KIP-516), and which
//! of them are gone with their records.
//!
//! A topic that was deleted takes the acknowledged events with it, and one that was made again
//! under its name looks as if nothing had happened. Its id shows it: Kafka gives every topic a new
//! one. Nothing stops for it, since the events that follow are not at risk; but a person has to
//! decide whether the rows that the tables still have are sent again, so the witness keeps a note
//! until one has.
//!
//! The ids lie in the witness and not in memory, so that a topic is missed that was deleted while
//! no router ran. The note is under the same rules as an open beginning
//! ([`Witness::began_without`]): its acceptance begins no generation.
//!
//! A command that produces is no session. It notes its topics in the first witness where that
//! comes after, else in a record of its own ([`Witness::note_of`]), which ranks below every other
//! of its generation: it adds its topics when records are combined, and changes nothing else. A
//! session that streams meanwhile takes them over ([`Witness::learn_topics`]).

use pgoutput::Lsn;

use super::{
    Acceptance, KnownTopic, LostTopic, ProducedTo, TopicSight, TopicUuid, Witness,
    acceptance::Changed, lost::LOST_MAX, record::PARTITIONS_MAX,
};
use crate::{
    failure::Code,
    routing::topic::TopicName,
    source::{Gap, Mark},
};

impl Witness {
    /// The lost topics that a person is asked about. While Kafka is another cluster, every topic is
    /// missing there, or another one, and the gap says that.
    pub(super) fn open_topics(&self) -> &[LostTopic] {
        let is_of_cluster = |gap: &Gap| gap.failure.code == Code::ClusterChanged;
        if self.gaps.iter().any(is_of_cluster) { &[] } else { &self.lost_topics }
    }

    /// Takes what Kafka has under the name of a topic in use.
    pub(super) fn see_topic(&mut self, topic: &str, sight: TopicSight) -> Changed {
        let Some(known) = self.topics.get(topic).cloned() else {
            return match sight {
                TopicSight::Is(uuid) => self.learn(topic, uuid),
                TopicSight::Missing | TopicSight::Untold => Changed::No,
            };
        };
        let now = match sight {
            TopicSight::Is(uuid) => Some(uuid),
            TopicSight::Missing => None,
            TopicSight::Untold => return Changed::No,
        };
        if known.uuid == now {
            return Changed::No;
        }
        match known.uuid {
            Some(was) => {
                if self.lose(topic, was, now.clone()) == Changed::No {
                    return Changed::No;
                }
            }
            None => self.found_again(topic, now.as_ref()),
        }
        let known = KnownTopic { uuid: now, changes: known.changes.saturating_add(1) };
        self.topics.insert(topic.to_owned(), known);
        Changed::Yes
    }

    /// This witness, with what Kafka has now under the names of its topics: one that is gone is a
    /// finding, as a router notes it that streams.
    #[must_use]
    pub fn with_topics_seen(mut self, sights: &[(TopicName, TopicSight)]) -> Self {
        for (topic, sight) in sights {
            self.see_topic(topic.as_str(), sight.clone());
        }
        self
    }

    /// This record with the topics that a command has produced to. Of a topic that it knows, its
    /// own id counts: the next look at the topic shows whether that is gone.
    #[must_use]
    pub fn with_produced(mut self, produced: &ProducedTo) -> Self {
        for (topic, uuid) in produced {
            self.learn(topic, uuid.clone());
        }
        self
    }

    /// The record by which a command notes the topics that it has produced to, beside the records
    /// that make this witness; `None` where it knows them, or has no room for more.
    pub fn note_of(&self, produced: &ProducedTo) -> Option<Self> {
        let room = PARTITIONS_MAX.saturating_sub(self.topics.len());
        let new = produced.iter().filter(|(topic, _)| !self.topics.contains_key(*topic));
        let new: ProducedTo =
            new.take(room).map(|(topic, uuid)| (topic.clone(), uuid.clone())).collect();
        let note = Self { generation: self.generation, ..Self::at(Lsn::ZERO) };
        (!new.is_empty()).then(|| note.with_produced(&new))
    }

    /// Takes over the topics of another record of the same generation that this one has none of.
    pub(super) fn learn_topics(&mut self, other: &Self) -> Changed {
        let mut changed = Changed::No;
        for (topic, known) in &other.topics {
            if let Some(uuid) = &known.uuid
                && self.learn(topic, uuid.clone()) == Changed::Yes
            {
                changed = Changed::Yes;
            }
        }
        changed
    }

    fn learn(&mut self, topic: &str, uuid: TopicUuid) -> Changed {
        if self.topics.contains_key(topic) || self.topics.len() >= PARTITIONS_MAX {
            return Changed::No;
        }
        self.topics.insert(topic.to_owned(), KnownTopic { uuid: Some(uuid), changes: 0 });
        Changed::Yes
    }

    /// Notes that a topic is gone, if there is room.
    fn lose(&mut self, topic: &str, was: TopicUuid, now: Option<TopicUuid>) -> Changed {
        // Another record of the pipeline may have had the note already.
        if let Some(known) = self.lost_topics.iter_mut().find(|lost| lost.is_of(topic, &was)) {
            known.now = now;
            return Changed::Yes;
        }
        if self.lost_topics.len() >= LOST_MAX {
            return Changed::No;
        }
        let at = self.checked.as_ref().and_then(|checked| checked.at.clone());
        let noticed = Mark { lsn: self.unused_position(), at };
        self.lost_topics.push(LostTopic { topic: topic.to_owned(), was, now, noticed });
        Changed::Yes
    }

    /// A topic that was missing is there: made again, or it was only not seen, as for a moment
    /// after a broker has started.
    fn found_again(&mut self, topic: &str, now: Option<&TopicUuid>) {
        let is_missing = |lost: &LostTopic| lost.topic == topic && lost.now.is_none();
        let Some(index) = self.lost_topics.iter().position(is_missing) else { return };
        if self.lost_topics.get(index).map(|lost| &lost.was) == now {
            self.lost_topics.remove(index);
        } else if let Some(lost) = self.lost_topics.get_mut(index) {
            lost.now = now.cloned();
        }
    }

    /// The witness's position, or the next one that is no note's name, nor that of one that was
    /// accepted: the acceptance would close the new note, too.
    fn unused_position(&self) -> Lsn {
        let is_used = |lsn: Lsn| {
            self.lost_topics.iter().any(|lost| lost.noticed.lsn == lsn)
                || self.accepted.iter().any(|one| is_of_topic_at(one, lsn))
        };
        let first = self.position.as_u64();
        // One more than there are names, so that one of them is not used.
        let count = self.lost_topics.len() + self.accepted.len() + 1;
        let mut places = (first..=u64::MAX).take(count).map(Lsn::from_u64);
        places.find(|lsn| !is_used(*lsn)).unwrap_or(self.position)
    }

    /// Takes over what another record of the same generation knows of topics.
    pub(super) fn take_over_topics(&mut self, other: &Self) {
        for (topic, known) in &other.topics {
            match self.topics.get_mut(topic) {
                Some(own) if own.changes >= known.changes => {}
                Some(own) => own.clone_from(known),
                None => {
                    self.topics.insert(topic.clone(), known.clone());
                }
            }
        }
        for lost in &other.lost_topics {
            match self.lost_topics.iter_mut().find(|own| own.is_of(&lost.topic, &lost.was)) {
                Some(own) if own.now.is_none() => own.now.clone_from(&lost.now),
                Some(_) => {}
                None => self.lost_topics.push(lost.clone()),
            }
        }
    }

    /// Removes notes that a person has accepted.
    pub(super) fn drop_accepted_topics(&mut self) {
        let accepted = &self.accepted;
        self.lost_topics
            .retain(|lost| !accepted.iter().any(|one| is_of_topic_at(one, lost.noticed.lsn)));
    }
}

/// Whether this accepted the lost topic that was noticed there.
fn is_of_topic_at(acceptance: &Acceptance, noticed: Lsn) -> bool {
    acceptance.code == Code::TopicLost.as_str() && acceptance.lsn == noticed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        failure::Case,
        witness::{OpenFinding, combine::join},
    };

    fn at(position: u64) -> Witness {
        Witness::at(Lsn::from_u64(position))
    }

    fn is(uuid: &str) -> TopicSight {
        TopicSight::Is(TopicUuid::new(uuid))
    }

    fn seen(mut witness: Witness, sights: &[(&str, TopicSight)]) -> Witness {
        for (topic, sight) in sights {
            witness.see_topic(topic, sight.clone());
        }
        witness
    }

    fn lost(witness: &Witness) -> Vec<(&str, &str, Option<&str>, u64)> {
        let of = |lost: &LostTopic| lost.noticed.lsn.as_u64();
        witness
            .lost_topics
            .iter()
            .map(|lost| {
                let now = lost.now.as_ref().map(TopicUuid::as_str);
                (&*lost.topic, lost.was.as_str(), now, of(lost))
            })
            .collect()
    }

    fn accepted(witness: &Witness, index: usize) -> Witness {
        let open = witness.lost_topics[index].clone();
        witness.accept_notes(&[OpenFinding::Topic(open)], "ann", "now")
    }

    #[test]
    fn a_topic_that_was_made_again_or_is_missing_is_noted_once_with_both_ids() {
        let witness = seen(at(7), &[("a", is("A")), ("a", is("A")), ("b", TopicSight::Missing)]);
        assert_eq!(lost(&witness), [], "b was never produced to");
        let witness = seen(witness, &[("a", TopicSight::Missing), ("a", TopicSight::Missing)]);
        assert_eq!(lost(&witness), [("a", "A", None, 7)]);
        let finding = witness.lost_topics[0].finding();
        assert_eq!((finding.code, finding.case), (Code::TopicLost, Some(Case::TopicGone)));
        let witness = seen(witness, &[("a", is("B")), ("a", is("B"))]);
        assert_eq!(lost(&witness), [("a", "A", Some("B"), 7)]);
        let witness = seen(witness, &[("a", is("C"))]);
        assert_eq!(lost(&witness), [("a", "A", Some("B"), 7), ("a", "B", Some("C"), 8)]);
    }

    #[test]
    fn a_topic_that_was_only_not_seen_for_a_moment_is_not_lost() {
        let sights = [("a", is("A")), ("a", TopicSight::Missing), ("a", is("A"))];
        assert_eq!(lost(&seen(at(7), &sights)), []);
    }

    #[test]
    fn what_a_person_has_accepted_stays_closed_and_the_next_loss_has_another_name() {
        let sights = [("a", is("A")), ("a", TopicSight::Missing), ("b", is("B")), ("b", is("C"))];
        let both = seen(at(7), &sights);
        let one = accepted(&both, 0);
        assert_eq!(lost(&one), [("b", "B", Some("C"), 8)]);
        assert_eq!(one.generation, both.generation, "the router goes on");
        for records in [[both.clone(), one.clone()], [one.clone(), both.clone()]] {
            let joined = join(records).unwrap();
            assert_eq!(lost(&joined), lost(&one), "the router's record is older");
            // The next one that is made in the accepted one's place is what was agreed to.
            let made = seen(joined, &[("a", is("D"))]);
            assert_eq!(lost(&made), lost(&one));
            let again = seen(made, &[("a", is("E"))]);
            assert_eq!(lost(&again)[1], ("a", "D", Some("E"), 9), "7 was accepted");
        }
    }

    /// The record of an acceptance has the same position, and knows less.
    #[test]
    fn of_two_records_the_one_that_has_seen_more_counts() {
        let old = seen(at(7), &[("a", is("A"))]);
        let new = seen(old.clone(), &[("a", is("B"))]);
        for records in [[old.clone(), new.clone()], [new.clone(), old]] {
            let joined = join(records).unwrap();
            assert_eq!((&joined.topics, lost(&joined)), (&new.topics, lost(&new)));
        }
    }

    fn produced(topics: &[(&str, &str)]) -> ProducedTo {
        topics.iter().map(|(topic, uuid)| ((*topic).to_owned(), TopicUuid::new(*uuid))).collect()
    }

    #[test]
    fn a_topic_that_only_a_command_has_produced_to_is_lost_like_any_other() {
        let first = at(7).with_produced(&produced(&[("a", "A")]));
        assert_eq!(lost(&seen(first, &[("a", is("B"))])), [("a", "A", Some("B"), 7)]);
    }

    #[test]
    fn of_a_topic_that_the_witness_knows_a_command_changes_nothing() {
        let known = seen(at(7), &[("a", is("A")), ("b", is("B")), ("b", TopicSight::Missing)]);
        let topics = produced(&[("a", "X"), ("b", "Y")]);
        assert_eq!(known.clone().with_produced(&topics), known);
        assert_eq!(known.note_of(&topics), None);
    }

    #[test]
    fn the_note_of_a_command_adds_its_topics_and_nothing_else() {
        let mut session = seen(at(7), &[("a", is("A"))]);
        session.generation = 3;
        session.partitions.insert("a".to_owned(), 5);
        let note = session.note_of(&produced(&[("a", "X"), ("b", "B")])).unwrap();
        assert_eq!(note.topics.keys().collect::<Vec<_>>(), ["b"]);
        let note = Witness::decode(&note.encode()).unwrap();
        let expected = session.clone().with_produced(&produced(&[("b", "B")]));
        for records in [[session.clone(), note.clone()], [note.clone(), session.clone()]] {
            assert_eq!(join(records).unwrap(), expected);
        }
        assert_eq!(expected.note_of(&produced(&[("b", "B")])), None, "it is noted");
        // A session that streams has noticed meanwhile that a topic of its own is back.
        let back = seen(session, &[("a", TopicSight::Missing), ("a", is("A"))]);
        let mut learned = back.clone();
        assert_eq!(learned.learn_topics(&expected), Changed::Yes);
        assert_eq!(learned.learn_topics(&expected), Changed::No);
        assert_eq!(learned, back.with_produced(&produced(&[("b", "B")])));
    }

    #[test]
    fn a_witness_that_names_as_many_topics_as_fit_takes_no_more() {
        let names: Vec<String> = (0..PARTITIONS_MAX).map(|n| format!("t{n}")).collect();
        let all: Vec<_> = names.iter().map(|name| (name.as_str(), "A")).collect();
        let full = at(7).with_produced(&produced(&all));
        assert_eq!(full.note_of(&produced(&[("b", "B")])), None);
    }

    #[test]
    fn more_lost_topics_than_fit_are_noted_when_there_is_room() {
        let names: Vec<String> = (0..30).map(|n| format!("t{n}")).collect();
        let sights = |uuid: &'static str| names.iter().map(move |name| (name.as_str(), is(uuid)));
        let all =
            seen(seen(at(7), &sights("A").collect::<Vec<_>>()), &sights("B").collect::<Vec<_>>());
        assert_eq!(all.lost_topics.len(), LOST_MAX);
        let open: Vec<OpenFinding> =
            all.lost_topics.iter().cloned().map(OpenFinding::Topic).collect();
        let closed = all.accept_notes(&open, "ann", "now");
        let rest = seen(closed, &sights("B").collect::<Vec<_>>());
        assert_eq!(rest.lost_topics.len(), 10);
    }
}
