use outbox_router::cli::Exit;

use crate::server::Server;

async fn set_up() -> Server {
    let server = Server::start();
    let made =
        server.run_command(&["setup", "--apply", "--create-table", "--role", "router"]).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    server
}

#[tokio::test]
async fn nothing_is_dropped_without_the_slots_name() {
    let server = set_up().await;
    for answer in ["", "yes\n", "outbox_route\n"] {
        let refused = server.run_command_answering(&["teardown", "--apply"], answer).await;
        let expected =
            "nothing was dropped\n  hint: outbox-router teardown --apply --yes asks nobody\n";
        assert_eq!((refused.exit, refused.err.as_str()), (Exit::Failure, expected));
        assert!(refused.out.contains("type outbox_router to drop it: "), "{}", refused.out);
    }
    assert_eq!(server.sql("select count(*) from pg_replication_slots"), "1");
    assert_eq!(server.sql("select count(*) from pg_publication"), "1");
}

#[tokio::test]
async fn what_setup_created_is_dropped_and_the_table_is_kept() {
    let server = set_up().await;
    let line = ["teardown", "--apply", "--role", "router"];
    let dropped = server.run_command_answering(&line, "outbox_router\n").await;
    assert_eq!(dropped.exit, Exit::Done, "{dropped:?}");
    for object in ["slot outbox_router", "publication outbox_router", "role router"] {
        assert!(dropped.out.contains(&format!("{object}: dropped\n")), "{}", dropped.out);
    }
    assert_eq!(server.sql("select count(*) from outbox"), "0");

    let again = server.run_command(&["teardown", "--apply", "--yes", "--role", "router"]).await;
    assert_eq!(again.exit, Exit::Done, "{again:?}");
    assert_eq!(again.out.matches(": does not exist\n").count(), 3, "{}", again.out);
}

#[tokio::test]
async fn a_slot_in_use_is_not_dropped() {
    let server = set_up().await;
    let _reader = server.read_slot("outbox_router", "outbox_router");
    let pid = server.sql("select active_pid from pg_replication_slots");
    let refused = server.run_command(&["teardown", "--apply", "--yes"]).await;
    assert_eq!(refused.exit, Exit::Failure);
    assert_eq!(
        refused.err,
        format!(
            "error: P012: the slot outbox_router is in use by pid {pid}, pg_recvlogical\n  hint: \
             stop that router first, by SIGTERM; only where its process is gone, end the connection \
             that is left: select pg_terminate_backend({pid}) (a router that runs connects again)\n"
        )
    );
    assert_eq!(server.sql("select count(*) from pg_publication"), "1");
}
