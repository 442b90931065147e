use super::wire::{self, Wire};
use crate::{
    Begin, Commit, Delete, Delivery, Insert, KeyPart, LogicalMessage, Lsn, Message, Oid, OldTuple,
    Origin, PgTimestamp, Relation, RelationColumn, ReplicaIdentity, StreamAbort, Truncate, Tuple,
    TupleData, Type, Update, UpdatedFrom, Xid,
};
use std::format;
use std::vec::Vec;

const RELATION: Oid = Oid::from_u32(16_385);

fn columns<'a>(tuple: &Tuple<'a>) -> Vec<TupleData<'a>> {
    tuple.iter().collect()
}

#[test]
fn begin_announces_the_commit_record() {
    assert_eq!(
        Message::parse(&wire::begin()),
        Ok(Message::Begin(Begin {
            final_lsn: Lsn::from_u64(0x16_B374_D848),
            committed_at: PgTimestamp::from_micros(1_000_000),
            xid: Xid::from_u32(731),
        }))
    );
}

#[test]
fn commit_carries_the_position_to_confirm() {
    assert_eq!(
        Message::parse(&wire::commit()),
        Ok(Message::Commit(Commit {
            commit_lsn: Lsn::from_u64(0x16_B374_D848),
            end_lsn: Lsn::from_u64(0x16_B374_D878),
            committed_at: PgTimestamp::from_micros(1_000_000),
        }))
    );
}

#[test]
fn origin_is_named() {
    assert_eq!(
        Message::parse(&wire::origin()),
        Ok(Message::Origin(Origin { commit_lsn: Lsn::from_u64(0x1_0000_0000), name: b"berlin" }))
    );
}

#[test]
fn relation_lists_its_columns_in_order() {
    let bytes = wire::relation();
    let Ok(Message::Relation(relation)) = Message::parse(&bytes) else { panic!("not a relation") };
    assert_eq!(relation.id, RELATION);
    assert_eq!(relation.namespace, b"public");
    assert_eq!(relation.name, b"outbox");
    assert_eq!(relation.replica_identity, ReplicaIdentity::Default);
    assert_eq!(relation.columns().len(), 2);
    assert_eq!(
        relation.columns().collect::<Vec<_>>(),
        [
            RelationColumn {
                name: b"id",
                type_oid: Oid::from_u32(2_950),
                type_modifier: -1,
                key: KeyPart::Key,
            },
            RelationColumn {
                name: b"aggregate_type",
                type_oid: Oid::from_u32(1_043),
                type_modifier: 68,
                key: KeyPart::Ordinary,
            },
        ]
    );
}

#[test]
fn relation_may_lie_in_pg_catalog_and_have_no_columns() {
    for (byte, identity) in [
        (b'd', ReplicaIdentity::Default),
        (b'n', ReplicaIdentity::Nothing),
        (b'f', ReplicaIdentity::Full),
        (b'i', ReplicaIdentity::Index),
    ] {
        let bytes = Wire::tag(b'R').int32(1).string("").string("t").byte(byte).int16(0).done();
        let Ok(Message::Relation(Relation { namespace: [], replica_identity, .. })) =
            Message::parse(&bytes)
        else {
            panic!("not a relation of pg_catalog")
        };
        assert_eq!(replica_identity, identity);
    }
}

#[test]
fn names_need_not_be_utf8() {
    let bytes = Wire::tag(b'Y').int32(1).raw(b"caf\xe9\0t\0").done();
    let message = Message::parse(&bytes).unwrap();
    let expected = Type { id: Oid::from_u32(1), namespace: b"caf\xe9", name: b"t" };
    assert_eq!(message, Message::Type(expected));
    assert!(format!("{message:?}").contains(r#"namespace: "caf\xe9""#), "{message:?}");
}

#[test]
fn type_is_named() {
    assert_eq!(
        Message::parse(&wire::type_name()),
        Ok(Message::Type(Type { id: Oid::from_u32(16_390), namespace: b"public", name: b"mood" }))
    );
}

#[test]
fn insert_distinguishes_null_from_empty() {
    let bytes = wire::insert();
    let Ok(Message::Insert(Insert { relation, tuple })) = Message::parse(&bytes) else {
        panic!("not an insert")
    };
    assert_eq!(relation, RELATION);
    assert_eq!(tuple.len(), 5);
    assert_eq!(tuple.iter().len(), 5);
    assert_eq!(
        columns(&tuple),
        [
            TupleData::Text(b"42"),
            TupleData::Null,
            TupleData::Text(b""),
            TupleData::UnchangedToast,
            TupleData::Binary(&[0, 255]),
        ]
    );
}

#[test]
fn insert_may_have_no_columns() {
    let bytes = Wire::tag(b'I').int32(16_385).byte(b'N').int16(0).done();
    let Ok(Message::Insert(insert)) = Message::parse(&bytes) else { panic!("not an insert") };
    assert_eq!(insert.tuple.iter().next(), None);
}

#[test]
fn update_reports_what_it_holds_of_the_old_row() {
    let parse = |bytes: &[u8]| match Message::parse(bytes) {
        Ok(Message::Update(Update { relation, old, new })) => {
            assert_eq!(relation, RELATION);
            assert_eq!(columns(&new), [TupleData::Text(b"new")]);
            match old {
                UpdatedFrom::SameKey => None,
                UpdatedFrom::Changed(OldTuple::Key(key)) => Some(('K', columns(&key).len())),
                UpdatedFrom::Changed(OldTuple::Full(row)) => Some(('O', columns(&row).len())),
            }
        }
        other => panic!("not an update: {other:?}"),
    };
    assert_eq!(parse(&wire::update()), None);
    assert_eq!(parse(&wire::update_from(b'K')), Some(('K', 1)));
    assert_eq!(parse(&wire::update_from(b'O')), Some(('O', 1)));
}

#[test]
fn delete_distinguishes_key_and_row() {
    let expected = [TupleData::Text(b"old"), TupleData::Null];
    let key = wire::delete(b'K');
    let Ok(Message::Delete(Delete { relation: RELATION, old: OldTuple::Key(tuple) })) =
        Message::parse(&key)
    else {
        panic!("not a delete by key")
    };
    assert_eq!(columns(&tuple), expected);
    let row = wire::delete(b'O');
    let Ok(Message::Delete(Delete { relation: RELATION, old: OldTuple::Full(tuple) })) =
        Message::parse(&row)
    else {
        panic!("not a delete of a full row")
    };
    assert_eq!(columns(&tuple), expected);
}

#[test]
fn truncate_lists_tables_and_options() {
    let parse = |options: u8| -> (Vec<Oid>, bool, bool) {
        match Message::parse(&wire::truncate(options)) {
            Ok(Message::Truncate(truncate)) => describe(&truncate),
            other => panic!("not a truncate: {other:?}"),
        }
    };
    fn describe(truncate: &Truncate<'_>) -> (Vec<Oid>, bool, bool) {
        let (relations, options) = (truncate.relations(), truncate.options);
        assert_eq!(relations.len(), 2);
        (relations.collect(), options.cascades(), options.restarts_identity())
    }
    let tables = Vec::from([RELATION, Oid::from_u32(16_399)]);
    assert_eq!(parse(0), (tables.clone(), false, false));
    assert_eq!(parse(1), (tables.clone(), true, false));
    assert_eq!(parse(2), (tables.clone(), false, true));
    assert_eq!(parse(3), (tables, true, true));
}

#[test]
fn logical_message_shows_whether_it_belongs_to_a_transaction() {
    for (flags, delivery) in [(0, Delivery::Immediate), (1, Delivery::Transactional)] {
        assert_eq!(
            Message::parse(&wire::logical(flags)),
            Ok(Message::Logical(LogicalMessage {
                delivery,
                lsn: Lsn::from_u64(0x200),
                prefix: b"audit",
                content: b"who\0did",
            }))
        );
    }
}

#[test]
fn stream_abort_is_read_in_both_lengths() {
    let expected =
        Message::StreamAbort(StreamAbort { xid: Xid::from_u32(731), subxid: Xid::from_u32(733) });
    assert_eq!(Message::parse(&wire::stream_abort()), Ok(expected));
    let parallel = Wire::tag(b'A').int32(731).int32(733).int64(1).int64(2).done();
    assert_eq!(Message::parse(&parallel), Ok(expected));
}

#[test]
fn debug_output_holds_no_value_of_a_row() {
    let bytes = Wire::tag(b'I').int32(1).byte(b'N').int16(1).column(b't', b"hunter2").done();
    let shown = format!("{:?}", Message::parse(&bytes).unwrap());
    assert!(shown.contains("[Text(7 bytes)]"), "{shown}");
    let bytes = wire::logical(0);
    let shown = format!("{:?}", Message::parse(&bytes).unwrap());
    assert!(shown.contains(r#"prefix: "audit", content: 7 bytes"#), "{shown}");
}
