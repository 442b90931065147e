//! SCRAM with a server that does not know the password, wants too much, or claims what cannot be.

use std::sync::Arc;

use outbox_router::postgres::{ConnectError, ConnectErrorKind};
use rcgen::PKCS_ED25519;
use rustls::ServerConfig;
use sha2::{Digest, Sha256};

use super::certificate::{Certificate, Version};
use super::scram::{Deviation, Exchange, PLAIN, PLUS, base64, exchange};
use super::server::{Outcome, SESSION, outcomes};

/// Both connections against a server that lies so, without TLS.
async fn outcomes_with(deviation: &Deviation) -> [Outcome; 2] {
    outcomes("sslmode=disable", async |server| {
        server.startup().await?;
        exchange(server, &[PLAIN], deviation).await?;
        server.send(SESSION).await
    })
    .await
}

#[tokio::test]
async fn an_honest_server_is_accepted() {
    for deviation in [Deviation::None, Deviation::Iterations("1"), Deviation::Iterations("100000")]
    {
        for outcome in outcomes_with(&deviation).await {
            let connection = outcome.connection;
            outcome.result.unwrap_or_else(|error| panic!("{connection} {deviation:?}: {error:?}"));
        }
    }
}

#[tokio::test]
async fn a_server_that_cannot_prove_itself_is_refused() {
    for deviation in [
        Deviation::WrongProof,
        Deviation::NoProof,
        Deviation::NoChallenge,
        Deviation::Final(""),
        Deviation::Final("v="),
        Deviation::Final("v=AAAA"),
        Deviation::Final("v=not base64"),
        Deviation::Final("e=other-error"),
        Deviation::Final("v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
        Deviation::Final("\u{fffd}"),
    ] {
        for outcome in outcomes_with(&deviation).await {
            let error = outcome.refusal(&format!("{deviation:?}"));
            assert!(matches!(error, ConnectError::ServerProof { .. }), "{deviation:?}: {error:?}");
            assert_eq!(error.kind(), ConnectErrorKind::Authentication);
        }
    }
}

#[tokio::test]
async fn a_nonce_that_does_not_extend_the_clients_is_refused_before_the_client_responds() {
    for deviation in [Deviation::ForeignNonce, Deviation::SameNonce] {
        for outcome in outcomes_with(&deviation).await {
            let error = outcome.refusal(&format!("{deviation:?}"));
            assert!(matches!(error, ConnectError::ServerProof { .. }), "{deviation:?}: {error:?}");
            let text = String::from_utf8_lossy(&outcome.server.got);
            // The attribute with its comma, which no nonce contains (RFC 5802, section 5.1): a
            // random nonce may well contain "p=".
            assert!(!text.contains(",p="), "our proof is what a password is guessed from: {text}");
        }
    }
}

#[tokio::test]
async fn a_number_of_iterations_out_of_bounds_is_refused_before_the_first() {
    for (count, asked) in [
        ("0", 0),
        ("100001", 100_001),
        ("4294967295", u64::from(u32::MAX)),
        ("4294967296", 1 << 32),
        ("18446744073709551615", u64::MAX),
    ] {
        for outcome in outcomes_with(&Deviation::Iterations(count)).await {
            match outcome.refusal(count) {
                ConnectError::ScramIterations { asked: reported, .. } => {
                    assert_eq!(*reported, asked);
                }
                error => panic!("{count}: {error:?}"),
            }
        }
    }
    for count in ["", "-1", "+5", "4096x", "99999999999999999999999"] {
        for outcome in outcomes_with(&Deviation::Iterations(count)).await {
            let error = outcome.refusal(count);
            assert!(matches!(error, ConnectError::ServerProof { .. }), "{count}: {error:?}");
        }
    }
}

/// What both connections say to a server that offers these mechanisms under TLS.
async fn exchanges_under(tls: &Arc<ServerConfig>, mechanisms: &[&str]) -> Vec<Exchange> {
    let exchanges = std::sync::Mutex::new(Vec::new());
    let outcomes = outcomes("sslmode=require", async |server| {
        server.tls(tls).await?;
        server.startup().await?;
        let exchanged = exchange(server, mechanisms, &Deviation::None).await?;
        exchanges.lock().unwrap().push(exchanged);
        server.send(SESSION).await
    });
    for outcome in outcomes.await {
        outcome.result.unwrap_or_else(|error| panic!("{}: {error:?}", outcome.connection));
    }
    exchanges.into_inner().unwrap()
}

/// RFC 5802 §6: `y` is for a client that supports channel binding and thinks that the server does
/// not. A server that had offered it then knows that somebody took it off the list.
#[tokio::test]
async fn a_server_that_offers_no_channel_binding_under_tls_is_sent_that_the_client_supports_it() {
    let certificate = Certificate::new();
    for version in [Version::Tls12, Version::Tls13] {
        for exchanged in exchanges_under(&certificate.owner(version), &[PLAIN]).await {
            assert_eq!(exchanged.mechanism, PLAIN);
            assert!(exchanged.first.starts_with("y,,n=,r="), "{}", exchanged.first);
            assert!(
                exchanged.last.starts_with(&format!("c={},", base64(b"y,,"))),
                "{}",
                exchanged.last
            );
        }
    }
}

#[tokio::test]
async fn channel_binding_ties_the_exchange_to_the_certificate() {
    let certificate = Certificate::new();
    let hash = Sha256::digest(&certificate.der);
    let header = b"p=tls-server-end-point,,";
    let expected = format!("c={},", base64(&[&header[..], &hash].concat()));
    for offered in [&[PLUS, PLAIN][..], &[PLAIN, PLUS], &[PLUS]] {
        for exchanged in exchanges_under(&certificate.owner(Version::Tls13), offered).await {
            assert_eq!(exchanged.mechanism, PLUS);
            assert!(
                exchanged.first.starts_with("p=tls-server-end-point,,n=,r="),
                "{}",
                exchanged.first
            );
            assert!(exchanged.last.starts_with(&expected), "{}", exchanged.last);
        }
    }
}

#[tokio::test]
async fn a_certificate_that_nothing_can_be_bound_to_is_reported() {
    let certificate = Certificate::signed_with(&PKCS_ED25519);
    for exchanged in exchanges_under(&certificate.owner(Version::Tls13), &[PLUS, PLAIN]).await {
        assert_eq!(exchanged.mechanism, PLAIN);
        assert!(exchanged.first.starts_with("n,,n=,r="), "{}", exchanged.first);
    }
}

#[tokio::test]
async fn channel_binding_that_is_offered_without_tls_shows_that_tls_was_removed() {
    for offered in [&[PLUS, PLAIN][..], &[PLUS]] {
        let outcomes = outcomes("sslmode=disable", async |server| {
            server.startup().await?;
            exchange(server, offered, &Deviation::None).await?;
            server.send(SESSION).await
        });
        for outcome in outcomes.await {
            let error = outcome.refusal("PLUS without TLS");
            assert!(matches!(error, ConnectError::TlsStripped { .. }), "{error:?}");
        }
    }
}
