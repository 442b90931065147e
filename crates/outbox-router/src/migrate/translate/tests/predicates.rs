//! A predicate that lets the records of some tables reach EventRouter, and leaves out others.

use super::{
    CONNECTOR, Given, Migration, debezium, differs, given, has, lacks, writes, writes_nothing_of,
};

const PREDICATE: &str = "transforms.outbox.predicate";

/// A connector with this list of tables, or none, and a predicate of this pattern.
fn predicate(list: Option<&str>, pattern: &str, given: &Given) -> Migration {
    let own = "table.include.list=public.outbox\n";
    let list = list.map_or_else(String::new, |list| format!("table.include.list={list}\n"));
    let text = CONNECTOR.replace(own, &list);
    let text = format!(
        "{text}{PREDICATE}=p\npredicates=p\npredicates.p.type=\
         org.apache.kafka.connect.transforms.predicates.TopicNameMatches\n\
         predicates.p.pattern={pattern}\n"
    );
    debezium(&text, given).unwrap()
}

/// The same, negated: the topics that match do not reach EventRouter.
fn negated(list: Option<&str>, pattern: &str) -> Migration {
    predicate(list, &format!("{pattern}\ntransforms.outbox.negate=true"), &given())
}

fn told(table: &str) -> Given {
    Given { tables: vec![table.to_owned()], ..given() }
}

#[test]
fn tables_that_a_predicate_leaves_out_are_named_and_no_outbox() {
    let list = Some("public.orders, public.outbox,public.Cart$items");
    for pattern in ["p\\\\.public\\\\.outbox", ".*outbox", "p.public.(outbox|other)"] {
        let migration = predicate(list, pattern, &given());
        writes(&migration, &["table = \"public.outbox\""]);
        writes_nothing_of(&migration, "table = \"public.orders\"");
        lacks(&migration, PREDICATE, "p.public.orders, p.public.Cart_items end with");
        lacks(&migration, PREDICATE, "--table public.outbox");
    }
    // A person has decided; what ends is told all the same.
    let migration = predicate(list, ".*outbox", &told("public.outbox"));
    assert!(migration.is_complete(), "{:#?}", migration.unsupported);
    differs(&migration, PREDICATE, "p.public.orders, p.public.Cart_items end with");
}

#[test]
fn a_predicate_without_a_list_of_tables_leaves_out_whatever_the_database_has() {
    let migration = predicate(None, "p[.]shop[.]outbox", &given());
    lacks(&migration, PREDICATE, "every other table");
    lacks(&migration, "table.include.list", "the predicate chooses those that reach EventRouter");
    lacks(&migration, "table.include.list", "--table");
    let migration = predicate(None, "p\\\\.shop\\\\.events", &given());
    lacks(&migration, PREDICATE, "--table shop.events");
    writes(&migration, &["table = \"shop.events\""]);
    let migration = predicate(None, ".*events", &told("shop.events"));
    assert!(migration.is_complete(), "{:#?}", migration.unsupported);
    differs(&migration, PREDICATE, "every other table");
    writes(&migration, &["table = \"shop.events\""]);
}

#[test]
fn a_predicate_that_every_table_passes_leaves_nothing_out() {
    for list in ["public.outbox", "public.outbox,shop.outbox"] {
        let migration = predicate(Some(list), ".*[.]outbox", &given());
        assert!(migration.is_complete(), "{:#?}", migration.unsupported);
        assert!(!has(&migration.different, PREDICATE, ""), "{:#?}", migration.different);
        let count = migration.toml.as_deref().unwrap().matches("[[outbox]]").count();
        assert_eq!(count, list.split(',').count());
    }
}

#[test]
fn a_predicate_that_no_table_passes_leaves_no_outbox() {
    let migration = predicate(Some("public.outbox"), "p[.]public[.]events", &given());
    lacks(&migration, PREDICATE, "no table of table.include.list");
    lacks(&migration, PREDICATE, "--table");
}

#[test]
fn a_predicate_that_cannot_be_read_is_told_where_it_matters() {
    // A look-ahead, which the router does not know, and a value that is filled in later.
    for pattern in ["p.(?=public).*outbox", "${env:PREFIX}.public.outbox"] {
        let migration = predicate(Some("public.orders,public.outbox"), pattern, &given());
        lacks(&migration, PREDICATE, "which of them is not known");
        assert!(predicate(Some("public.outbox"), pattern, &given()).is_complete());
    }
}

#[test]
fn a_negated_predicate_leaves_out_the_tables_that_it_matches() {
    let list = Some("cdc_state.heartbeat_v3,public.outbox");
    let migration = negated(list, "p[.]cdc_state[.]heartbeat_v3");
    writes(&migration, &["table = \"public.outbox\""]);
    writes_nothing_of(&migration, "table = \"cdc_state.heartbeat_v3\"");
    lacks(&migration, PREDICATE, "p.cdc_state.heartbeat_v3 end with");
    // Debezium's own heartbeats are in no table.
    let migration = negated(Some("public.outbox"), "__debezium-heartbeat.*");
    assert!(migration.is_complete(), "{:#?}", migration.unsupported);
    writes(&migration, &["table = \"public.outbox\""]);
    let migration = negated(None, "p[.]cdc_state[.]heartbeat_v3");
    lacks(&migration, "table.include.list", "--table SCHEMA.TABLE");
    writes_nothing_of(&migration, "table = \"cdc_state.heartbeat_v3\"");
}
