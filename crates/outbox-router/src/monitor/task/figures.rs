//! Reads the figures around the slot after each reading of slot and catalog, and keeps what was
//! read last.
//!
//! What the reading of slot and catalog shows has been published by then, so that a slow answer
//! delays nothing. A failure here is noted, and nothing else follows from it.

use std::time::SystemTime;

use relay::{Code, Failure, State, source::SlotReader};
use tokio::time::Instant;

use super::{Monitor, MonitorSession, MonitorSettings, figures_memory::ConnectionBroke};
use crate::monitor::{
    connection::{SqlSession, drive},
    pins,
    polled::Polled,
    rates::number,
    watch::{
        LastSlot, SlotWatch,
        denied::Denied,
        figures::{Holder, SlotFigures},
        limit::{SlotLimit, first_limit},
        reading::{self, FiguresAnswer, FiguresQuery},
    },
};

impl<C> Monitor<C> {
    /// Keeps the slot as it was just read.
    pub(super) fn remember(&mut self, clock_micros: i64) {
        let Some(read) = self.report.polled_at else { return };
        self.report.watch.last = Some(LastSlot {
            read,
            server_clock: number(u64::try_from(clock_micros).unwrap_or_default()) / 1e6,
            slot: self.report.slot.health().cloned(),
            rates: self.report.rates,
            to_limit: None,
        });
        self.find_limit();
        self.find_pin();
    }

    /// Reads the figures on the connection on which the slot was just read.
    pub(super) async fn read_figures(&mut self) {
        let Some(session) = self.session.take() else { return };
        if self.is_elsewhere() {
            self.session = Some(session);
            return;
        }
        let version = session.version;
        match self.ask(session).await {
            Ok(answer) => self.take_figures(answer, version),
            Err(failure) => {
                if self.report.watch.trouble.is_none() {
                    tracing::warn!(
                        slot = %self.settings.slot, code = %failure.code,
                        "the monitor cannot read the figures around the slot: {}",
                        failure.message_with_causes()
                    );
                    // Only the first time: else a server that ends each connection at this
                    // statement would be asked without a pause.
                    self.figures.broke = self.session.is_none().then_some(ConnectionBroke);
                }
                self.figures.failed(Instant::now());
                self.report.watch.trouble = Some(failure);
            }
        }
    }

    async fn ask(&mut self, mut session: MonitorSession) -> Result<FiguresAnswer, Failure> {
        let listing = self.figures.listing(Instant::now());
        let query = FiguresQuery {
            version: session.version,
            slot: &self.settings.slot,
            rights: self.figures.rights.as_ref(),
            listing,
        };
        let SqlSession { client, driver } = &mut session.connection;
        let answer = drive(driver, reading::read(client, query)).await?;
        // Kept where PostgreSQL has answered, if only with an error.
        self.session = Some(session);
        answer
    }

    fn take_figures(&mut self, answer: FiguresAnswer, version: i32) {
        if self.report.watch.trouble.take().is_some() {
            tracing::info!(
                slot = %self.settings.slot,
                "the monitor reads the figures around the slot again"
            );
        }
        let denied = answer.rights.denied(version);
        self.announce_denied(&denied);
        let read = Polled { at: Instant::now(), wall: SystemTime::now() };
        self.figures.take(&answer, read);
        self.report.watch.figures = Some(SlotFigures {
            read,
            limits: answer.limits,
            spill: answer.spill,
            pins: answer.pins,
            other_slots: answer.other_slots,
            catalog_xmin_age: answer.catalog_xmin_age,
            holder: answer.holder,
            standbys: answer.standbys,
            wal_directory: self.figures.wal_directory,
            denied,
        });
        self.find_limit();
        self.find_pin();
        self.find_foreign_reader();
    }

    /// Finds out, on a standby, whether a program reads the slot that is not of this pipeline: the
    /// router that reads it knows that it does.
    fn find_foreign_reader(&mut self) {
        let snapshot = self.snapshot();
        let figures = self.report.watch.figures.as_ref();
        let holder = figures.and_then(|figures| figures.holder.clone());
        let holder = holder.filter(|_| snapshot.condition.state == State::Standby);
        let confirmed = self.report.slot.health().and_then(|slot| slot.confirmed_flush_lsn);
        let found = holder.and_then(|Holder { pid, application, wait_event }| {
            let MonitorSettings { name, slot, .. } = &self.settings;
            let reader = SlotReader { pid, application, wait_event };
            reader.foreign(name, (slot, confirmed), snapshot.witness.position)
        });
        if let Some(failure) = found.as_ref().filter(|_| self.report.foreign_reader.is_none()) {
            tracing::error!(
                slot = %self.settings.slot, code = %failure.code,
                "this router stands by: {}", failure.message
            );
        }
        self.report.foreign_reader = found;
    }

    /// Finds who holds the slot back, if the slot retains so much that somebody must; by what was
    /// read last of both, also where a later attempt to read the figures has failed.
    fn find_pin(&mut self) {
        let SlotWatch { last, figures, .. } = &self.report.watch;
        let slot = last.as_ref().and_then(|last| last.slot.as_ref());
        let retains_too_much = slot.is_some_and(pins::is_worth_showing);
        let figures = figures.as_ref().filter(|_| retains_too_much);
        self.report.pin = figures.and_then(|figures| figures.pins.first()).cloned();
    }

    /// Finds which limit of the slot is reached first, by the limits that were read last.
    fn find_limit(&mut self) {
        let watch = &mut self.report.watch;
        let Some(last) = &mut watch.last else { return };
        let idle_timeout =
            watch.figures.as_ref().and_then(|figures| figures.limits.idle_timeout_seconds);
        last.to_limit = last.slot.as_ref().and_then(|slot| {
            let wal_seconds = self.pace.seconds_to_limit(slot);
            first_limit(slot, wal_seconds, idle_timeout, last.server_clock)
        });
        self.report.seconds_to_limit = last.to_limit.map(|first| first.seconds);
    }

    /// The limit of the slot that is reached first.
    pub(super) fn nearest_limit(&self) -> Option<SlotLimit> {
        let last = self.report.watch.last.as_ref().filter(|_| !self.is_elsewhere())?;
        last.to_limit.map(|first| first.limit)
    }

    /// Logs what the role may not read, once.
    fn announce_denied(&mut self, denied: &[Denied]) {
        for Denied { object, hides, grant } in self.figures.announce(denied) {
            tracing::info!(
                slot = %self.settings.slot,
                "the router's role may not read {object}, which hides {hides}; to show it: {grant}"
            );
        }
    }

    /// Whether the monitor reaches another server than the stream comes from.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.report.findings.iter().any(|finding| finding.code == Code::MonitorElsewhere)
    }
}
