//! Who we are, proven in every supported way, and the parameters that no role's setting may change.

use outbox_router::postgres::{
    ClientEncoding, CommandError, ConnInfo, ConnectError, ConnectErrorKind, Options,
    ReplicationConnection, ServerErrorKind,
};

use crate::cluster::{Cluster, sql, value};

async fn connect(info: &ConnInfo) -> Result<ReplicationConnection, ConnectError> {
    ReplicationConnection::connect(info, &Options::default()).await
}

#[tokio::test]
async fn every_method_lets_the_right_password_in() {
    let cluster = Cluster::shared();
    for user in ["postgres", "md5_user", "scram_user", "clear_user"] {
        let info = cluster.info_with(user, "password=pass\\'word");
        let mut connection = connect(&info).await.unwrap();
        let system = connection.identify_system().await.unwrap();
        assert_eq!(system.database.as_deref(), Some("postgres"), "{user}");
        assert_eq!(value(&info, "SELECT current_user").await, user, "and so does SQL");
    }
}

#[tokio::test]
async fn a_wrong_password_is_refused_alike_on_both_connections() {
    let cluster = Cluster::shared();
    for user in ["md5_user", "scram_user", "clear_user"] {
        let info = cluster.info_with(user, "password=canary");
        let error = connect(&info).await.unwrap_err();
        assert_eq!(error.kind(), ConnectErrorKind::Authentication, "{user}: {error}");
        assert!(error.to_string().contains("28P01"), "{error}");
        assert!(!format!("{error} {error:?}").contains("canary"));
        let error = outbox_router::postgres::connect_sql(&info, "test").await.err().unwrap();
        assert_eq!(error.kind(), ConnectErrorKind::Authentication);
    }
}

#[tokio::test]
async fn a_missing_password_is_reported_before_the_server_reports_it() {
    let cluster = Cluster::shared();
    for user in ["md5_user", "scram_user", "clear_user"] {
        let info = cluster.info(user);
        let error = connect(&info).await.unwrap_err();
        assert!(matches!(error, ConnectError::PasswordMissing { .. }), "{user}: {error}");
        let error = outbox_router::postgres::connect_sql(&info, "test").await.err().unwrap();
        assert!(matches!(error, ConnectError::PasswordMissing { .. }), "{user}: {error}");
    }
}

#[tokio::test]
async fn the_unix_socket_works_for_both_connections() {
    let cluster = Cluster::shared();
    let info = cluster.socket_info("postgres");
    let mut connection = connect(&info).await.unwrap();
    let system = connection.identify_system().await.unwrap();
    let id = value(&info, "SELECT system_identifier FROM pg_control_system()").await;
    assert_eq!((system.system_id, system.timeline), (id, 1));
    let address = value(&info, "SELECT coalesce(inet_server_addr()::text, 'socket')").await;
    assert_eq!(address, "socket");
}

#[tokio::test]
async fn no_setting_of_the_role_changes_the_bytes_of_a_row() {
    let cluster = Cluster::shared();
    let info = cluster.info_with("scram_user", "password=pass\\'word");
    let mut connection = connect(&info).await.unwrap();
    for (parameter, pinned) in [
        ("client_encoding", "UTF8"),
        ("DateStyle", "ISO, MDY"),
        ("IntervalStyle", "postgres"),
        ("extra_float_digits", "3"),
        ("bytea_output", "hex"),
        ("TimeZone", "UTC"),
        ("client_min_messages", "warning"),
        ("wal_sender_timeout", "10s"),
        ("application_name", "outbox-router"),
    ] {
        let rows = connection.query("SHOW", &format!("SHOW {parameter}")).await.unwrap();
        assert_eq!(rows, [[Some(pinned.to_owned())]], "{parameter}");
    }
    assert_eq!(connection.parameters().get("server_encoding").unwrap(), "UTF8");
    assert_eq!(value(&info, "SHOW search_path").await, "pg_catalog");
}

#[tokio::test]
async fn a_database_without_an_encoding_is_read_as_bytes() {
    let cluster = Cluster::shared();
    let admin = cluster.info("postgres");
    sql(&admin, "CREATE DATABASE bytes_only ENCODING 'SQL_ASCII' TEMPLATE template0").await;
    let info = cluster.info_with("postgres", "dbname=bytes_only");
    let server_encoding = value(&info, "SHOW server_encoding").await;
    let client_encoding = ClientEncoding::for_server_encoding(&server_encoding);
    let options = Options { client_encoding, ..Options::default() };
    let mut connection = ReplicationConnection::connect(&info, &options).await.unwrap();
    let rows = connection.query("SHOW", "SHOW client_encoding").await.unwrap();
    assert_eq!(rows, [[Some("SQL_ASCII".to_owned())]]);
}

#[tokio::test]
async fn a_refused_command_leaves_the_connection_usable() {
    let cluster = Cluster::shared();
    let mut connection = connect(&cluster.info("postgres")).await.unwrap();
    let error = connection
        .query("DROP_REPLICATION_SLOT", "DROP_REPLICATION_SLOT never_existed")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Some(ServerErrorKind::SlotMissing), "{error}");
    assert!(matches!(error, CommandError::Server { .. }));
    connection.identify_system().await.unwrap();
    let pid = connection.backend_pid().unwrap();
    let query = format!("SELECT application_name FROM pg_stat_replication WHERE pid = {pid}");
    assert_eq!(value(&cluster.info("postgres"), &query).await, "outbox-router");
}
