//! The endpoint on a thread and a runtime of its own, as in the router.

use std::{
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use relay::{Latencies, State, TOPICS_COUNTED, TopicName, TopicTotals};
use tokio::{net::TcpListener, sync::oneshot};

use crate::admin_fixture::{Endpoint, snapshot, start_on};

/// One test at a time: memory and files are counted of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

pub(crate) struct Server {
    _alone: MutexGuard<'static, ()>,
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves a page of metrics that is as large as it may become.
    pub(crate) fn start() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (stop, stopped) = oneshot::channel();
        let (send, address) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut endpoint = start_on(listener(), async {
                    let _dropped = stopped.await;
                });
                show_many_topics(&endpoint);
                send.send(endpoint.address).unwrap();
                (&mut endpoint.server).await.unwrap();
            });
        });
        let address = address.recv_timeout(Duration::from_secs(10)).unwrap();
        Self { _alone: alone, address, stop: Some(stop), thread: Some(thread) }
    }

    /// Asks for the end, and waits for it.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// With a small send buffer, which its connections inherit: the kernel would take the whole page
/// for a client that does not read, at this end, too.
fn listener() -> TcpListener {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_send_buffer_size(8 << 10).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    // More than the 128 of the router's own, so that clients come faster than they would there.
    socket.listen(1024).unwrap();
    socket.set_nonblocking(true).unwrap();
    TcpListener::from_std(socket.into()).unwrap()
}

fn show_many_topics(endpoint: &Endpoint) {
    let topics = (0..TOPICS_COUNTED).map(|number| TopicTotals {
        name: TopicName::new(&format!("outbox.event.topic-{number}")).unwrap(),
        acked: 10,
        latencies: Latencies::default(),
    });
    let mut shown = snapshot(State::Streaming);
    shown.topics = topics.collect();
    endpoint.relay.send_modify(|report| report.snapshot = shown);
}
