//! What a server reports about itself and the session before the first command, within limits.

use std::collections::BTreeMap;

use super::ServerMessage;
use super::reply::BackendKey;

/// The largest number of messages before the session is ready; PostgreSQL sends far fewer. A server
/// that sends more is not read until `connect_timeout`: reading it costs time that the connections
/// to other servers may need.
pub(super) const MESSAGES_MAX: usize = 1000;
/// PostgreSQL reports some fifteen parameters and rarely a notice; the limits bound what a server
/// can make this process store.
const PARAMETERS_MAX: usize = 128;
pub(super) const NOTICES_MAX: usize = 16;

/// What the server reported about itself.
#[derive(Debug, Default)]
pub(super) struct ServerParameters {
    pub(super) backend_key: Option<BackendKey>,
    pub(super) parameters: BTreeMap<String, String>,
    /// Notices that came before streaming.
    pub(super) notices: Vec<ServerMessage>,
}

impl ServerParameters {
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
