//! The supported parameters and their values: from the connection string first, then from the
//! environment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::names::{PARAMETERS, instead_of};
use super::variables::{Treatment, VARIABLES};
use super::{ClientCertificate, ConnInfoError, parse};

/// Returns the value of an environment variable.
pub type VariableLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Parameter values by name, from the string and the environment.
pub(super) struct Values(BTreeMap<&'static str, String>);

impl Values {
    pub(super) fn collect(
        text: Option<&str>,
        env: VariableLookup<'_>,
    ) -> Result<Self, ConnInfoError> {
        let mut values = BTreeMap::new();
        for (name, value) in text.map(parse::pairs).transpose()?.unwrap_or_default() {
            let known = PARAMETERS.iter().find(|parameter| **parameter == name);
            let Some(known) = known else {
                return Err(instead_of(&name)
                    .map_or(ConnInfoError::Unknown { name }, |(name, instead)| {
                        ConnInfoError::Unsupported { name, instead }
                    }));
            };
            values.insert(*known, value);
        }
        values.retain(|_, value| !value.is_empty());
        for variable in &VARIABLES {
            let Some(value) = env(variable.name).filter(|value| !value.is_empty()) else {
                continue;
            };
            match variable.treatment {
                Treatment::Parameter(parameter) => {
                    values.entry(parameter).or_insert(value);
                }
                Treatment::Refused => return Err(ConnInfoError::Variable(variable.name)),
                Treatment::Ignored { .. } => {}
            }
        }
        // A zero byte would end the value on the wire, and what follows would be lost without an
        // error.
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
