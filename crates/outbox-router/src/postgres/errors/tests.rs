//! Errors of PostgreSQL 13 to 18, as they are on the wire.

use super::*;

fn body(fields: &[(u8, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, text) in fields {
        bytes.push(*kind);
        bytes.extend(text.as_bytes());
        bytes.push(0);
    }
    bytes.push(0);
    bytes
}

fn kind(code: &str, routine: &str, message: &str, detail: &str) -> ServerErrorKind {
    let fields = [(b'C', code), (b'R', routine), (b'M', message), (b'D', detail)];
    ServerMessage::parse(&body(&fields)).kind()
}

#[test]
fn fields_are_read_and_severity_is_the_untranslated_one() {
    let message = ServerMessage::parse(&body(&[
        (b'S', "FEHLER"),
        (b'V', "ERROR"),
        (b'C', "42704"),
        (b'M', "gibt es nicht"),
        (b'H', "anlegen"),
        (b'F', "slot.c"),
    ]));
    assert_eq!((&*message.severity, &*message.code), ("ERROR", "42704"));
    assert_eq!(message.hint.as_deref(), Some("anlegen"));
    assert_eq!(message.to_string(), "gibt es nicht [SQLSTATE 42704]");
}

#[test]
fn damaged_messages_are_still_messages() {
    assert_eq!(ServerMessage::parse(b""), ServerMessage::default());
    assert_eq!(ServerMessage::parse(b"\0\0\0"), ServerMessage::default());
    assert_eq!(ServerMessage::parse(b"Mno end").message, "no end");
    assert_eq!(ServerMessage::parse(b"M\xff\xfe\0C\0").message, "\u{fffd}\u{fffd}");
}

#[test]
fn a_translated_message_is_recognised_by_code_and_routine() {
    assert_eq!(
        kind("42704", "ReplicationSlotAcquire", "Replikations-Slot »x« existiert nicht", ""),
        ServerErrorKind::SlotMissing
    );
    assert_eq!(
        kind("42704", "get_publication_oid", "Publikation »x« existiert nicht", ""),
        ServerErrorKind::PublicationMissing
    );
    assert_eq!(
        kind("55006", "ReplicationSlotAcquire", "Slot »s1« ist aktiv für PID 4711", ""),
        ServerErrorKind::SlotInUse { pid: Some(4711) }
    );
    assert_eq!(
        kind("42501", "InitPostgres", "keine Berechtigung", ""),
        ServerErrorKind::NoReplicationPrivilege
    );
}

#[test]
fn the_holder_of_a_slot_is_the_last_number() {
    let pid = |message: &str| kind("55006", "ReplicationSlotAcquire", message, "");
    let busy = |pid| ServerErrorKind::SlotInUse { pid };
    assert_eq!(pid("replication slot \"shop_2\" is active for PID 31337"), busy(Some(31337)));
    assert_eq!(pid("レプリケーションスロット\"s1\"はPID7で有効です"), busy(Some(7)));
    assert_eq!(pid("busy"), busy(None));
    assert_eq!(pid("99999999999999"), busy(None));
}

#[test]
fn a_lost_slot_is_recognised_in_every_version() {
    for (code, routine, message, detail) in [
        (
            "55000",
            "StartLogicalReplication",
            "cannot read from logical replication slot \"s\"",
            "This slot has been invalidated because it exceeded the maximum reserved size.",
        ),
        (
            "55000",
            "CreateDecodingContext",
            "can no longer get changes from replication slot \"s\"",
            "",
        ),
        (
            "55000",
            "RaiseSlotInvalidationError",
            "auf Slot »s« kann nicht mehr zugegriffen werden",
            "",
        ),
        ("58P01", "WalSndSegmentOpen", "requested WAL segment 0001 has already been removed", ""),
    ] {
        assert_eq!(kind(code, routine, message, detail), ServerErrorKind::SlotLost, "{message}");
    }
}

#[test]
fn an_unfit_slot_is_distinguished_from_a_lost_one() {
    for (code, routine, message) in [
        (
            "0A000",
            "CreateDecodingContext",
            "cannot use physical replication slot for logical decoding",
        ),
        (
            "55000",
            "CreateDecodingContext",
            "replication slot \"s\" was not created in this database",
        ),
        ("22023", "pg_decode_startup", "option \"proto_version\" = \"1\" is unknown"),
    ] {
        assert_eq!(kind(code, routine, message, ""), ServerErrorKind::SlotUnsuitable, "{message}");
    }
}

#[test]
fn a_pooler_that_refuses_or_shares_a_session_is_recognised() {
    for (code, message) in [
        ("08P01", "unsupported startup parameter: replication"),
        ("08P01", "unsupported startup parameter in options: search_path"),
        (
            "0A000",
            "Feature not supported: RDS Proxy currently doesn’t support command-line options.",
        ),
        ("26000", "prepared statement \"s9\" does not exist"),
        ("42P05", "prepared statement \"s1\" already exists"),
    ] {
        assert_eq!(kind(code, "", message, ""), ServerErrorKind::Pooler, "{message}");
    }
}

/// Messages go where no content of events may go: into the log, to `/readyz` and to the page.
#[test]
fn what_is_in_a_row_is_not_shown() {
    let shown = |code: &str| {
        let detail = Some("Failing row contains (1, secret).".to_owned());
        let (code, message) = (code.to_owned(), "refused".to_owned());
        ServerMessage { code, message, detail, ..ServerMessage::default() }.to_string()
    };
    assert_eq!(shown("23514"), "refused [SQLSTATE 23514]");
    assert_eq!(shown("22P02"), "refused [SQLSTATE 22P02]");
    assert_eq!(shown("55000"), "refused (Failing row contains (1, secret).) [SQLSTATE 55000]");
}

#[test]
fn missing_privileges_are_distinguished() {
    for message in [
        "must be superuser or replication role to start walsender",
        "permission denied to start WAL sender",
    ] {
        assert_eq!(kind("42501", "", message, ""), ServerErrorKind::NoReplicationPrivilege);
    }
    assert_eq!(
        kind("42501", "CheckMyDatabase", "permission denied for database \"shop\"", ""),
        ServerErrorKind::PermissionDenied
    );
}

#[test]
fn a_view_of_slots_that_may_not_be_read_is_no_missing_replication() {
    for (routine, message) in [
        ("aclcheck_error", "permission denied for view pg_replication_slots"),
        ("", "permission denied for view pg_replication_slots"),
        ("aclcheck_error", "keine Berechtigung für Sicht pg_replication_slots"),
        ("aclcheck_error", "permission denied for function pg_show_replication_origin_status"),
    ] {
        let kind = kind("42501", routine, message, "");
        assert_eq!(kind, ServerErrorKind::PermissionDenied, "{message}");
    }
}

#[test]
fn the_grant_on_the_system_catalog_is_named() {
    let grant = |message: &str| {
        let message = message.to_owned();
        ServerMessage { code: "42501".to_owned(), message, ..ServerMessage::default() }
            .grant_on_catalog()
    };
    assert_eq!(
        grant("permission denied for view pg_replication_slots").as_deref(),
        Some("grant select on pg_catalog.pg_replication_slots")
    );
    assert_eq!(
        grant("permission denied for function pg_current_wal_lsn").as_deref(),
        Some("grant execute on function pg_catalog.pg_current_wal_lsn")
    );
    for other in [
        "permission denied for table outbox",
        "permission denied for schema pg_x",
        "permission denied for view pg_x; drop table y",
        "keine Berechtigung für Sicht pg_replication_slots",
    ] {
        assert_eq!(grant(other), None, "{other}");
    }
}

/// A walsender that is told to stop while it waits raises the warning as an error.
#[test]
fn a_standby_that_was_invalidated_is_no_lost_slot() {
    let invalidated = "physical replication slot \"sb\" specified in parameter \
                       \"synchronized_standby_slots\" has been invalidated";
    for (code, routine, text) in [
        ("55000", "StandbySlotsHaveCaughtup", invalidated),
        ("55000", "", invalidated),
        ("55000", "StandbySlotsHaveCaughtup", "der Slot ist inaktiv"),
        ("22023", "StandbySlotsHaveCaughtup", "der Slot existiert nicht"),
    ] {
        assert_eq!(kind(code, routine, text, ""), ServerErrorKind::NotAccepting, "{text}");
    }
}

#[test]
fn wal_level_is_recognised_with_and_without_quotes() {
    for message in [
        "logical decoding requires wal_level >= logical",
        "logical decoding requires \"wal_level\" >= \"logical\"",
    ] {
        assert_eq!(
            kind("55000", "CheckLogicalDecodingRequirements", message, ""),
            ServerErrorKind::WalLevel
        );
    }
}

#[test]
fn the_unknown_stays_unknown() {
    assert_eq!(kind("XX000", "", "could not find record", ""), ServerErrorKind::Other);
    assert_eq!(kind("42704", "", "type does not exist", ""), ServerErrorKind::Other);
    assert_eq!(kind("55006", "dropdb", "database is being accessed", ""), ServerErrorKind::Other);
}
