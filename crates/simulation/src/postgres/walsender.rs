//! What the walsender sends.

use relay::{Code, testing::wire};

use super::{
    SimulatedPostgres, rows,
    socket::{SocketMessage, Warning},
};
use crate::{
    history::{CatalogState, CommittedEvent, OutboxName, PublicationState, RowKind},
    plan::VersionGroup,
    random::Random,
};

impl SimulatedPostgres {
    /// The walsender sends the next transaction, or a keepalive when there is none; and a session
    /// that reads a backlog is sent the next of it.
    pub fn send(&mut self, random: &mut Random) {
        self.send_backlogs(random);
        let Self { connections, .. } = self;
        let Some(number) = connections.iter().position(|connection| connection.has_walsender)
        else {
            return;
        };
        let connection = &mut self.connections[number];
        if connection.client_copy_done || connection.wire.len() > 100 {
            return;
        }
        connection.was_heard = true;
        let next = connection.next;
        let Some(transaction) = self.history.transactions.get(next) else {
            let keepalive = if random.one_in(2) { wire::reply_request } else { wire::keepalive };
            let end = self.history.sendable_end();
            connection.wire.push_back(SocketMessage::Frame(keepalive(end)));
            return;
        };
        if transaction.end_lsn > self.history.sendable_end() {
            if self.history.standby.is_some_and(|standby| standby.is_away) && random.one_in(4) {
                connection.wire.push_back(SocketMessage::Warning(Warning::StandbyAway));
            }
            return;
        }
        let mut sent_relation = connection.sent_relation;
        let sent = self.messages_of(next, &mut sent_relation, random);
        let connection = &mut self.connections[number];
        connection.sent_relation = sent_relation;
        match sent {
            Ok(messages) => {
                connection.next += 1;
                connection.wire.extend(messages);
            }
            Err(code) => {
                connection.wire.push_back(SocketMessage::ErrorResponse(code));
                connection.end(code);
            }
        }
    }

    /// Also where the walsender is gone: another session reads the backlog.
    fn send_backlogs(&mut self, random: &mut Random) {
        for number in 0..self.connections.len() {
            let Some(backlog) = &self.connections[number].backlog else { continue };
            let (next, mut sent_relation) = (backlog.next, backlog.sent_relation);
            if next >= backlog.until || backlog.has_ended || backlog.wire.len() > 100 {
                continue;
            }
            let breaks = backlog.breaks && random.one_in(4);
            let sent = self.messages_of(next, &mut sent_relation, random);
            let Some(backlog) = &mut self.connections[number].backlog else { continue };
            backlog.sent_relation = sent_relation;
            match sent {
                Ok(messages) if !breaks => {
                    backlog.next += 1;
                    // A keepalive is the walsender's.
                    let rows = messages.into_iter().filter(|message| !message.is_keepalive());
                    backlog.wire.extend(rows);
                }
                Ok(_) | Err(_) => {
                    backlog.wire.push_back(SocketMessage::ErrorResponse(Code::Backlog));
                    backlog.has_ended = true;
                }
            }
        }
    }

    /// What is sent of a transaction, or with which error the stream ends.
    fn messages_of(
        &self,
        number: usize,
        sent_relation: &mut Option<(usize, OutboxName)>,
        random: &mut Random,
    ) -> Result<Vec<SocketMessage>, Code> {
        let Self { history, version, undecodable, catalog, .. } = self;
        let transaction = &history.transactions[number];
        if *undecodable == Some(transaction.commit_lsn) {
            return Err(Code::ServerError);
        }
        let mut sent = Vec::new();
        let events = &history.events[transaction.events.clone()];
        if events.iter().any(|event| event.catalog.publication == PublicationState::Missing) {
            if *version != VersionGroup::V18 {
                return Err(Code::PublicationMissing);
            }
            sent.push(SocketMessage::Warning(Warning::PublicationSkipped));
        }
        let published = |event: &&CommittedEvent| event.is_published();
        if !events.is_empty() && !events.iter().any(|event| published(&event)) {
            return Ok(sent);
        }
        sent.push(SocketMessage::Frame(rows::begin(transaction)));
        for (number, event) in transaction.events.clone().zip(events).filter(|(_, e)| published(e))
        {
            let CatalogState { shape, name, .. } = event.catalog;
            if *sent_relation != Some((shape, name)) {
                *sent_relation = Some((shape, name));
                sent.push(SocketMessage::Frame(rows::relation(shape, name)));
            }
            let row = rows::insert(number, event);
            sent.push(if event.kind == RowKind::Oversized {
                SocketMessage::Oversized(row)
            } else {
                SocketMessage::Frame(row)
            });
            match random.below(24) {
                // A keepalive that reports the end of WAL, within a transaction.
                0 => sent.push(SocketMessage::Frame(wire::keepalive(history.sendable_end()))),
                2 => sent.push(SocketMessage::Frame(rows::relation(shape, name))),
                _ => {}
            }
            let next = rows::after(number, event, *version);
            sent.extend(rows::of_no_event(next, event).into_iter().map(SocketMessage::Frame));
        }
        // The same rows each time that the transaction is sent. A table that cannot be mapped would
        // stop the routers at them.
        if events.is_empty() && version.has_skipped_rows() && catalog.shape < rows::RENAMED {
            let CatalogState { shape, name, .. } = *catalog;
            *sent_relation = Some((shape, name));
            let row = rows::skipped(transaction.commit_lsn, shape, name);
            sent.extend([rows::relation(shape, name), row].map(SocketMessage::Frame));
        }
        let commit = wire::commit(transaction.commit_lsn, transaction.end_lsn);
        sent.push(SocketMessage::Frame(commit));
        Ok(sent)
    }

    /// The client sent `CopyDone`: the walsender answers it and sends nothing more.
    pub fn receive_copy_done(&mut self, id: u64) {
        if let Some(connection) = self.connection(id) {
            connection.client_copy_done = true;
            connection.wire.push_back(SocketMessage::CopyDone);
        }
    }
}
