//! Every name that is known of Debezium, Kafka Connect and the producer, with what becomes of it.
//! Debezium's names are those of its documentation up to 3.7 and their predecessors in 1.x. A name
//! that is in no table is reported as not supported, because it may matter.

mod connector;
mod event_router;
mod producer;
mod rule;

pub(super) use connector::{BY_LEAF, CONNECTOR};
pub(super) use event_router::EVENT_ROUTER_OPTIONS;
pub(super) use producer::{AsProperty, PRODUCER, as_property};
use rule::Rule;
pub(super) use rule::{Outcome, Treatment};

/// The treatment of a name; `None` where it is not known. A whole name goes before a prefix.
pub(super) fn treatment(table: &[Rule], name: &str) -> Option<Treatment> {
    let whole = |rule: &&Rule| rule.names.contains(&name);
    let prefix = |rule: &&Rule| {
        let fits = |known: &&str| known.strip_suffix('*').is_some_and(|p| name.starts_with(p));
        rule.names.iter().any(fits)
    };
    table.iter().find(whole).or_else(|| table.iter().find(prefix)).map(|rule| rule.treatment)
}

/// The known name that is most like this one, or that ends with it.
pub(super) fn nearest(table: &'static [Rule], name: &str) -> Option<&'static str> {
    let names = table.iter().flat_map(|rule| rule.names).copied();
    let whole: Vec<&'static str> = names.filter(|known| !known.ends_with('*')).collect();
    let tail = format!(".{name}");
    if let Some(known) = whole.iter().find(|known| known.ends_with(&tail)) {
        return Some(known);
    }
    let likeness = |known: &'static str| (strsim::normalized_levenshtein(name, known), known);
    let (likeness, nearest) = whole.into_iter().map(likeness).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (likeness > 0.7).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every property that Debezium documents for its PostgreSQL connector, or declares for it.
    const DOCUMENTED: &str = "binary.handling.mode column.exclude.list column.include.list \
        column.mask.hash._hashAlgorithm_.with.salt._salt_ column.mask.with._length_.chars \
        column.propagate.source.type column.truncate.to._length_.chars \
        connection.validation.timeout.ms connector.class converters custom.metric.tags \
        custom.sanitize.pattern database.connection.factory.class database.dbname \
        database.hostname database.initial.statements database.password database.port \
        database.query.timeout.ms database.sslcert database.sslfactory database.sslkey \
        database.sslmode database.sslpassword database.sslrootcert database.tcpKeepAlive \
        database.user datatype.propagate.source.type decimal.handling.mode errors.max.retries \
        event.processing.failure.handling.mode executor.shutdown.timeout.ms \
        extended.headers.enabled field.name.adjustment.mode flush.lsn.source \
        guardrail.collections.limit.action guardrail.collections.max heartbeat.action.query \
        heartbeat.interval.ms hstore.handling.mode include.schema.comments \
        include.unknown.datatypes incremental.snapshot.chunk.size \
        incremental.snapshot.watermarking.strategy interval.handling.mode \
        legacy.snapshot.max.threads lsn.flush.mode max.batch.size max.queue.size \
        max.queue.size.in.bytes message.key.columns message.prefix.exclude.list \
        message.prefix.include.list money.fraction.digits name notification.enabled.channels \
        offset.mismatch.strategy plugin.name poll.dispatch.interval.ms poll.interval.ms \
        post.processors post.processors.reselector.type provide.transaction.metadata \
        publication.name publish.via.partition.root query.fetch.size queue.provider.type \
        retriable.restart.connector.wait.ms schema.exclude.list schema.include.list \
        schema.name.adjustment.mode schema.refresh.mode signal.data.collection \
        signal.enabled.channels skip.messages.without.change skipped.operations \
        slot.drop.on.stop slot.failover slot.max.retries slot.name slot.retry.delay.ms \
        slot.stream.params snapshot.delay.ms snapshot.fetch.size \
        snapshot.include.collection.list snapshot.isolation.mode snapshot.lock.timeout.ms \
        snapshot.locking.mode snapshot.locking.mode.custom.name snapshot.max.threads \
        snapshot.mode snapshot.mode.configuration.based.snapshot.data \
        snapshot.mode.configuration.based.snapshot.on.data.error \
        snapshot.mode.configuration.based.snapshot.on.schema.error \
        snapshot.mode.configuration.based.snapshot.schema \
        snapshot.mode.configuration.based.start.stream snapshot.mode.custom.name \
        snapshot.query.mode snapshot.query.mode.custom.name snapshot.select.statement.overrides \
        sourceinfo.struct.maker statistics.metrics.enabled status.update.interval.ms \
        streaming.delay.ms table.exclude.list table.ignore.builtin table.include.list tasks.max \
        time.precision.mode tombstones.on.delete topic.cache.size topic.delimiter \
        topic.heartbeat.name topic.heartbeat.prefix topic.naming.strategy topic.prefix \
        topic.transaction unavailable.value.placeholder xmin.fetch.interval.ms";

    #[test]
    fn every_property_of_debeziums_connector_is_known() {
        let unknown: Vec<&str> =
            DOCUMENTED.split(' ').filter(|name| treatment(CONNECTOR, name).is_none()).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn no_name_has_two_treatments() {
        for table in [CONNECTOR, EVENT_ROUTER_OPTIONS, PRODUCER] {
            let names: Vec<&str> = table.iter().flat_map(|rule| rule.names).copied().collect();
            let distinct: BTreeSet<&str> = names.iter().copied().collect();
            assert_eq!(names.len(), distinct.len());
        }
    }

    #[test]
    fn a_whole_name_goes_before_a_prefix_and_a_value_decides() {
        let treatment_of = |name| treatment(CONNECTOR, name);
        assert_eq!(treatment_of("slot.name"), Some(Treatment::Carried("postgres.slot")));
        assert_eq!(treatment_of("no.such.name"), None);
        let tolerance = treatment_of("errors.tolerance").unwrap();
        assert!(matches!(tolerance.of("NONE"), Some(Outcome::Same(_))));
        assert!(matches!(tolerance.of("all"), Some(Outcome::Different(_))));
        assert_eq!(treatment_of("slot.name").unwrap().of("x"), None);
    }

    #[test]
    fn a_slip_is_recognised() {
        let payload = nearest(EVENT_ROUTER_OPTIONS, "table.field.payload");
        assert_eq!(payload, Some("table.field.event.payload"));
        let placement = nearest(EVENT_ROUTER_OPTIONS, "additional.placement");
        assert_eq!(placement, Some("table.fields.additional.placement"));
        assert_eq!(nearest(EVENT_ROUTER_OPTIONS, "table.field.event.aggregate.type"), None);
    }
}
