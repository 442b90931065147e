//! TLS by `sslmode`: who is trusted, who is not, and that nothing falls back in silence.

use std::io::{Read, Write};
use std::net::TcpListener;

use outbox_router::postgres::{
    ConnInfo, ConnectError, ConnectErrorKind, Options, ReplicationConnection, connect_sql,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::cluster::{Cluster, DEADLINE, sql, value};
use crate::reader::{Event, next, until};

/// A server certificate in several roles, and the files a client may be given.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    /// Certificate and key, both PEM.
    fn sign(&self, params: &CertificateParams) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// Self-signed and claiming to be an authority, as `openssl req -x509` makes it.
fn self_signed(name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn server(certificate: &str, key: &str, authority: &str) -> Cluster {
    let settings = "ssl = on\nssl_cert_file = 'server.pem'\nssl_key_file = 'server.key'\nssl_ca_file = 'ca.pem'\n";
    let files = [("server.pem", certificate), ("server.key", key), ("ca.pem", authority)];
    Cluster::start_with(settings, &files)
}

/// `localhost` with the address fixed: the name is what a certificate must carry.
fn info(cluster: &Cluster, user: &str, more: &str) -> ConnInfo {
    cluster.info_with(user, &format!("host=localhost hostaddr=127.0.0.1 {more}"))
}

async fn connect(info: &ConnInfo) -> Result<ReplicationConnection, ConnectError> {
    ReplicationConnection::connect(info, &Options::default()).await
}

/// Whether the replication session runs under TLS, as the server sees it.
async fn is_encrypted(connection: &ReplicationConnection, admin: &ConnInfo) -> bool {
    let pid = connection.backend_pid().unwrap();
    value(admin, &format!("SELECT ssl FROM pg_stat_ssl WHERE pid = {pid}")).await == "t"
}

#[tokio::test]
async fn a_pinned_self_signed_certificate_is_verified_in_every_mode() {
    let (certificate, key) = self_signed("localhost");
    let cluster = server(&certificate, &key, &certificate);
    let pinned = cluster.file("pinned.pem", &certificate);
    let (other, _) = self_signed("localhost");
    let other = cluster.file("other.pem", &other);
    let root = |path: &std::path::Path| format!("sslrootcert={}", path.display());

    for more in [
        "sslmode=prefer".to_owned(),
        "sslmode=require".to_owned(),
        format!("sslmode=require {}", root(&pinned)),
        format!("sslmode=verify-ca {}", root(&pinned)),
        format!("sslmode=verify-full {}", root(&pinned)),
    ] {
        let info = info(&cluster, "scram_user", &format!("password=pass\\'word {more}"));
        let mut connection =
            connect(&info).await.unwrap_or_else(|error| panic!("{more}: {error:?}"));
        assert!(is_encrypted(&connection, &info).await, "{more}");
        connection.identify_system().await.unwrap();
        let own = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        assert_eq!(value(&info, own).await, "t", "{more}: SQL is encrypted too");
    }
    for more in [
        format!("sslmode=require {}", root(&other)),
        format!("sslmode=verify-ca {}", root(&other)),
        format!("sslmode=verify-full {}", root(&other)),
        "sslmode=verify-full".to_owned(),
        // The right certificate, but for another host.
        format!("host=elsewhere.example sslmode=verify-full {}", root(&pinned)),
    ] {
        let info = info(&cluster, "postgres", &more);
        let error = connect(&info).await.expect_err(&more);
        assert!(matches!(error, ConnectError::TlsHandshake { .. }), "{more}: {error:?}");
        assert_eq!(error.kind(), ConnectErrorKind::Tls);
        let error = connect_sql(&info, "test").await.err().unwrap();
        assert_eq!(error.kind(), ConnectErrorKind::Tls, "{more}: {error:?}");
    }
    // Without the name being asked for, the chain is enough.
    let more = format!("host=elsewhere.example sslmode=verify-ca {}", root(&pinned));
    connect(&info(&cluster, "postgres", &more)).await.unwrap();
}

/// More than all buffers hold, read with and without the runtime by turns: what TLS has decrypted
/// and not handed out yet is not forgotten by either.
#[tokio::test]
async fn rows_stream_through_tls_whole_and_in_order_up_to_the_end_of_the_connection() {
    const ROWS: usize = 20_000;
    let (certificate, key) = self_signed("localhost");
    let cluster = server(&certificate, &key, &certificate);
    let info = info(&cluster, "postgres", "sslmode=require");
    sql(
        &info,
        "CREATE TABLE public.long (id int, body text);
         CREATE PUBLICATION long FOR TABLE public.long WITH (publish = 'insert');
         SELECT pg_create_logical_replication_slot('long', 'pgoutput')",
    )
    .await;
    let rows = format!("SELECT n, n || repeat('.', 300) FROM generate_series(1, {ROWS}) n");
    sql(&info, &format!("INSERT INTO public.long {rows}")).await;
    let connection = connect(&info).await.unwrap();
    assert!(is_encrypted(&connection, &info).await);
    let mut stream = connection.start_replication("long", &["long"]).await.unwrap();
    for row in 1..=ROWS {
        stream.fill_now();
        let tuple = until(&mut stream, |event| match event {
            Event::Insert(tuple) => Some(tuple),
            _ => None,
        });
        let tuple = tuple.await;
        let body = format!("{row}{}", ".".repeat(300));
        assert!(tuple.ends_with(body.as_bytes()), "row {row}: {}", tuple.escape_ascii());
    }
    sql(&info, "INSERT INTO public.long VALUES (0, 'last')").await;
    // Sent, and not read: it comes before the end all the same.
    let behind = "SELECT count(*) FROM pg_stat_replication WHERE sent_lsn < pg_current_wal_lsn()";
    let sent = async { while value(&info, behind).await != "0" {} };
    tokio::time::timeout(DEADLINE, sent).await.expect("the row is sent");
    sql(&info, "SELECT pg_terminate_backend(pid) FROM pg_stat_replication").await;
    let mut seen = false;
    loop {
        match next(&mut stream).await {
            Event::Insert(tuple) => seen |= tuple.ends_with(b"last"),
            Event::Error(_) | Event::Closed => break,
            _ => {}
        }
    }
    assert!(seen, "the row that was sent before the end");
}

#[tokio::test]
async fn a_certificate_signed_by_the_given_authority_is_trusted_for_its_names_only() {
    let authority = Authority::new();
    let (certificate, key) =
        authority.sign(&CertificateParams::new(vec!["localhost".into()]).unwrap());
    let cluster = server(&certificate, &key, &authority.issuer.pem());
    let root = cluster.file("root.pem", &authority.issuer.pem());
    let full = format!("sslmode=verify-full sslrootcert={}", root.display());
    connect(&info(&cluster, "postgres", &full)).await.unwrap();
    let wrong = format!("host=elsewhere.example {full}");
    let error = connect(&info(&cluster, "postgres", &wrong)).await.unwrap_err();
    assert!(matches!(error, ConnectError::TlsHandshake { .. }), "{error:?}");

    // The same authority vouches for us.
    let mut client = CertificateParams::new(Vec::<String>::new()).unwrap();
    client.distinguished_name.push(rcgen::DnType::CommonName, "cert_user");
    let (certificate, key) = authority.sign(&client);
    let certificate = cluster.file("client.pem", &certificate);
    let key = cluster.file("client.key", &key);
    let client = format!("{full} sslcert={} sslkey={}", certificate.display(), key.display());
    let info = info(&cluster, "cert_user", &client);
    connect(&info).await.unwrap();
    assert_eq!(value(&info, "SELECT current_user").await, "cert_user");
}

#[tokio::test]
async fn an_expired_certificate_is_refused_even_when_pinned() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".into()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2001, 1, 1);
    params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    let certificate = params.self_signed(&key).unwrap().pem();
    let cluster = server(&certificate, &key.serialize_pem(), &certificate);
    let pinned = cluster.file("pinned.pem", &certificate);
    let more = format!("sslmode=verify-ca sslrootcert={}", pinned.display());
    let error = connect(&info(&cluster, "postgres", &more)).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("expired"), "{source}");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_tls_is_demanded() {
    let cluster = Cluster::shared();
    for mode in ["require", "verify-ca", "verify-full"] {
        let info = cluster.info_with("postgres", &format!("sslmode={mode}"));
        let error = connect(&info).await.unwrap_err();
        assert!(matches!(error, ConnectError::TlsRefused { .. }), "{error:?}");
        assert!(error.to_string().contains(mode), "{error}");
        assert!(connect_sql(&info, "test").await.is_err());
    }
    for mode in ["disable", "allow", "prefer"] {
        connect(&cluster.info_with("postgres", &format!("sslmode={mode}"))).await.unwrap();
    }
    sql(&cluster.info_with("postgres", "sslmode=prefer"), "SELECT 1").await;
}

/// A peer that answers the TLS request with these bytes; returns what came after it.
fn impostor(answer: &'static [u8]) -> (u16, std::thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 8];
        stream.read_exact(&mut request).unwrap();
        assert_eq!(request, [0, 0, 0, 8, 4, 210, 22, 47]);
        stream.write_all(answer).unwrap();
        let mut rest = Vec::new();
        // The client may hang up with data of ours unread, which resets the connection.
        drop(stream.shutdown(std::net::Shutdown::Write));
        drop(stream.read_to_end(&mut rest));
        rest
    });
    (port, thread)
}

#[tokio::test]
async fn bytes_injected_after_the_ssl_response_break_the_handshake() {
    for mode in ["prefer", "require"] {
        // What a man in the middle would like us to take for the server's first encrypted words.
        let (port, thread) = impostor(b"SR\0\0\0\x08\0\0\0\0Z\0\0\0\x05I");
        let text = format!("host=127.0.0.1 port={port} user=u password=canary sslmode={mode}");
        let info = ConnInfo::resolve(Some(&text), &|_| None).unwrap();
        let error = connect(&info).await.unwrap_err();
        assert!(matches!(error, ConnectError::TlsHandshake { .. }), "{error:?}");
        let sent = thread.join().unwrap();
        assert!(!sent.windows(6).any(|window| window == b"canary"));
        // A ClientHello or an alert, never a start-up message in clear text.
        assert!(!sent.windows(11).any(|window| window == b"replication"));
    }
}

#[tokio::test]
async fn an_error_in_place_of_an_answer_is_not_shown() {
    let (port, thread) = impostor(b"E\0\0\0\x20C53300\0Mforged text here!!\0\0");
    let text = format!("host=127.0.0.1 port={port} user=u sslmode=prefer");
    let info = ConnInfo::resolve(Some(&text), &|_| None).unwrap();
    let error = connect(&info).await.unwrap_err();
    assert!(matches!(error, ConnectError::TlsAnswer { answer: b'E', .. }), "{error:?}");
    assert!(!format!("{error:?}").contains("forged"));
    thread.join().unwrap();
}
