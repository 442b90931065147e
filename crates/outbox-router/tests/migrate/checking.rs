//! Whether `check` takes what comes out.

use std::{ffi::OsString, fs};

use outbox_router::{
    config::{self, Environment},
    prepare,
};

/// Checks a configuration as the command does.
pub(crate) fn expect_checked(name: &str, toml: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("outbox-router.toml");
    fs::write(&file, toml).expect("a file");
    let environment = environment(toml);
    let loaded = config::load(Some(&file), &environment, &[])
        .unwrap_or_else(|errors| panic!("{name}: {errors}\n{toml}"));
    prepare::check(&loaded, &environment)
        .unwrap_or_else(|errors| panic!("{name}: {errors}\n{toml}"));
}

/// Every variable that the file refers to, and those of libpq that it leaves to the environment.
fn environment(toml: &str) -> Environment {
    let referred = toml.split("${env:").skip(1).filter_map(|rest| rest.split_once('}'));
    let value = |name: &str| if name.contains("PORT") { "5432" } else { "some" };
    let referred = referred.map(|(name, _)| (name, value(name)));
    let libpq = [("PGHOST", "db.example"), ("PGUSER", "router"), ("PGDATABASE", "shop")];
    let all = referred.chain(libpq);
    Environment::new(all.map(|(name, value)| (OsString::from(name), OsString::from(value))))
}
