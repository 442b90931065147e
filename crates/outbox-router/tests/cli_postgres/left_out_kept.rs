//! Rows that were left out stay in their table until a person decides about them, also where
//! their ids, their columns or their tables are changed meanwhile.

use crate::{
    cleanup::{DECIDED, HOUR_AGO, cleanup, done, ids, insert, leave_out, outbox, refused},
    delivered::confirm,
};

#[tokio::test]
async fn while_the_id_of_a_row_that_was_left_out_is_in_no_row_all_stay() {
    let server = outbox();
    for id in ["bad", "o1"] {
        insert(&server, id, HOUR_AGO);
    }
    leave_out(&server, "bad");
    server.sql("update outbox set id = 'good' where id = 'bad'");
    confirm(&server);
    let all = ["--yes", "--older"];
    for more in [&["--dry-run"][..], &all[..1], &all] {
        let kept = cleanup(&server, more).await;
        refused(&kept, "public.outbox: 1 rows that were left out of what was sent are known by");
        refused(&kept, "all rows stay: 'bad'\n");
        refused(&kept, "dead-letters drop --left-out --id ID");
        assert_eq!(ids(&server, "outbox"), "good o1", "{more:?}");
    }
    server.sql(DECIDED);
    assert!(done(&cleanup(&server, &all).await).contains("2 rows deleted"));
}

/// As small numbers do. Where that column is gone, any may be it.
#[tokio::test]
async fn all_stay_though_another_column_of_some_row_has_the_id_that_was_changed() {
    let server = outbox();
    for id in ["5", "o1"] {
        insert(&server, id, HOUR_AGO);
    }
    leave_out(&server, "5");
    server.sql("alter table outbox add attempt int; update outbox set attempt = 5 where id = 'o1'");
    server.sql("update outbox set id = '1005' where id = '5'");
    confirm(&server);
    let all = ["--yes", "--older"];
    refused(&cleanup(&server, &all).await, "all rows stay: '5'\n");
    assert_eq!(ids(&server, "outbox"), "1005 o1");
    for gone in ["'gone'", "null"] {
        server.sql(&format!("update outbox_router.left_out set id_column = {gone}"));
        let shown = cleanup(&server, &[&all[..], &["--dry-run"]].concat()).await;
        assert!(done(&shown).contains("1 rows"), "{gone}: {shown:?}");
    }
}

#[tokio::test]
async fn a_row_stays_that_was_left_out_of_what_is_a_partition_now_or_of_a_table_that_is_gone() {
    let server = outbox();
    for id in ["l1", "o1", "o2"] {
        insert(&server, id, HOUR_AGO);
    }
    leave_out(&server, "l1");
    server.sql(
        "alter publication outbox_router drop table outbox; alter table outbox rename to old; \
         create table outbox (like old including defaults) partition by range (created_at); \
         alter table outbox attach partition old default; \
         create index on outbox (created_at); alter publication outbox_router add table outbox",
    );
    confirm(&server);
    let all = ["--yes", "--older"];
    let removed = cleanup(&server, &all).await;
    assert!(done(&removed).contains("2 rows deleted, 1 kept"), "{removed:?}");
    assert_eq!(ids(&server, "outbox"), "l1");
    // As of a table that was restored from a dump.
    server.sql("update outbox_router.left_out set table_oid = 1");
    insert(&server, "o3", HOUR_AGO);
    confirm(&server);
    let removed = cleanup(&server, &all).await;
    assert!(done(&removed).contains("1 rows deleted, 1 kept"), "{removed:?}");
    server.sql("update outbox_router.left_out set event_id = 'l0'");
    refused(&cleanup(&server, &all).await, "all rows stay: 'l0'\n");
    server.sql(DECIDED);
    assert!(done(&cleanup(&server, &all).await).contains("1 rows deleted, 0 kept"));
}

#[tokio::test]
async fn a_row_stays_that_another_pipeline_has_left_out() {
    let server = outbox();
    for id in ["l1", "o1"] {
        insert(&server, id, HOUR_AGO);
    }
    leave_out(&server, "l1");
    server.sql("update outbox_router.left_out set pipeline = 'another'");
    confirm(&server);
    let removed = cleanup(&server, &["--yes", "--older"]).await;
    assert!(done(&removed).contains("1 rows deleted, 1 kept"), "{removed:?}");
    // What that one looks for in vain does not stop this one.
    server.sql("update outbox_router.left_out set event_id = 'l0'");
    let removed = cleanup(&server, &["--yes", "--older"]).await;
    assert!(done(&removed).contains("1 rows deleted, 0 kept"), "{removed:?}");
}

#[tokio::test]
async fn a_row_that_was_left_out_is_found_whatever_the_collations_of_its_columns() {
    let server = outbox();
    for id in ["l1", "o1"] {
        insert(&server, id, HOUR_AGO);
    }
    leave_out(&server, "l1");
    server.sql("alter table outbox add one text collate \"C\", add other text collate \"POSIX\"");
    confirm(&server);
    let removed = cleanup(&server, &["--yes", "--older"]).await;
    assert!(done(&removed).contains("1 rows deleted, 1 kept"), "{removed:?}");
    server.sql("update outbox_router.left_out set event_id = 'l0'");
    refused(&cleanup(&server, &["--yes", "--older"]).await, "all rows stay: 'l0'\n");
}
