//! What the router's role may not read, and what to type so that it may.
//!
//! PostgreSQL checks the rights to views and functions when a statement begins, also for a branch
//! of a CASE that is never taken. So rights are asked before what they allow, and with every
//! reading again for the next one.

use relay::source::quote_identifier;
use serde::Deserialize;

/// The first version in which a role inherits by its membership instead of by an attribute.
const INHERIT_OPTION_SINCE: i32 = 16_00_00;

/// A view or function that the role may not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// Its name, such as `pg_ls_waldir`.
    pub object: &'static str,
    /// What is not known without it.
    pub hides: &'static str,
    /// The statement that gives the right, for a superuser or an administrator of that role.
    pub grant: String,
}

/// What the role may read of the figures, as a scalar query. What every role may read wherever
/// nobody has revoked it is asked for, too: one view must not cost all figures.
pub(super) const RIGHTS: &str = "\
    select jsonb_build_object( \
      'role', current_user, \
      'is_monitor', pg_has_role(current_user, 'pg_monitor', 'member'), \
      'readable', coalesce(jsonb_agg(part) filter (where may), '[]')) \
    from (values \
      ('sessions', has_table_privilege('pg_catalog.pg_stat_activity', 'select')), \
      ('other_sessions', pg_has_role(current_user, 'pg_read_all_stats', 'usage')), \
      ('prepared', has_table_privilege('pg_catalog.pg_prepared_xacts', 'select')), \
      ('slot_statistics', coalesce(has_table_privilege( \
        to_regclass('pg_catalog.pg_stat_replication_slots'), 'select'), true)), \
      ('wal_directory', has_function_privilege('pg_catalog.pg_ls_waldir()', 'execute')) \
    ) parts (part, may)";

/// A part of the figures that needs a right of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Part {
    /// Which sessions have a transaction id.
    Sessions,
    /// State and ages of other users' sessions.
    OtherSessions,
    /// Prepared transactions.
    Prepared,
    /// What decoding wrote to disk.
    SlotStatistics,
    /// The files of `pg_wal`.
    WalDirectory,
}

impl Part {
    const ALL: [Self; 5] = [
        Self::Sessions,
        Self::OtherSessions,
        Self::Prepared,
        Self::SlotStatistics,
        Self::WalDirectory,
    ];

    const fn object(self) -> &'static str {
        match self {
            Self::Sessions | Self::OtherSessions => "pg_stat_activity",
            Self::Prepared => "pg_prepared_xacts",
            Self::SlotStatistics => "pg_stat_replication_slots",
            Self::WalDirectory => "pg_ls_waldir",
        }
    }

    const fn hides(self) -> &'static str {
        match self {
            Self::Sessions => "which session holds the slot back",
            Self::OtherSessions => "state and age of other users' transactions",
            Self::Prepared => "which prepared transaction holds the slot back",
            Self::SlotStatistics => "how much decoding writes to disk",
            Self::WalDirectory => "the size of pg_wal",
        }
    }
}

/// What the role may read, as the server last said.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(in crate::monitor) struct Rights {
    role: String,
    is_monitor: bool,
    readable: Vec<Part>,
}

impl Rights {
    pub(super) fn may(&self, part: Part) -> bool {
        self.readable.contains(&part)
    }

    /// Whether the role may list `pg_wal`.
    pub(in crate::monitor) fn may_list_wal(&self) -> bool {
        self.may(Part::WalDirectory)
    }

    /// What the role may not read.
    pub(in crate::monitor) fn denied(&self, version: i32) -> Vec<Denied> {
        let is_denied = |part: &Part| match part {
            // Who may see no session at all needs that right first.
            Part::OtherSessions => self.may(Part::Sessions) && !self.may(*part),
            Part::Sessions | Part::Prepared | Part::SlotStatistics | Part::WalDirectory => {
                !self.may(*part)
            }
        };
        let denied = |part: Part| Denied {
            object: part.object(),
            hides: part.hides(),
            grant: self.grant(part, version),
        };
        Part::ALL.into_iter().filter(is_denied).map(denied).collect()
    }

    fn grant(&self, part: Part, version: i32) -> String {
        let (object, role) = (part.object(), quote_identifier(&self.role));
        match part {
            Part::Sessions | Part::Prepared | Part::SlotStatistics => {
                format!("grant select on pg_catalog.{object} to {role}")
            }
            Part::OtherSessions | Part::WalDirectory if !self.is_monitor => {
                format!("grant pg_monitor to {role}")
            }
            // It inherits what pg_monitor may do, but not this.
            Part::WalDirectory if self.may(Part::OtherSessions) => {
                format!("grant execute on function pg_catalog.{object}() to {role}")
            }
            Part::OtherSessions | Part::WalDirectory if version < INHERIT_OPTION_SINCE => {
                format!("alter role {role} inherit")
            }
            Part::OtherSessions | Part::WalDirectory => {
                format!("grant pg_monitor to {role} with inherit true")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(readable: &[Part]) -> Rights {
        Rights { role: "Relay".to_owned(), is_monitor: false, readable: readable.to_owned() }
    }

    fn member(readable: &[Part]) -> Rights {
        Rights { is_monitor: true, ..role(readable) }
    }

    fn grants(rights: &Rights, version: i32) -> Vec<String> {
        rights.denied(version).into_iter().map(|denied| denied.grant).collect()
    }

    const PUBLIC: [Part; 3] = [Part::Sessions, Part::Prepared, Part::SlotStatistics];

    #[test]
    fn a_plain_role_lacks_pg_monitor_alone() {
        assert_eq!(grants(&role(&PUBLIC), 180_000), ["grant pg_monitor to \"Relay\""; 2]);
    }

    #[test]
    fn a_member_that_inherits_nothing_is_not_told_to_become_one() {
        let inherit = "grant pg_monitor to \"Relay\" with inherit true";
        assert_eq!(grants(&member(&PUBLIC), 160_000), [inherit; 2]);
        assert_eq!(grants(&member(&PUBLIC), 150_000), ["alter role \"Relay\" inherit"; 2]);
    }

    #[test]
    fn what_was_revoked_is_granted_by_its_name() {
        let most = [Part::OtherSessions, Part::Prepared];
        assert_eq!(
            grants(&member(&most), 180_000),
            [
                "grant select on pg_catalog.pg_stat_activity to \"Relay\"",
                "grant select on pg_catalog.pg_stat_replication_slots to \"Relay\"",
                "grant execute on function pg_catalog.pg_ls_waldir() to \"Relay\""
            ]
        );
        assert!(grants(&member(&Part::ALL), 180_000).is_empty());
    }
}
