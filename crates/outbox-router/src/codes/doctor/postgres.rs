//! Advice about the server, its slots and its tables.

use super::Advice;
use crate::codes::explanation::Explanation;

pub(in crate::codes) const EXPLANATIONS: &[Explanation] = &[
    Explanation {
        code: Advice::Pooler.as_str(),
        title: "a connection pooler stands between the router and PostgreSQL",
        meaning: "The process that answers is not the one that the connection was made to. A \
                  pooler that shares sessions breaks what the router relies on: settings of a \
                  session, locks, and the process id by which it knows its own walsender.",
        remedy: "let postgres.url name PostgreSQL's own host and port; a pooler that has to stay \
                 must be in session mode and pass replication on (PgBouncer 1.23 or later)",
        cases: &[],
    },
    Explanation {
        code: Advice::ViewDenied.as_str(),
        title: "the role may not read a view of the system",
        meaning: "Every role may read it on a server as it is installed; here that was revoked. \
                  Without pg_replication_slots and the views of the publication the router cannot \
                  start; without the others, doctor leaves checks out.",
        remedy: "`grant select on {quoted_table} to {role}`",
        cases: &[],
    },
    Explanation {
        code: Advice::Superuser.as_str(),
        title: "the router's role is a superuser",
        meaning: "The router needs LOGIN and REPLICATION, and nothing else; where rows are polled, \
                  LOGIN and rights on the tables. Whoever gets hold of its password or process \
                  owns the whole cluster.",
        remedy: "`{setup} --role ROLE` makes a role that may do this and nothing else; give it a \
                 password, and name it in postgres.url",
        cases: &[],
    },
    Explanation {
        code: Advice::RoleOwnsTable.as_str(),
        title: "the router's role owns an outbox table",
        meaning: "An owner may alter and drop the table, which the router never has to.",
        remedy: "`alter table {quoted_table} owner to OWNER`; where rows are polled, `{setup}` \
                 grants what the role needs then",
        cases: &[],
    },
    Explanation {
        code: Advice::VersionUnsupported.as_str(),
        title: "the server's major version gets no more fixes",
        meaning: "Faults that are found from now on stay in this server, those of logical \
                  decoding among them.",
        remedy: "plan the upgrade; where rows come from a slot, pg_upgrade to a version before 17 \
                 drops it: stop the writers before, and let the router drain",
        cases: &[],
    },
    Explanation {
        code: Advice::VersionFaulty.as_str(),
        title: "the server's minor version has a fault in logical decoding",
        meaning: "In this one minor version, transactions that are open while the catalog changes \
                  pass the news on to each other again and again. The walsender's memory grows, \
                  and it may end with \"invalid memory alloc request size\" at the same place each \
                  time.",
        remedy: "install PostgreSQL {version} or a later minor version",
        cases: &[],
    },
    Explanation {
        code: Advice::ClocksDiffer.as_str(),
        title: "the clocks of this machine and of the server differ",
        meaning: "Records carry times of the server's clock. Latencies are the difference of the two \
                  clocks, topics delete by that time (retention.ms), and brokers refuse a record \
                  from too far in the future (message.timestamp.after.max.ms).",
        remedy: "timedatectl timesync-status, or chronyc tracking, on both machines: one of them \
                 does not follow a time server",
        cases: &[],
    },
    Explanation {
        code: Advice::WalUnlimited.as_str(),
        title: "no limit is set for the WAL that slots keep",
        meaning: "While the router is down, the server keeps every byte of WAL for its slot, until \
                  the disk is full and the database stops. With a limit the slot is lost instead, \
                  the database goes on, and outbox-router recover brings the rows back.",
        remedy: "`alter system set max_slot_wal_keep_size = '10GB'`; `select pg_reload_conf()`; a \
                 good value is half of what is free on the disk of pg_wal",
        cases: &[],
    },
    Explanation {
        code: Advice::AlarmTooLate.as_str(),
        title: "the router's alarm comes after the slot is lost",
        meaning: "monitor.bytes_behind.critical is not below max_slot_wal_keep_size: when somebody \
                  is called, there is nothing left to save.",
        remedy: "lower monitor.bytes_behind.critical to {bytes}, or raise max_slot_wal_keep_size",
        cases: &[],
    },
    Explanation {
        code: Advice::IdleTimeout.as_str(),
        title: "the server invalidates slots that nobody reads",
        meaning: "With idle_replication_slot_timeout, a router that is down for so long finds its \
                  slot lost (P011), however little WAL that slot has kept.",
        remedy: "`alter system set idle_replication_slot_timeout = 0`; `select pg_reload_conf()`; \
                 max_slot_wal_keep_size already limits what the slot costs",
        cases: &[],
    },
    Explanation {
        code: Advice::SlotUnreserved.as_str(),
        title: "the next checkpoint may remove WAL that the slot needs",
        meaning: "The slot is past max_slot_wal_keep_size. It is lost at the next checkpoint, \
                  unless what it keeps is confirmed before.",
        remedy: "`outbox-router run`; if that is not enough, a larger limit that the disk of \
                 pg_wal has room for, as twice what the slot keeps (`outbox-router status` names \
                 it): `alter system set max_slot_wal_keep_size = 'SIZE'`, then `select pg_reload_conf()`",
        cases: &[],
    },
    Explanation {
        code: Advice::SlotWithoutFailover.as_str(),
        title: "a promotion loses the slot",
        meaning: "From PostgreSQL 17 on, a slot with the option failover is kept on standby \
                  servers, too. Without it, the promoted server has no slot (P010), and what was \
                  not sent is a gap.",
        remedy: "stop the router, then psql 'dbname={database} replication=database' -c \
                 'ALTER_REPLICATION_SLOT {slot} (FAILOVER true)', and set sync_replication_slots \
                 on the standby",
        cases: &[],
    },
    Explanation {
        code: Advice::StandbySlotMissing.as_str(),
        title: "the walsender waits for a standby that does not follow",
        meaning: "synchronized_standby_slots names a slot that is missing, lost or read by \
                  nobody. For a slot with the option failover, nothing is sent past what that \
                  standby has received: the stream stands still, without an error.",
        remedy: "start the standby again, or: {statements}",
        cases: &[],
    },
    Explanation {
        code: Advice::OtherSlotInactive.as_str(),
        title: "another slot that nobody reads keeps WAL",
        meaning: "It fills the same disk as the router's slot would, and nobody watches it.",
        remedy: "if nothing needs it any more: `select pg_drop_replication_slot('{slot}')`; one that \
                 postgres.slot named before may have events that are in no topic: set it \
                 again, and `outbox-router run` sends them first",
        cases: &[],
    },
    Explanation {
        code: Advice::LongTransaction.as_str(),
        title: "a transaction that has written is open for long",
        meaning: "Decoding has to be able to start before it, so WAL is kept from there on, \
                  however fast rows are confirmed. Its own events wait for its commit.",
        remedy: "{end_transactions}",
        cases: &[],
    },
    Explanation {
        code: Advice::SlotReadByOther.as_str(),
        title: "another program reads the slot",
        meaning: "What it confirms is never sent to the router.",
        remedy: "stop that program, or name another slot in postgres.slot; `select \
                 pg_terminate_backend({pid})` ends its session once",
        cases: &[],
    },
    Explanation {
        code: Advice::PublicationTooWide.as_str(),
        title: "the publication has more tables than the outboxes",
        meaning: "The server decodes and sends every insert into every one of its tables, and the \
                  router throws them away.",
        remedy: "if one of them is the outbox, correct table in [[outbox]]; else, if no other \
                 pipeline uses it, `alter publication {publication} drop table TABLE`; a \
                 publication FOR ALL TABLES or of a schema has to be replaced, together with the \
                 slot: {teardown}, `drop publication {publication}`, then {setup}",
        cases: &[],
    },
    Explanation {
        code: Advice::PublicationMoreThanInserts.as_str(),
        title: "the publication publishes more than inserts",
        meaning: "Updates and deletes of outbox rows are sent and only counted. Publishing updates \
                  also makes PostgreSQL refuse them on a table without a replica identity.",
        remedy: "`alter publication {publication} set (publish = 'insert')`",
        cases: &[],
    },
    Explanation {
        code: Advice::IdWithoutIndex.as_str(),
        title: "no index begins with the column of the id",
        meaning: "outbox-router where, explain --id, replay --id and dead letters look rows up by \
                  their id, and each reads the whole table.",
        remedy: "index the column: {statements}",
        cases: &[],
    },
    Explanation {
        code: Advice::TimeWithoutIndex.as_str(),
        title: "no index begins with the column of the time",
        meaning: "outbox-router replay --since reads the whole table, as recover does where rows \
                  come from a slot. [retention] refuses to work without an index by which it \
                  finds old rows (P038).",
        remedy: "index the column: {statements}",
        cases: &[],
    },
    Explanation {
        code: Advice::TableGrows.as_str(),
        title: "the table grows, and nothing removes rows",
        meaning: "Delivered rows stay until somebody removes them. Backups, vacuum and every \
                  command that reads the table become slower with each.",
        remedy: "set retention.mode = \"delete\" and retention.keep (docs/retention.md)",
        cases: &[],
    },
    Explanation {
        code: Advice::RuleOnInsert.as_str(),
        title: "a rule rewrites inserts into the table",
        meaning: "A rule with INSTEAD puts rows elsewhere or nowhere, and no error tells: they are \
                  never events.",
        remedy: "if the rows are to be events: {statements}",
        cases: &[],
    },
    Explanation {
        code: Advice::ColumnNullable.as_str(),
        title: "a column that must not be NULL may be",
        meaning: "A row with a NULL there cannot be delivered (R001, R002, R004). Where rows come \
                  from a slot, it stops the router until a person decides. Where they are polled, \
                  it is tried again as [retry] says, and abandoned where [on_error] says so; \
                  meanwhile the later rows of its key wait.",
        remedy: "let PostgreSQL refuse such a row: {statements}",
        cases: &[],
    },
    Explanation {
        code: Advice::NoPartition.as_str(),
        title: "a partitioned outbox has no partition",
        meaning: "Every insert fails, and with it the application's transaction.",
        remedy: "`create table PARTITION partition of {quoted_table} default`; or let [retention] \
                 make partitions (docs/retention.md)",
        cases: &[],
    },
    Explanation {
        code: Advice::IdNotUnique.as_str(),
        title: "ids of an outbox table come again, or may",
        meaning: "Consumers drop what comes again by the header id, and commands find events by it. \
                  An id that two rows have, also one that begins again after a truncate or with a \
                  sequence that was set back, is taken for the event that had it first: consumers \
                  drop the new one, and where shows the old. Ids are told to come again where the \
                  statistics count more inserted rows than the sequence, if the role may \
                  read it, has given ids; rows that brought their ids, or were moved, count, too.",
        remedy: "`{statements}`; a random uuid never comes again, an identity does after a truncate \
                 that restarts it",
        cases: &[],
    },
    Explanation {
        code: Advice::DefaultPartition.as_str(),
        title: "rows of an outbox are in its default partition",
        meaning: "No partition can be made for them until they are moved. A row that is moved by a \
                  DELETE and an INSERT into the table, as by pg_partman's partition_data_proc, is \
                  an event again: it is sent again, under the same id, and nothing tells it from a \
                  new one.",
        remedy: "move them while both partitions are detached, in one transaction: the statements \
                 are in docs/guarantees.md, \"Rows that return\"; make partitions ahead of time, or \
                 let [retention] make them (docs/retention.md)",
        cases: &[],
    },
    Explanation {
        code: Advice::RowsOfSubscription.as_str(),
        title: "a subscription writes rows of another server into an outbox table",
        meaning: "Rows that a subscription applies are inserts of this server like any other, and \
                  become records. Where a router reads the other server, too, each event is there \
                  twice. Where rows are polled, the updates that it applies are marks, too: a row \
                  that is published there counts as published here.",
        remedy: "let one router read the tables, on the server that has all rows; or let the other \
                 server publish {quoted_table} no more, and then here `{statements}`",
        cases: &[],
    },
    Explanation {
        code: Advice::RowsLeftOut.as_str(),
        title: "rows of the table were left out of what was sent",
        meaning: "A person has told a command to leave them out, by --skip-bad or skip. They are in \
                  no topic, and retention keeps them, until a person sends them or gives them up.",
        remedy: "`outbox-router dead-letters list --left-out --table {table} {admin}` says why; when \
                 its cause is removed, `outbox-router dead-letters requeue --left-out --id ID \
                 {admin}` sends a row, and drop in the place of requeue gives it up",
        cases: &[],
    },
    Explanation {
        code: Advice::RowsUpdated.as_str(),
        title: "rows of the table are updated",
        meaning: "An event is a row as it was inserted: an update is no event, and is only counted. \
                  Of a table that workers have polled before a switch nothing is said, since their \
                  marks are updates.",
        remedy: "insert a new row for each event; on_update = \"error\" in [[outbox]] stops the \
                 router at an update",
        cases: &[],
    },
];
