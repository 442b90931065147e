//! `sasl.jaas.config`: the user and the password of a login module that librdkafka knows.

/// What the line says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) username: String,
    pub(super) password: String,
}

/// Reads the line of PLAIN or SCRAM.
///
/// # Errors
/// The name of another login module, or what is missing.
pub(super) fn read(line: &str) -> Result<Login, String> {
    let module = line.split_whitespace().next().unwrap_or_default();
    let short = module.rsplit('.').next().unwrap_or_default();
    if !matches!(short, "PlainLoginModule" | "ScramLoginModule") {
        let named = if short.is_empty() { "no login module" } else { short };
        return Err(format!(
            "{named}: of SASL's login modules, PLAIN's and SCRAM's are translated"
        ));
    }
    match (option(line, "username"), option(line, "password")) {
        (Some(username), Some(password)) => Ok(Login { username, password }),
        _ => Err("it has no username and password".to_owned()),
    }
}

/// The value of `name="value"`, in either kind of quotes; a backslash escapes.
fn option(line: &str, name: &str) -> Option<String> {
    let start = line.match_indices(name).find_map(|(at, _)| {
        let before = line.get(..at)?.chars().next_back()?;
        let rest = line.get(at + name.len()..)?.trim_start().strip_prefix('=')?.trim_start();
        before.is_whitespace().then_some(rest)
    })?;
    let quote = start.chars().next().filter(|c| matches!(c, '"' | '\''));
    let mut value = String::new();
    let mut chars = start.chars().skip(usize::from(quote.is_some()));
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', _) => value.extend(chars.next()),
            (c, Some(quote)) if c == quote => return Some(value),
            (c, None) if c.is_whitespace() || c == ';' => break,
            (c, _) => value.push(c),
        }
    }
    quote.is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_read() {
        let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required \
                     username=\"u\" password=\"a\\\"b;c\";";
        let login = Login { username: "u".to_owned(), password: "a\"b;c".to_owned() };
        assert_eq!(read(scram), Ok(login));
        let plain = "x.PlainLoginModule required username='u' password='p' ;";
        assert_eq!(read(plain).unwrap().password, "p");
    }

    #[test]
    fn another_module_is_named_and_the_password_is_not() {
        let kerberos = read("com.sun.security.auth.module.Krb5LoginModule required x=1;");
        assert!(kerberos.unwrap_err().starts_with("Krb5LoginModule: "));
        let half = read("x.PlainLoginModule required password=\"canary\";").unwrap_err();
        assert!(!half.contains("canary"), "{half}");
    }
}
