//! The payload of a `CopyData` message, from either side, down to the columns of a row.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pgoutput::{Frame, Message, StandbyStatusUpdate};

fuzz_target!(|payload: &[u8]| {
    if let Ok(Frame::XLogData(frame)) = Frame::parse(payload)
        && let Ok(Message::Insert(insert)) = Message::parse(frame.data)
    {
        assert_eq!(insert.tuple.iter().count(), insert.tuple.len());
    }
    if let Ok(update) = StandbyStatusUpdate::parse(payload) {
        assert_eq!(update.encode(), payload);
    }
});
