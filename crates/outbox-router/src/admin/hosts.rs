//! By which name the endpoint is asked. It has no authentication, and is kept apart by the address
//! on which it listens. A web page gets around that where its own name resolves to that address
//! (DNS rebinding): a browser then lets the page read the answers, and names the page's host in
//! `Host`. So what shows the router's state is answered only under an IP address, `localhost` or a
//! name of `admin.hosts`. `/metrics` and the probes are answered under every name, because
//! Prometheus and Kubernetes come by whatever name they have.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State as Shared},
    http::{
        StatusCode, header,
        uri::{Authority, Uri},
    },
    middleware::Next,
    response::Response,
};

use super::answer::refused;

/// The names under which the router is known, besides its addresses.
#[derive(Clone)]
pub(super) struct Hosts(Arc<[String]>);

impl Hosts {
    pub(super) fn of(names: &[String]) -> Self {
        Self(names.into())
    }

    fn has(&self, host: &str) -> bool {
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        address.unwrap_or(host).parse::<IpAddr>().is_ok()
            || host.eq_ignore_ascii_case("localhost")
            || self.0.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    /// What the request names that is not the router; `None`: nothing. A client that names no host
    /// is no browser.
    fn stranger(&self, request: &Request) -> Option<String> {
        let named = request.headers().get_all(header::HOST).iter().map(|value| value.to_str());
        let named = named.map(|value| value.unwrap_or_default().to_owned());
        let target = request.uri().authority().map(Authority::to_string);
        named.chain(target).find(|named| !host_of(named).is_some_and(|host| self.has(&host)))
    }
}

/// The host, without the port.
fn host_of(named: &str) -> Option<String> {
    let uri: Uri = named.parse().ok()?;
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
    Some(authority.host().trim_end_matches('.').to_owned())
}

/// Answers a request under a foreign name with 421, and what to configure.
pub(super) async fn check(Shared(hosts): Shared<Hosts>, request: Request, next: Next) -> Response {
    match hosts.stranger(&request) {
        None => next.run(request).await,
        Some(named) => refused(
            StatusCode::MISDIRECTED_REQUEST,
            format!(
                "this router is not known as {named:?}: ask by its IP address, or name it in \
                 admin.hosts, as in hosts = \"router.example.org\" under [admin]"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn is_refused(host: &str) -> bool {
        let hosts = Hosts::of(&["router.example.org".to_owned()]);
        let request = Request::builder().header(header::HOST, host).body(Body::empty());
        hosts.stranger(&request.unwrap()).is_some()
    }

    #[test]
    fn a_router_is_asked_by_address_as_localhost_or_by_a_configured_name() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:8788",
            "10.1.2.3:80",
            "[::1]:8788",
            "[::1]",
            "localhost:8788",
            "LOCALHOST",
            "Router.Example.org:8788",
            "router.example.org.",
        ] {
            assert!(!is_refused(host), "{host}");
        }
        for host in [
            "attacker.example",
            "attacker.example:8788",
            "127.0.0.1.attacker.example",
            "localhost.attacker.example",
            "localhost@attacker.example",
            "attacker.example@localhost",
            "::1",
            "example.org",
            "",
            "a b",
        ] {
            assert!(is_refused(host), "{host}");
        }
    }
}
