//! `recover`: which rows it compares where times alone say which may be missing.

use outbox_router::cli::Exit;
use relay::{
    Code, Failure, Lsn,
    source::{Gap, Interval, Mark},
    witness::Witness,
};
use serde_json::{Value, json};

use crate::{
    kafka::StateCluster,
    server::{CommandOutput, Server},
};

/// A stream that has lost its slot two hours ago, by a record that names no transactions.
struct Stage {
    server: Server,
    kafka: StateCluster,
}

impl Stage {
    async fn of(time: &str) -> Self {
        let stage = Self { server: Server::start(), kafka: StateCluster::start() };
        stage.kafka.create_topic("outbox.event.order", 1);
        stage.server.script(&format!(
            "create table outbox (id uuid primary key default gen_random_uuid(), \
               aggregate_type text not null default 'order', aggregate_id text not null, \
               event_type text not null default 'made', payload jsonb default '{{}}', \
               created_at {time} not null); \
             create index on outbox (created_at); \
             create publication outbox_router for table outbox \
               with (publish = 'insert', publish_via_partition_root = true);"
        ));
        let mark = |lsn, ago: &str| {
            let at = stage.server.sql(&format!("select now() - interval '{ago}'"));
            Mark { lsn: Lsn::from_u64(lsn), at: Some(at) }
        };
        let interval = Interval { from: Some(mark(5, "2 hours")), to: mark(9, "1 hour") };
        let gap = Gap::new(Failure::new(Code::SlotMissing, "the slot is gone"), interval);
        let known = Witness { generation: 1, gaps: vec![gap], ..Witness::at(Lsn::from_u64(5)) };
        stage.kafka.put("router", &known).await;
        stage
    }

    /// A row of that age, of a writer whose session alone has a zone west of UTC.
    fn write(&self, key: &str, age: &str) {
        self.server.sql(&format!(
            "set timezone = 'Etc/GMT+12'; insert into outbox (aggregate_id, created_at) \
             values ('{key}', localtimestamp - interval '{age}')"
        ));
    }

    async fn recover(&self, more: &[&str]) -> CommandOutput {
        let line = [&["recover", "--dry-run", "--since", "3h"], more].concat();
        let line = self.kafka.with(&line);
        self.server.run_command(&line.iter().map(String::as_str).collect::<Vec<_>>()).await
    }

    /// The rows that are compared, those that are known to be older, and the missing ones; and why
    /// none is missing.
    async fn figures(&self) -> (Value, Value) {
        let output = self.recover(&["--json"]).await;
        assert_eq!((output.exit, output.err.as_str()), (Exit::Done, ""), "{output:?}");
        let document: Value = serde_json::from_str(&output.out).expect("JSON");
        let of_table = |name: &str| document.pointer(&format!("/tables/0/{name}")).cloned();
        let counts = ["rows", "outside", "missing"].map(of_table);
        (json!(counts), of_table("why_none").unwrap_or_default())
    }
}

#[tokio::test]
async fn the_zone_of_a_writer_hides_no_row_and_none_missing_says_why() {
    for time in ["timestamp", "date"] {
        let stage = Stage::of(time).await;
        stage.write("lost", "0 s");
        stage.write("old", "4 days");
        assert_eq!(stage.figures().await, (json!([1, 1, 1]), Value::Null), "{time}");

        stage.server.sql("delete from outbox where aggregate_id = 'lost'");
        let why = "the table has no such row; what was deleted from it is not found; 1 other row \
                   is known by its time alone, which its writer set, to be older";
        assert_eq!(stage.figures().await, (json!([0, 1, 0]), why.into()), "{time}");
        let said = stage.recover(&[]).await;
        let none = "public.outbox: missing 0 of 0 rows since ";
        assert!(said.out.contains(none), "{said:?}");
        assert!(said.out.contains(&format!("\n  why none: {why}\n")), "{said:?}");
    }
}
