//! What is known of a figure that a router reads from PostgreSQL.
//!
//! A router exports what it read last while PostgreSQL does not answer, and nothing before its
//! first reading. So one that is started while PostgreSQL is down would end every alert on such a
//! figure. The rules go on with what was exported before, for an hour, as long as a router is
//! scraped that knows nothing yet: where none is scraped, OutboxRouterAbsent fires.

/// A figure of the slot, as `max` or `min` of its series.
macro_rules! known_of_slot {
    ($aggregate:literal, $metric:literal) => {
        concat!(
            "(",
            $aggregate,
            " by (namespace, pipeline, slot) (",
            $metric,
            ") or ",
            $aggregate,
            " by (namespace, pipeline, slot) (last_over_time(",
            $metric,
            "[1h])) and on (namespace, pipeline, slot) max by (namespace, pipeline, slot) \
             (outbox_slot_last_poll_timestamp_seconds))"
        )
    };
}
