//! `run` with tables that are polled as its source.
//!
//! The *worker* reads, produces and marks, on a thread of its own. The *survey* counts what is
//! pending, *retention* removes what is published, the *admin endpoint* serves what they report,
//! and the *service report* tells log and service manager: these run on the main thread.

use std::{convert::Infallible, future::pending};

use relay::{ExitReason, TableName, polling::Poller};
use tokio::sync::watch;
use uuid::Uuid;

use super::{App, StartError, StopSignals, on_its_own_thread, process_id};
use crate::{
    kafka::KafkaSettings,
    polling::{
        admin::{self, AdminEndpoint},
        clock::LeaseClock,
        report::WorkerReport,
        retention::{self, SweepSettings},
        sql::{Database, LeaseTable, Listener, Scan, SqlSettings},
        survey::{self, SurveySettings},
        worker::{Worker, WorkerParts},
    },
    prepare,
    retention::{RetentionReport, RetentionSettings},
    service,
    shell::{Endpoint, Running},
    tap::{self, Tap},
};

impl App {
    /// Runs until the worker ends, and returns its outcome.
    ///
    /// # Errors
    /// As [`App::run`].
    pub(super) async fn poll(self) -> Result<ExitReason, StartError> {
        let listener = self.listen().await?;
        let clock = LeaseClock::start();
        let settings = prepare::poller_settings(&self.prepared.config, self.on_failed);
        let poller = Poller::new(settings, clock.now().at);
        let first = WorkerReport::first(poller.report(clock.now().at));
        let (reports, worker) = watch::channel(first);
        let (stop, stopping) = watch::channel(Running::On);
        let (taps, tap) = tap::taps(self.prepared.config.admin.tap);
        let (kafka, brokers) = self.kafka();
        let parts = self.worker_parts(poller, clock, kafka, (reports, stopping, tap));
        let mut ended = on_its_own_thread(move || Worker::new(parts).run())?;

        let (surveys, surveyed) = watch::channel(survey::SurveyReport::default());
        let survey = survey::run(self.survey_settings(), self.endpoint(), surveys);
        let sweeps = prepare::polled_sweep(&self.prepared.config, Scan::ByIndex);
        let (removals, retention) = watch::channel(retention::first_report(sweeps.as_ref()));
        let sources = admin::Sources { worker, surveyed, retention, brokers, taps };
        let endpoint = AdminEndpoint::new(self.polling_admin_settings(), sources);
        let service = service::run(endpoint.standing(), stop.subscribe());
        // It serves until the process ends: a worker that drains must be observable.
        let admin = endpoint.serve(listener, pending());
        let mut signals = StopSignals::listen()?;
        let retention = self.retention(sweeps, removals);
        tokio::pin!(survey, admin, retention, service);
        let mut serves = true;
        loop {
            tokio::select! {
                biased;
                outcome = &mut ended => {
                    // The worker's thread drops its sender without an outcome only when it panics.
                    return outcome.map_err(|_| StartError::TaskPanicked);
                }
                () = signals.next() => { stop.send_replace(Running::Stopping); }
                never = &mut survey => match never {},
                never = &mut retention => match never {},
                never = &mut service => match never {},
                () = &mut admin, if serves => serves = false,
            }
        }
    }

    async fn retention(
        &self,
        sweeps: Option<SweepSettings>,
        reports: watch::Sender<RetentionReport>,
    ) -> Infallible {
        match sweeps {
            Some(settings) => retention::run(settings, self.retention_endpoint(), reports).await,
            None => pending().await,
        }
    }

    fn worker_parts(
        &self,
        poller: Poller,
        clock: LeaseClock,
        kafka: KafkaSettings,
        (reports, shutdown, tap): (watch::Sender<WorkerReport>, watch::Receiver<Running>, Tap),
    ) -> WorkerParts<Endpoint> {
        let config = &self.prepared.config;
        let (worker, lease) = (process_id(), prepare::lease_length(config));
        let tables = config.polled_tables();
        let names: Vec<TableName> = tables.iter().map(|table| table.outbox.name.clone()).collect();
        let settings = self.sql_settings(worker);
        let leases = LeaseTable::new(
            self.endpoint(),
            names.clone(),
            worker,
            config.name.clone(),
            lease.whole(),
        )
        .unless_streamed(settings.stream.clone());
        let listener = config.polling.notify.then(|| Listener::new(self.endpoint(), names));
        WorkerParts {
            poller,
            clock,
            database: Database::new(self.endpoint(), tables, settings),
            leases,
            lease,
            listener,
            kafka,
            reports,
            shutdown,
            tap,
        }
    }

    fn sql_settings(&self, worker: Uuid) -> SqlSettings {
        prepare::polled_sql(&self.prepared.config, worker)
    }

    fn survey_settings(&self) -> SurveySettings {
        let config = &self.prepared.config;
        SurveySettings {
            tables: config.polled_tables(),
            // It takes no row.
            sql: self.sql_settings(Uuid::nil()),
            interval: config.monitor.interval,
        }
    }

    fn polling_admin_settings(&self) -> admin::AdminSettings {
        let config = &self.prepared.config;
        admin::AdminSettings {
            name: config.name.clone(),
            hosts: config.admin.hosts.clone(),
            keep: RetentionSettings::of(config).keep(),
        }
    }
}
