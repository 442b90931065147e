//! The one statement that reads the figures, on PostgreSQL 13 to 18.

use super::denied::{Part, RIGHTS, Rights};
use crate::{
    monitor::pins::{self, PINS_MAX},
    postgres::quote_literal,
};

/// The first versions that have what others lack.
const SLOT_STATISTICS_SINCE: i32 = 14_00_00;
pub(crate) const FAILOVER_SINCE: i32 = 17_00_00;

/// Whether a reading lists the directory `pg_wal`. It asks the file system about each file, and a
/// slot that is far behind retains tens of thousands of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::monitor) enum WalListing {
    /// It does, where the role may.
    Wanted,
    /// It does not.
    LeftOut,
}

/// Size of WAL and time are given by PostgreSQL in units that a person reads (`64MB`, `1min`), so
/// PostgreSQL converts them. A setting that it does not have is NULL.
const LIMITS: &str = "\
    jsonb_build_object( \
      'wal_keep_bytes', \
        nullif(pg_size_bytes(current_setting('max_slot_wal_keep_size')), -1), \
      'idle_timeout_seconds', nullif(extract(epoch from \
        current_setting('idle_replication_slot_timeout', true)::interval)::float8, 0), \
      'wal_sender_timeout_seconds', nullif(extract(epoch from \
        current_setting('wal_sender_timeout')::interval)::float8, 0), \
      'slots_max', current_setting('max_replication_slots')::int, \
      'slots_used', (select count(*) from s))";

/// A slot that was never used or is lost retains nothing.
fn other_slots(slot: &str) -> String {
    format!(
        "(select jsonb_build_object('inactive', count(*), 'largest', (jsonb_agg( \
             jsonb_build_object('name', slot_name, 'retained_bytes', bytes_behind) \
             order by bytes_behind desc, slot_name))->0) \
           from s where slot_name <> {slot} and active_pid is null and bytes_behind is not null \
             and wal_status is distinct from 'lost')"
    )
}

/// The slots that `synchronized_standby_slots` names, as `n (name, place)`. They are identifiers,
/// which may be quoted.
pub(crate) const NAMED_STANDBYS: &str = "\
    (select name, place \
     from pg_catalog.unnest(pg_catalog.string_to_array( \
         pg_catalog.current_setting('synchronized_standby_slots', true), ',')) \
         with ordinality as items (item, place), \
       pg_catalog.btrim(item, E' \\t\\n') as bare, \
       pg_catalog.btrim(case when bare like '\"%' then bare else pg_catalog.lower(bare) end, \
         '\"') as name \
     where name <> '') n";

fn standbys(slot: &str) -> String {
    format!(
        "(select jsonb_build_object( \
             'failover', coalesce((select failover from s where slot_name = {slot}), false), \
             'active_physical_slots', \
               (select count(*) from s where slot_type = 'physical' and active_pid is not null), \
             'named', coalesce(jsonb_agg(jsonb_build_object( \
                 'name', n.name, 'bytes_behind', s.bytes_behind, \
                 'state', case when s.slot_name is null then 'missing' \
                   when s.slot_type <> 'physical' then 'logical' \
                   when s.wal_status = 'lost' then 'invalidated' \
                   when s.active_pid is null then 'inactive' else 'active' end) \
               order by n.place), '[]')) \
           from {NAMED_STANDBYS} left join s on s.slot_name::text = n.name)"
    )
}

/// The name of every session's client is shown to every role that may read the view.
fn holder(slot: &str) -> String {
    format!(
        "(select jsonb_build_object('pid', a.pid, \
             'application', nullif(a.application_name, ''), \
             'wait_event', a.wait_event_type || ':' || a.wait_event) \
           from s join pg_catalog.pg_stat_activity a on a.pid = s.active_pid \
           where s.slot_name = {slot} limit 1)"
    )
}

fn open_transactions(rights: &Rights) -> String {
    let parts = [(Part::Sessions, pins::OF_SESSIONS), (Part::Prepared, pins::PREPARED)];
    let readable: Vec<&str> =
        parts.into_iter().filter(|(part, _)| rights.may(*part)).map(|(_, query)| query).collect();
    if readable.is_empty() {
        return "'[]'::jsonb".to_owned();
    }
    let all = readable.join(" union all ");
    format!(
        "(select coalesce(jsonb_agg(to_jsonb(x) order by xid_age desc), '[]') \
           from ({all} order by xid_age desc limit {PINS_MAX}) x)"
    )
}

/// The statement for a role with these rights: it names nothing that this role may not read.
pub(super) fn statement(version: i32, slot: &str, rights: &Rights, listing: WalListing) -> String {
    let slot = quote_literal(slot);
    let none = || "null::jsonb".to_owned();
    let spill = if version >= SLOT_STATISTICS_SINCE && rights.may(Part::SlotStatistics) {
        format!(
            "(select to_jsonb(t) from pg_catalog.pg_stat_replication_slots t \
               where t.slot_name = {slot})"
        )
    } else {
        none()
    };
    let standbys = if version >= FAILOVER_SINCE { standbys(&slot) } else { none() };
    let directory = if listing == WalListing::Wanted && rights.may(Part::WalDirectory) {
        "(select coalesce(sum(size), 0)::bigint from pg_catalog.pg_ls_waldir())"
    } else {
        "null::bigint"
    };
    let holder = if rights.may(Part::Sessions) { holder(&slot) } else { none() };
    let (others, pins) = (other_slots(&slot), open_transactions(rights));
    // To a server in recovery no monitor connects. `greatest` is not NULL where one of its
    // arguments is, and an age is negative if the transaction began after this statement.
    format!(
        "with s as materialized ( \
           select *, case when restart_lsn is not null then \
               greatest(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint \
             end as bytes_behind, \
             case when catalog_xmin is not null then greatest(age(catalog_xmin), 0) end \
             as catalog_xmin_age \
           from pg_catalog.pg_replication_slots) \
         select jsonb_build_object( \
           'rights', ({RIGHTS}), \
           'limits', {LIMITS}, \
           'spill', {spill}, \
           'pins', {pins}, \
           'other_slots', {others}, \
           'catalog_xmin_age', (select catalog_xmin_age from s where slot_name = {slot}), \
           'standbys', {standbys}, \
           'holder', {holder}, \
           'wal_directory_bytes', {directory})"
    )
}
