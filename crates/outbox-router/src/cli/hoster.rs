//! Who runs the server, where that decides which SQL a role needs.

use clap::ValueEnum;

/// Who runs the server, where that decides how a role gets the right to replicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Hoster {
    /// Nobody: the attribute REPLICATION, given by a superuser
    None,
    /// Amazon RDS and Aurora: membership in `rds_replication`, since nobody may give the attribute
    Rds,
    /// Google Cloud SQL: the attribute, given by a member of cloudsqlsuperuser
    Cloudsql,
    /// Azure Database for PostgreSQL: the attribute, given by a member of `azure_pg_admin`
    Azure,
}
