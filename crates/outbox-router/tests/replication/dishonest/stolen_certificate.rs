//! A server that shows a certificate without having its key: anybody can copy a certificate.

use outbox_router::postgres::{ConnectError, ConnectErrorKind};
use rustls::{CertificateError, Error};

use super::certificate::{Certificate, Version};
use super::server::{SESSION, outcomes};

/// Every mode that speaks TLS, with the certificate trusted where that is asked.
fn modes(certificate: &Certificate) -> [String; 6] {
    let root = certificate.as_root();
    [
        "sslmode=prefer".to_owned(),
        "sslmode=require".to_owned(),
        format!("sslmode=prefer {root}"),
        format!("sslmode=require {root}"),
        format!("sslmode=verify-ca {root}"),
        format!("sslmode=verify-full {root}"),
    ]
}

#[tokio::test]
async fn a_certificate_without_its_key_is_refused_in_every_mode() {
    let (owner, thief) = (Certificate::new(), Certificate::new());
    for version in [Version::Tls12, Version::Tls13] {
        let tls = owner.shown_by(&thief, version);
        for mode in modes(&owner) {
            let outcomes = outcomes(&mode, async |server| {
                server.tls(&tls).await?;
                server.startup().await?;
                server.send(SESSION).await
            });
            for outcome in outcomes.await {
                let case = format!("{version:?} {mode}");
                let error = outcome.refusal(&case);
                let ConnectError::TlsHandshake { source, .. } = error else {
                    panic!("{case}: {error:?}")
                };
                let cause = source.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
                let expected = Error::InvalidCertificate(CertificateError::BadSignature);
                assert_eq!(cause, Some(&expected), "{case}");
                assert_eq!(error.kind(), ConnectErrorKind::Tls);
                // The request for TLS, and nothing that was meant to be encrypted.
                assert_eq!(outcome.server.got.len(), 8, "{case}");
            }
        }
    }
}

#[tokio::test]
async fn the_same_certificate_with_its_key_is_accepted_in_every_mode() {
    let owner = Certificate::new();
    for version in [Version::Tls12, Version::Tls13] {
        let tls = owner.owner(version);
        for mode in modes(&owner) {
            let outcomes = outcomes(&mode, async |server| {
                server.tls(&tls).await?;
                server.startup().await?;
                server.send(SESSION).await
            });
            for outcome in outcomes.await {
                outcome.result.unwrap_or_else(|error| panic!("{version:?} {mode}: {error:?}"));
            }
        }
    }
}
