//! What every measurement gets.

use testbed::kafka::KafkaCluster;

use crate::args::Args;
use crate::congestion::CongestionSetting;
use crate::reader::Reader;
use crate::report::Report;

pub(crate) struct Bench {
    pub(crate) args: Args,
    /// `pg_recvlogical`, the builds of the router, and peers.
    pub(crate) readers: Vec<Reader>,
    pub(crate) kafka: KafkaCluster,
    pub(crate) report: Report,
    /// If congestion controls are chosen.
    pub(crate) congestion: Option<CongestionSetting>,
}
