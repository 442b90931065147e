//! A program that is no router holds the slot, and a router stands by.

use std::io::Write as _;
use std::net::TcpStream;

use e2e::{Fixture, PUBLICATION, SHORT_DEADLINE, SLOT, text};
use serde_json::Value;
use testbed::load::Load;
use testbed::postgres::{DATABASE, SUPERUSER};
use testbed::wait::eventually;

/// Streams from the router's slot as `pg_recvlogical` does, which prebuilt servers come without;
/// nothing is read or confirmed. It ends with the socket.
fn receive(fixture: &Fixture) -> TcpStream {
    let mut socket = TcpStream::connect(fixture.postgres.address()).unwrap();
    let parameters = format!(
        "user\0{SUPERUSER}\0database\0{DATABASE}\0replication\0database\0\
         application_name\0pg_recvlogical\0\0"
    );
    let mut startup = Vec::new();
    startup.extend(u32::try_from(8 + parameters.len()).unwrap().to_be_bytes());
    startup.extend(196_608_u32.to_be_bytes());
    startup.extend(parameters.as_bytes());
    let command = format!(
        "START_REPLICATION SLOT {SLOT} LOGICAL 0/0 \
         (proto_version '1', publication_names '{PUBLICATION}')\0"
    );
    startup.push(b'Q');
    startup.extend(u32::try_from(4 + command.len()).unwrap().to_be_bytes());
    startup.extend(command.as_bytes());
    socket.write_all(&startup).unwrap();
    socket
}

/// `status`: its exit code, and what it tells a person.
async fn typed_status(fixture: &Fixture) -> (Option<i32>, String) {
    let output = fixture.router.command(&["status"]).await.unwrap();
    let told = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&told).into_owned())
}

#[tokio::test]
async fn a_router_that_stands_by_for_another_program_says_so_until_a_person_ends_it() {
    let builder = Fixture::builder().set("monitor.interval", "1s");
    let mut fixture = builder.prepare().await.unwrap();
    fixture.start_accepted().await.unwrap();
    fixture.kill_router().await.unwrap();
    let program = receive(&fixture);
    let slot = eventually(SHORT_DEADLINE, "the other program", async || {
        Ok(fixture.postgres.slot(SLOT).await?.and_then(|slot| slot.active_pid))
    });
    let pid = slot.await.unwrap();
    let load = Load { events: Some(20), ..Load::default() };
    let journal = fixture.load(load).finished().await.unwrap();
    fixture.note(journal);
    fixture.router.start_again().unwrap();
    let is_said = |status: &Value| text(status, "/verdict/code") == Some("P070");
    let status = fixture.router.wait_status("P070", SHORT_DEADLINE, is_said).await.unwrap();
    assert_eq!(text(&status, "/verdict/word"), Some("failed"), "{status:#}");
    assert_eq!(text(&status, "/verdict/acts"), Some("person"), "{status:#}");
    let sentence = text(&status, "/verdict/sentence").unwrap();
    let who = format!("pid {pid}, pg_recvlogical, which is no router of this pipeline by its name");
    assert!(sentence.starts_with(&who), "{sentence}");
    let ready = fixture.router.get("/readyz").await.unwrap();
    assert!(ready.status == 503 && ready.body.contains("P070"), "{} {}", ready.status, ready.body);
    let (exit, told) = typed_status(&fixture).await;
    assert_eq!(exit, Some(1), "{told}");
    assert!(told.starts_with(&format!("verdict   FAILED: {who}")), "{told}");
    let end = format!("select pg_terminate_backend({pid})");
    assert!(told.contains(&end) && told.contains("a person"), "{told}");
    assert_eq!(fixture.seen().await.unwrap().len(), 0);

    fixture.session().await.unwrap().batch_execute(&end).await.unwrap();
    drop(program);
    fixture.wait_streaming().await.unwrap();
    fixture.wait_delivered(SHORT_DEADLINE).await.unwrap();
    fixture.check().await.unwrap().clean().unwrap();
    let is_ok = |status: &Value| text(status, "/verdict/word") == Some("ok");
    fixture.router.wait_status("the verdict is OK", SHORT_DEADLINE, is_ok).await.unwrap();
    assert_eq!(fixture.router.get("/readyz").await.unwrap().status, 200);
    let (exit, told) = typed_status(&fixture).await;
    assert_eq!(exit, Some(0), "{told}");
}
