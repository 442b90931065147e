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
pub(super) struct TestWaker(Arc<Mutex<Option<Waker>>>);

impl TestWaker {
    pub(super) fn set(&self, waker: &Waker) {
        *self.0.lock().unwrap() = Some(waker.clone());
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = self.0.lock().unwrap().take() {
            waker.wake();
        }
    }
}

/// Permission to answer, or why there is no answer.
pub(super) type Permission = Result<(), Failure>;

/// The requests of one peer.
pub(super) struct Requests<Q> {
    test_waker: TestWaker,
    state: Mutex<RequestState<Q>>,
}

struct RequestState<Q> {
    made: Vec<Q>,
    held: fn(&Q) -> bool,
    waiting: VecDeque<(Q, oneshot::Sender<Permission>)>,
}

impl<Q: Clone + PartialEq> Requests<Q> {
    pub(super) fn new(test_waker: TestWaker) -> Self {
        let state = RequestState { made: Vec::new(), held: |_| false, waiting: VecDeque::new() };
        Self { test_waker, state: Mutex::new(state) }
    }

    /// Makes a request; the answer comes through the receiver.
    pub(super) fn make(&self, request: Q) -> oneshot::Receiver<Permission> {
        let (reply, permission) = oneshot::channel();
        let mut state = self.state.lock().unwrap();
        state.made.push(request.clone());
        if (state.held)(&request) {
            state.waiting.push_back((request, reply));
        } else {
            let _unreceived = reply.send(Ok(()));
        }
        self.test_waker.wake();
        permission
    }

    /// From now on such requests wait for [`Requests::answer`].
    pub(super) fn hold(&self, held: fn(&Q) -> bool) {
        self.state.lock().unwrap().held = held;
    }

    /// The requests that wait for an answer and were not given up.
    pub(super) fn waiting(&self) -> Vec<Q> {
        let state = self.state.lock().unwrap();
        let open = state.waiting.iter().filter(|(_, reply)| !reply.is_closed());
        open.map(|(request, _)| request.clone()).collect()
    }

    /// Answers the request that has waited longest. True if it was still awaited.
    pub(super) fn answer(&self, permission: Permission) -> bool {
        let (_, reply) = self.state.lock().unwrap().waiting.pop_front().unwrap();
        reply.send(permission).is_ok()
    }

    /// From now on no request is answered.
    pub(super) fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.held = |_| false;
        state.waiting.clear();
    }

    /// Every request so far.
    pub(super) fn made(&self) -> Vec<Q> {
        self.state.lock().unwrap().made.clone()
    }

    pub(super) fn count(&self, request: &Q) -> usize {
        self.state.lock().unwrap().made.iter().filter(|made| *made == request).count()
    }
}

/// After the test has ended nothing is answered.
pub(super) fn permission(received: Result<Permission, oneshot::error::RecvError>) -> Permission {
    received.unwrap_or_else(|_| Err(Failure::new(Code::KafkaUnreachable, "the test is over")))
}
