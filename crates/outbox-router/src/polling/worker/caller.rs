//! Something that carries out one request at a time, and is not there meanwhile.

use std::{future::Future, pin::Pin};

/// See the module's header.
pub(super) enum Caller<T, A> {
    /// It waits for a request.
    Idle(T),
    /// It carries one out.
    Busy(Pin<Box<dyn Future<Output = (T, A)> + Send>>),
    /// It is being handed over.
    Moving,
}

impl<T: Send + 'static, A: Send + 'static> Caller<T, A> {
    /// Begins a request. Returns `false`, and begins nothing, while another one is carried out.
    pub(super) fn call<F>(&mut self, request: impl FnOnce(T) -> F) -> bool
    where
        F: Future<Output = (T, A)> + Send + 'static,
    {
        match std::mem::replace(self, Self::Moving) {
            Self::Idle(callee) => {
                *self = Self::Busy(Box::pin(request(callee)));
                true
            }
            busy @ (Self::Busy(_) | Self::Moving) => {
                *self = busy;
                false
            }
        }
    }

    /// Waits for the answer to the request; for ever while there is none. Cancel-safe.
    pub(super) async fn answer(&mut self) -> A {
        let Self::Busy(future) = self else { return std::future::pending().await };
        let (callee, answer) = future.await;
        *self = Self::Idle(callee);
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::{future::ready, task::Poll};

    use super::*;

    #[tokio::test]
    async fn one_request_is_carried_out_at_a_time_and_its_answer_is_kept() {
        let mut caller = Caller::Idle(7);
        assert!(caller.call(|number| ready((number, number + 1))));
        assert!(!caller.call(|number| ready((number, 0))), "it is busy");
        assert_eq!(caller.answer().await, 8);
        assert!(caller.call(|number| ready((number, number + 2))));
        assert_eq!(caller.answer().await, 9);
    }

    #[tokio::test]
    async fn without_a_request_there_is_no_answer() {
        let mut caller: Caller<u8, u8> = Caller::Idle(7);
        let mut answer = std::pin::pin!(caller.answer());
        let poll = std::future::poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
        assert!(poll.is_pending());
    }
}
