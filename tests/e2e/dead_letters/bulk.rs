//! Events that the server writes by itself, thousands at a time, and poisoned rows among them.

use testbed::load::COMMITTED;
use testbed::postgres::DatabaseSession;

/// Makes
///
/// * `testbed.events(first, keys, each, padding)`: `each` events of this aggregate and the next, as
///   many as `keys`, in turn;
/// * `testbed.poison(n)`: a row of an aggregate whose headers are no object. It is in the table of
///   committed events, as the record that it becomes where headers are left out, so the checker
///   reports it as lost until then.
///
/// Both number what they write after what was written before, so they need a single writer.
pub(super) async fn create_functions(session: &DatabaseSession) {
    let committed = format!(
        "INSERT INTO {COMMITTED} (id, aggregate_type, aggregate_id, seq, event_type, \
           payload_bytes, payload_sha256) \
         SELECT o.id, o.aggregate_type, o.aggregate_id, (o.payload->>'seq')::int8, o.event_type, \
           octet_length(o.payload::text), sha256(convert_to(o.payload::text, 'UTF8')) FROM o"
    );
    let sql = format!(
        "CREATE FUNCTION testbed.events(first int, keys int, each int, padding int) RETURNS void \
         LANGUAGE sql AS $$
            WITH a AS (UPDATE testbed.aggregate SET seq = seq + each WHERE n >= first AND n < first + keys
                RETURNING type, id, seq - each AS base),
            o AS (INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
                SELECT type, id, 'Changed',
                    jsonb_build_object('seq', base + g, 'pad', repeat('x', padding))
                FROM generate_series(1, each) g, a ORDER BY g, a.id RETURNING *)
            {committed} $$;
         CREATE FUNCTION testbed.poison(of int) RETURNS void LANGUAGE sql AS $$
            WITH a AS (UPDATE testbed.aggregate SET seq = seq + 1 WHERE n = of
                RETURNING type, id, seq),
            o AS (INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers)
                SELECT type, id, 'Poison', jsonb_build_object('seq', seq), '[7]' FROM a
                RETURNING *)
            {committed} $$;"
    );
    session.batch_execute(&sql).await.unwrap();
}

/// Writes transactions of `each` events of each of the first `keys` aggregates.
pub(super) async fn write_transactions(
    session: &DatabaseSession,
    transactions: i32,
    keys: i32,
    each: i32,
) {
    const PADDING: i32 = 100;
    let sql = format!(
        "DO $$ BEGIN FOR i IN 1..{transactions} LOOP \
         PERFORM testbed.events(0, {keys}, {each}, {PADDING}); COMMIT; END LOOP; END $$"
    );
    session.batch_execute(&sql).await.unwrap();
}

/// Writes a poisoned row of an aggregate in a transaction of its own.
pub(super) async fn write_poison(session: &DatabaseSession, of: i32) {
    session.batch_execute(&format!("SELECT testbed.poison({of})")).await.unwrap();
}
