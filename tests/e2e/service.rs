//! What systemd hears of a router that is started with `Type=notify`: a socket that the scenario
//! reads takes its place.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use e2e::{Fixture, SHORT_DEADLINE};
use testbed::postgres::ShutdownMode;
use testbed::router::RouterProcess;
use tokio::time::Instant;

/// The service manager's end of the socket.
pub(crate) struct Manager {
    socket: UnixDatagram,
    /// Every line that was heard.
    pub(crate) heard: Vec<String>,
}

impl Manager {
    /// Makes the socket that the next start of the router finds, and asks for a sign of life every
    /// second and a half.
    pub(crate) fn listen(router: &mut RouterProcess) -> Self {
        let path = router.dir().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        router.set_env("NOTIFY_SOCKET", path.to_str());
        router.set_env("WATCHDOG_USEC", Some("1500000"));
        Self { socket, heard: Vec::new() }
    }

    fn hear(&mut self) {
        let mut message = [0; 4096];
        while let Ok(length) = self.socket.recv(&mut message) {
            let text = std::str::from_utf8(message.get(..length).unwrap()).unwrap();
            self.heard.extend(text.lines().map(str::to_owned));
        }
    }

    pub(crate) async fn hear_for(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
        self.hear();
    }

    /// Waits for a line that begins so, and returns everything that was heard since the last call.
    pub(crate) async fn wait_for(&mut self, start: &str) -> Vec<String> {
        let deadline = Instant::now() + SHORT_DEADLINE;
        loop {
            self.hear_for(Duration::from_millis(50)).await;
            if self.heard.iter().any(|line| line.starts_with(start)) {
                return std::mem::take(&mut self.heard);
            }
            assert!(Instant::now() < deadline, "no {start} in {:?}", self.heard);
        }
    }
}

#[tokio::test]
async fn systemd_hears_of_the_start_when_rows_stream_and_of_the_stop() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let mut manager = Manager::listen(&mut fixture.router);
    fixture.postgres.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
    fixture.router.start_again().unwrap();

    // PostgreSQL is not there: the router says so, is alive, and has not started yet.
    let waiting = manager.wait_for("STATUS=blocked: ").await;
    manager.hear_for(Duration::from_secs(4)).await;
    let signs = manager.heard.iter().filter(|line| *line == "WATCHDOG=1").count();
    assert!(signs >= 2, "{:?}", manager.heard);
    assert!(!waiting.iter().chain(&manager.heard).any(|line| line == "READY=1"));
    assert_eq!(fixture.router.get("/startupz").await.unwrap().status, 503);
    assert_eq!(fixture.router.get("/livez?verbose").await.unwrap().status, 200);

    fixture.postgres.start_again().await.unwrap();
    manager.wait_for("READY=1").await;
    assert_eq!(fixture.router.get("/startupz").await.unwrap().status, 200);
    let streaming = manager.wait_for("STATUS=ok: rows flow").await;
    let lines = streaming.iter().filter(|line| line.starts_with("STATUS=ok: "));
    assert!(lines.clone().all(|line| !line.contains('(')), "{streaming:?}");
    let line = manager.wait_for("STATUS=ok: rows flow").await;
    let figures = line.iter().find(|line| line.starts_with("STATUS=")).unwrap();
    assert!(figures.contains(" behind, ") && figures.ends_with(" events/s"), "{figures}");

    fixture.router.sigterm().unwrap();
    let stop = manager.wait_for("STOPPING=1").await;
    assert!(!stop.iter().any(|line| line == "READY=1"), "it was said: {stop:?}");
    let status = fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    assert_eq!(status.code(), Some(0));
}

/// Where nothing is said of the service, nothing listens.
#[tokio::test]
async fn a_notify_socket_that_nobody_reads_stops_nothing() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let nowhere = fixture.router.dir().join("nobody");
    fixture.router.set_env("NOTIFY_SOCKET", nowhere.to_str());
    fixture.router.start_again().unwrap();
    fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
}
