//! The role that the router runs as. Where a hoster runs PostgreSQL, nobody is a superuser, and the
//! right to replicate is given in the hoster's own way.

use std::io;

use postgres_protocol::password::scram_sha_256;
use relay::{Code, Failure, Name};
use tokio_postgres::Client;

use super::TaskError;
use crate::{
    cli::{hoster::Hoster, sql},
    postgres::Password,
    shell_word::shell_word,
};

/// The hoster whose own roles the server has.
async fn hoster_of(client: &Client) -> Result<Hoster, TaskError> {
    let query = "select rolname::text from pg_roles where rolname in \
                 ('rds_replication', 'cloudsqlsuperuser', 'azure_pg_admin') limit 1";
    let found = client.query_opt(query, &[]).await?;
    let name: Option<String> = found.map(|row| row.try_get(0)).transpose()?;
    Ok(match name.as_deref() {
        Some("rds_replication") => Hoster::Rds,
        Some("cloudsqlsuperuser") => Hoster::Cloudsql,
        Some("azure_pg_admin") => Hoster::Azure,
        Some(_) | None => Hoster::None,
    })
}

/// Refuses to grant anything to a role that does not exist, and says what makes it.
///
/// # Errors
/// It does not exist.
pub(super) async fn check_exists(client: &Client, role: &str) -> Result<(), TaskError> {
    match presence(client, role).await? {
        RolePresence::There => Ok(()),
        RolePresence::Missing => {
            let what = format!("the role {role}, as which the router connects, does not exist");
            let failure = Failure::new(Code::AuthenticationFailed, what);
            Err(failure.naming(Name::Role, shell_word(role)).into())
        }
    }
}

/// Whether a role exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RolePresence {
    There,
    Missing,
}

/// Whether the role exists.
pub(super) async fn presence(client: &Client, role: &str) -> Result<RolePresence, TaskError> {
    let found = client.query_opt("select from pg_roles where rolname = $1", &[&role]).await?;
    Ok(if found.is_some() { RolePresence::There } else { RolePresence::Missing })
}

/// What a role is given, in words.
const fn right(hoster: Hoster) -> &'static str {
    match hoster {
        Hoster::Rds => "is a member of rds_replication",
        Hoster::None | Hoster::Cloudsql | Hoster::Azure => "may replicate",
    }
}

/// Makes the role, or gives an existing one what it lacks. Without a hoster's name the server's own
/// roles tell. A new role gets the password with which the router will log in; that of an existing
/// one is left alone, since others may use it.
pub(super) async fn make(
    client: &Client,
    (role, password): (&str, Option<&Password>),
    hoster: Option<Hoster>,
    out: &mut (dyn io::Write + Send),
) -> Result<(), TaskError> {
    let hoster = match hoster {
        Some(named) => named,
        None => hoster_of(client).await?,
    };
    let query = "select r.rolcanlogin, r.rolreplication, r.rolsuper, \
                 exists (select from pg_roles m where m.rolname = 'rds_replication' \
                   and pg_has_role(r.oid, m.oid, 'member')) \
                 from pg_roles r where r.rolname = $1";
    let database: String =
        client.query_one("select current_database()::text", &[]).await?.try_get(0)?;
    let right = right(hoster);
    match client.query_opt(query, &[&role]).await? {
        None => {
            let mut statements = sql::create_role(role, hoster);
            // Not the password itself, which the server's log might show.
            let verifier = password.map(|it| scram_sha_256(it.expose()));
            statements.extend(verifier.iter().map(|verifier| sql::set_password(role, verifier)));
            client.batch_execute(&statements.join("; ")).await?;
            let member = match hoster {
                Hoster::Rds => format!(", {right}"),
                Hoster::None | Hoster::Cloudsql | Hoster::Azure => String::new(),
            };
            match verifier {
                Some(_) => {
                    writeln!(out, "role {role}: created with the password of the router{member}")?;
                }
                None => writeln!(
                    out,
                    "role {role}: created without a password{member}; in psql: \\password {role}"
                )?,
            }
        }
        Some(row) => {
            let attribute: bool = row.try_get(1)?;
            let member: bool = row.try_get(3)?;
            let replicates = match hoster {
                Hoster::Rds => member,
                Hoster::None | Hoster::Cloudsql | Hoster::Azure => attribute,
            };
            if row.try_get(0)? && replicates {
                let remark = if row.try_get(2)? {
                    "; it is a superuser, which is more than it needs"
                } else {
                    ""
                };
                let right = right.replacen("may replicate", "may log in and replicate", 1);
                writeln!(out, "role {role}: exists already, {right}{remark}")?;
            } else {
                client.batch_execute(&sql::alter_role(role, hoster).join("; ")).await?;
                let right = match hoster {
                    Hoster::Rds => "may now log in and is a member of rds_replication",
                    Hoster::None | Hoster::Cloudsql | Hoster::Azure => {
                        "may now log in and replicate"
                    }
                };
                writeln!(out, "role {role}: exists already, {right}")?;
            }
        }
    }
    client.batch_execute(&sql::grant_connect(&database, role)).await?;
    Ok(())
}
