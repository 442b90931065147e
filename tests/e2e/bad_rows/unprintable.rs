//! Commands that read a row from its table which PostgreSQL stores and cannot print.

use e2e::{Fixture, SHORT_DEADLINE, SLOT};
use testbed::postgres::{DATABASE, SUPERUSER};

use super::{GOOD, insert};

const UNPRINTABLE: &str = "CREATE DOMAIN odd AS text; ALTER TABLE outbox ADD odd odd; \
     UPDATE pg_type SET typoutput = 'trigger_out'::regproc WHERE typname = 'odd'";

/// A command: its exit code, and what it writes.
async fn typed(fixture: &Fixture, line: &[&str]) -> (Option<i32>, String) {
    let output = fixture.router.command(line).await.unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// PostgreSQL does not say which row it is.
#[tokio::test]
async fn a_command_that_comes_to_such_a_row_names_it_and_ends_and_goes_on_when_it_is_corrected() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute("CREATE INDEX ON outbox (created_at)").await.unwrap();
    fixture.start_accepted().await.unwrap();
    session.batch_execute(UNPRINTABLE).await.unwrap();
    insert(&session, GOOD).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    insert(&session, GOOD).await;
    let odd = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, odd) \
         VALUES ('order', 'order-1', 'Placed', 'x') RETURNING id::text";
    let odd: String = session.query_one(odd, &[]).await.unwrap().get(0);
    insert(&session, GOOD).await;
    let (exit, said) = typed(&fixture, &["run", "--dry-run"]).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("P008"), "{said}");
    for sought in [&["where", odd.as_str()][..], &["where", "--key", "order-1"]] {
        let url = fixture.postgres.url(SUPERUSER, DATABASE);
        let (exit, said) = typed(&fixture, &[sought, &["--admin-url", &url]].concat()).await;
        assert_eq!(exit, Some(1), "{said}");
        let named = "P008: a row of public.outbox that was asked for cannot be read: ";
        assert!(said.contains(named), "{sought:?}: {said}");
        assert!(said.contains("shorten its values by UPDATE, or delete it"), "{said}");
    }
    let drop = format!("SELECT pg_drop_replication_slot('{SLOT}')");
    session.batch_execute(&drop).await.unwrap();

    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let named = format!("error: P008: row {odd} of public.outbox cannot be read: ");
    let commands: [&[&str]; 4] = [
        &["replay", "--all"],
        &["replay", "--all", "--skip-bad"],
        &["recover"],
        &["recover", "--skip-bad"],
    ];
    for command in commands {
        let (exit, said) =
            typed(&fixture, &[command, &["--yes", "--admin-url", &url]].concat()).await;
        assert_eq!(exit, Some(1), "{command:?}: {said}");
        assert!(said.contains(&named), "{command:?}: {said}");
        assert!(said.contains("shorten its values by UPDATE, or delete it"), "{said}");
    }
    let correct = format!("UPDATE outbox SET odd = NULL WHERE id = '{odd}'");
    session.batch_execute(&correct).await.unwrap();
    let (exit, said) = typed(&fixture, &["recover", "--yes", "--admin-url", &url]).await;
    assert_eq!(exit, Some(0), "{said}");
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap().0, 0, "{said}");
}
