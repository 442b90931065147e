//! A role that may not delete.

use e2e::{SHORT_DEADLINE, text, wait_committed};

use super::{DEADLINE, builder, count, grant, load, wait_left};

#[tokio::test]
async fn without_grant_and_index_events_flow_and_the_status_says_what_to_type() {
    let mut fixture = builder().prepare().await.unwrap();
    fixture.start_accepted().await.unwrap();
    let session = fixture.session().await.unwrap();
    let running = fixture.load(load());
    wait_committed(&running, 100).await.unwrap();
    for (fix, hint) in [
        (
            "",
            "grant usage on schema \"public\" to \"outbox_router\"; \
              grant select, delete on \"public\".\"outbox\" to \"outbox_router\"",
        ),
        ("grant", "create index concurrently on \"public\".\"outbox\" (\"created_at\"); or, once"),
    ] {
        if !fix.is_empty() {
            grant(&session).await;
        }
        let status = fixture
            .router
            .wait_status("a failure", SHORT_DEADLINE, |status| {
                text(status, "/retention/failure/hint").is_some_and(|it| it.starts_with(hint))
            })
            .await
            .unwrap();
        assert_eq!(status["state"], "streaming", "{status}");
        assert_eq!(text(&status, "/retention/failure/code"), Some("P038"));
    }
    assert_eq!(
        count(&session, "outbox").await >= 100,
        fixture.router.metric("outbox_retention_errors_total", "").await.unwrap() >= Some(2.0)
    );
    session.batch_execute("create index concurrently on outbox (created_at)").await.unwrap();
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    wait_left(&session, 0).await;
    let log = fixture.router.log();
    assert!(log.contains("delivered rows are removed again"), "{log}");
    assert_eq!(log.matches("may not read or delete from public.outbox").count(), 1, "{log}");
    fixture.check().await.unwrap().clean().unwrap();
}
