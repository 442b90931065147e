//! What is done to a router, or to the servers under it, that is no gap. `OUTBOX_RESTARTS=200` for
//! the long run.

use e2e::{Fixture, SHORT_DEADLINE};
use testbed::load::Load;
use testbed::router::RouterProcess;

use super::super::{streaming_fixture, write};

fn errors(router: &RouterProcess) -> Vec<String> {
    router.log().lines().filter(|line| line.contains(" ERROR ")).map(str::to_owned).collect()
}

/// Another instance has the slot for a while, and its work is unknown to this one.
async fn take_over(fixture: &mut Fixture) -> Vec<String> {
    let mut other = RouterProcess::with_config(&fixture.config.to_string()).unwrap();
    other.start_again().unwrap();
    other.wait_state("standby", SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    other.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
    write(fixture, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    other.kill9().await.unwrap();
    errors(&other)
}

#[tokio::test]
async fn restarts_and_takeovers_are_no_gaps() {
    let times: u64 = std::env::var("OUTBOX_RESTARTS").map_or(12, |times| times.parse().unwrap());
    let mut fixture = streaming_fixture(Fixture::builder()).await;
    let mut stops = Vec::new();
    for time in 0..times {
        // Each time it is at another place in these rows.
        let amid = fixture.load(Load { events: Some(1 + time * 37 % 90), ..Load::default() });
        match time % 4 {
            0 => fixture.kill_router().await.unwrap(),
            1 => {
                fixture.router.sigterm().unwrap();
                fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
            }
            2 => {
                fixture.kill_router().await.unwrap();
                fixture.postgres.kill9().await.unwrap();
                fixture.postgres.start_again().await.unwrap();
            }
            _ => stops.extend(take_over(&mut fixture).await),
        }
        fixture.note(amid.finished().await.unwrap());
        write(&mut fixture, 10).await;
        fixture.restart().await.unwrap();
    }
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    stops.extend(errors(&fixture.router));
    eprintln!("restarts: {times} restarts and takeovers · {} false stops", stops.len());
    assert!(stops.is_empty(), "{stops:#?}");
    fixture.check().await.unwrap().clean().unwrap();
}
