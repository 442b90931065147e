//! Answers requests automatically, unless the test keeps them.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    task::Waker,
};

use relay::{Code, Failure};
use tokio::sync::oneshot;

/// Wakes the test when something happens outside of the shell's task.
#[derive(Clone, Default)]
pub(super) struct Bell(Arc<Mutex<Option<Waker>>>);

impl Bell {
    pub(super) fn wakes(&self, waker: &Waker) {
        *self.0.lock().unwrap() = Some(waker.clone());
    }

    pub(super) fn ring(&self) {
        if let Some(waker) = self.0.lock().unwrap().take() {
            waker.wake();
        }
    }
}

/// Permission to answer, or why there is no answer.
pub(super) type Permission = Result<(), Failure>;

/// The requests of one peer.
pub(super) struct Desk<Q> {
    bell: Bell,
    papers: Mutex<Papers<Q>>,
}

struct Papers<Q> {
    asked: Vec<Q>,
    kept: fn(&Q) -> bool,
    waiting: VecDeque<(Q, oneshot::Sender<Permission>)>,
}

impl<Q: Clone + PartialEq> Desk<Q> {
    pub(super) fn new(bell: Bell) -> Self {
        let papers = Papers { asked: Vec::new(), kept: |_| false, waiting: VecDeque::new() };
        Self { bell, papers: Mutex::new(papers) }
    }

    /// Makes a request; the answer comes through the receiver.
    pub(super) fn ask(&self, question: Q) -> oneshot::Receiver<Permission> {
        let (reply, verdict) = oneshot::channel();
        let mut papers = self.papers.lock().unwrap();
        papers.asked.push(question.clone());
        if (papers.kept)(&question) {
            papers.waiting.push_back((question, reply));
        } else {
            let _unheard = reply.send(Ok(()));
        }
        self.bell.ring();
        verdict
    }

    /// From now on such requests wait for [`Desk::answer`].
    pub(super) fn keep(&self, kept: fn(&Q) -> bool) {
        self.papers.lock().unwrap().kept = kept;
    }

    /// The requests that wait for an answer and were not given up.
    pub(super) fn waiting(&self) -> Vec<Q> {
        let papers = self.papers.lock().unwrap();
        let open = papers.waiting.iter().filter(|(_, reply)| !reply.is_closed());
        open.map(|(question, _)| question.clone()).collect()
    }

    /// Answers the request that has waited longest. True if it was still awaited.
    pub(super) fn answer(&self, verdict: Permission) -> bool {
        let (_, reply) = self.papers.lock().unwrap().waiting.pop_front().unwrap();
        reply.send(verdict).is_ok()
    }

    /// From now on no request is answered.
    pub(super) fn close(&self) {
        let mut papers = self.papers.lock().unwrap_or_else(PoisonError::into_inner);
        papers.kept = |_| false;
        papers.waiting.clear();
    }

    /// Every request so far.
    pub(super) fn asked(&self) -> Vec<Q> {
        self.papers.lock().unwrap().asked.clone()
    }

    pub(super) fn count(&self, question: &Q) -> usize {
        self.papers.lock().unwrap().asked.iter().filter(|asked| *asked == question).count()
    }
}

/// After the test has ended nothing is answered.
pub(super) fn verdict(heard: Result<Permission, oneshot::error::RecvError>) -> Permission {
    heard.unwrap_or_else(|_| Err(Failure::new(Code::KafkaUnreachable, "the test is over")))
}
