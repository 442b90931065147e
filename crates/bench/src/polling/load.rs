//! What a run costs the server and the router.

use anyhow::Context;
use serde::Serialize;
use testbed::process::{cpu_time, family_cpu_time};
use tokio_postgres::types::PgLsn;

use crate::figures::float;
use crate::server::BenchServer;

/// Used so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    /// Seconds of CPU of the server with all of its processes.
    server: f64,
    /// The same, of all routers.
    router: f64,
    wal: PgLsn,
}

/// What each row of a run has cost. Of the server: whatever it did meanwhile.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct RowCost {
    #[serde(rename = "server_cpu_us")]
    pub(super) server: f64,
    #[serde(rename = "router_cpu_us")]
    pub(super) router: f64,
    #[serde(rename = "wal_bytes")]
    pub(super) wal: f64,
}

impl Used {
    /// What was used until now.
    pub(super) async fn now(server: &BenchServer, routers: &[u32]) -> anyhow::Result<Self> {
        let wal = server.postgres.current_wal_lsn().await?;
        let postmaster = server.postgres.process()?.pid();
        let mut router = 0.0;
        for pid in routers {
            router += cpu_time(*pid).context("a router")?.as_secs_f64();
        }
        Ok(Self { server: family_cpu_time(postmaster)?.as_secs_f64(), router, wal })
    }

    /// What was used from here to `end`, divided by rows.
    pub(super) fn per_row(self, end: Self, rows: u64) -> RowCost {
        let wal = u64::from(end.wal).saturating_sub(u64::from(self.wal));
        let micros = |seconds: f64| seconds * 1e6 / float(rows);
        RowCost {
            server: micros(end.server - self.server),
            router: micros(end.router - self.router),
            wal: float(wal) / float(rows),
        }
    }

    /// The part of a core that the server used from here to `end`, so many seconds later.
    pub(super) fn server_percent(self, end: Self, seconds: f64) -> f64 {
        (end.server - self.server) * 100.0 / seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_is_divided_by_the_rows() {
        let used = |server, router, wal| Used { server, router, wal: PgLsn::from(wal) };
        let cost = used(1.0, 0.5, 1_000).per_row(used(3.0, 1.5, 101_000), 1_000);
        assert_eq!((cost.server, cost.router, cost.wal), (2_000.0, 1_000.0, 100.0));
        let percent = used(1.0, 0.0, 0).server_percent(used(1.5, 0.0, 0), 10.0);
        assert!((percent - 5.0).abs() < 1e-9, "{percent}");
    }
}
