//! What must be true of the server before a stream can start, and which server it is: asked by SQL,
//! where a wrong answer has a code and a remedy. The walsender checks little, and late.

use relay::{
    Code, Failure,
    source::{Encoding, quote_identifier},
};

use crate::postgres::{TextQuery, one_row};

/// What decides how to talk to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// `server_version_num`.
    pub version: i32,
    /// `server_encoding`.
    pub encoding: Encoding,
    /// The backend that answers.
    pub backend_pid: i32,
}

const SERVER: &str = "\
    select current_setting('server_version_num'), current_setting('server_encoding'), \
      current_setting('wal_level'), pg_is_in_recovery(), current_user, \
      (select r.rolsuper or r.rolreplication from pg_roles r where r.rolname = current_user) \
        or exists (select from pg_roles r where r.rolname = 'rds_replication' \
          and pg_has_role(current_user, r.oid, 'member')), \
      pg_backend_pid()";

/// Asks.
///
/// # Errors
/// The server is a standby, does not write what decoding needs, or the role may not replicate; or
/// it did not answer.
pub async fn settings(sql: &mut impl TextQuery) -> Result<ServerSettings, Failure> {
    let mut row = one_row(sql, "the server's settings", SERVER).await?;
    let version = row.parsed()?;
    let encoding = match row.text()? {
        ascii if ascii == "SQL_ASCII" => Encoding::SqlAscii,
        known => Encoding::Known(known),
    };
    let wal_level = row.text()?;
    if row.boolean()? {
        return Err(is_standby());
    }
    if wal_level != "logical" {
        return Err(Failure::new(
            Code::WalLevel,
            format!("wal_level is {wal_level}, decoding needs logical"),
        )
        .hint("alter system set wal_level = logical, then restart postgresql"));
    }
    let role = row.text()?;
    if !row.boolean()? {
        return Err(may_not_replicate(&role));
    }
    Ok(ServerSettings { version, encoding, backend_pid: row.parsed()? })
}

/// The role lacks the REPLICATION attribute.
pub fn may_not_replicate(role: &str) -> Failure {
    let quoted = quote_identifier(role);
    let what = format!("role \"{role}\" may not replicate");
    Failure::new(Code::RoleLacksReplication, what).hint(format!(
        "alter role {quoted} replication (on amazon rds: grant rds_replication to {quoted})"
    ))
}

fn is_standby() -> Failure {
    let what = "this postgresql is a standby server, the slot is read on the primary";
    Failure::new(Code::ServerNotReady, what).hint("point postgres.url at the primary")
}

/// `server_version_num`.
///
/// # Errors
/// The server did not answer; or it is a standby, which has the primary's name, system identifier
/// and timeline, and neither its slots nor the present state of its catalog.
pub async fn version(sql: &mut impl TextQuery) -> Result<i32, Failure> {
    let statement = "select current_setting('server_version_num'), pg_is_in_recovery()";
    let mut row = one_row(sql, "the server's version", statement).await?;
    let version = row.parsed()?;
    if row.boolean()? { Err(is_standby()) } else { Ok(version) }
}

/// The minor versions since which decoding takes note of a publication that was altered while a
/// transaction was open, for what comes after that transaction (release notes of these, "Avoid data
/// loss when DDL operations that don't take a strong lock affect tables that are being logically
/// replicated").
const PUBLICATIONS_SINCE: [(i32, i32); 5] = [(13, 21), (14, 18), (15, 13), (16, 9), (17, 5)];

/// Whether an alteration of the publication may leave rows out for longer than it lasts.
pub fn outdated(version: i32) -> Option<Failure> {
    let (major, minor) = (version / 10_000, version % 10_000);
    let (_, since) = PUBLICATIONS_SINCE.into_iter().find(|(known, _)| *known == major)?;
    (minor < since).then(|| {
        let what = format!(
            "postgresql {major}.{minor} goes on with the former publication for what comes after a \
             transaction that was open while the publication was altered: rows may be left out then, and \
             nothing shows it"
        );
        Failure::new(Code::ServerOutdated, what).hint(format!(
            "update to {major}.{since}; until then alter the publication, or take up a table, only \
             while nobody writes to any table of the database"
        ))
    })
}

/// The control file has the timeline of the last checkpoint, and after a promotion the next may be
/// minutes away; what is written now is written on the present one.
const IDENTITY: &str = "\
    select s.system_identifier, case \
      when pg_is_in_recovery() then (select c.timeline_id from pg_control_checkpoint() c) \
      else ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int8 end \
    from pg_control_system() s";

/// Which server this is, for a connection that is no replication connection.
///
/// # Errors
/// The server did not answer, or the role may not ask.
pub async fn identity(sql: &mut impl TextQuery) -> Result<relay::witness::History, Failure> {
    let mut row = one_row(sql, "the server's identity", IDENTITY).await?;
    Ok(relay::witness::History { system_id: row.text()?, timeline: row.parsed()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minor_versions_that_lose_rows_behind_an_altered_publication_are_told() {
        let told = |version| outdated(version).is_some();
        assert!([130_020, 140_017, 150_012, 160_008, 170_004].into_iter().all(told));
        assert!(![130_021, 140_018, 150_013, 160_009, 170_005, 180_000].into_iter().any(told));
        assert!(outdated(170_004).unwrap().message.starts_with("postgresql 17.4 goes on"));
    }
}
