//! `run` with the stream as its source.
//!
//! The streaming task reads and produces; *monitor*, *retention*, *observer* and the *admin
//! endpoint* run on the main thread. One bounded channel carries the monitor's events to the
//! streaming task.

use std::{convert::Infallible, future::pending, time::SystemTime};

use relay::{
    BacklogSettings, ExitReason, HeldLimits, HeldSettings, Relay, RelaySettings, Timing, Window,
    WitnessSettings, witness::WitnessKey,
};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use super::{App, StartError, StopSignals, on_its_own_thread, process_id};
use crate::{
    admin::{self, standing::standing, view::View},
    held::{HeldStore, Keep},
    monitor::{self, MonitorReport, RelayReport, Thresholds},
    postgres::WAL_SENDER_TIMEOUT,
    prepare::{pipeline, size, source, witness_key},
    retention::{self, RetentionReport, RetentionSettings},
    service::{self, decisions},
    shell::{Clock, Endpoint, Parts, Running, Shell, Source},
    status::{Limits, Observed, observer},
    tap,
};

/// Capacity of the channel from the monitor to the streaming task. The monitor sends each gap's
/// code once, and its readings of the source leave room, so a gap finds room; if not, it is sent
/// after the next reading.
const MONITOR_EVENTS: usize = 16;

impl App {
    /// Runs until the streaming task ends, and returns its outcome.
    ///
    /// # Errors
    /// As [`App::run`].
    pub(super) async fn stream(self) -> Result<ExitReason, StartError> {
        let listener = self.listen().await?;
        let clock = Clock::start();
        let core = Relay::new(self.core_settings(), clock.now().at);
        let now = Instant::now();
        let first = RelayReport::initial(core.snapshot(clock.now().at), now);
        let removal = RetentionSettings::of(&self.prepared.config);
        let (relay_reports, relay) = watch::channel(first);
        let (monitor_reports, monitor) = watch::channel(MonitorReport::initial(now));
        let (observations, observed) = watch::channel(Observed::begin(now));
        let (retention_reports, retention) =
            watch::channel(RetentionReport::initial(&removal, SystemTime::now()));
        let (taps, tap) = tap::taps(self.prepared.config.admin.tap);
        let (kafka, brokers) = self.kafka();
        let sources = admin::Sources { relay, monitor, observed, retention, brokers, taps };
        let (events, monitor_events) = mpsc::channel(MONITOR_EVENTS);
        let (stop, stopping) = watch::channel(Running::On);

        let parts = Parts {
            relay: core,
            postgres: self.source(),
            held: self.held_store(),
            kafka,
            state_topic: self.prepared.config.kafka.state_topic.clone(),
            witness_key: self.witness_key(),
            monitor: monitor_events,
            reports: relay_reports,
            shutdown: stopping,
            tap,
            clock,
        };
        let mut ended = on_its_own_thread(move || Shell::new(parts).run())?;
        let (relay, monitor) = (&sources.relay, &sources.monitor);
        let observer = self.observer(relay, monitor, observations);
        let retention_endpoint = self.retention_endpoint();
        let retention = retention::run(
            removal,
            monitor::ConnectBy(|| retention_endpoint.sql()),
            retention::Channels {
                relay: relay.clone(),
                monitor: monitor.clone(),
                report: retention_reports,
            },
        );
        let endpoint = self.endpoint();
        let monitor = monitor::run(
            self.monitor_settings(),
            monitor::ConnectBy(|| endpoint.sql()),
            monitor::Channels { relay: relay.clone(), events, report: monitor_reports },
        );
        let service = self.service(&sources, stop.subscribe());
        // It serves until the process ends: a router that drains must be observable.
        let admin = admin::serve(listener, self.admin_settings(), sources.clone(), pending());
        let mut signals = StopSignals::listen()?;
        tokio::pin!(monitor, observer, retention, admin, service);
        let (mut watches, mut observes, mut removes, mut serves) = (true, true, true, true);
        loop {
            tokio::select! {
                biased;
                outcome = &mut ended => {
                    // The streaming task's thread drops its sender without an outcome only when it
                    // panics.
                    return outcome.map_err(|_| StartError::TaskPanicked);
                }
                () = signals.next() => { stop.send_replace(Running::Stopping); }
                never = &mut service => match never {},
                () = &mut observer, if observes => observes = false,
                // None is expected to end before the streaming task.
                () = &mut monitor, if watches => watches = false,
                // It ends at once where it is off.
                () = &mut retention, if removes => removes = false,
                () = &mut admin, if serves => serves = false,
            }
        }
    }

    /// Tells log and service manager how the router fares.
    fn service(
        &self,
        sources: &admin::Sources,
        shutdown: watch::Receiver<Running>,
    ) -> impl Future<Output = Infallible> + use<> {
        let (settings, sources) = (self.admin_settings(), sources.clone());
        let decisions = decisions::log(sources.relay.clone());
        let fares = move || standing(&View::of(&settings, &sources));
        async move {
            tokio::select! {
                never = service::run(fares, shutdown) => never,
                never = decisions => never,
            }
        }
    }

    fn observer(
        &self,
        relay: &watch::Receiver<RelayReport>,
        monitor: &watch::Receiver<MonitorReport>,
        observed: watch::Sender<Observed>,
    ) -> impl Future<Output = ()> + use<> {
        let limits = Limits { thresholds: self.thresholds(), window: self.window() };
        let (relay, monitor) = (relay.clone(), monitor.clone());
        observer::run(limits, observer::Channels { relay, monitor, observed })
    }

    fn core_settings(&self) -> RelaySettings {
        let limits = self.prepared.config.limits;
        let witness =
            self.prepared.config.kafka.state_topic.as_ref().map(|topic| WitnessSettings {
                key: self.witness_key(),
                process: process_id().to_string(),
                topic: topic.clone(),
            });
        RelaySettings {
            slot: self.prepared.config.postgres.slot.as_str().to_owned(),
            publication: self.prepared.config.postgres.publication.as_str().to_owned(),
            outboxes: self.prepared.config.outboxes(),
            witness,
            held: self.held_settings(),
            window: self.window(),
            row_bytes: size(limits.row_bytes),
            timing: Timing {
                status_interval: WAL_SENDER_TIMEOUT / 3,
                silence_limit: WAL_SENDER_TIMEOUT,
            },
            shutdown_limit: limits.shutdown,
            backlog: BacklogSettings::of(self.prepared.config.postgres.backlog),
            on_failed: self.on_failed,
            seed: u64::from(std::process::id()),
        }
    }

    fn held_settings(&self) -> HeldSettings {
        let config = &self.prepared.config;
        let letters = &config.dead_letters;
        HeldSettings {
            policy: config.on_error,
            hold_keys: letters.hold_key,
            topic: letters.topic.clone(),
            limits: HeldLimits {
                keys: letters.max_keys,
                events: letters.max_events,
                bytes: letters.max_bytes,
            },
        }
    }

    fn held_store(&self) -> HeldStore<Endpoint> {
        let config = &self.prepared.config;
        let pipeline = pipeline(config);
        let keep = if config.on_error.has_dead_letters() { Keep::Always } else { Keep::WhileHeld };
        HeldStore::new(self.endpoint(), pipeline, keep)
    }

    fn witness_key(&self) -> WitnessKey {
        witness_key(&self.prepared.config, &self.prepared.conninfo.dbname)
    }

    fn source(&self) -> Source {
        source(&self.prepared.config, self.endpoint())
    }

    fn monitor_settings(&self) -> monitor::MonitorSettings {
        monitor::MonitorSettings {
            name: self.prepared.config.name.clone(),
            slot: self.prepared.config.postgres.slot.as_str().to_owned(),
            publication: self.prepared.config.postgres.publication.as_str().to_owned(),
            outboxes: self.prepared.config.outboxes(),
            interval: self.prepared.config.monitor.interval,
            thresholds: self.thresholds(),
            window: self.window(),
        }
    }

    fn admin_settings(&self) -> admin::AdminSettings {
        admin::AdminSettings {
            name: self.prepared.config.name.clone(),
            slot: self.prepared.config.postgres.slot.as_str().to_owned(),
            thresholds: self.thresholds(),
            keep: RetentionSettings::of(&self.prepared.config).keep(),
            hosts: self.prepared.config.admin.hosts.clone(),
            window: self.window(),
        }
    }

    fn thresholds(&self) -> Thresholds {
        let bytes_behind = self.prepared.config.monitor.bytes_behind;
        Thresholds { warning: bytes_behind.warning, critical: bytes_behind.critical }
    }

    fn window(&self) -> Window {
        let limits = self.prepared.config.limits;
        Window { events: limits.window_events, bytes: limits.window_bytes }
    }
}
