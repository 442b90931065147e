//! Kafka goes away in the middle of a run.

use e2e::{Fixture, LONG_DEADLINE, wait_settled};
use testbed::proxy::ProxyMode;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::timeout;

use super::{line, missing_and_repeated, steps_back, write};

const ROWS: i32 = 30_000;

#[tokio::test]
async fn a_broker_that_is_away_for_a_while_delays_the_run_and_nothing_else() {
    let fixture = Fixture::builder().proxied_kafka().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    write(&fixture, &session, ROWS, 100).await;
    let line = line(&fixture, &["--all", "--rate", "10000"]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let mut run = fixture.router.start_command(&line).unwrap();
    wait_settled(&session, 5_000).await.unwrap();
    let proxy = fixture.kafka_proxy().unwrap();
    proxy.set(ProxyMode::Refuse).await.unwrap();
    proxy.cut();
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines();
    let mut told = async |what: &str| {
        let found = async {
            loop {
                let line = lines.next_line().await.unwrap().expect("the command goes on");
                if line.starts_with(what) {
                    return;
                }
            }
        };
        timeout(LONG_DEADLINE, found).await.expect("it is told");
    };
    told("waiting for Kafka: K0").await;
    proxy.set(ProxyMode::Forward).await.unwrap();
    told("Kafka answers again").await;
    let output = run.wait_with_output().await.unwrap();
    let answer = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{answer}");
    let seen = fixture.seen().await.unwrap();
    assert_eq!(missing_and_repeated(&seen, ROWS), (0, 0));
    for partition in 0..3 {
        assert_eq!(steps_back(&seen, partition), 0, "partition {partition}");
    }
}
