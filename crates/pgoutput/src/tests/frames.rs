use super::wire;
use crate::{
    DecodeError, DecodeErrorKind, Frame, Keepalive, Lsn, PgTimestamp, ReplyRequest,
    StandbyStatusUpdate, XLogData,
};
use std::format;
use std::string::ToString;

#[test]
fn wal_data_borrows_the_message() {
    let payload = wire::wal_data(b"message");
    assert_eq!(
        Frame::parse(&payload),
        Ok(Frame::XLogData(XLogData {
            wal_start: Lsn::from_u64(0x100),
            wal_end: Lsn::from_u64(0x200),
            sent_at: PgTimestamp::from_micros(-5),
            data: &payload[XLogData::HEADER_LEN..],
        }))
    );
}

#[test]
fn wal_data_may_be_empty() {
    let payload = wire::wal_data(b"");
    assert!(matches!(Frame::parse(&payload), Ok(Frame::XLogData(XLogData { data: [], .. }))));
}

#[test]
fn keepalive_shows_whether_a_reply_is_requested() {
    for (byte, reply) in [(0, ReplyRequest::Optional), (1, ReplyRequest::Requested)] {
        assert_eq!(
            Frame::parse(&wire::keepalive(byte)),
            Ok(Frame::Keepalive(Keepalive {
                wal_end: Lsn::from_u64(0x300),
                sent_at: PgTimestamp::from_micros(7),
                reply,
            }))
        );
    }
}

#[test]
fn every_cut_of_a_frame_header_is_refused() {
    for payload in [wire::wal_data(b""), wire::keepalive(0)] {
        for length in 0..payload.len() {
            let error = Frame::parse(&payload[..length]).unwrap_err();
            assert!(matches!(error.kind, DecodeErrorKind::Truncated { .. }), "{error}");
            assert!(error.offset <= length, "{error}");
        }
    }
}

#[test]
fn what_is_no_frame_is_refused_by_name() {
    let text = |payload: &[u8]| Frame::parse(payload).unwrap_err().to_string();
    assert_eq!(text(b""), "frame: tag at offset 0 needs 1 bytes but 0 are left");
    assert_eq!(text(b"s12"), "frame: tag at offset 0 has the unknown tag 's'");
    assert_eq!(text(b"\x001"), "frame: tag at offset 0 has the unknown tag '\\x00'");
    assert_eq!(text(b"w123"), "wal data: wal start at offset 1 needs 8 bytes but 3 are left");
    assert_eq!(
        text(&wire::keepalive(2)),
        "keepalive: reply request at offset 17 is 2, expected 0 or 1"
    );
    let mut long = wire::keepalive(1);
    long.push(0);
    assert_eq!(text(&long), "keepalive: the end at offset 18 is followed by 1 more bytes");
}

const UPDATE: StandbyStatusUpdate = StandbyStatusUpdate {
    write: Lsn::from_u64(0x0102_0304_0506_0708),
    flush: Lsn::from_u64(2),
    apply: Lsn::from_u64(3),
    clock: PgTimestamp::from_micros(-2),
    reply: ReplyRequest::Requested,
};

#[test]
fn status_update_has_the_layout_of_the_manual() {
    let payload = UPDATE.encode();
    let manual = wire::Wire::tag(b'r')
        .int64(0x0102_0304_0506_0708)
        .int64(2)
        .int64(3)
        .int64(-2)
        .byte(1)
        .done();
    assert_eq!(payload.as_slice(), manual);
    assert_eq!(StandbyStatusUpdate::parse(&payload), Ok(UPDATE));
}

#[test]
fn status_update_is_read_whole_or_not_at_all() {
    let payload = UPDATE.encode();
    for length in 0..payload.len() {
        assert!(StandbyStatusUpdate::parse(&payload[..length]).is_err(), "{length} bytes");
    }
    let mut long = payload.to_vec();
    long.push(0);
    assert_eq!(
        StandbyStatusUpdate::parse(&long),
        Err(DecodeError {
            item: "status update",
            field: "the end".into(),
            offset: StandbyStatusUpdate::LEN,
            kind: DecodeErrorKind::TrailingBytes { count: 1 },
        })
    );
    assert!(StandbyStatusUpdate::parse(&wire::keepalive(0)).is_err());
}

#[test]
fn debug_output_holds_no_data() {
    let payload = wire::wal_data(b"hunter2");
    let shown = format!("{:?}", Frame::parse(&payload).unwrap());
    assert!(shown.contains("data: 7 bytes"), "{shown}");
}
