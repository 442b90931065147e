//! The parameters we understand, and their values: from the connection string first, then from the environment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{ClientCertificate, ConnInfoError, parse};

/// Looks a variable of the environment up.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A parameter we understand, and the variable that stands in for it.
struct Parameter {
    name: &'static str,
    variable: Option<&'static str>,
}

const fn parameter(name: &'static str, variable: Option<&'static str>) -> Parameter {
    Parameter { name, variable }
}

const PARAMETERS: [Parameter; 14] = [
    parameter("host", Some("PGHOST")),
    parameter("hostaddr", Some("PGHOSTADDR")),
    parameter("port", Some("PGPORT")),
    parameter("dbname", Some("PGDATABASE")),
    parameter("user", Some("PGUSER")),
    parameter("password", Some("PGPASSWORD")),
    parameter("passfile", Some("PGPASSFILE")),
    parameter("application_name", Some("PGAPPNAME")),
    parameter("fallback_application_name", None),
    parameter("connect_timeout", Some("PGCONNECT_TIMEOUT")),
    parameter("sslmode", Some("PGSSLMODE")),
    parameter("sslrootcert", Some("PGSSLROOTCERT")),
    parameter("sslcert", Some("PGSSLCERT")),
    parameter("sslkey", Some("PGSSLKEY")),
];

/// Silence about these would connect to another server or trust more than the user believes.
const REFUSED_VARIABLES: [&str; 7] = [
    "PGSERVICE",
    "PGCHANNELBINDING",
    "PGREQUIREAUTH",
    "PGREQUIREPEER",
    "PGSSLCRL",
    "PGSSLCRLDIR",
    "PGSSLNEGOTIATION",
];

pub(super) fn supported_names() -> String {
    PARAMETERS.map(|parameter| parameter.name).join(", ")
}

/// Parameter values by name, from the string and the environment.
pub(super) struct Values(BTreeMap<&'static str, String>);

impl Values {
    pub(super) fn collect(text: Option<&str>, env: Environment<'_>) -> Result<Self, ConnInfoError> {
        if let Some(name) = REFUSED_VARIABLES.into_iter().find(|name| env(name).is_some()) {
            return Err(ConnInfoError::Variable(name));
        }
        let mut values = BTreeMap::new();
        for (name, value) in text.map(parse::pairs).transpose()?.unwrap_or_default() {
            let known = PARAMETERS.iter().find(|parameter| parameter.name == name);
            let Some(known) = known else { return Err(ConnInfoError::Unknown { name }) };
            values.insert(known.name, value);
        }
        values.retain(|_, value| !value.is_empty());
        for parameter in &PARAMETERS {
            if let Some(value) = parameter.variable.and_then(env).filter(|value| !value.is_empty())
            {
                values.entry(parameter.name).or_insert(value);
            }
        }
        // It would end the value on the wire, and what follows it would be lost in silence.
        if let Some((name, _)) = values.iter().find(|(_, value)| value.contains('\0')) {
            return Err(ConnInfoError::Value { name, expected: "free of zero bytes" });
        }
        Ok(Self(values))
    }

    pub(super) fn get(&self, name: &'static str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn parsed<T>(
        &self,
        name: &'static str,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ConnInfoError> {
        self.get(name)
            .map(|text| parse(text).ok_or(ConnInfoError::Value { name, expected }))
            .transpose()
    }

    pub(super) fn client_certificate(&self) -> Result<Option<ClientCertificate>, ConnInfoError> {
        match (self.get("sslcert"), self.get("sslkey")) {
            (Some(certificate), Some(key)) => Ok(Some(ClientCertificate {
                certificate: PathBuf::from(certificate),
                key: PathBuf::from(key),
            })),
            (None, None) => Ok(None),
            (Some(_), None) => Err(ConnInfoError::Value {
                name: "sslkey",
                expected: "given together with sslcert",
            }),
            (None, Some(_)) => Err(ConnInfoError::Value {
                name: "sslcert",
                expected: "given together with sslkey",
            }),
        }
    }
}
