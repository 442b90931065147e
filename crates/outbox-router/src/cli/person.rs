//! Who decides and why, as it is recorded: in the witness by `accept`, in the table of decisions by
//! `dead-letters` and `skip`.

use std::{fs, os::unix::fs::MetadataExt as _};

use crate::config::Environment;

/// `user@host`, as far as the environment and the system say.
pub(super) fn current(environment: &Environment) -> String {
    let named = ["SUDO_USER", "USER", "LOGNAME"].into_iter().find_map(|name| environment.get(name));
    let user = named.map_or_else(user, str::to_owned);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = environment.get("HOSTNAME").unwrap_or_else(|| host.trim());
    format!("{user}@{host}")
}

/// The user that owns this process: the name from `/etc/passwd`, else the uid.
fn user() -> String {
    let Ok(process) = fs::metadata("/proc/self") else { return "unknown".to_owned() };
    let uid = process.uid().to_string();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut users = users.lines().map(|line| line.split(':'));
    let name = users.find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| format!("uid {uid}"))
}

/// Reads `--by`. The name is shown in logs and on terminals, so it must not hold control
/// characters.
pub(super) fn parse(text: &str) -> Result<String, &'static str> {
    const LENGTH_MAX: usize = 100;
    if text.trim().is_empty() || text.len() > LENGTH_MAX || text.chars().any(char::is_control) {
        return Err("write a name of 1 to 100 characters, none of them a control character");
    }
    Ok(text.trim().to_owned())
}

/// Reads `--reason`, which is shown on terminals, so it must not hold control characters.
pub(super) fn reason(text: &str) -> Result<String, &'static str> {
    const LENGTH_MAX: usize = 1_000;
    if text.trim().is_empty() || text.len() > LENGTH_MAX || text.chars().any(char::is_control) {
        return Err("write 1 to 1,000 characters, none of them a control character");
    }
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_is_written_as_a_reason() {
        assert_eq!(reason(" because "), Ok("because".to_owned()));
        assert!(reason("a\nb").is_err() && reason(" ").is_err());
    }
}
