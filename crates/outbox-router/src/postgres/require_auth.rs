//! libpq's `require_auth`: which methods of authentication the server may ask for.
//!
//! The meaning is libpq's (manual, section "Parameter Key Words"): a list names the methods of
//! which the server must use one, a list of `!method` those that it must not use, and `none` stands
//! for a server that asks for nothing. Methods that are not implemented here may be named, so that
//! one setting serves all clients of a server; a server that uses one of them is refused in any
//! case.
//!
//! The setting can only forbid. `require_auth=password` does not make this router send a password
//! in clear text to a server that was not verified.

use std::fmt;

use super::ConnInfoError;

/// A method of authentication, in libpq's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The password in clear text.
    Password,
    /// The password's salted MD5 hash.
    Md5,
    /// GSSAPI, which is not implemented here.
    Gss,
    /// SSPI of Windows, which is not implemented here.
    Sspi,
    /// SCRAM-SHA-256, with channel binding where both sides can.
    ScramSha256,
    /// OAuth (PostgreSQL 18), which is not implemented here.
    Oauth,
    /// The server asks for nothing. Authentication by a client certificate belongs here: TLS
    /// carries the certificate, and the server asks for nothing else.
    None,
}

impl Method {
    const ALL: [Self; 7] = [
        Self::Password,
        Self::Md5,
        Self::Gss,
        Self::Sspi,
        Self::ScramSha256,
        Self::Oauth,
        Self::None,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Md5 => "md5",
            Self::Gss => "gss",
            Self::Sspi => "sspi",
            Self::ScramSha256 => "scram-sha-256",
            Self::Oauth => "oauth",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The methods that the server may ask for; by default all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequireAuth {
    /// One of these.
    OneOf(Vec<Method>),
    /// Anything but these.
    NoneOf(Vec<Method>),
}

impl Default for RequireAuth {
    fn default() -> Self {
        Self::NoneOf(Vec::new())
    }
}

impl RequireAuth {
    /// Reads a list such as `scram-sha-256,none` or `!password,!md5`.
    ///
    /// # Errors
    /// [`ConnInfoError::Value`] for an unknown word, a word that comes twice, or a list in which
    /// only some words have a `!`: libpq refuses the same.
    pub fn parse(text: &str) -> Result<Self, ConnInfoError> {
        let refused = ConnInfoError::Value {
            name: "require_auth",
            expected: "a comma-separated list of password, md5, gss, sspi, scram-sha-256, oauth and none, each at most once, and either all or none of them with a ! in front",
        };
        let negated = text.starts_with('!');
        let mut methods = Vec::new();
        for word in text.split(',') {
            let word = match (negated, word.strip_prefix('!')) {
                (true, Some(word)) => word,
                (false, None) => word,
                (true, None) | (false, Some(_)) => return Err(refused),
            };
            match Method::ALL.into_iter().find(|method| method.as_str() == word) {
                Some(method) if !methods.contains(&method) => methods.push(method),
                Some(_) | None => return Err(refused),
            }
        }
        Ok(if negated { Self::NoneOf(methods) } else { Self::OneOf(methods) })
    }

    /// Whether the server may use this method.
    #[must_use]
    pub fn allows(&self, method: Method) -> bool {
        match self {
            Self::OneOf(methods) => methods.contains(&method),
            Self::NoneOf(methods) => !methods.contains(&method),
        }
    }
}

impl fmt::Display for RequireAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, methods) = match self {
            Self::OneOf(methods) => ("", methods),
            Self::NoneOf(methods) => ("!", methods),
        };
        let words: Vec<String> = methods.iter().map(|method| format!("{sign}{method}")).collect();
        f.write_str(&words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(text: &str) -> Vec<&'static str> {
        let require_auth = RequireAuth::parse(text).unwrap();
        assert_eq!(require_auth.to_string(), text);
        Method::ALL
            .into_iter()
            .filter(|method| require_auth.allows(*method))
            .map(Method::as_str)
            .collect()
    }

    #[test]
    fn a_list_names_what_is_allowed_and_a_negated_one_what_is_not() {
        assert_eq!(allowed("scram-sha-256"), ["scram-sha-256"]);
        assert_eq!(allowed("none,md5"), ["md5", "none"]);
        assert_eq!(allowed("gss,sspi,oauth"), ["gss", "sspi", "oauth"]);
        assert_eq!(allowed("!none"), ["password", "md5", "gss", "sspi", "scram-sha-256", "oauth"]);
        assert_eq!(allowed("!password,!md5"), ["gss", "sspi", "scram-sha-256", "oauth", "none"]);
        assert!(Method::ALL.into_iter().all(|method| RequireAuth::default().allows(method)));
    }

    #[test]
    fn what_libpq_refuses_is_refused() {
        for text in [
            "scram",
            "SCRAM-SHA-256",
            "md5,",
            ",md5",
            "md5,,none",
            "md5, none",
            "md5,!none",
            "!md5,none",
            "!!md5",
            "!",
            "md5,md5",
            "!md5,!md5",
            "any",
        ] {
            let error = RequireAuth::parse(text).unwrap_err();
            assert!(matches!(error, ConnInfoError::Value { name: "require_auth", .. }), "{text}");
        }
    }
}
