//! Certificates of servers that lie, and the TLS they are shown under.

use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, SignatureAlgorithm};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use tempfile::TempDir;

/// A self-signed certificate for `localhost`, and the file by which a client may trust it.
pub(crate) struct Certificate {
    pub(crate) der: CertificateDer<'static>,
    key: String,
    directory: TempDir,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Version {
    Tls12,
    Tls13,
}

impl Certificate {
    pub(crate) fn new() -> Self {
        Self::signed_with(&PKCS_ECDSA_P256_SHA256)
    }

    pub(crate) fn signed_with(algorithm: &'static SignatureAlgorithm) -> Self {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate =
            CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
        let directory = TempDir::with_prefix("lies-").unwrap();
        std::fs::write(directory.path().join("root.pem"), certificate.pem()).unwrap();
        Self { der: certificate.der().clone(), key: key.serialize_pem(), directory }
    }

    /// `sslrootcert=…`
    pub(crate) fn as_root(&self) -> String {
        format!("sslrootcert={}", self.directory.path().join("root.pem").display())
    }

    /// A server that shows this certificate and has its key.
    pub(crate) fn owner(&self, version: Version) -> Arc<ServerConfig> {
        self.shown_by(self, version)
    }

    /// A server that shows this certificate and has the key of another.
    pub(crate) fn shown_by(&self, thief: &Self, version: Version) -> Arc<ServerConfig> {
        let provider = Arc::new(ring::default_provider());
        let key = PrivateKeyDer::from_pem_slice(thief.key.as_bytes()).unwrap();
        let key = provider.key_provider.load_private_key(key).unwrap();
        let pair = CertifiedKey::new(vec![self.der.clone()], key);
        let version = match version {
            Version::Tls12 => &TLS12,
            Version::Tls13 => &TLS13,
        };
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(pair)));
        Arc::new(config)
    }
}
