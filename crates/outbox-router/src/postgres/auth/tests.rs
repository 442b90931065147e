//! Single authentication requests of a server, and what is answered.

use crate::{codes::hint, postgres::connect_failure};
use postgres_protocol::authentication::md5_hash;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::super::ConnectErrorKind;
use super::super::frames::FrameLimits;
use super::super::transport::Transport;
use super::*;

const CLEARTEXT: &[u8] = b"R\0\0\0\x08\0\0\0\x03";
const OK: &[u8] = b"R\0\0\0\x08\0\0\0\0";

const ALL: [Privacy; 4] =
    [Privacy::Verified, Privacy::Local, Privacy::Unverified, Privacy::Exposed];

/// The outcome against a server that sends `script`, and what that server received.
async fn run(script: &[u8], privacy: Privacy) -> (Result<(), ConnectError>, Vec<u8>) {
    run_with(script, privacy, "").await
}

/// The same with further connection parameters.
async fn run_with(
    script: &[u8],
    privacy: Privacy,
    more: &str,
) -> (Result<(), ConnectError>, Vec<u8>) {
    let (client, mut server) = UnixStream::pair().unwrap();
    let mut link =
        Link::new(Transport::Unix(client), FrameLimits { read_buffer: 4096, row_bytes: 4096 });
    let text = format!("host=db.example user=router password=canary {more}");
    let info = ConnInfo::resolve(Some(&text), &|_| None).unwrap();
    server.write_all(script).await.unwrap();
    let exchange = authenticate(&mut link, &info, privacy);
    let outcome = tokio::time::timeout(std::time::Duration::from_secs(20), exchange)
        .await
        .expect("the script is complete");
    drop(link);
    let mut got = Vec::new();
    server.read_to_end(&mut got).await.unwrap();
    (outcome, got)
}

#[tokio::test]
async fn the_password_is_sent_in_clear_text_only_over_a_verified_or_local_connection() {
    let script = [CLEARTEXT, OK].concat();
    for privacy in [Privacy::Verified, Privacy::Local] {
        let (outcome, got) = run(&script, privacy).await;
        outcome.unwrap();
        assert_eq!(got, b"p\0\0\0\x0bcanary\0");
    }
    for (privacy, expected) in [
        (Privacy::Unverified, "over a TLS connection whose certificate was not verified"),
        (Privacy::Exposed, "over an unencrypted connection"),
    ] {
        // Also when the user names this method: require_auth can only forbid.
        for more in ["", "require_auth=password"] {
            let (outcome, got) = run_with(&script, privacy, more).await;
            let error = outcome.unwrap_err();
            assert!(matches!(error, ConnectError::PlaintextPassword { .. }), "{error}");
            assert!(error.to_string().ends_with(expected), "{error}");
            assert_eq!((error.kind(), got.len()), (ConnectErrorKind::Authentication, 0));
            assert!(hint(&connect_failure(error)).unwrap().contains("sslmode=verify-full"));
        }
    }
}

#[tokio::test]
async fn require_auth_rules_methods_out_before_anything_is_sent() {
    let md5: &[u8] = b"R\0\0\0\x0c\0\0\0\x05salt";
    let scram: &[u8] = b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0";
    for (request, method, require_auth) in [
        (OK, "none", "scram-sha-256"),
        (OK, "none", "password,md5,gss,sspi,scram-sha-256,oauth"),
        (OK, "none", "!none"),
        (CLEARTEXT, "password", "scram-sha-256,none"),
        (CLEARTEXT, "password", "!password"),
        (md5, "md5", "scram-sha-256"),
        (md5, "md5", "!password,!md5"),
        (scram, "scram-sha-256", "md5,gss"),
        (scram, "scram-sha-256", "!scram-sha-256"),
    ] {
        for privacy in ALL {
            let more = format!("require_auth={require_auth}");
            let (outcome, got) = run_with(&[request, OK].concat(), privacy, &more).await;
            let error = outcome.unwrap_err();
            let expected =
                format!("by method {method}, which require_auth={require_auth} rules out");
            assert!(error.to_string().ends_with(&expected), "{error}");
            assert_eq!((error.kind(), got.len()), (ConnectErrorKind::Authentication, 0));
            assert!(hint(&connect_failure(error)).unwrap().contains("require_auth"));
        }
    }
    for (script, require_auth) in [
        (OK.to_vec(), "none"),
        (OK.to_vec(), "!password"),
        ([CLEARTEXT, OK].concat(), "password"),
        ([md5, OK].concat(), "!none"),
    ] {
        let more = format!("require_auth={require_auth}");
        run_with(&script, Privacy::Local, &more).await.0.unwrap();
    }
}

#[tokio::test]
async fn an_unimplemented_method_satisfies_no_require_auth() {
    for (request, require_auth) in [
        (&b"R\0\0\0\x08\0\0\0\x07"[..], "gss"),
        (b"R\0\0\0\x08\0\0\0\x09", "sspi"),
        (b"R\0\0\0\x15\0\0\0\x0aOAUTHBEARER\0\0", "oauth"),
    ] {
        let more = format!("require_auth={require_auth}");
        let (outcome, got) = run_with(request, Privacy::Local, &more).await;
        let error = outcome.unwrap_err();
        assert!(matches!(error, ConnectError::AuthenticationMethod { .. }), "{error}");
        assert!(got.is_empty());
    }
}

#[tokio::test]
async fn md5_sends_the_salted_hash() {
    let (outcome, got) = run(&[b"R\0\0\0\x0c\0\0\0\x05salt", OK].concat(), Privacy::Exposed).await;
    outcome.unwrap();
    let hash = md5_hash(b"router", b"canary", *b"salt");
    assert_eq!(&got[5..got.len() - 1], hash.as_bytes());
}

#[tokio::test]
async fn a_server_that_omits_its_scram_proof_is_refused() {
    let script = [b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0", OK].concat();
    let (outcome, got) = run(&script, Privacy::Verified).await;
    let error = outcome.unwrap_err();
    assert!(matches!(error, ConnectError::ServerProof { .. }), "{error}");
    assert!(!got.windows(6).any(|window| window == b"canary"));
}

#[tokio::test]
async fn unimplemented_methods_are_named() {
    for (request, name) in [
        (&b"R\0\0\0\x08\0\0\0\x07"[..], "GSSAPI"),
        (b"R\0\0\0\x13\0\0\0\x0aOTHER-256\0\0", "SASL without SCRAM-SHA-256"),
    ] {
        let (outcome, _) = run(request, Privacy::Verified).await;
        assert!(outcome.unwrap_err().to_string().contains(name), "{name}");
    }
}

#[tokio::test]
async fn a_refusal_is_the_servers_own_message() {
    let (outcome, _) = run(b"E\0\0\0\x14C28P01\0Mwrong!\0\0", Privacy::Verified).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ConnectErrorKind::Authentication, "{error}");
}
