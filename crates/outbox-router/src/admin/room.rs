//! Who has to leave when the endpoint is crowded: so a client that asks properly is answered,
//! however many others send nothing, read nothing, or trickle.
//!
//! A client is never told apart by its address: behind a load balancer, all have the same one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, task::AbortHandle, time::Instant};

/// Connections at a time. Each costs a file descriptor and two buffers of 8 KiB, so all of them
/// cost 2 MiB; several scrapers, probes and people need a dozen.
pub(super) const CONNECTIONS_MAX: usize = 128;

/// Connections that have sent their request, and whose answer is not over: pages that last, and
/// clients that read slowly. The rest of the places is for those who still send a request.
pub(super) const ANSWERS_MAX: usize = 32;

/// So long every connection stays: a client elsewhere in the data centre has sent its request by
/// then. Together with the number of places, it also bounds how many connections a second are
/// accepted, at two thousand, and thus what a flood of them costs.
pub(super) const STAYS_FOR: Duration = Duration::from_millis(50);

/// What a connection's task says of it, and the table reads.
#[derive(Debug)]
pub(super) struct Place {
    stage: AtomicU8,
    /// Told when the stage changes in a way that may crowd the room.
    changed: Arc<Notify>,
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The client has not sent the whole head of its request.
    Request,
    /// The answer is being made or sent.
    Answer,
    /// The client does not read its answer.
    Client,
}

impl Place {
    fn new(changed: Arc<Notify>) -> Self {
        Self { stage: AtomicU8::new(0), changed }
    }

    /// The whole head of a request has come.
    pub(super) fn asked(&self) {
        self.stage.store(1, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// The client has read what was sent, so more can be sent.
    pub(super) fn reads(&self) {
        self.stage.fetch_min(1, Ordering::Relaxed);
    }

    /// Nothing more can be sent until the client reads.
    pub(super) fn stalls(&self) {
        self.stage.store(2, Ordering::Relaxed);
    }

    fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) {
            0 => Stage::Request,
            1 => Stage::Answer,
            _ => Stage::Client,
        }
    }
}

/// The connections, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Room {
    connections: Vec<Connection>,
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct Connection {
    place: Arc<Place>,
    came: Instant,
    task: AbortHandle,
}

impl Room {
    /// A place for the next connection.
    pub(super) fn place(&self) -> Arc<Place> {
        Arc::new(Place::new(Arc::clone(&self.changed)))
    }

    pub(super) fn enter(&mut self, place: Arc<Place>, task: AbortHandle, came: Instant) {
        self.connections.push(Connection { place, came, task });
    }

    /// Forgets the connections that have ended.
    pub(super) fn sweep(&mut self) {
        self.connections.retain(|connection| !connection.task.is_finished());
    }

    /// Ends connections until there is room: of the answers beyond [`ANSWERS_MAX`], those of
    /// clients that do not read, else the oldest; then, so that one place is free, the one that has
    /// waited for its request longest. Returns how many it ended, and when to call again, if the
    /// next one has not had its time yet.
    pub(super) fn make(&mut self, now: Instant) -> (usize, Option<Instant>) {
        let mut ended = 0;
        while let Some(index) = self.next_to_leave() {
            let Some(connection) = self.connections.get(index) else { break };
            let leaves_at = connection.came + STAYS_FOR;
            if now < leaves_at {
                return (ended, Some(leaves_at));
            }
            connection.task.abort();
            self.connections.remove(index);
            ended += 1;
        }
        (ended, None)
    }

    /// Ends those who have not sent a request.
    pub(super) fn close(&mut self) {
        self.connections.retain(|connection| {
            let keep = connection.place.stage() != Stage::Request;
            if !keep {
                connection.task.abort();
            }
            keep
        });
    }

    /// Resolves when [`Self::make`] may have something to do.
    pub(super) fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    fn next_to_leave(&self) -> Option<usize> {
        let first = |stage| self.connections.iter().position(|c| c.place.stage() == stage);
        let asking = self.connections.iter().filter(|c| c.place.stage() == Stage::Request).count();
        if self.connections.len() - asking > ANSWERS_MAX {
            return first(Stage::Client).or_else(|| first(Stage::Answer));
        }
        if self.connections.len() >= CONNECTIONS_MAX { first(Stage::Request) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::task::JoinSet;

    use super::*;

    /// A room, with tasks that only wait.
    struct Crowd {
        room: Room,
        tasks: JoinSet<()>,
        places: Vec<Arc<Place>>,
        begun: Instant,
    }

    impl Crowd {
        fn new() -> Self {
            let (room, tasks) = (Room::default(), JoinSet::new());
            Self { room, tasks, places: Vec::new(), begun: Instant::now() }
        }

        /// One more, `after` milliseconds.
        fn enters(&mut self, after: u64) -> Arc<Place> {
            let place = self.room.place();
            let task = self.tasks.spawn(pending());
            self.room.enter(Arc::clone(&place), task, self.at(after));
            self.places.push(Arc::clone(&place));
            place
        }

        fn at(&self, millis: u64) -> Instant {
            self.begun + Duration::from_millis(millis)
        }

        /// The numbers of those who are still there.
        fn there(&self) -> Vec<usize> {
            let is_there = |place: &Arc<Place>| {
                self.room.connections.iter().any(|open| Arc::ptr_eq(&open.place, place))
            };
            (0..self.places.len()).filter(|&index| is_there(&self.places[index])).collect()
        }
    }

    #[tokio::test]
    async fn the_oldest_that_has_not_asked_leaves_the_last_place() {
        let mut crowd = Crowd::new();
        crowd.enters(0).asked();
        for _ in 2..CONNECTIONS_MAX {
            crowd.enters(1);
        }
        assert_eq!(crowd.room.make(crowd.at(1_000)), (0, None), "one place is free");
        crowd.enters(1_000);
        assert_eq!(crowd.room.make(crowd.at(1_000)), (1, None));
        let there = crowd.there();
        assert_eq!((there[0], there[1], there.len()), (0, 2, CONNECTIONS_MAX - 1));
    }

    #[tokio::test]
    async fn nobody_leaves_before_a_client_could_have_asked() {
        let mut crowd = Crowd::new();
        for _ in 0..CONNECTIONS_MAX {
            crowd.enters(10);
        }
        let due = crowd.at(10) + STAYS_FOR;
        assert_eq!(crowd.room.make(crowd.at(11)), (0, Some(due)));
        assert_eq!(crowd.room.make(due), (1, None));
    }

    #[tokio::test]
    async fn who_does_not_read_leaves_before_who_reads() {
        let mut crowd = Crowd::new();
        for index in 0..ANSWERS_MAX + 2 {
            let place = crowd.enters(0);
            place.asked();
            if index >= ANSWERS_MAX {
                place.stalls();
            }
        }
        assert_eq!(crowd.room.make(crowd.at(1_000)), (2, None));
        assert_eq!(crowd.there(), (0..ANSWERS_MAX).collect::<Vec<_>>());
        // All read: the newest is let in, and the oldest leaves.
        crowd.enters(1_000).asked();
        assert_eq!(crowd.room.make(crowd.at(1_001)), (1, None));
        assert_eq!(crowd.there()[0], 1);
    }

    /// Whoever reads again is not one that does not read; whoever has not asked has nothing to
    /// read.
    #[tokio::test]
    async fn a_client_that_reads_again_is_as_good_as_another() {
        let room = Room::default();
        let place = room.place();
        place.reads();
        assert_eq!(place.stage(), Stage::Request);
        place.asked();
        place.stalls();
        assert_eq!(place.stage(), Stage::Client);
        place.reads();
        assert_eq!(place.stage(), Stage::Answer);
    }

    #[tokio::test]
    async fn what_has_ended_is_forgotten() {
        let mut crowd = Crowd::new();
        crowd.enters(0);
        crowd.enters(0);
        crowd.room.connections[0].task.abort();
        while crowd.tasks.join_next().await.is_some_and(|ended| ended.is_ok()) {}
        crowd.room.sweep();
        assert_eq!(crowd.there(), [1]);
    }

    #[tokio::test]
    async fn at_the_end_only_answers_are_waited_for() {
        let mut crowd = Crowd::new();
        crowd.enters(0);
        crowd.enters(0).asked();
        crowd.room.close();
        assert_eq!(crowd.there(), [1]);
    }
}
