//! What a server tells about itself and the session before the first command, within limits.

use std::collections::BTreeMap;

use super::ServerMessage;
use super::reply::BackendKey;

/// More than any server sends before it is ready. One that sends more is not waited for until
/// `connect_timeout`: what it sends costs us time that the connections of other servers may need.
pub(super) const MESSAGES_MAX: usize = 1000;
/// A server reports some fifteen parameters and rarely a notice; the limits stop one that would not
/// end.
const PARAMETERS_MAX: usize = 128;
pub(super) const NOTICES_MAX: usize = 16;

/// What the server told about itself.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) backend_key: Option<BackendKey>,
    pub(super) parameters: BTreeMap<String, String>,
    /// Notices that came before streaming.
    pub(super) notices: Vec<ServerMessage>,
}

impl Session {
    /// The server's process id, as in `pg_stat_activity`.
    pub(super) fn pid(&self) -> Option<u32> {
        self.backend_key.map(|key| key.pid.unsigned_abs())
    }

    pub(super) fn note_parameter(&mut self, name: String, value: String) {
        if self.parameters.len() < PARAMETERS_MAX || self.parameters.contains_key(&name) {
            self.parameters.insert(name, value);
        }
    }

    pub(super) fn note_notice(&mut self, notice: ServerMessage) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push(notice);
        }
    }
}
