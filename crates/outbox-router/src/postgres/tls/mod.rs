//! libpq's `sslmode` in terms of rustls: what a server's certificate must show.
//!
//! | mode | chain | name | |
//! |---|---|---|---|
//! | prefer, require | – | – | protects from eavesdroppers only; see below |
//! | verify-ca | ✓ | – | |
//! | verify-full | ✓ | ✓ | |
//!
//! `require` with `sslrootcert` checks the chain, as in libpq. A certificate that is itself in
//! `sslrootcert` is trusted while it is valid: self-signed server certificates, as `openssl req
//! -x509` makes them, are marked as those of an authority, and webpki does not accept such a
//! certificate for a server. In every mode the server must prove that it owns the certificate's
//! key.

mod binding;
mod verifier;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::conninfo::{ClientCertificate, RootCertificates};
use super::errors::TlsSetupError;
use super::{ConnInfo, Host, SslMode};

pub use binding::server_end_point;
use verifier::{Check, ServerVerifier};

/// What is known of the peer of a TLS connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The peer is the server: an authority in `sslrootcert` signed its certificate, or the host's
    /// name in the certificate was checked.
    Verified,
    /// The peer may be an impostor: TLS keeps others from reading, but nothing shows who answered.
    Unverified,
}

/// A connector, the name that the certificate must contain, and what is known of the peer once the
/// handshake succeeds.
pub(super) struct Client {
    pub(super) connector: TlsConnector,
    pub(super) server_name: ServerName<'static>,
    pub(super) peer: Peer,
}

/// What a connection attempt needs for TLS. Files are read again at each attempt, so that renewed
/// certificates are used.
pub(super) fn client(info: &ConnInfo) -> Result<Client, TlsSetupError> {
    let name = match &info.host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(directory) => directory.display().to_string(),
    };
    let server_name =
        ServerName::try_from(name.clone()).map_err(|_| TlsSetupError::HostName { host: name })?;
    let check = check(info);
    let connector = TlsConnector::from(Arc::new(client_config(info, check)?));
    Ok(Client { connector, server_name, peer: peer(info, check) })
}

/// Reads the files and builds the TLS configuration as a connection attempt does, for settings
/// under which TLS is used.
///
/// # Errors
/// Those with which a connection attempt would end before anything is sent: a file that cannot be
/// read or used, no trusted certificates of the system, or a host that no certificate can name.
pub fn try_tls(info: &ConnInfo) -> Result<(), TlsSetupError> {
    match (&info.host, info.sslmode) {
        (Host::Unix(_), _) | (_, SslMode::Disable) => Ok(()),
        (Host::Tcp(_), _) => client(info).map(drop),
    }
}

fn check(info: &ConnInfo) -> Check {
    match (info.sslmode, &info.sslrootcert) {
        (SslMode::VerifyFull, _) => Check::ChainAndName,
        (SslMode::VerifyCa, _) | (SslMode::Require, Some(_)) => Check::Chain,
        (SslMode::Require, None) | (SslMode::Prefer | SslMode::Disable, _) => Check::Possession,
    }
}

fn peer(info: &ConnInfo, check: Check) -> Peer {
    match (check, &info.sslrootcert) {
        (Check::ChainAndName, _) | (Check::Chain, Some(RootCertificates::File(_))) => {
            Peer::Verified
        }
        // Anybody can get a certificate of a public authority for a name of their own.
        (Check::Chain, Some(RootCertificates::System) | None) | (Check::Possession, _) => {
            Peer::Unverified
        }
    }
}

fn client_config(info: &ConnInfo, check: Check) -> Result<ClientConfig, TlsSetupError> {
    let provider = Arc::new(ring::default_provider());
    let pinned = match (check, &info.sslrootcert) {
        (Check::Possession, _) => Vec::new(),
        (Check::Chain | Check::ChainAndName, Some(RootCertificates::File(path))) => {
            certificates(path)?
        }
        (Check::Chain | Check::ChainAndName, Some(RootCertificates::System) | None) => {
            system_roots()?
        }
    };
    let mut roots = RootCertStore::empty();
    // One certificate of the system that cannot be parsed must not make every connection fail. In a
    // configured file, such a certificate stays pinned.
    roots.add_parsable_certificates(pinned.iter().cloned());
    let pinned = match &info.sslrootcert {
        Some(RootCertificates::File(_)) => pinned,
        Some(RootCertificates::System) | None => Vec::new(),
    };
    let verifier = ServerVerifier::new(check, roots, pinned, &provider);
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    match &info.client_certificate {
        None => Ok(builder.with_no_client_auth()),
        Some(ClientCertificate { certificate, key }) => {
            let chain = certificates(certificate)?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|source| TlsSetupError::File { path: key.clone(), source })?;
            Ok(builder.with_client_auth_cert(chain, key)?)
        }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsSetupError> {
    let unreadable = |source| TlsSetupError::File { path: path.to_owned(), source };
    let found: Vec<_> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(unreadable)?;
    if found.is_empty() {
        return Err(TlsSetupError::Empty { path: path.to_owned() });
    }
    Ok(found)
}

fn system_roots() -> Result<Vec<CertificateDer<'static>>, TlsSetupError> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() { Err(TlsSetupError::NoSystemRoots) } else { Ok(found.certs) }
}
