//! What the walsender sends.

use relay::{Code, testing::wire};

use super::{SimulatedPostgres, connection::SocketMessage, rows};
use crate::{
    history::{CatalogState, CommittedEvent, PublicationState, RowKind},
    plan::VersionGroup,
    random::Random,
};

impl SimulatedPostgres {
    /// The walsender sends the next transaction, or a keepalive when there is none.
    pub fn send(&mut self, random: &mut Random) {
        let Self { history, connections, version, undecodable, catalog, .. } = self;
        let Some(connection) = connections.iter_mut().find(|connection| connection.has_walsender)
        else {
            return;
        };
        if connection.client_copy_done || connection.wire.len() > 100 {
            return;
        }
        let Some(transaction) = history.transactions.get(connection.next) else {
            let keepalive = if random.one_in(2) { wire::reply_request } else { wire::keepalive };
            connection.wire.push_back(SocketMessage::Frame(keepalive(history.end_of_wal)));
            return;
        };
        if *undecodable == Some(transaction.commit_lsn) {
            connection.wire.push_back(SocketMessage::ErrorResponse(Code::ServerError));
            connection.end(Code::ServerError);
            return;
        }
        let events = &history.events[transaction.events.clone()];
        if events.iter().any(|event| event.catalog.publication == PublicationState::Missing) {
            if *version != VersionGroup::V18 {
                connection.wire.push_back(SocketMessage::ErrorResponse(Code::PublicationMissing));
                connection.end(Code::PublicationMissing);
                return;
            }
            connection.wire.push_back(SocketMessage::Notice);
        }
        connection.next += 1;
        let published = |event: &&CommittedEvent| event.is_published();
        if !events.is_empty() && !events.iter().any(|event| published(&event)) {
            return;
        }
        let wire = &mut connection.wire;
        wire.push_back(SocketMessage::Frame(rows::begin(transaction)));
        for (number, event) in transaction.events.clone().zip(events).filter(|(_, e)| published(e))
        {
            let CatalogState { shape, name, .. } = event.catalog;
            if connection.sent_relation != Some((shape, name)) {
                connection.sent_relation = Some((shape, name));
                wire.push_back(SocketMessage::Frame(rows::relation(shape, name)));
            }
            let row = rows::insert(number, event);
            wire.push_back(if event.kind == RowKind::Oversized {
                SocketMessage::Oversized(row)
            } else {
                SocketMessage::Frame(row)
            });
            match random.below(24) {
                // A keepalive that reports the end of WAL, within a transaction.
                0 => wire.push_back(SocketMessage::Frame(wire::keepalive(history.end_of_wal))),
                2 => wire.push_back(SocketMessage::Frame(rows::relation(shape, name))),
                _ => {}
            }
            let next = rows::after(number, event, *version);
            wire.extend(rows::of_no_event(next, event).into_iter().map(SocketMessage::Frame));
        }
        // The same rows each time that the transaction is sent. A table that cannot be mapped would
        // stop the routers at them.
        if events.is_empty() && version.has_skipped_rows() && catalog.shape < rows::RENAMED {
            let CatalogState { shape, name, .. } = *catalog;
            connection.sent_relation = Some((shape, name));
            let row = rows::skipped(transaction.commit_lsn, shape, name);
            wire.extend([rows::relation(shape, name), row].map(SocketMessage::Frame));
        }
        wire.push_back(SocketMessage::Frame(wire::commit(
            transaction.commit_lsn,
            transaction.end_lsn,
        )));
    }

    /// The client sent `CopyDone`: the walsender answers it and sends nothing more.
    pub fn receive_copy_done(&mut self, id: u64) {
        if let Some(connection) = self.connection(id) {
            connection.client_copy_done = true;
            connection.wire.push_back(SocketMessage::CopyDone);
        }
    }
}
