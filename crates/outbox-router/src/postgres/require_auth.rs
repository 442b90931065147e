//! libpq's `require_auth`: which methods of authentication the server may ask for.
//!
//! The meaning is libpq's (manual, section "Parameter Key Words"): a list says what the server must
//! use, a list of `!method` what it must not use, and `none` is a server that asks for nothing.
//! Methods that we do not have are legal words, so that one setting serves all clients of a server;
//! a server that then uses one of them is refused all the same.
//!
//! The setting can only forbid. `require_auth=password` does not send a password in clear text to a
//! server that was not verified.

use std::fmt;

use super::ConnInfoError;

/// A method of authentication, in libpq's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The password in clear text.
    Password,
    /// The password's salted MD5 hash.
    Md5,
    /// GSSAPI, which we do not have.
    Gss,
    /// Windows' own, which we do not have.
    Sspi,
    /// SCRAM-SHA-256, with channel binding where that can be had.
    ScramSha256,
    /// OAuth (PostgreSQL 18), which we do not have.
    Oauth,
    /// The server asks for nothing. A client certificate is no answer to a question: it belongs
    /// here.
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

    const fn word(self) -> &'static str {
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
        f.write_str(self.word())
    }
}

/// What the server may ask for. By default anything.
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
    /// An unknown word, one that comes twice, or a list in which some words have a `!` and some
    /// have none: libpq refuses the same.
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
            match Method::ALL.into_iter().find(|method| method.word() == word) {
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
            .map(Method::word)
            .collect()
    }

    #[test]
    fn a_list_says_what_is_allowed_and_a_negated_one_what_is_not() {
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
