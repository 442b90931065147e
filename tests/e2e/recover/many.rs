//! What is missing among many ids. `OUTBOX_RECOVER_ROWS=10000000` is the long form of
//! docs/testing.md.

use e2e::{Fixture, LONG_DEADLINE, SHORT_DEADLINE};
use serde_json::Value;
use tokio::time::Instant;

use super::{drop_slot, line, recover, streaming, write};

const ROWS: i32 = 100_000;
/// So many rows are written in one transaction.
const AT_ONCE: i32 = 50_000;
/// One row of so many is missing.
const OF: i32 = 100;
/// The most that the command may take: its memory does not grow with the number of ids.
const MEMORY_MAX: u64 = 500 << 20;

#[tokio::test]
async fn what_is_missing_is_found_among_many_ids_in_constant_memory() {
    let rows = std::env::var("OUTBOX_RECOVER_ROWS");
    let rows: i32 = rows.ok().map_or(ROWS, |rows| rows.parse().unwrap());
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    for _ in 0..rows / AT_ONCE {
        write(&fixture, &session, AT_ONCE).await;
    }
    let deadline = LONG_DEADLINE * (1 + u32::try_from(rows / 1_000_000).unwrap());
    fixture.wait_confirmed(deadline).await.unwrap();
    fixture.router.sigterm().unwrap();
    fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &session, rows / OF).await;

    let (exit, dry, said) = recover(&fixture, &["--dry-run"]).await;
    assert_eq!(exit, Some(0), "{dry:#}{said}");
    println!("compared {} rows in {} s", dry["tables"][0]["rows"], dry["seconds"]);
    let line = line(&fixture, &[]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let begun = Instant::now();
    let (output, memory) = fixture.router.command_with_peak_memory(&line).await.unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{answer:#}{said}");
    println!("recovered in {:?}, {} MB at most; {said}", begun.elapsed(), memory >> 20);
    assert_eq!(answer["tables"][0]["missing"], rows / OF, "{answer:#}");
    assert_eq!(answer["tables"][0]["sent"], rows / OF, "{answer:#}");
    assert!(memory < MEMORY_MAX, "{} MB", memory >> 20);
    fixture.restart().await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    if rows <= ROWS {
        assert_eq!(fixture.missing_and_doubled(&session).await.unwrap(), (0, 0));
    }
}
