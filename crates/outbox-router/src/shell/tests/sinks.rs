//! Producers that are replaced: what a former producer's client still answers does not count for
//! the present one.
//!
//! A request that the test keeps unanswered occupies a blocking thread, and tokio's paused clock
//! stands still meanwhile. So tests in which the router reconnects at that time run in real time.

use super::{kafka::Ask, *};

fn is_look_up(ask: &Ask) -> bool {
    matches!(ask, Ask::LookUp(..))
}

/// The producer fails, and a new one is made.
async fn replace(stage: &mut Stage) {
    let next = stage.world.kafka.producers() + 1;
    stage.world.producer().break_down(failure(Code::ProducerFatal));
    stage.until("another producer", |world| world.kafka.producers() == next).await;
    while stage.shell.sink.is_none() {
        assert_eq!(stage.shell.turn().await, None);
    }
}

/// The partition count may have changed, and the topic is not bound in the new producer.
#[tokio::test]
async fn a_look_up_through_a_former_producer_is_ignored() {
    let mut stage = Stage::streaming(settings()).await;
    stage.world.kafka.desk().keep(is_look_up);
    let invoice = [wire::begin(100, 0), row_of("invoice", "a", "{}")];
    stage.world.walsender().send(&invoice);
    let asked = |world: &mut World| !world.kafka.desk().waiting().is_empty();
    stage.until("the look-up", asked).await;
    replace(&mut stage).await;
    stage.until("another stream", |world| world.postgres.walsenders() == 2).await;
    stage.world.walsender().send(&described());
    stage.world.walsender().send(&invoice);
    let asked_again = |world: &mut World| world.kafka.desk().waiting().len() == 2;
    stage.until("another look-up", asked_again).await;

    stage.world.kafka.desk().answer(Ok(()));
    stage.until_jobs(1).await;
    assert_eq!(stage.world.producer().bound(), 0);
    assert_eq!(stage.world.producer().in_flight(), 0);
    stage.world.kafka.desk().answer(Ok(()));
    stage.produced(1).await;
    assert_eq!(stage.world.producer().bound(), 1);
}

/// A request through the former producer's client that is not answered does not affect the present
/// one's health.
#[tokio::test]
async fn a_topic_refresh_through_a_former_producer_is_ignored() {
    let mut stage = Stage::streaming(settings()).await;
    stage.world.kafka.desk().keep(|ask| matches!(ask, Ask::See(_)));
    let directory = stage.shell.refresher.directory().cloned().unwrap();
    stage.shell.start(Job::LookAtTopics(directory));
    stage.until("the look", |world| !world.kafka.desk().waiting().is_empty()).await;
    replace(&mut stage).await;
    stage.world.kafka.desk().answer(Err(failure(Code::KafkaUnreachable)));
    stage.until_jobs(0).await;
    assert_eq!(stage.shell.sink.as_ref().unwrap().down, None);
}

/// Another router may have written since that read.
#[tokio::test]
async fn a_state_topic_read_through_a_former_producer_is_read_again() {
    let mut stage = Stage::begun(witnessed());
    stage.world.kafka.desk().keep(|ask| matches!(ask, Ask::StateRead(_)));
    let asked = |world: &mut World| !world.kafka.desk().waiting().is_empty();
    stage.until("the reading", asked).await;
    replace(&mut stage).await;
    let readings = [Ask::StateRead(0), Ask::StateRead(1)];
    let asked = |world: &mut World| world.kafka.desk().waiting() == readings;
    stage.until("another reading", asked).await;
    stage.world.kafka.desk().answer(Ok(()));
    stage.until_jobs(1).await;
    // Whatever follows from the first read happens here.
    stage.shell.act();
    tokio::task::yield_now().await;
    assert_eq!(stage.world.postgres.desk().asked(), [], "nothing was judged by the first");
    stage.world.kafka.desk().keep(|_| false);
    stage.world.kafka.desk().answer(Ok(()));
    stage.until("a stream", |world| world.postgres.walsenders() == 1).await;
}

/// A session without a producer would read nothing, and neither a server nor a process that stops
/// may wait for that.
#[tokio::test(start_paused = true)]
async fn no_session_begins_while_the_producer_is_replaced() {
    let mut stage = Stage::streaming(settings()).await;
    stage.world.walsender().send(&transaction(100, &["a"]));
    stage.produced(1).await;
    // The records of one session fail while the next is about to begin.
    stage.world.postgres.desk().keep(|ask| matches!(ask, postgres::Ask::Start(_)));
    stage.world.walsender().hang_up();
    let asked = |world: &mut World| !world.postgres.desk().waiting().is_empty();
    stage.until("the last step", asked).await;
    stage.world.kafka.desk().keep(|ask| matches!(ask, Ask::Open(_)));
    stage.world.producer().fail(failure(Code::DeliveryFailed));
    let asked = |world: &mut World| !world.kafka.desk().waiting().is_empty();
    stage.until("another producer's opening", asked).await;
    stage.world.postgres.desk().answer(Ok(()));
    stage.until_jobs(1).await;
    assert_eq!(stage.world.postgres.desk().count(&postgres::Ask::SlotBeside), 1);

    stage.world.shut_down();
    let before = Instant::now();
    assert_eq!(stage.outcome().await, ExitReason::DeadlinePassed, "the record is unacknowledged");
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(stage.world.kafka.producers(), 1, "the other is not there yet");
}

/// The write in flight may be stored or not; the next producer writes it again in any case.
#[tokio::test(start_paused = true)]
async fn a_write_of_the_witness_that_was_lost_with_its_producer_is_repeated() {
    let mut stage = super::order::witnessed_stage().await;
    let writes = stage.world.producer().writes();
    stage.world.walsender().send(&transaction(100, &["a"]));
    stage.produced(1).await;
    stage.world.producer().ack_all();
    stage.until("a write", |world| world.producer().writes() > writes).await;
    replace(&mut stage).await;
    stage.until("another stream", |world| world.postgres.walsenders() == 2).await;
    // The process still knows that this is acknowledged.
    stage.world.walsender().send(&transaction(100, &["a"]));
    stage.world.walsender().send(&[wire::keepalive(1_000)]);
    stage.until("the write", |world| world.producer().writes() == 1).await;
    assert_eq!(stage.world.producer().in_flight(), 0, "it is not produced again");
    stage.world.producer().ack_write(&stage.world.kafka);
    stage.until("the next", |world| world.producer().writes() == 2).await;
}

/// Otherwise nothing would be confirmed any more: the core waits for its acknowledgement.
#[tokio::test(start_paused = true)]
async fn a_write_of_the_witness_that_found_the_queue_full_is_repeated_when_there_is_room() {
    let mut stage = super::order::witnessed_stage().await;
    let writes = stage.world.producer().writes();
    stage.world.producer().has(kafka::Room::None);
    stage.world.walsender().send(&transaction(100, &["a"]));
    stage.produced(1).await;
    stage.world.producer().ack_all();
    stage.pass_time(Duration::from_secs(3)).await;
    assert_eq!(stage.world.producer().writes(), writes);
    stage.world.producer().has(kafka::Room::Some);
    stage.until("the write", |world| world.producer().writes() > writes).await;
}

/// Without a producer there is no client to ask through: the core tries again.
#[tokio::test(start_paused = true)]
async fn without_a_producer_writes_and_reads_of_the_state_topic_start_no_job() {
    let mut stage = super::order::witnessed_stage().await;
    stage.world.kafka.desk().keep(|ask| matches!(ask, Ask::Open(_)));
    stage.world.producer().break_down(failure(Code::ProducerFatal));
    stage.until("the opening", |world| !world.kafka.desk().waiting().is_empty()).await;
    stage.shell.write_state(Write { number: 99, key: b"k".to_vec(), value: None });
    stage.shell.start(Job::ReadState(0));
    assert_eq!(stage.shell.jobs.len(), 1, "but for the opening nothing was begun");
    stage.world.kafka.desk().answer(Ok(()));
    stage.until("another stream", |world| world.postgres.walsenders() == 2).await;
}

/// The cause (a certificate file, a limit of the machine) may pass.
#[tokio::test(start_paused = true)]
async fn a_producer_that_could_not_be_created_is_tried_again() {
    let mut stage = Stage::begun(settings());
    stage.world.kafka.desk().keep(|ask| matches!(ask, Ask::Open(_)));
    stage.until("the opening", |world| !world.kafka.desk().waiting().is_empty()).await;
    stage.world.kafka.desk().keep(|_| false);
    stage.world.kafka.desk().answer(Err(failure(Code::ProducerFatal)));
    let before = Instant::now();
    stage.until("a producer", |world| world.kafka.producers() == 1).await;
    assert_eq!(before.elapsed().as_secs(), 30);
}

/// A principal that may not write: every new producer fails as soon as it is made.
#[tokio::test(start_paused = true)]
async fn producers_that_fail_at_once_are_replaced_after_growing_waits_and_the_reason_is_reported() {
    let mut stage = Stage::streaming(settings()).await;
    let begun = Instant::now();
    let mut at_once = 0;
    while begun.elapsed() < Duration::from_secs(20) {
        let (count, before) = (stage.world.kafka.producers(), Instant::now());
        let failed = stage.world.producer();
        failed.break_down(failure(Code::ClusterForbidden));
        stage.until("its end", |_| failed.is_closed()).await;
        stage.until("another producer", |world| world.kafka.producers() > count).await;
        while stage.shell.sink.is_none() {
            assert_eq!(stage.shell.turn().await, None);
        }
        at_once += u32::from(before.elapsed() < Duration::from_millis(40));
        if count > 1 {
            assert_eq!(stage.state(), (State::Blocked, Some(Code::ClusterForbidden)));
        }
    }
    let made = stage.world.kafka.producers();
    assert!((8..=16).contains(&made), "{made} producers in 20 s");
    assert_eq!(at_once, 1);
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_another_producer_does_not_delay_the_exit() {
    let mut stage = Stage::streaming(settings()).await;
    for _ in 0..6 {
        replace(&mut stage).await;
    }
    let last = stage.world.producer();
    last.break_down(failure(Code::ProducerFatal));
    stage.until("its end", |_| last.is_closed()).await;
    let count = stage.world.kafka.producers();
    stage.world.shut_down();
    let before = Instant::now();
    assert_eq!(stage.outcome().await, ExitReason::Drained);
    stage.shell.leave().await;
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(stage.world.kafka.producers(), count);
}
