//! `doctor` writes nothing.

use outbox_router::cli::Exit;

use super::{
    pair::{Pair, TOPIC},
    place::STATE,
};

#[tokio::test]
async fn nothing_is_written_to_either_server() {
    let pair = Pair::start().await;
    let database = pair.database("quiet").await;
    let slots = "select string_agg(slot_name || restart_lsn || confirmed_flush_lsn, ',') \
                 from pg_replication_slots";
    // The next transaction id: whatever writes takes one.
    let next = "select pg_snapshot_xmax(pg_current_snapshot())";
    let relations = "select count(*) from pg_class";
    let state = async || {
        let sql = [slots, next, relations].map(|query| pair.server.sql(query));
        let ends = [STATE, TOPIC].map(|topic| pair.kafka.end_offsets(topic));
        let [state, events] = ends;
        (sql, state.await.expect("offsets"), events.await.expect("offsets"))
    };
    let before = state().await;
    // A topic that is missing is not created, whatever the configuration says.
    let missing = [
        "--set",
        "outbox.0.table=public.outbox",
        "--set",
        "outbox.0.topic=never-made",
        "--set",
        "kafka.create_topics.partitions=1",
        "--set",
        "retention.mode=delete",
        "--set",
        "on_error.bad_row=dead_letter",
    ];
    for words in [&[][..], &missing] {
        let found = database.doctor(words).await;
        assert!(found.err.is_empty(), "{found:?}");
    }
    let elsewhere = database.doctor(&["--set", "kafka.state_topic=never-made.state"]).await;
    assert_eq!(elsewhere.exit, Exit::Done, "{elsewhere:?}");
    assert_eq!(state().await, before);
    for topic in ["never-made", "never-made.state"] {
        assert!(pair.kafka.end_offsets(topic).await.is_err(), "{topic} was created");
    }
}
