//! Reads what must be true of the server before a stream can start, and which server it is. This is
//! asked by SQL, where a wrong answer gets a code and a remedy: the walsender checks little, and
//! late.

use relay::{
    Case, Code, Failure, Name,
    source::{ServerEncoding, quote_identifier},
};

use crate::postgres::{TextQuery, one_row};

/// The settings that decide how statements and stream are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// `server_version_num`.
    pub version: i32,
    /// `server_encoding`.
    pub encoding: ServerEncoding,
    /// Process id of the backend that answers.
    pub backend_pid: i32,
}

const SERVER: &str = "\
    select current_setting('server_version_num'), current_setting('server_encoding'), \
      current_setting('wal_level'), pg_is_in_recovery(), current_user, \
      (select r.rolsuper or r.rolreplication from pg_roles r where r.rolname = current_user) \
        or exists (select from pg_roles r where r.rolname = 'rds_replication' \
          and pg_has_role(current_user, r.oid, 'member')), \
      pg_backend_pid()";

/// Reads the settings, and refuses a server from which nothing can be streamed.
///
/// # Errors
/// [`Code::ServerNotReady`] when the server is a standby, [`Code::WalLevel`] when `wal_level` is
/// not `logical`, [`Code::RoleLacksReplication`] when the role may not replicate; another code when
/// the query fails.
pub async fn settings(sql: &mut impl TextQuery) -> Result<ServerSettings, Failure> {
    let mut row = one_row(sql, "the server's settings", SERVER).await?;
    let version = row.parsed()?;
    let encoding = match row.text()? {
        ascii if ascii == "SQL_ASCII" => ServerEncoding::SqlAscii,
        known => ServerEncoding::Known(known),
    };
    let wal_level = row.text()?;
    if row.boolean()? {
        return Err(is_standby());
    }
    if !decodes(&wal_level, version) {
        return Err(Failure::new(
            Code::WalLevel,
            format!("wal_level is {wal_level}, decoding needs logical"),
        ));
    }
    let role = row.text()?;
    if !row.boolean()? {
        return Err(may_not_replicate(&role));
    }
    Ok(ServerSettings { version, encoding, backend_pid: row.parsed()? })
}

/// Whether a server of this version decodes with this `wal_level`: from PostgreSQL 19 on the first
/// logical slot makes `replica` a logical one.
pub fn decodes(wal_level: &str, version: i32) -> bool {
    wal_level == "logical" || (wal_level == "replica" && version >= 19_00_00)
}

/// The failure of a role without the REPLICATION attribute.
pub fn may_not_replicate(role: &str) -> Failure {
    let what = format!("role \"{role}\" may not replicate");
    Failure::new(Code::RoleLacksReplication, what).naming(Name::Role, quote_identifier(role))
}

fn is_standby() -> Failure {
    let what = "this PostgreSQL is a standby server, the slot is read on the primary";
    Failure::of(Case::Standby, what)
}

/// `server_version_num`.
///
/// # Errors
/// [`Code::ServerNotReady`] when the server is a standby: a standby has the primary's name, system
/// identifier and timeline, but neither its slots nor the present state of its catalog. Another
/// code when the query fails.
pub async fn version(sql: &mut impl TextQuery) -> Result<i32, Failure> {
    let statement = "select current_setting('server_version_num'), pg_is_in_recovery()";
    let mut row = one_row(sql, "the server's version", statement).await?;
    let version = row.parsed()?;
    if row.boolean()? { Err(is_standby()) } else { Ok(version) }
}

/// Per major version, the first minor version whose decoding applies an altered publication to
/// everything that comes after a transaction which was open at the time (release notes of these
/// versions, "Avoid data loss when DDL operations that don't take a strong lock affect tables that
/// are being logically replicated").
const PUBLICATIONS_SINCE: [(i32, i32); 5] = [(13, 21), (14, 18), (15, 13), (16, 9), (17, 5)];

/// A note if, on this version, an alteration of the publication may leave rows out for longer than
/// it lasts.
pub fn outdated(version: i32) -> Option<Failure> {
    let (major, minor) = (version / 10_000, version % 10_000);
    let (_, since) = PUBLICATIONS_SINCE.into_iter().find(|(known, _)| *known == major)?;
    (minor < since).then(|| {
        let what = format!(
            "PostgreSQL {major}.{minor} continues with the former publication for what comes after a \
             transaction that was open while the publication was altered: rows may be left out then, and the catalog does not show it"
        );
        Failure::new(Code::ServerOutdated, what).naming(Name::Version, format!("{major}.{since}"))
    })
}

/// System identifier and timeline. On a primary the timeline is taken from the name of the WAL file
/// that is written now: the control file has the timeline of the last checkpoint, and after a
/// promotion the next checkpoint may be minutes away.
const IDENTITY: &str = "\
    select s.system_identifier, case \
      when pg_is_in_recovery() then (select c.timeline_id from pg_control_checkpoint() c) \
      else ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int8 end \
    from pg_control_system() s";

/// Which server this is, by SQL: IDENTIFY_SYSTEM needs a replication connection.
///
/// # Errors
/// The role may not call these functions, or the query fails for another reason.
pub async fn identity(sql: &mut impl TextQuery) -> Result<relay::source::History, Failure> {
    let mut row = one_row(sql, "the server's identity", IDENTITY).await?;
    Ok(relay::source::History { system_id: row.text()?, timeline: row.parsed()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_19_on_replica_is_enough() {
        let servers = [("logical", 13), ("logical", 19), ("replica", 19), ("replica", 20)];
        assert!(servers.iter().all(|(level, major)| decodes(level, major * 10_000)));
        let others = [("replica", 18), ("minimal", 18), ("minimal", 19)];
        assert!(!others.iter().any(|(level, major)| decodes(level, major * 10_000)));
    }

    #[test]
    fn minor_versions_that_lose_rows_behind_an_altered_publication_are_reported() {
        let is_reported = |version| outdated(version).is_some();
        assert!([130_020, 140_017, 150_012, 160_008, 170_004].into_iter().all(is_reported));
        assert!(
            ![130_021, 140_018, 150_013, 160_009, 170_005, 180_000].into_iter().any(is_reported)
        );
        assert!(outdated(170_004).unwrap().message.starts_with("PostgreSQL 17.4 continues"));
    }
}
