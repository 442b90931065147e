//! The server and the way to it.

use relay::{Case, Code};

use super::explanation::{Explanation, case_remedy};

pub(super) const EXPLANATIONS: &[Explanation] = &[
    Explanation {
        code: Code::ServerUnreachable.as_str(),
        title: "PostgreSQL cannot be reached",
        meaning: "No connection can be opened, or one broke. The router tries again for ever, \
                  with a pause that grows to 5 s; no person is needed.",
        remedy: "",
        cases: &[case_remedy(
            Case::OtherServer,
            "a second connection reaches another server than the stream comes from",
            "see which servers the host of postgres.url resolves to, and what stands in between",
        )],
    },
    Explanation {
        code: Code::AuthenticationFailed.as_str(),
        title: "PostgreSQL refuses the router, or the router the server",
        meaning: "The role, the password, the database or the certificate is not accepted. The \
                  router tries again every 30 s, so it continues by itself when the cause is gone. \
                  Passwords and certificates are read when it starts: with another one it \
                  continues after a restart.",
        remedy: "a role that does not exist yet is made by `{setup} --role {role}`; else check \
                 user and password (where the password was changed, in its file, too, restart the \
                 router), and the lines for this host in pg_hba.conf",
        cases: &[
            case_remedy(
                Case::TlsRefused,
                "the server has no TLS",
                "set ssl = on in postgresql.conf; only where the network is trusted, add \
                 sslmode=disable",
            ),
            case_remedy(
                Case::TlsHandshake,
                "the TLS handshake fails",
                "give the server's certificate, or that of its authority, as sslrootcert; \
                 verify-full needs the host in its subjectAltName",
            ),
            case_remedy(
                Case::TlsAnswer,
                "what answers does not speak TLS",
                "check that host and port are PostgreSQL's own",
            ),
            case_remedy(
                Case::TlsFiles,
                "the certificate files cannot be used",
                "check sslrootcert, sslcert and sslkey",
            ),
            case_remedy(
                Case::TlsStripped,
                "channel binding is offered without TLS",
                "somebody between the router and the server may have removed TLS: use \
                 sslmode=verify-full",
            ),
            case_remedy(
                Case::PlaintextPassword,
                "the password would travel in clear text",
                "use scram-sha-256 for this role in pg_hba.conf, or sslmode=verify-full with \
                 sslrootcert",
            ),
            case_remedy(
                Case::MethodRuledOut,
                "require_auth rules out the server's method",
                "change the method for this role in pg_hba.conf, or require_auth if this is the \
                 right server",
            ),
            case_remedy(
                Case::MethodUnsupported,
                "the method is not supported",
                "use scram-sha-256 for this role in pg_hba.conf",
            ),
            case_remedy(
                Case::ScramIterations,
                "the number of SCRAM iterations is not acceptable",
                "set scram_iterations on the server to a value from 1 to 100000, and then the \
                 role's password again",
            ),
            case_remedy(
                Case::PasswordMissing,
                "no password is configured",
                "set it in postgres.url, PGPASSWORD or the password file",
            ),
            case_remedy(
                Case::ServerProof,
                "the server cannot prove that it knows the password",
                "the server does not know this role's password: is it the right server?",
            ),
            case_remedy(
                Case::DatabaseMissing,
                "the database does not exist",
                "check the database name in postgres.url; if it is right: `create database \
                 DATABASE`",
            ),
            case_remedy(
                Case::UrlUnreadable,
                "the connection string cannot be read",
                "correct postgres.url, or what --admin-url says",
            ),
            case_remedy(
                Case::PermissionDenied,
                "a privilege is missing",
                "grant the privilege that the message names to the role; for connecting: `grant \
                 connect on database DATABASE to ROLE`",
            ),
            case_remedy(
                Case::RowsHidden,
                "row-level security may hide rows from the role",
                "`{statements}` (as a superuser): a row that a policy hides would never be sent, and \
                 nobody would know of it",
            ),
            case_remedy(
                Case::CatalogDenied,
                "a view or a function of the system catalog may not be used",
                "`{statements} to {role}` (as a superuser): PostgreSQL lets everybody use it, unless \
                 that was revoked",
            ),
            case_remedy(
                Case::CommandDenied,
                "the role of a command may not do it",
                "connect as a role that may do it, the owner of what the message names or a \
                 superuser: --admin-url postgres://ADMIN@HOST:PORT/DATABASE",
            ),
            case_remedy(
                Case::CommandLacks,
                "the role of a command lacks privileges",
                "{statements} (as the owner or a superuser); or connect as a role that may do it: \
                 {admin}",
            ),
            case_remedy(
                Case::Pooler,
                "a connection pooler answers",
                "connect to PostgreSQL itself, not to a connection pooler: change postgres.url (for \
                 [retention] and cleanup: retention.url, where it is set), or, for a command of a pipeline that polls through the pooler, add --set \
                 postgres.url=postgres://ROLE@HOST:PORT/DATABASE to it, or --admin-url where it has \
                 that",
            ),
        ],
    },
    Explanation {
        code: Code::RoleLacksReplication.as_str(),
        title: "the role may not replicate",
        meaning: "Streaming from a slot needs the REPLICATION attribute (CREATE ROLE). It is \
                  asked again every 30 s.",
        remedy: "`alter role {role} replication` (on Amazon RDS: `grant rds_replication to \
                 {role}`)",
        cases: &[case_remedy(
            Case::CommandMayNotReplicate,
            "it is the role of a command",
            "connect as a role that may replicate: --admin-url postgres://ADMIN@HOST:PORT/DATABASE",
        )],
    },
    Explanation {
        code: Code::WalLevel.as_str(),
        title: "wal_level is not logical",
        meaning: "Logical decoding needs more in the WAL than replication does. Changing \
                  wal_level needs a restart of PostgreSQL. From PostgreSQL 19 on replica is enough.",
        remedy: "`alter system set wal_level = logical`; then restart PostgreSQL",
        cases: &[],
    },
    Explanation {
        code: Code::ServerFull.as_str(),
        title: "PostgreSQL has no free connection, walsender or slot",
        meaning: "The router tries again with a pause that grows to 5 s.",
        remedy: "`alter system set max_connections = N` (or max_wal_senders, \
                 max_replication_slots), then restart PostgreSQL",
        cases: &[case_remedy(
            Case::NoFreeSlot,
            "all max_replication_slots are in use",
            "drop a slot that is no longer needed (`select pg_drop_replication_slot('NAME')`), or \
             `alter system set max_replication_slots = N`, then restart PostgreSQL",
        )],
    },
    Explanation {
        code: Code::Backlog.as_str(),
        title: "a backlog cannot be read by SQL",
        meaning: "A router that is far behind reads its backlog by SQL, from temporary copies of \
                  the slot, and such a connection broke, the server refused, or it sent nothing \
                  for half a minute, as it does while it decodes a transaction that is larger than a \
                  batch. Nothing is lost: the router connects again, and for ten minutes it reads \
                  only what the walsender sends, which takes the server longer.",
        remedy: "none is needed; postgres.backlog = \"stream\" never reads by SQL",
        cases: &[],
    },
    Explanation {
        code: Code::Polling.as_str(),
        title: "a table cannot be polled",
        meaning: "With postgres.source = \"polling\" a table needs a primary key, by which a row is \
                  found again; a column that says that a row is published; a key that SQL can \
                  compute; and, where [on_error] makes dead letters, columns in which an abandoned \
                  row is recorded. The message names what this table lacks or does not keep, or \
                  how long it took to read. The other tables are polled.",
        remedy: "add what the message names, or name the column or the words in outbox.mark, or the \
                 column in outbox.columns (docs/polling.md has them); then `{setup}`, since the index \
                 of pending rows is made for the marks that there were (D050)",
        cases: &[
            case_remedy(
                Case::ReadingSlow,
                "pending rows are read too slowly: a lease would be over before they are sent",
                "`outbox-router doctor` says whether the index of pending rows is missing or was \
                 made for other marks (D050): `{setup}` makes it; if outbox.where compares a column \
                 whose type that index leaves out, rows that are no events are read each time: make \
                 it a text, a uuid or a number, or delete such rows; where rows are large, lower \
                 polling.batch; otherwise lengthen polling.lease. It is read again every 10 s, so \
                 a lock on the table that was the cause needs nothing more once it is gone",
            ),
            case_remedy(
                Case::FormerPending,
                "rows are pending in a table that was polled before",
                "the table was renamed, and another one has taken its name, or it was taken out of \
                 the configuration, or was a partition, and is detached. To have the rows sent, add an [[outbox]] for {table}, and \
                 restart; later rows of their keys may be sent before them. To give them up, mark \
                 them as published, or drop the table, or \
                 `delete from outbox_router.worker where relation = '{quoted_table}'::regclass or \
                 relation in (select relid from pg_partition_tree('{quoted_table}'))`. Where this \
                 role may not read it: grant it SELECT on the table",
            ),
            case_remedy(
                Case::IndexNameTaken,
                "an index that a polled table needs has the name of another one",
                "a table that is renamed keeps the names of its indexes: rename or drop the index \
                 that the message names (`alter index NAME rename to OTHER`), then `{setup}`",
            ),
            case_remedy(
                Case::MarksUndone,
                "rows that were marked as published are pending still",
                "{undoing}. The rows that were marked last are in Kafka. Leave the router running: \
                 it writes their marks by itself, does not send them again, and reads nothing else \
                 before, of its other tables neither; after a restart it would send them again",
            ),
            case_remedy(
                Case::MarksRefused,
                "the table refuses the marks of rows that are published",
                "{refusing}. The rows that were to be marked are in Kafka. Leave the router running: \
                 it writes their marks by itself, does not send them again, and reads nothing else \
                 before, of its other tables neither; after a restart it would send them again",
            ),
            case_remedy(
                Case::ClaimsRefused,
                "the table refuses that rows are claimed",
                "{refusing}. None of these rows was sent; the table is read again every 10 s",
            ),
            case_remedy(
                Case::ClaimsUndone,
                "rows that were claimed are as they were",
                "{undoing}. None of these rows was sent; the table is read again every 10 s",
            ),
            case_remedy(
                Case::TableAltered,
                "the table was altered since it was described",
                "nothing: the router describes it, and reads on; a command that ended so is typed \
                 again",
            ),
        ],
    },
    Explanation {
        code: Code::LeaseTable.as_str(),
        title: "workers cannot share the polled tables",
        meaning: "Routers that poll the same table divide its keys by outbox_router.lease and \
                  outbox_router.worker, so that each key has one worker, and outbox_router.mark \
                  notes which column and which words decide whether a row is published. These \
                  tables are missing, an earlier version has made them, or this role may not use \
                  them. Nothing is read before it may.",
        remedy: "`{setup}`",
        cases: &[],
    },
    Explanation {
        code: Code::StatusUnknown.as_str(),
        title: "a polled table has rows with a status of which nothing is known",
        meaning: "A row is pending, claimed, published, failed or abandoned by the word of its \
                  status, and these rows have another word, or NULL; or their flag is a number, and \
                  neither 0 nor 1: somebody has written it who knows more states than outbox.mark, \
                  or a former poller has left its word for failed in a table without available_at. \
                  Such a row is not sent, and with \
                  dead_letters.hold_key neither are the later rows of its key; all others are. \
                  Retention never removes it.",
        remedy: "`outbox-router dead-letters list` names the rows and their words. Deliver them by \
                 `outbox-router dead-letters requeue --all {admin}`, or give them up by `outbox-router \
                 dead-letters drop --all {admin}` (--id ID in the place of --all: one of them). Where \
                 the word is one of a row that is pending, abandoned or published, name it in \
                 outbox.mark, then `{setup}`; where such rows are no events, leave them out: \
                 where.column = \"status\" and where.not_in = [\"WORD\"] in their [[outbox]]",
        cases: &[],
    },
    Explanation {
        code: Code::Switched.as_str(),
        title: "the table was handed to the stream, or is polled still",
        meaning: "A table that is polled and streamed at the same time has each row sent twice. \
                  After outbox-router switch stream, outbox_router.switch says that a slot has \
                  every row since, and no worker is given keys of the table. A stream does not \
                  start while workers of its pipeline hold unexpired leases of a table that it \
                  has, nor before a switch of it is complete, nor without a slot where the table \
                  was polled last; and a worker takes no table that the slot of its configuration \
                  streams.",
        remedy: "where a router streams, stop this one; else set postgres.source = \"stream\" and \
                 start the router again; or go back to polling by `outbox-router switch polling \
                 {admin}`",
        cases: &[
            case_remedy(
                Case::SwitchHeld,
                "a switch finds events that could not be delivered",
                "`outbox-router dead-letters list` names them; deliver them by `outbox-router \
                 dead-letters requeue --all {admin}`, or give them up by `outbox-router \
                 dead-letters drop --all {admin}` (--id ID in the place of --all: one of them); \
                 when they have left, type the same command again",
            ),
            case_remedy(
                Case::SwitchLater,
                "a switch finds pending rows that are not to be sent yet",
                "nobody would poll the tables until then: type the same command later, or let it \
                 wait by --wait; the stream knows no such times, and sends rows as they are \
                 committed",
            ),
            case_remedy(
                Case::Switching,
                "the switch is not complete",
                "`outbox-router switch stream {admin}` goes on; `outbox-router switch polling \
                 {admin}` gives the tables back to the workers",
            ),
            case_remedy(
                Case::SwitchingBack,
                "only the switch back leads out",
                "`outbox-router switch polling {admin}` completes it; then the workers poll the \
                 tables, and `outbox-router switch stream {admin}` hands them over again",
            ),
            case_remedy(
                Case::SwitchLeavesTable,
                "switch polling is not told of every table that the slot has rows of",
                "the slot is dropped, and with it the rows that it has of that table: name the table \
                 in an [[outbox]] of the configuration, too; if it is no outbox, take it out of the \
                 publication (`alter publication NAME drop table TABLE`); then type the same command \
                 again",
            ),
            case_remedy(
                Case::SwitchLeftOut,
                "switch polling cannot tell which rows were left out of what was sent",
                "they would be marked as delivered: name the column that has the id of each row in \
                 outbox.columns.id; or, where every such row is sent or given up: {statements}; then type \
                 the same command again",
            ),
            case_remedy(
                Case::SwitchOlder,
                "switch polling finds pending rows from before their table was an outbox of the stream",
                "no slot has sent them. Leave them pending, so that workers send them, behind what \
                 the stream has sent of their keys: `outbox-router switch polling{typed_flags} --older \
                 send {admin}`; or give them up, and they are marked with the others: `outbox-router \
                 switch polling{typed_flags} --older give-up {admin}`",
            ),
            case_remedy(
                Case::SwitchAltered,
                "publication, tables or partitions were altered while a switch divided rows",
                "rows that were committed meanwhile may be in neither the tables' pending rows nor \
                 the slot: once publication and tables are as they shall be, type the same command \
                 again",
            ),
            case_remedy(
                Case::SwitchUnsent,
                "the slot has rows that were deleted, given another key or detached before they \
                 were delivered",
                "no worker would find them, and the slot is to be dropped: start `outbox-router run` \
                 with the stream's configuration (postgres.source = \"stream\"), which delivers \
                 them from the slot; once it has caught up, stop it and type the same command again. \
                 Where the application goes on deleting rows, or changing their keys, as soon as it \
                 has written them, end that first: workers miss such rows, too",
            ),
            case_remedy(
                Case::SwitchUnstreamed,
                "switch polling names a table that no router has streamed",
                "no row of it was sent from the slot, and all that are pending would be marked as \
                 delivered: take it out of the configuration for this command, and put it back \
                 afterwards; do not add it to the publication",
            ),
            case_remedy(
                Case::SwitchApart,
                "some tables of the configuration are streamed, and others are polled",
                "the tables of one slot are switched together: `outbox-router switch polling {admin}` \
                 with those alone that are streamed, then `outbox-router switch stream {admin}` with \
                 all of them; or give the others a pipeline of their own, by name, postgres.slot and \
                 postgres.publication",
            ),
            case_remedy(
                Case::SwitchBeside,
                "a switch has begun with another table, too, which the configuration does not name",
                "the tables of one slot are switched together, and the others would be neither \
                 streamed nor polled: name {table} in an [[outbox]] again, and type the same \
                 command; once that is complete, it may go a way of its own",
            ),
            case_remedy(
                Case::SwitchOfOther,
                "switch stream finds a slot, or a witness, that it has not made",
                "if the tables are streamed already, set postgres.source = \"stream\"; if the slot \
                 is left from an earlier pipeline: `outbox-router teardown --apply --forget \
                 {admin}` with a copy of the configuration that has postgres.source = \"stream\" \
                 and none of the keys that `outbox-router check` then refuses; then \
                 `outbox-router switch stream {admin}`",
            ),
            case_remedy(
                Case::PolledByOther,
                "workers of another configuration poll the table, its parent or a partition",
                "a polled table belongs to one configuration, with one name, of which as many \
                 workers as you like may run: with two, a row would wait for ever where the worker \
                 that has its key leaves it out by outbox.where, or be marked by one and never sent \
                 by the other. Stop the workers that are not to poll it: these go on once their \
                 leases have ended. Rows for several topics or clusters: a table each, or a stream. \
                 Partitions may be polled each by itself, or all with their parent",
            ),
            case_remedy(
                Case::StillPolled,
                "workers poll the tables that are to be streamed, or have polled them last",
                "`outbox-router switch stream {admin}` with the configuration by which they are \
                 polled: it sends the rows that are pending, and makes the slot (where the slot \
                 streams other tables already, switch those back first); or set postgres.source = \
                 \"polling\" again, where they are to be polled; or, where nobody \
                 is to poll them any more and no pending row matters, `outbox-router teardown \
                 --apply {admin}` with that configuration first. A router whose slot is there \
                 starts by itself when the workers have stopped; rows that they have delivered \
                 since the slot was made come once more then",
            ),
            case_remedy(
                Case::StillStreamed,
                "a slot streams the tables that are to be polled",
                "if the stream is wanted, stop this worker, or set postgres.source = \"stream\"; if \
                 the tables are to be polled and a router has delivered rows from the slot: \
                 `outbox-router switch polling {admin}` \
                 marks them, and drops the slot; if none ever has, drop it, and no row is marked: \
                 `outbox-router teardown --apply --forget {admin}` with postgres.source = \
                 \"stream\"; if slot and publication are another pipeline's, give this one names of \
                 its own in postgres.slot and postgres.publication",
            ),
            case_remedy(
                Case::SwitchWithoutSlot,
                "switch polling finds no slot, or one that is lost",
                "`outbox-router recover {admin}` with the configuration of the stream \
                 (postgres.source = \"stream\") sends the rows that are in no topic, and makes the \
                 slot again; then type this command again. Where recover cannot tell them, look for \
                 them by `outbox-router where`, mark the others by SQL, drop the slot if it is lost \
                 (`select pg_drop_replication_slot('{slot}')`), then `outbox-router teardown --apply \
                 {admin}` with this configuration, and set it up again",
            ),
        ],
    },
    Explanation {
        code: Code::ServerNotReady.as_str(),
        title: "PostgreSQL is starting, stopping or a standby",
        meaning: "It takes no session now, or it is not the primary. The router tries again with \
                  a pause that grows to 5 s. Where a server cannot stop because it waits for the \
                  router, the router releases it and stays away for ten seconds.",
        remedy: "",
        cases: &[case_remedy(
            Case::Standby,
            "the server is a standby",
            "point postgres.url (or --admin-url) at the primary",
        )],
    },
    Explanation {
        code: Code::Protocol.as_str(),
        title: "what arrives is not the replication protocol",
        meaning: "The stream or an answer breaks the protocol. The router ends the session and \
                  replays from the slot; when this happens for the third time at one position, its \
                  state is failed, and it tries again every 30 s.",
        remedy: "",
        cases: &[case_remedy(
            Case::NotPostgres,
            "what answers does not speak PostgreSQL's protocol",
            "connect to PostgreSQL itself, not to a connection pooler",
        )],
    },
    Explanation {
        code: Code::ServerError.as_str(),
        title: "PostgreSQL reports an error that has no code of its own",
        meaning: "The message holds the server's text and its SQLSTATE (manual, \"PostgreSQL \
                  Error Codes\"). In a stream the router ends the session and replays; when \
                  this happens for the third time at one position, its state is failed, and it \
                  tries again every 30 s.",
        remedy: "",
        cases: &[
            case_remedy(
                Case::RowUnsendable,
                "a row cannot be sent, again and again",
                "the router tries again every 30 s, so where memory or disk was short it goes on by \
                 itself. A row that PostgreSQL can never print (a bytea of 512 MB has 1 GB of text) \
                 stays in the WAL, also when it is deleted from its table. `{statements} {admin}` \
                 lets the slot pass this one transaction, and names its other rows by its id. Rows \
                 written within a savepoint or an exception block (a subtransaction has an id of \
                 its own), or updated since, are not named: find those by their time, and send them \
                 by {replay_rows}, while P014 is open, which is what was passed: [retention] removes \
                 nothing before `outbox-router accept {admin}` closes it. Then \
                 `outbox-router dead-letters requeue --left-out --code P008 {admin}` sends the rows \
                 that are named",
            ),
            case_remedy(
                Case::RowUnprintable,
                "a command comes to a row that the server cannot print",
                "PostgreSQL stores values that it cannot print (a bytea of 512 MB has 1 GB of text), \
                 so nothing can send this row: shorten its values by UPDATE, or delete it, and type \
                 the command again",
            ),
            case_remedy(
                Case::ServerHint,
                "the server has a hint of its own",
                "{server_hint} (PostgreSQL's own hint)",
            ),
            case_remedy(
                Case::LockTimeout,
                "a command waits for a lock for too long",
                "another session holds a lock on the table; nothing was changed by this \
                 statement, so run it again; end a transaction that was forgotten \
                 ({end_transactions}); who holds the lock, while the command waits: `select pid, \
                 pg_blocking_pids(pid), query from pg_stat_activity where wait_event_type = 'Lock'`",
            ),
            case_remedy(
                Case::PolledLocked,
                "another session has a lock on a polled table, or on rows of it",
                "the router goes on when the lock is gone, and reads nothing before, of its other \
                 tables neither; who has locks on the table, the oldest transaction first: `select \
                 a.pid, a.state, a.xact_start, a.query from pg_locks l join pg_stat_activity a using \
                 (pid) where l.relation = '{quoted_table}'::regclass order by a.xact_start`; one that \
                 was forgotten is ended by `select pg_terminate_backend(PID)`",
            ),
            case_remedy(
                Case::SlotWaits,
                "a slot cannot be created because transactions do not end",
                "end them ({end_transactions}) and type the same command again, or let it wait longer \
                 with --wait 10m",
            ),
            case_remedy(
                Case::StandbyAway,
                "commits wait for a synchronous standby",
                "bring the standby back, or take it out of synchronous_standby_names and reload the \
                 configuration (`select pg_reload_conf()`), then type the same command again; a \
                 session that waits for it and is ended leaves its rows on this server alone",
            ),
            case_remedy(
                Case::VersionTooOld,
                "the server's version is not supported",
                "use a server of version 13 or later",
            ),
        ],
    },
    Explanation {
        code: Code::ServerSilent.as_str(),
        title: "the walsender does not answer",
        meaning: "Nothing has come for ten seconds, although the router asked for a reply. It \
                  connects again; nothing is lost, since the slot replays. Where that repeats at \
                  one position, the walsender gets twice the time of before, up to ten minutes.",
        remedy: "",
        cases: &[case_remedy(
            Case::ProcessStalled,
            "the router's own process did not run for a while",
            "look for what stopped or starved it: SIGSTOP, a frozen container, a CPU limit",
        )],
    },
    Explanation {
        code: Code::WalsenderBusy.as_str(),
        title: "the walsender works for so long that it does not answer",
        meaning: "Three times at one position nothing has come for longer than the router waits. \
                  A walsender that writes a large transaction to disk, or prints a large row, \
                  answers nothing meanwhile; and when the router connects again, it reads WAL again \
                  from the slot's restart_lsn on. Each time it gets twice the time of before, up to \
                  ten minutes, so it comes through by itself. Nothing is lost.",
        remedy: "none is needed while it works: `select state, wait_event_type, wait_event from \
                 pg_stat_activity where pid = {pid}` says what it does. It takes less time with a \
                 larger logical_decoding_work_mem, a faster disk, and smaller transactions. A \
                 server process that is frozen waits for nothing and uses no CPU time: restart \
                 PostgreSQL then",
        cases: &[],
    },
];
