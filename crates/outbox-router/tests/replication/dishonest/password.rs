//! Who is asked for the password, and where: over each kind of connection, and under
//! `require_auth`.

use outbox_router::postgres::{ConnectError, ConnectErrorKind, UnsuitableConnection};

use super::certificate::{Certificate, Version};
use super::server::{
    CLEARTEXT, Conversation, OK, Outcome, SESSION, outcomes, outcomes_at, outward_address,
};

async fn request_password(server: &mut Conversation) -> std::io::Result<()> {
    server.startup().await?;
    server.send(CLEARTEXT).await?;
    server.answer().await?;
    server.send(SESSION).await
}

fn assert_sent(outcomes: [Outcome; 2], case: &str) {
    for outcome in outcomes {
        assert!(outcome.server.learnt_the_password(), "{case}, {}", outcome.connection);
        outcome.result.unwrap_or_else(|error| panic!("{case}: {error:?}"));
    }
}

fn assert_kept(outcomes: &[Outcome; 2], expected: UnsuitableConnection, case: &str) {
    let texts = outcomes.each_ref().map(|outcome| {
        let error = outcome.refusal(case);
        let ConnectError::PlaintextPassword { connection, .. } = error else {
            panic!("{case}: {error:?}")
        };
        assert_eq!(*connection, expected, "{case}");
        assert_eq!(error.kind(), ConnectErrorKind::Authentication);
        // The ports differ.
        error.to_string().split(" asks for ").nth(1).map(str::to_owned)
    });
    assert_eq!(texts[0], texts[1], "{case}");
}

#[tokio::test]
async fn the_password_goes_in_clear_text_only_to_a_verified_server_or_on_this_machine() {
    let certificate = Certificate::new();
    let (tls, root) = (certificate.owner(Version::Tls13), certificate.as_root());
    let encrypted = async |server: &mut Conversation| {
        server.tls(&tls).await?;
        request_password(server).await
    };
    let outward = outward_address();
    for more in ["", "require_auth=password"] {
        let case = format!("sslmode=disable {more}");
        assert_sent(outcomes(&case, request_password).await, &case);
        let kept = outcomes_at(outward, &case, request_password).await;
        assert_kept(&kept, UnsuitableConnection::Unencrypted, &case);
        for mode in ["sslmode=prefer", "sslmode=require"] {
            let case = format!("{mode} {more}");
            assert_sent(outcomes(&case, encrypted).await, &case);
            let kept = outcomes_at(outward, &case, encrypted).await;
            assert_kept(&kept, UnsuitableConnection::Unverified, &case);
        }
        for mode in ["require", "verify-ca", "verify-full"] {
            let case = format!("sslmode={mode} {root} {more}");
            assert_sent(outcomes(&case, encrypted).await, &case);
            assert_sent(outcomes_at(outward, &case, encrypted).await, &case);
        }
    }
    // prefer, and a server (or somebody before it) that says it has no TLS.
    let no_tls = async |server: &mut Conversation| {
        server.startup().await?;
        server.send(b"N").await?;
        request_password(server).await
    };
    let kept = outcomes_at(outward, "sslmode=prefer", no_tls).await;
    assert_kept(&kept, UnsuitableConnection::Unencrypted, "no TLS");
}

#[tokio::test]
async fn a_server_that_requests_no_authentication_is_refused_where_require_auth_demands_one() {
    let script = async |server: &mut Conversation| {
        server.startup().await?;
        server.send(SESSION).await
    };
    for require_auth in ["scram-sha-256", "!none", "gss,sspi"] {
        let parameters = format!("sslmode=disable require_auth={require_auth}");
        for outcome in outcomes(&parameters, script).await {
            let error = outcome.refusal(require_auth);
            assert!(matches!(error, ConnectError::MethodRuledOut { .. }), "{error:?}");
            let expected = format!("by method none, which require_auth={require_auth} rules out");
            assert!(error.to_string().ends_with(&expected), "{error}");
        }
    }
    for require_auth in ["none", "none,scram-sha-256", "!password"] {
        let parameters = format!("sslmode=disable require_auth={require_auth}");
        for outcome in outcomes(&parameters, script).await {
            outcome.result.unwrap_or_else(|error| panic!("{require_auth}: {error:?}"));
        }
    }
}

#[tokio::test]
async fn a_server_may_request_the_password_once() {
    let second = [CLEARTEXT, OK].concat();
    let script = async |server: &mut Conversation| {
        server.startup().await?;
        server.send(b"R\0\0\0\x0c\0\0\0\x05salt").await?;
        server.answer().await?;
        server.send(&second).await
    };
    for outcome in outcomes("sslmode=disable", script).await {
        let error = outcome.refusal("MD5, then clear text");
        assert_eq!(error.kind(), ConnectErrorKind::Protocol, "{error:?}");
    }
}
