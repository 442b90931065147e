//! What `recover` refuses before anything is changed: `cli/recover/{refusals,slot}.rs`.

use relay::delivered::detached::gone_partitions;

use super::{database::Row, recover::Recover, site::Site};

impl Recover {
    /// `refusals::look`.
    pub(super) fn refuses(&self, site: &Site) -> Option<&'static str> {
        if !self.may_drop(site) {
            return Some("recover: slot has rows");
        }
        if !self.typed.mends && !site.is_published() {
            return Some("recover: publication incomplete");
        }
        self.detached(site).then_some("recover: detached partition")
    }

    pub(super) fn detached(&self, site: &Site) -> bool {
        let Some(witness) = &self.witness else { return false };
        let now = site.read(None);
        let gone = gone_partitions(witness, (&now.server.history, &now.catalog), &site.setup.names);
        gone.iter().any(|gone| site.database.detached.contains(&gone.oid.as_u32()))
    }

    /// `slot::check_former`.
    pub(super) fn may_drop(&self, site: &Site) -> bool {
        let is_sent = |row: &Row| site.database.slot_sends(row.row);
        let has_rows = || site.database.log.iter().flat_map(|commit| &commit.sent).any(is_sent);
        self.typed.drops_slot || !has_rows()
    }
}
