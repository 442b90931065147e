//! One connection through the proxy: two pumps, and a task that watches the commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::{Direction, ForwardedBytes, ProxyMode, ProxyState};

const CHUNK: usize = 16 * 1024;
/// Chunks kept for each direction: 64 MiB at most; then the sender has to wait.
const KEPT_CHUNKS: usize = 4096;

type Chunk = (Instant, Vec<u8>);

/// Carries one connection until either side closes it or a command ends it.
pub(super) async fn forward(
    client: TcpStream,
    mut state: watch::Receiver<ProxyState>,
    passed: Arc<ForwardedBytes>,
) {
    let (mode, target) = {
        let control = state.borrow_and_update();
        (control.mode, control.target.clone())
    };
    let lost = AtomicBool::new(mode == ProxyMode::BlackHole);
    let end = ended_by_command(state.clone(), &lost);
    if mode == ProxyMode::BlackHole {
        let mut client = client;
        tokio::select! {
            () = discard(&mut client) => {}
            () = end => {}
        }
        return;
    }
    let Ok(server) = TcpStream::connect(target).await else { return };
    // Small packets pass at once: the proxy must delay only when it is asked to.
    if client.set_nodelay(true).is_err() || server.set_nodelay(true).is_err() {
        return;
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let requests = Pump { way: Direction::Requests, state: state.clone(), lost: &lost };
    let answers = Pump { way: Direction::Answers, state, lost: &lost };
    let both_ways = async {
        tokio::join!(
            requests.run(from_client, to_server, &passed.requests),
            answers.run(from_server, to_client, &passed.answers),
        )
    };
    tokio::select! {
        _ = both_ways => {}
        () = end => {}
    }
}

async fn discard(client: &mut TcpStream) {
    let mut buffer = vec![0; CHUNK];
    while matches!(client.read(&mut buffer).await, Ok(count) if count > 0) {}
}

/// Returns when the connection is cut, or when bytes were dropped and that mode is over: what comes
/// after a hole in the stream must not arrive.
async fn ended_by_command(mut state: watch::Receiver<ProxyState>, lost: &AtomicBool) {
    let epoch = state.borrow_and_update().epoch;
    while state.changed().await.is_ok() {
        let control = state.borrow_and_update();
        let holed = lost.load(Ordering::Relaxed) && control.mode != ProxyMode::BlackHole;
        if control.epoch != epoch || holed {
            return;
        }
    }
}

/// One direction of one connection.
struct Pump<'a> {
    way: Direction,
    state: watch::Receiver<ProxyState>,
    lost: &'a AtomicBool,
}

impl Pump<'_> {
    async fn run(&self, from: OwnedReadHalf, to: OwnedWriteHalf, passed: &AtomicU64) {
        let (keep, kept) = mpsc::channel(KEPT_CHUNKS);
        tokio::join!(self.read(from, keep), self.write(kept, to, passed));
    }

    /// Reads while reading is allowed.
    async fn read(&self, mut from: OwnedReadHalf, keep: mpsc::Sender<Chunk>) {
        let mut state = self.state.clone();
        let mut buffer = vec![0; CHUNK];
        loop {
            if state.wait_for(|control| !self.paused(control.mode)).await.is_err() {
                return;
            }
            tokio::select! {
                biased;
                changed = state.changed() => if changed.is_err() { return },
                read = from.read(&mut buffer) => {
                    let Ok(count) = read else { return };
                    let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
                        return;
                    };
                    let due = Instant::now() + state.borrow().delay;
                    if keep.send((due, bytes.to_vec())).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Writes what was read, when it is due and writing is allowed.
    async fn write(
        &self,
        mut kept: mpsc::Receiver<Chunk>,
        mut to: OwnedWriteHalf,
        passed: &AtomicU64,
    ) {
        let mut state = self.state.clone();
        while let Some((due, bytes)) = kept.recv().await {
            sleep_until(due).await;
            let Ok(mode) =
                state.wait_for(|control| !self.held(control.mode)).await.map(|now| now.mode)
            else {
                return;
            };
            if mode == ProxyMode::BlackHole {
                self.lost.store(true, Ordering::Relaxed);
                continue;
            }
            if to.write_all(&bytes).await.is_err() {
                return;
            }
            passed.fetch_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        // The sender has closed its side. The receiver learns of it, and may still send.
        drop(to.shutdown().await);
    }

    fn paused(&self, mode: ProxyMode) -> bool {
        matches!(mode, ProxyMode::Pause(way) if way == self.way || way == Direction::Both)
    }

    fn held(&self, mode: ProxyMode) -> bool {
        self.paused(mode) || (mode == ProxyMode::HoldAnswers && self.way == Direction::Answers)
    }
}
