//! What is done to a router, or to the servers under it, that is no gap. `OUTBOX_RESTARTS=200` for
//! the long run.

use e2e::{SOON, Stage};
use testbed::load::Load;
use testbed::router::RouterProcess;

use super::super::{flowing, write};

fn errors(router: &RouterProcess) -> Vec<String> {
    router.log().lines().filter(|line| line.contains(" ERROR ")).map(str::to_owned).collect()
}

/// Another instance has the slot for a while, and its work is unknown to this one.
async fn take_over(stage: &mut Stage) -> Vec<String> {
    let mut other = RouterProcess::with_config(&stage.config.to_string()).unwrap();
    other.start_again().unwrap();
    other.wait_state("standby", SOON).await.unwrap();
    stage.kill_router().await.unwrap();
    other.wait_state("streaming", SOON).await.unwrap();
    write(stage, 10).await;
    stage.wait_confirmed(SOON).await.unwrap();
    other.kill9().await.unwrap();
    errors(&other)
}

#[tokio::test]
async fn restarts_and_takeovers_are_no_gaps() {
    let times: u64 = std::env::var("OUTBOX_RESTARTS").map_or(12, |times| times.parse().unwrap());
    let mut stage = flowing(Stage::builder()).await;
    let mut stops = Vec::new();
    for time in 0..times {
        // Each time it is at another place in these rows.
        let amid = stage.load(Load { events: Some(1 + time * 37 % 90), ..Load::default() });
        match time % 4 {
            0 => stage.kill_router().await.unwrap(),
            1 => {
                stage.router.sigterm().unwrap();
                stage.router.wait_exit(SOON).await.unwrap();
            }
            2 => {
                stage.kill_router().await.unwrap();
                stage.postgres.kill9().await.unwrap();
                stage.postgres.start_again().await.unwrap();
            }
            _ => stops.extend(take_over(&mut stage).await),
        }
        stage.note(amid.finished().await.unwrap());
        write(&mut stage, 10).await;
        stage.restart().await.unwrap();
    }
    stage.wait_confirmed(SOON).await.unwrap();
    stops.extend(errors(&stage.router));
    eprintln!("restarts: {times} restarts and takeovers · {} false stops", stops.len());
    assert!(stops.is_empty(), "{stops:#?}");
    stage.verdict().await.unwrap().clean().unwrap();
}
