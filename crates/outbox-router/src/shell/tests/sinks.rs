//! Producers that are replaced: what a former producer's client still answers does not count for
//! the present one.
//!
//! A request that the test keeps unanswered occupies a blocking thread, and tokio's paused clock
//! stands still meanwhile. So tests in which the router reconnects at that time run in real time.

use super::{kafka::Request, *};

fn is_look_up(request: &Request) -> bool {
    matches!(request, Request::LookUp(..))
}

/// The producer fails, and a new one is made.
async fn replace(fixture: &mut Fixture) {
    let next = fixture.world.kafka.producers() + 1;
    fixture.world.producer().break_down(failure(Code::ProducerFatal));
    fixture.until("another producer", |world| world.kafka.producers() == next).await;
    while fixture.shell.sink.is_none() {
        assert_eq!(fixture.shell.turn().await, None);
    }
}

/// The partition count may have changed, and the topic is not bound in the new producer.
#[tokio::test]
async fn a_look_up_through_a_former_producer_is_ignored() {
    let mut fixture = Fixture::streaming(settings()).await;
    fixture.world.kafka.requests().hold(is_look_up);
    let invoice = [wire::begin(100, 0), row_of("invoice", "a", "{}")];
    fixture.world.walsender().send(&invoice);
    let asked = |world: &mut World| !world.kafka.requests().waiting().is_empty();
    fixture.until("the look-up", asked).await;
    replace(&mut fixture).await;
    fixture.until("another stream", |world| world.postgres.walsenders() == 2).await;
    fixture.world.walsender().send(&described());
    fixture.world.walsender().send(&invoice);
    let asked_again = |world: &mut World| world.kafka.requests().waiting().len() == 2;
    fixture.until("another look-up", asked_again).await;

    fixture.world.kafka.requests().answer(Ok(()));
    fixture.until_jobs(1).await;
    assert_eq!(fixture.world.producer().bound(), 0);
    assert_eq!(fixture.world.producer().in_flight(), 0);
    fixture.world.kafka.requests().answer(Ok(()));
    fixture.produced(1).await;
    assert_eq!(fixture.world.producer().bound(), 1);
}

/// A request through the former producer's client that is not answered does not affect the present
/// one's health.
#[tokio::test]
async fn a_topic_refresh_through_a_former_producer_is_ignored() {
    let mut fixture = Fixture::streaming(settings()).await;
    fixture.world.kafka.requests().hold(|request| matches!(request, Request::See(_)));
    let topic_client = fixture.shell.refresher.topic_client().cloned().unwrap();
    fixture.shell.start(Job::RefreshTopics(topic_client));
    fixture.until("the look", |world| !world.kafka.requests().waiting().is_empty()).await;
    replace(&mut fixture).await;
    fixture.world.kafka.requests().answer(Err(failure(Code::KafkaUnreachable)));
    fixture.until_jobs(0).await;
    assert_eq!(fixture.shell.sink.as_ref().unwrap().down, None);
}

/// Another router may have written since that read.
#[tokio::test]
async fn a_state_topic_read_through_a_former_producer_is_read_again() {
    let mut fixture = Fixture::begun(witnessed());
    fixture.world.kafka.requests().hold(|request| matches!(request, Request::StateTopicRead(_)));
    let asked = |world: &mut World| !world.kafka.requests().waiting().is_empty();
    fixture.until("the reading", asked).await;
    replace(&mut fixture).await;
    let readings = [Request::StateTopicRead(0), Request::StateTopicRead(1)];
    let asked = |world: &mut World| world.kafka.requests().waiting() == readings;
    fixture.until("another reading", asked).await;
    fixture.world.kafka.requests().answer(Ok(()));
    fixture.until_jobs(1).await;
    // Whatever follows from the first read happens here.
    fixture.shell.act();
    tokio::task::yield_now().await;
    assert_eq!(fixture.world.postgres.requests().made(), [], "nothing was judged by the first");
    fixture.world.kafka.requests().hold(|_| false);
    fixture.world.kafka.requests().answer(Ok(()));
    fixture.until("a stream", |world| world.postgres.walsenders() == 1).await;
}

/// A session without a producer would read nothing, and neither a server nor a process that stops
/// may wait for that.
#[tokio::test(start_paused = true)]
async fn no_session_begins_while_the_producer_is_replaced() {
    let mut fixture = Fixture::streaming(settings()).await;
    fixture.world.walsender().send(&transaction(100, &["a"]));
    fixture.produced(1).await;
    // The records of one session fail while the next is about to begin.
    fixture
        .world
        .postgres
        .requests()
        .hold(|request| matches!(request, postgres::Request::Start(_)));
    fixture.world.walsender().hang_up();
    let asked = |world: &mut World| !world.postgres.requests().waiting().is_empty();
    fixture.until("the last step", asked).await;
    fixture.world.kafka.requests().hold(|request| matches!(request, Request::Open(_)));
    fixture.world.producer().fail(failure(Code::DeliveryFailed));
    let asked = |world: &mut World| !world.kafka.requests().waiting().is_empty();
    fixture.until("another producer's opening", asked).await;
    fixture.world.postgres.requests().answer(Ok(()));
    fixture.until_jobs(1).await;
    assert_eq!(fixture.world.postgres.requests().count(&postgres::Request::SlotBeside), 1);

    fixture.world.shut_down();
    let before = Instant::now();
    assert_eq!(
        fixture.outcome().await,
        ExitReason::EventsUnconfirmed,
        "the record is unacknowledged"
    );
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(fixture.world.kafka.producers(), 1, "the other is not there yet");
}

/// The write in flight may be stored or not; the next producer writes it again in any case.
#[tokio::test(start_paused = true)]
async fn a_write_of_the_witness_that_was_lost_with_its_producer_is_repeated() {
    let mut fixture = super::order::witnessed_fixture().await;
    let writes = fixture.world.producer().writes();
    fixture.world.walsender().send(&transaction(100, &["a"]));
    fixture.produced(1).await;
    fixture.world.producer().ack_all();
    fixture.until("a write", |world| world.producer().writes() > writes).await;
    replace(&mut fixture).await;
    fixture.until("another stream", |world| world.postgres.walsenders() == 2).await;
    // The process still knows that this is acknowledged.
    fixture.world.walsender().send(&transaction(100, &["a"]));
    fixture.world.walsender().send(&[wire::keepalive(1_000)]);
    fixture.until("the write", |world| world.producer().writes() == 1).await;
    assert_eq!(fixture.world.producer().in_flight(), 0, "it is not produced again");
    fixture.world.producer().ack_write(&fixture.world.kafka);
    fixture.until("the next", |world| world.producer().writes() == 2).await;
}

/// Otherwise nothing would be confirmed any more: the core waits for its acknowledgement.
#[tokio::test(start_paused = true)]
async fn a_write_of_the_witness_that_found_the_queue_full_is_repeated_when_there_is_room() {
    let mut fixture = super::order::witnessed_fixture().await;
    let writes = fixture.world.producer().writes();
    fixture.world.producer().has(kafka::Room::None);
    fixture.world.walsender().send(&transaction(100, &["a"]));
    fixture.produced(1).await;
    fixture.world.producer().ack_all();
    fixture.pass_time(Duration::from_secs(3)).await;
    assert_eq!(fixture.world.producer().writes(), writes);
    fixture.world.producer().has(kafka::Room::Some);
    fixture.until("the write", |world| world.producer().writes() > writes).await;
}

/// Without a producer there is no client to ask through: the core tries again.
#[tokio::test(start_paused = true)]
async fn without_a_producer_writes_and_reads_of_the_state_topic_start_no_job() {
    let mut fixture = super::order::witnessed_fixture().await;
    fixture.world.kafka.requests().hold(|request| matches!(request, Request::Open(_)));
    fixture.world.producer().break_down(failure(Code::ProducerFatal));
    fixture.until("the opening", |world| !world.kafka.requests().waiting().is_empty()).await;
    fixture.shell.write_state_topic(Write { number: 99, key: b"k".to_vec(), value: None });
    fixture.shell.start(Job::ReadStateTopic(0));
    assert_eq!(fixture.shell.jobs.len(), 1, "but for the opening nothing was begun");
    fixture.world.kafka.requests().answer(Ok(()));
    fixture.until("another stream", |world| world.postgres.walsenders() == 2).await;
}

/// The cause (a certificate file, a limit of the machine) may pass.
#[tokio::test(start_paused = true)]
async fn a_producer_that_could_not_be_created_is_tried_again() {
    let mut fixture = Fixture::begun(settings());
    fixture.world.kafka.requests().hold(|request| matches!(request, Request::Open(_)));
    fixture.until("the opening", |world| !world.kafka.requests().waiting().is_empty()).await;
    fixture.world.kafka.requests().hold(|_| false);
    fixture.world.kafka.requests().answer(Err(failure(Code::ProducerFatal)));
    let before = Instant::now();
    fixture.until("a producer", |world| world.kafka.producers() == 1).await;
    assert_eq!(before.elapsed().as_secs(), 30);
}

/// A principal that may not write: every new producer fails as soon as it is made.
#[tokio::test(start_paused = true)]
async fn producers_that_fail_at_once_are_replaced_after_growing_waits_and_the_reason_is_reported() {
    let mut fixture = Fixture::streaming(settings()).await;
    let begun = Instant::now();
    let mut at_once = 0;
    while begun.elapsed() < Duration::from_secs(20) {
        let (count, before) = (fixture.world.kafka.producers(), Instant::now());
        let failed = fixture.world.producer();
        failed.break_down(failure(Code::ClusterForbidden));
        fixture.until("its end", |_| failed.is_closed()).await;
        fixture.until("another producer", |world| world.kafka.producers() > count).await;
        while fixture.shell.sink.is_none() {
            assert_eq!(fixture.shell.turn().await, None);
        }
        at_once += u32::from(before.elapsed() < Duration::from_millis(40));
        if count > 1 {
            assert_eq!(fixture.state(), (State::Blocked, Some(Code::ClusterForbidden)));
        }
    }
    let made = fixture.world.kafka.producers();
    assert!((8..=16).contains(&made), "{made} producers in 20 s");
    assert_eq!(at_once, 1);
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_another_producer_does_not_delay_the_exit() {
    let mut fixture = Fixture::streaming(settings()).await;
    for _ in 0..6 {
        replace(&mut fixture).await;
    }
    let last = fixture.world.producer();
    last.break_down(failure(Code::ProducerFatal));
    fixture.until("its end", |_| last.is_closed()).await;
    let count = fixture.world.kafka.producers();
    fixture.world.shut_down();
    let before = Instant::now();
    assert_eq!(fixture.outcome().await, ExitReason::Drained);
    fixture.shell.leave().await;
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(fixture.world.kafka.producers(), count);
}
