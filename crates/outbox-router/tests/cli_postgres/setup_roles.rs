//! `setup --role` where a hoster runs PostgreSQL, and what is left where a privilege is missing.
//! The hosters' own roles are made by hand: no plain server has them.

use outbox_router::cli::Exit;

use crate::server::{Server, run_command_at};

const APPLY: [&str; 5] = ["setup", "--apply", "--create-table", "--role", "router"];

/// Whether the role may log in and replicate, and whether it is a member of the hoster's role.
const RIGHTS: &str = "select rolcanlogin, rolreplication, \
    pg_has_role('router', 'rds_replication', 'member') from pg_roles where rolname = 'router'";

/// Everything that `setup` makes.
const MADE: &str = "select (select count(*) from pg_replication_slots) \
    + (select count(*) from pg_publication) + (select count(*) from pg_roles where rolname = 'router') \
    + (select count(*) from pg_class where relname = 'outbox')";

#[tokio::test]
async fn on_amazon_rds_the_role_becomes_a_member_instead_of_getting_an_attribute() {
    let server = Server::start();
    server.sql("create role rds_replication");
    // The server's own roles tell, and the flag says the same.
    for line in [APPLY.to_vec(), [&APPLY[..], &["--managed", "rds"]].concat()] {
        let made = server.run_command(&line).await;
        assert_eq!(made.exit, Exit::Done, "{made:?}");
        let role = "role router: created without a password, is a member of rds_replication; in \
                    psql: \\password router\n";
        assert!(made.out.contains(role), "{}", made.out);
        assert_eq!(server.sql(RIGHTS), "t|f|t");
        let again = server.run_command(&line).await;
        let role = "role router: exists already, is a member of rds_replication\n";
        assert!(again.out.contains(role), "{}", again.out);
        server.sql("revoke all on database postgres from router; drop role router");
    }
    server.sql("create role router nologin");
    let line = [&APPLY[..], &["--managed", "rds"]].concat();
    let given = server.run_command(&line).await;
    let role = "role router: exists already, may now log in and is a member of rds_replication\n";
    assert!(given.out.contains(role), "{}", given.out);
    assert_eq!(server.sql(RIGHTS), "t|f|t");
    let named = server.run_command(&[&APPLY[..], &["--managed", "none"]].concat()).await;
    assert_eq!(named.exit, Exit::Done, "{named:?}");
    assert_eq!(server.sql(RIGHTS), "t|t|t");
}

#[tokio::test]
async fn elsewhere_the_attribute_is_given_after_the_role_was_made() {
    for hoster in ["cloudsql", "azure"] {
        let server = Server::start();
        server.sql("create role rds_replication");
        let line = [&APPLY[..], &["--managed", hoster]].concat();
        let made = server.run_command(&line).await;
        assert_eq!(made.exit, Exit::Done, "{made:?}");
        assert!(made.out.contains("role router: created without a password; in psql"), "{made:?}");
        assert_eq!(server.sql(RIGHTS), "t|t|f");
        let again = server.run_command(&line).await;
        assert!(again.out.contains("role router: exists already, may log in and replicate\n"));

        let print = ["setup", "--role", "router", "--managed", hoster];
        let printed = server.run_command(&print).await.out;
        let two = "create role \"router\" login;\nalter role \"router\" with replication;\n";
        assert!(printed.contains(two), "{printed}");
    }
    let print = ["setup", "--role", "router", "--managed", "rds"];
    let printed = Server::start().run_command(&print).await.out;
    let two = "create role \"router\" login;\ngrant rds_replication to \"router\";\n";
    assert!(printed.contains(two), "{printed}");
}

/// The server never sees the password, and what is typed next works.
#[tokio::test]
async fn the_role_gets_the_password_with_which_the_router_will_log_in() {
    let server = Server::start();
    let url = |password: &str| server.url(&format!("router:{password}"));
    let admin = server.url("postgres");
    let line = [&APPLY[..], &["--admin-url", admin.as_str()]].concat();
    server.sql("alter system set log_statement = 'all'");
    server.sql("select pg_reload_conf()");
    let made = run_command_at(&url("c%40nary"), &line, "").await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    let role = "role router: created with the password of the router\n";
    assert!(made.out.contains(role) && !made.out.contains("nary"), "{made:?}");
    assert!(!server.log().contains("c@nary"), "{}", server.log());

    let hba = server.sql("show hba_file");
    let lines = "host all router all scram-sha-256\nhost all all all trust\n";
    std::fs::write(hba, lines).expect("written");
    server.sql("select pg_reload_conf()");
    let status = run_command_at(&url("c%40nary"), &["status"], "").await;
    assert!(status.out.contains("\nbehind    "), "{status:?}");
    assert!(!status.out.contains("\nbehind    unknown"), "{status:?}");
    // The password of a role that exists is not changed.
    let again = run_command_at(&url("other"), &line, "").await;
    assert!(again.out.contains("role router: exists already, may log in and replicate\n"));
    let status = run_command_at(&url("other"), &["status"], "").await;
    assert!(status.out.contains("\nbehind    unknown"), "{status:?}");
}

#[tokio::test]
async fn a_refused_role_leaves_no_table_behind() {
    let server = Server::start();
    server.sql(
        "create role maker login; grant create on schema public to maker; \
         grant create on database postgres to maker",
    );
    let refused = run_command_at(&server.url("maker"), &APPLY, "").await;
    assert_eq!((refused.exit, refused.out.as_str()), (Exit::Failure, ""), "{refused:?}");
    assert!(refused.err.contains(": PostgreSQL said "), "{}", refused.err);
    let nothing = "; nothing was made, since all of it is one transaction";
    assert!(refused.err.contains(nothing), "{}", refused.err);
    assert!(refused.err.contains("--admin-url"), "{}", refused.err);
    assert_eq!(server.sql(MADE), "0");

    // The same where the server is no hoster's.
    let line = [&APPLY[..], &["--managed", "rds"]].concat();
    let refused = server.run_command(&line).await;
    assert_eq!((refused.exit, refused.out.as_str()), (Exit::Failure, ""), "{refused:?}");
    let unknown = "role \"rds_replication\" does not exist [SQLSTATE 42704]; nothing was made";
    assert!(refused.err.contains(unknown), "{}", refused.err);
    assert_eq!(server.sql(MADE), "0");
}

/// The slot comes last: what precedes it stays, and the next `setup` goes on from there.
#[tokio::test]
async fn a_refused_slot_leaves_no_slot_and_the_next_setup_makes_the_rest() {
    let server = Server::start();
    server.sql(
        "create role maker login; grant create on schema public to maker; \
         grant create on database postgres to maker",
    );
    let line = &APPLY[..3];
    let refused = run_command_at(&server.url("maker"), line, "").await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    assert!(refused.out.starts_with("table public.outbox: created\npublication "), "{refused:?}");
    assert!(refused.err.starts_with("error: P003: "), "{}", refused.err);
    assert!(refused.err.contains("--admin-url"), "{}", refused.err);
    assert_eq!(server.sql(MADE), "2");
    let rest = server.run_command(line).await;
    assert_eq!(rest.exit, Exit::Done, "{rest:?}");
    assert_eq!(rest.out.matches("exists already").count(), 2, "{}", rest.out);
    assert_eq!(server.sql(MADE), "3");
}
