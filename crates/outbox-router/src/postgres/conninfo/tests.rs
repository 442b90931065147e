//! Connection strings as people write them, and what must not be shown of those that are wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn empty(_: &str) -> Option<String> {
    None
}

fn resolve(text: &str) -> Result<ConnInfo, ConnInfoError> {
    ConnInfo::resolve(Some(text), &empty)
}

fn password(info: &ConnInfo) -> Option<&str> {
    info.password.as_ref().map(|password| std::str::from_utf8(password.expose()).unwrap())
}

#[test]
fn a_full_url_is_percent_decoded() {
    let info = resolve(
        "postgres://or%40der:p%40s%2Fs@db.example:6432/sh%20op?sslmode=require&application_name=x%3Dy&connect_timeout=3",
    )
    .unwrap();
    assert_eq!(info.host, Host::Tcp("db.example".into()));
    assert_eq!((info.port, &*info.user, &*info.dbname), (6432, "or@der", "sh op"));
    assert_eq!(password(&info), Some("p@s/s"));
    assert_eq!(info.sslmode, SslMode::Require);
    assert_eq!(info.application_name.as_deref(), Some("x=y"));
    assert_eq!(info.connect_timeout, Duration::from_secs(3));
}

#[test]
fn a_url_may_name_a_socket_directory_in_either_place() {
    for text in [
        "postgres://u@/db?host=/run/pg&port=7000",
        "postgresql://u@%2Frun%2Fpg:7000/db",
        "host=/run/pg port=7000 user=u dbname=db",
    ] {
        let info = resolve(text).unwrap();
        assert_eq!(info.host, Host::Unix("/run/pg".into()), "{text}");
        assert_eq!(info.target(), "/run/pg/.s.PGSQL.7000");
        assert_eq!((info.sslmode, &*info.dbname), (SslMode::Disable, "db"));
    }
}

#[test]
fn an_ipv6_address_is_written_in_brackets() {
    let info = resolve("postgres://u@[2001:db8::1]:6000/db").unwrap();
    assert_eq!(info.host, Host::Tcp("2001:db8::1".into()));
    assert_eq!(info.target(), "[2001:db8::1]:6000");
    assert!(resolve("postgres://u@[::1/db").is_err());
    assert!(resolve("postgres://u@[::1]6000/db").is_err());
}

#[test]
fn key_value_pairs_may_be_quoted_and_spaced() {
    let info = resolve(r"host = localhost  user='o\'brien' password='a b\\c' dbname=x\ y port='1'")
        .unwrap();
    assert_eq!((&*info.user, &*info.dbname, info.port), ("o'brien", "x y", 1));
    assert_eq!(password(&info), Some(r"a b\c"));
    for broken in ["host=a user", "user='u", "user=u\\", "= x", "a b=c"] {
        assert!(matches!(resolve(broken), Err(ConnInfoError::Syntax(_))), "{broken}");
    }
}

#[test]
fn the_string_wins_over_the_environment_and_that_over_the_defaults() {
    let env = |name: &str| match name {
        "PGUSER" => Some("env_user".to_owned()),
        "PGPORT" => Some("9999".to_owned()),
        "PGPASSWORD" => Some("env_password".to_owned()),
        "PGHOST" => Some("env.example".to_owned()),
        "PGDATABASE" => Some(String::new()),
        _ => None,
    };
    let info = ConnInfo::resolve(Some("postgres://:1234"), &env).unwrap();
    assert_eq!(info.host, Host::Tcp("env.example".into()));
    assert_eq!((info.port, &*info.user, &*info.dbname), (1234, "env_user", "env_user"));
    assert_eq!(password(&info), Some("env_password"));
    let info = ConnInfo::resolve(None, &env).unwrap();
    assert_eq!(info.port, 9999);
}

#[test]
fn without_a_host_the_usual_socket_directory_is_meant() {
    assert_eq!(resolve("user=u").unwrap().target(), "/var/run/postgresql/.s.PGSQL.5432");
}

#[test]
fn only_a_server_on_this_machine_is_trusted_without_verification() {
    let mode = |text: &str| resolve(text).map(|info| (info.sslmode, info.warnings.len())).unwrap();
    assert_eq!(mode("postgres://u@db.example"), (SslMode::VerifyFull, 0));
    assert_eq!(mode("postgres://u@10.0.0.1"), (SslMode::VerifyFull, 0));
    assert_eq!(mode("postgres://u@localhost"), (SslMode::Prefer, 0));
    assert_eq!(mode("postgres://u@127.0.0.2"), (SslMode::Prefer, 0));
    assert_eq!(mode("postgres://u@[::1]"), (SslMode::Prefer, 0));
    // A weaker mode only when it is named, and then with a warning at every start.
    assert_eq!(mode("postgres://u@db.example?sslmode=prefer"), (SslMode::Prefer, 1));
    assert_eq!(mode("postgres://u@db.example?sslmode=verify-ca"), (SslMode::VerifyCa, 1));
    assert_eq!(mode("postgres://u@localhost?sslrootcert=system"), (SslMode::VerifyFull, 0));
    assert!(resolve("postgres://u@db.example?sslmode=require&sslrootcert=system").is_err());
}

#[test]
fn what_counts_as_local_is_the_address_that_is_connected_to() {
    let mode = |text: &str| resolve(text).unwrap().sslmode;
    assert_eq!(mode("host=localhost hostaddr=10.0.0.5 user=u"), SslMode::VerifyFull);
    assert_eq!(mode("host=127.0.0.1 hostaddr=10.0.0.5 user=u"), SslMode::VerifyFull);
    assert_eq!(mode("hostaddr=10.0.0.5 user=u"), SslMode::VerifyFull);
    assert_eq!(mode("host=localhost hostaddr=127.0.0.1 user=u"), SslMode::Prefer);
    assert_eq!(mode("host=db.example hostaddr=::1 user=u"), SslMode::Prefer);
    assert_eq!(mode("hostaddr=::ffff:127.0.0.1 user=u"), SslMode::Prefer);
    assert_eq!(mode("host=/run/pg user=u"), SslMode::Disable);
    let error = resolve("host=/run/pg hostaddr=10.0.0.5 user=u").unwrap_err();
    assert!(matches!(error, ConnInfoError::Value { name: "hostaddr", .. }), "{error}");
    let env = |name: &str| (name == "PGHOSTADDR").then(|| "10.0.0.5".to_owned());
    let info = ConnInfo::resolve(Some("postgres://u@localhost"), &env).unwrap();
    assert_eq!((info.sslmode, info.hostaddr), (SslMode::VerifyFull, "10.0.0.5".parse().ok()));
}

/// The manual's list (section "Environment Variables" of libpq, PostgreSQL 18), by how each is
/// treated: as `variable=parameter`, refused by name, and without effect.
const HONOURED: &str = "PGHOST=host PGHOSTADDR=hostaddr PGPORT=port PGDATABASE=dbname PGUSER=user \
    PGPASSWORD=password PGPASSFILE=passfile PGREQUIREAUTH=require_auth PGAPPNAME=application_name \
    PGSSLMODE=sslmode PGSSLCERT=sslcert PGSSLKEY=sslkey PGSSLROOTCERT=sslrootcert \
    PGCONNECT_TIMEOUT=connect_timeout PGTARGETSESSIONATTRS=target_session_attrs";
const REFUSED: &str = "PGSSLNEGOTIATION PGCHANNELBINDING PGSERVICE PGOPTIONS PGREQUIRESSL \
    PGSSLCERTMODE PGSSLCRL PGSSLCRLDIR PGSSLSNI PGREQUIREPEER PGSSLMINPROTOCOLVERSION \
    PGSSLMAXPROTOCOLVERSION PGGSSENCMODE PGLOADBALANCEHOSTS PGMINPROTOCOLVERSION";
const HARMLESS: &str = "PGSERVICEFILE PGSSLCOMPRESSION PGKRBSRVNAME PGGSSLIB PGGSSDELEGATION \
    PGCLIENTENCODING PGMAXPROTOCOLVERSION PGDATESTYLE PGTZ PGGEQO PGSYSCONFDIR PGLOCALEDIR \
    PGOAUTHDEBUG";

/// What a connection string and at most one variable make, with the user from PGUSER otherwise.
fn outcome(text: &str, variable: &str) -> Result<String, ConnInfoError> {
    let env = |name: &str| match name {
        name if name == variable => Some("a canary".to_owned()),
        "PGUSER" => Some("u".to_owned()),
        _ => None,
    };
    ConnInfo::resolve(Some(text), &env).map(|info| format!("{info:?}"))
}

#[test]
fn every_variable_of_libpq_is_honoured_refused_or_ignored_for_a_reason() {
    for pair in HONOURED.split_whitespace() {
        let (variable, parameter) = pair.split_once('=').unwrap();
        let named = outcome(&format!("{parameter}='a canary'"), "");
        assert_eq!(outcome("", variable), named, "{variable}");
        // A missing password file has no effect; other tests read one.
        assert_eq!(named == outcome("", ""), parameter == "passfile", "{variable}");
    }
    for variable in REFUSED.split_whitespace() {
        let refused = outcome("", variable).unwrap_err().to_string();
        assert!(refused.contains(variable), "{refused}");
    }
    for variable in HARMLESS.split_whitespace() {
        assert_eq!(outcome("", variable), outcome("", ""), "{variable}");
    }
}

#[test]
fn the_table_of_variables_is_the_manuals_and_gives_reasons() {
    use variables::{Treatment, VARIABLES};
    let mut known: Vec<&str> = VARIABLES.iter().map(|variable| variable.name).collect();
    let mut manual: Vec<&str> = [HONOURED, REFUSED, HARMLESS]
        .iter()
        .flat_map(|list| list.split_whitespace())
        .map(|word| word.split('=').next().unwrap())
        .collect();
    known.sort_unstable();
    manual.sort_unstable();
    assert_eq!(known, manual);
    for variable in VARIABLES {
        if let Treatment::Ignored { because } = variable.treatment {
            assert!(because.len() > 20, "{}", variable.name);
        }
    }
}

#[test]
fn an_empty_variable_counts_as_unset() {
    for variable in variables::VARIABLES {
        let env = |name: &str| (name == variable.name).then(String::new);
        assert!(ConnInfo::resolve(Some("user=u host=h"), &env).is_ok(), "{}", variable.name);
    }
}

#[test]
fn what_is_not_implemented_is_refused_by_name() {
    assert_eq!(
        resolve("postgres://u@h?sslmod=require").unwrap_err(),
        ConnInfoError::Unknown { name: "sslmod".into() }
    );
    assert_eq!(resolve("host=a,b user=u").unwrap_err(), ConnInfoError::SeveralHosts);
    assert_eq!(resolve("postgres://u@a:1,b:2/x").unwrap_err(), ConnInfoError::SeveralHosts);
    assert_eq!(resolve("just a name").unwrap_err(), ConnInfoError::Form);
    assert_eq!(resolve("host=h").unwrap_err(), ConnInfoError::User);
    let env = |name: &str| (name == "PGSERVICE").then(|| "x".to_owned());
    assert_eq!(
        ConnInfo::resolve(Some("user=u"), &env).unwrap_err(),
        ConnInfoError::Variable("PGSERVICE")
    );
}

/// The manual's list (section "Parameter Key Words" of libpq, PostgreSQL 18), without those that
/// are supported.
const UNSUPPORTED: &str = "channel_binding client_encoding options keepalives keepalives_idle \
    keepalives_interval keepalives_count tcp_user_timeout replication gssencmode requiressl \
    sslnegotiation sslcompression sslkeylogfile sslpassword sslcertmode sslcrl sslcrldir sslsni \
    requirepeer ssl_min_protocol_version ssl_max_protocol_version min_protocol_version \
    max_protocol_version krbsrvname gsslib gssdelegation scram_client_key scram_server_key service \
    servicefile load_balance_hosts oauth_issuer oauth_client_id oauth_client_secret oauth_scope";

#[test]
fn every_other_parameter_of_libpq_is_refused_with_what_to_type_instead() {
    for name in UNSUPPORTED.split_whitespace() {
        for text in [format!("host=h user=u {name}=1"), format!("postgres://u@h?{name}=1")] {
            let error = resolve(&text).unwrap_err();
            assert!(matches!(error, ConnInfoError::Unsupported { .. }), "{name}: {error:?}");
            let message = error.to_string();
            assert!(message.contains(&format!("parameter {name} is not supported; ")), "{message}");
        }
    }
    let error = resolve("service=shop").unwrap_err().to_string();
    assert!(
        error.ends_with(
            "write what the service file says into the connection string: host, \
        port, dbname, user"
        ),
        "{error}"
    );
}

/// A connection string as a failover manager's documentation shows it, for one host.
#[test]
fn only_a_standby_cannot_be_asked_for() {
    for attributes in ["any", "read-write", "primary"] {
        resolve(&format!("postgres://u@h?target_session_attrs={attributes}")).unwrap();
    }
    for attributes in ["standby", "read-only", "prefer-standby", "Primary"] {
        let error =
            resolve(&format!("host=h user=u target_session_attrs={attributes}")).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("must be any, read-write or primary: "), "{message}");
    }
}

#[test]
fn no_error_and_no_debug_output_repeats_a_password() {
    for text in [
        "postgres://u:can/ary@h/db",
        "postgres://u:1can/ary@h/db",
        "postgres://u:1/canary@h/db",
        "postgres://u:x@canary@h/db",
        "postgres://u:x?canary@h/db",
        "postgres://u:x?a=canary@h/db&canary@x=1",
        "postgres://u:canary%@h/db",
        "postgres://u:canary%zz@h/db",
        "user=u password='canary",
        "user=u password=x canary",
        "http://u:canary@h",
    ] {
        let error = resolve(text).map(|info| format!("{info:?}")).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("canary") && !shown.contains("ary@h"), "{text}: {shown}");
    }
    let info = resolve("postgres://u:canary@h/db").unwrap();
    let shown = format!("{info:?}");
    assert!(shown.contains("***") && !shown.contains("canary"), "{shown}");
}

#[test]
fn a_zero_byte_is_refused_wherever_it_comes_from() {
    for text in ["postgres://u:pass%00word@h", "user=u password=pass\0word"] {
        let refused = ConnInfoError::Value { name: "password", expected: "free of zero bytes" };
        assert_eq!(resolve(text).unwrap_err(), refused);
    }
}

#[test]
fn a_client_certificate_needs_its_key() {
    assert!(resolve("user=u host=h sslcert=/c.pem").is_err());
    assert!(resolve("user=u host=h sslkey=/k.pem").is_err());
    let info = resolve("user=u host=h sslcert=/c.pem sslkey=/k.pem").unwrap();
    assert_eq!(info.client_certificate.unwrap().key, PathBuf::from("/k.pem"));
}

#[test]
fn the_password_file_is_searched_from_the_top() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pass");
    let lines = [
        "# db.example:5432:shop:router:comment",
        r"db.example:5432:sh\:op:router:colon\:and\\back",
        "db.example:5433:*:router:other port",
        "db.example:5432:*:router:first match",
        "*:*:*:*:anybody",
    ];
    fs::write(&path, lines.join("\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let found = |dbname: &str, user: &str| {
        let text =
            format!("host=db.example user={user} dbname={dbname} passfile={}", path.display());
        let info = resolve(&text).unwrap();
        password(&info).map(str::to_owned)
    };
    assert_eq!(found("sh:op", "router").as_deref(), Some(r"colon:and\back"));
    assert_eq!(found("shop", "router").as_deref(), Some("first match"));
    assert_eq!(found("shop", "someone").as_deref(), Some("anybody"));
}

#[test]
fn a_password_file_that_others_can_read_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(".pgpass");
    fs::write(&path, "*:*:*:*:secret").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let home = directory.path().display().to_string();
    let env = |name: &str| (name == "HOME").then(|| home.clone());
    let info = ConnInfo::resolve(Some("host=localhost user=u"), &env).unwrap();
    assert_eq!(info.password, None);
    assert!(info.warnings.concat().contains("chmod 600"), "{:?}", info.warnings);
    assert!(!info.warnings.concat().contains("secret"));
}

#[test]
fn a_missing_password_file_is_no_reason_for_a_warning() {
    let info = resolve("host=localhost user=u passfile=/nonexistent/pgpass").unwrap();
    assert!(info.warnings.is_empty() && info.password.is_none());
}
