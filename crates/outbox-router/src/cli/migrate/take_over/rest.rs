//! Kafka Connect's REST interface: what it says of one connector. Only questions are asked; what
//! changes something is printed for a person to type.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::cli::http::get_from;

/// What a name may not have as a part of a path (RFC 3986, section 2.3).
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The port of `http` where the URL names none.
const HTTP_PORT: u16 = 80;

/// Where a connector is asked about.
#[derive(Debug, Clone)]
pub(super) struct ConnectorUrl {
    address: String,
    path: String,
}

impl ConnectorUrl {
    /// The connector of this name at a REST interface.
    ///
    /// # Errors
    /// The URL is none of plain HTTP.
    pub(super) fn of(url: &str, connector: &str) -> Result<Self, String> {
        let path = format!("connectors/{}", utf8_percent_encode(connector, IN_PATH));
        let Some(rest) = url.strip_prefix("http://").filter(|rest| !rest.contains('@')) else {
            return Err(format!(
                "only http:// without a password is supported; ask it yourself: curl {}/{path}/status",
                url.trim_end_matches('/')
            ));
        };
        let (host, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let address = match host.rsplit_once(':') {
            // The last colon of an address in brackets may be a part of it.
            Some((_, port)) if port.parse::<u16>().is_ok() => host.to_owned(),
            Some(_) | None => format!("{host}:{HTTP_PORT}"),
        };
        let prefix = prefix.trim_end_matches('/');
        let slash = if prefix.is_empty() { "" } else { "/" };
        Ok(Self { address, path: format!("{slash}{prefix}/{path}") })
    }

    /// The answer to GET below the connector's URL; `None` where there is no such connector.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(super) async fn get(&self, what: &str) -> Result<Option<Value>, String> {
        let path = format!("{}/{what}", self.path);
        let answer = get_from(&self.address, &path).await;
        let answer = answer.map_err(|error| format!("{self}/{what} does not answer: {error}"))?;
        match answer.status {
            200 => serde_json::from_str(&answer.body)
                .map(Some)
                .map_err(|error| format!("{self}/{what} answers no JSON: {error}")),
            404 => Ok(None),
            409 => Err(format!("{self}/{what}: the workers are rebalancing; try again")),
            status => Err(format!("{self}/{what} answers {status}")),
        }
    }

    /// The command that sends another request.
    pub(super) fn curl(&self, method: &str, what: &str) -> String {
        format!("curl -X {method} {self}/{what}")
    }
}

impl fmt::Display for ConnectorUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.address, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::ConnectorUrl;

    #[test]
    fn a_url_is_plain_http_with_or_without_port_and_path() {
        for (url, shown) in [
            ("http://connect:8083", "http://connect:8083/connectors/a%20b"),
            ("http://connect/", "http://connect:80/connectors/a%20b"),
            ("http://[::1]:8083/x/", "http://[::1]:8083/x/connectors/a%20b"),
        ] {
            assert_eq!(ConnectorUrl::of(url, "a b").unwrap().to_string(), shown);
        }
        let refused = ConnectorUrl::of("https://connect:8083/", "a").unwrap_err();
        assert!(refused.ends_with("curl https://connect:8083/connectors/a/status"), "{refused}");
        ConnectorUrl::of("http://u:p@connect:8083", "a").unwrap_err();
    }
}
