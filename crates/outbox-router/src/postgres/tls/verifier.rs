//! Verifies a server's certificate.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// What is required of the certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Only that the server owns its key.
    Possession,
    /// That a trusted authority signed it, or that it is pinned.
    Chain,
    /// [`Check::Chain`], and that the certificate names the host.
    ChainAndName,
}

#[derive(Debug)]
pub(super) struct ServerVerifier {
    check: Check,
    roots: RootCertStore,
    pinned: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerVerifier {
    pub(super) fn new(
        check: Check,
        roots: RootCertStore,
        pinned: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Self {
        Self { check, roots, pinned, algorithms: provider.signature_verification_algorithms }
    }

    fn chain(
        &self,
        certificate: &CertificateDer<'_>,
        parsed: &ParsedCertificate<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let algorithms = self.algorithms.all;
        let verdict = verify_server_cert_signed_by_trust_anchor(
            parsed,
            &self.roots,
            intermediates,
            now,
            algorithms,
        );
        match verdict {
            // A certificate that is itself in `sslrootcert` is trusted even if it is marked as an
            // authority's, but only while it is valid. webpki checks the validity first, so no
            // other fault can hide this one.
            Err(error) if self.is_pinned(certificate) && !is_about_time(&error) => Ok(()),
            verdict => verdict,
        }
    }

    fn is_pinned(&self, certificate: &CertificateDer<'_>) -> bool {
        self.pinned.iter().any(|pinned| pinned.as_ref() == certificate.as_ref())
    }
}

fn is_about_time(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(
            CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. }
        )
    )
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        match self.check {
            Check::Possession => {}
            Check::Chain => self.chain(end_entity, &parsed, intermediates, now)?,
            Check::ChainAndName => {
                self.chain(end_entity, &parsed, intermediates, now)?;
                verify_server_name(&parsed, server_name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
