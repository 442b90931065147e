//! What the router's role may not read, and what to type so that it may.

/// A view or function that the role may not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// Its name, such as `pg_ls_waldir`.
    pub object: &'static str,
    /// What is not known without it.
    pub hides: &'static str,
    /// The statement that gives the right, for a superuser or an administrator of that role.
    pub grant: String,
}
