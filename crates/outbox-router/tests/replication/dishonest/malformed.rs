//! Messages that are cut, out of place, too long, too many, or never come.

use std::time::Duration;

use outbox_router::postgres::{ConnectError, ConnectErrorKind, ProtocolError};

use super::scram::{PLAIN, initial, message, offer, request};
use super::server::{Conversation, OK, Outcome, SESSION, outcomes};

const PLAINLY: &str = "sslmode=disable";

/// A server that says this and closes.
async fn outcomes_of(bytes: &[u8]) -> [Outcome; 2] {
    outcomes(PLAINLY, async |server| {
        server.startup().await?;
        server.send(bytes).await?;
        server.close().await
    })
    .await
}

/// The three messages of a SCRAM exchange, of which the client believes the first two.
async fn outcomes_of_scram(cut: [Option<usize>; 3], whole: Frames) -> [Outcome; 2] {
    outcomes(PLAINLY, async |server| {
        server.startup().await?;
        if send_cut(server, offer(&[PLAIN]), cut[0], whole).await? {
            return server.close().await;
        }
        let (_, first) = initial(&server.answer().await?);
        let nonce = first.split_once(",r=").unwrap().1;
        let challenge = request(11, format!("r={nonce}more,s=c2FsdA==,i=2").as_bytes());
        if send_cut(server, challenge, cut[1], whole).await? {
            return server.close().await;
        }
        server.answer().await?;
        send_cut(server, request(12, b"v=AAAAAAAAAAA="), cut[2], whole).await?;
        server.close().await
    })
    .await
}

/// Whether a frame that is cut announces its former length or the one it has now.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Frames {
    Broken,
    Whole,
}

/// Returns whether it was cut.
async fn send_cut(
    server: &mut Conversation,
    frame: Vec<u8>,
    cut: Option<usize>,
    frames: Frames,
) -> std::io::Result<bool> {
    let kept = &frame[..cut.unwrap_or(frame.len()).min(frame.len())];
    match frames {
        Frames::Whole if kept.len() >= 5 => server.send(&message(kept[0], &kept[5..])).await?,
        Frames::Whole | Frames::Broken => server.send(kept).await?,
    }
    Ok(cut.is_some())
}

#[tokio::test]
async fn a_session_that_ends_at_any_byte_is_no_session() {
    for length in 0..SESSION.len() {
        for outcome in outcomes_of(&SESSION[..length]).await {
            let error = outcome.refusal(&format!("{length} bytes"));
            assert!(matches!(error, ConnectError::Closed { .. }), "{length}: {error:?}");
            assert_eq!(error.kind(), ConnectErrorKind::Transport);
        }
    }
    for outcome in outcomes_of(SESSION).await {
        outcome.result.unwrap();
    }
}

#[tokio::test]
async fn an_exchange_that_ends_at_any_byte_is_no_proof() {
    for (step, length) in [(0, 24), (1, 54), (2, 23)] {
        for cut in 0..length {
            let mut cuts = [None; 3];
            cuts[step] = Some(cut);
            for outcome in outcomes_of_scram(cuts, Frames::Broken).await {
                let error = outcome.refusal(&format!("{step} {cut}"));
                assert!(matches!(error, ConnectError::Closed { .. }), "{step} {cut}: {error:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_frame_whose_content_is_cut_is_no_proof() {
    for (step, length) in [(0, 24), (1, 54), (2, 23)] {
        for cut in 5..length {
            let mut cuts = [None; 3];
            cuts[step] = Some(cut);
            for outcome in outcomes_of_scram(cuts, Frames::Whole).await {
                let error = outcome.refusal(&format!("{step} {cut}"));
                assert_ne!(error.kind(), ConnectErrorKind::Tls, "{step} {cut}: {error:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_message_out_of_place_is_named() {
    let challenge = request(11, b"r=x,s=c2FsdA==,i=2");
    let (ready, key) = (message(b'Z', b"I"), message(b'K', &[0; 8]));
    for (bytes, tag) in [
        (challenge, 'R'),
        (request(12, b"v=AAAA"), 'R'),
        (ready, 'Z'),
        (key, 'K'),
        (message(b'S', b"a\0b\0"), 'S'),
        (message(b'W', &[0; 3]), 'W'),
        (message(b'D', &[0, 0]), 'D'),
        (message(b'C', b"SELECT 1\0"), 'C'),
        (message(b'd', b"row"), 'd'),
        (message(b'v', &[0; 8]), 'v'),
        ([OK, OK].concat(), 'R'),
        ([OK, &offer(&[PLAIN])].concat(), 'R'),
        ([OK, &message(b'W', &[0; 3])].concat(), 'W'),
        ([OK, &message(b'd', b"row")].concat(), 'd'),
        ([OK, &message(b'T', &[0, 0])].concat(), 'T'),
    ] {
        for outcome in outcomes_of(&bytes).await {
            let error = outcome.refusal(&format!("{tag}"));
            let ConnectError::Protocol { source, .. } = error else { panic!("{tag}: {error:?}") };
            assert!(
                matches!(
                    source,
                    ProtocolError::Unexpected { tag: found, .. }
                    | ProtocolError::Malformed { tag: found, .. } if *found == tag
                ),
                "{tag}: {source:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_length_that_cannot_be_true_is_refused_before_anything_is_waited_for() {
    for tag in *b"RSKZENAvTDCWd\0\xff" {
        for length in [0_i32, 3, -1, i32::MIN, i32::MAX, 64 << 20] {
            for before in [&b""[..], OK] {
                let bytes = [before, &[tag], &length.to_be_bytes(), b"some of it"].concat();
                // Not closed: whoever waits for the rest meets the deadline of the test.
                let outcomes = outcomes(PLAINLY, async |server| {
                    server.startup().await?;
                    server.send(&bytes).await
                });
                for outcome in outcomes.await {
                    let error = outcome.refusal(&format!("{tag} {length}"));
                    assert_eq!(error.kind(), ConnectErrorKind::Protocol, "{tag} {length}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_flood_of_messages_ends_long_before_the_time_limit() {
    let notice = message(b'N', b"SNOTICE\0C00000\0Mhello\0\0");
    let parameter = message(b'S', b"name\0value\0");
    for (before, drop) in [(&b""[..], &notice), (OK, &notice), (OK, &parameter)] {
        let outcomes = outcomes("sslmode=disable connect_timeout=50", async |server| {
            server.startup().await?;
            server.send(before).await?;
            let flood = drop.repeat(100);
            loop {
                server.send(&flood).await?;
            }
        });
        for outcome in outcomes.await {
            match outcome.refusal("a flood") {
                ConnectError::Protocol {
                    source: ProtocolError::TooManyMessages { limit }, ..
                } => assert_eq!(*limit, 1000),
                error => panic!("{error:?}"),
            }
        }
    }
}

#[tokio::test]
async fn an_error_in_the_middle_is_the_servers_own_message() {
    let refused = message(b'E', b"SFATAL\0VFATAL\0C28P01\0Mno\0\0");
    let stopping = message(b'E', b"SFATAL\0VFATAL\0C57P03\0Mno\0\0");
    for (bytes, code) in [
        (refused.clone(), "28P01"),
        ([OK, &refused].concat(), "28P01"),
        ([OK, &message(b'S', b"a\0b\0"), &stopping].concat(), "57P03"),
        // What cannot be read of it costs readability, nothing else.
        (message(b'E', b"C28P01"), "28P01"),
    ] {
        for outcome in outcomes_of(&bytes).await {
            match outcome.refusal(code) {
                ConnectError::Server { message, .. } => assert_eq!(message.code, code),
                error => panic!("{error:?}"),
            }
        }
    }
    let outcomes = outcomes(PLAINLY, async |server| {
        server.startup().await?;
        server.send(&offer(&[PLAIN])).await?;
        server.answer().await?;
        server.send(&refused).await
    });
    for outcome in outcomes.await {
        assert_eq!(outcome.refusal("in SCRAM").kind(), ConnectErrorKind::Authentication);
    }
}

#[tokio::test]
async fn garbage_after_authentication_is_no_session() {
    for garbage in [
        &[0xff; 64][..],
        &[0; 64],
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"Z\0\0\0\x04",
        b"Z\0\0\0\x06II",
        b"S\0\0\0\x06ab",
        b"K\0\0\0\x05\0",
        b"S\0\0\0\x08\xff\0\xff\0",
    ] {
        for outcome in outcomes_of(&[OK, garbage].concat()).await {
            let error = outcome.refusal("garbage");
            assert_eq!(error.kind(), ConnectErrorKind::Protocol, "{garbage:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_falls_silent_or_drips_is_given_up_at_the_time_limit() {
    for bytes in [&b""[..], b"R\0\0", b"R\0\0\0\x08\0\0\0", OK] {
        let outcomes = outcomes("sslmode=disable connect_timeout=1", async |server| {
            server.startup().await?;
            server.send(bytes).await
        });
        for outcome in outcomes.await {
            let error = outcome.refusal("silence");
            assert!(matches!(error, ConnectError::Timeout { .. }), "{error:?}");
        }
    }
    let outcomes = outcomes("sslmode=disable connect_timeout=1", async |server| {
        server.startup().await?;
        for byte in message(b'N', &[b'M'; 1000]) {
            server.send(&[byte]).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    });
    for outcome in outcomes.await {
        let error = outcome.refusal("a drip");
        assert!(matches!(error, ConnectError::Timeout { .. }), "{error:?}");
    }
}
