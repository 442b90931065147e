//! What is shipped beside the binary: the compose file parses, and says what it must.

use std::process::Command;

fn compose(arguments: &[&str]) -> String {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docker-compose.yml");
    let output = Command::new("docker-compose")
        .args(["-f", file])
        .args(arguments)
        .output()
        .expect("docker-compose is missing: scripts/install.sh test installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_compose_file_is_valid_and_has_all_four_services() {
    let mut services: Vec<String> =
        compose(&["config", "--services"]).lines().map(str::to_owned).collect();
    services.sort();
    assert_eq!(services, ["kafka", "postgres", "router", "setup"]);
}

#[test]
fn the_router_is_healthy_when_it_is_ready_and_the_database_decodes() {
    let config = compose(&["config"]);
    for needle in ["/readyz", "wal_level=logical", "stop_grace_period: 30s"] {
        assert!(config.contains(needle), "{needle} is not in\n{config}");
    }
}

#[test]
fn the_image_is_built_in_two_stages_and_checks_readiness() {
    let dockerfile =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Dockerfile")).unwrap();
    let stages = dockerfile.lines().filter(|line| line.starts_with("FROM ")).count();
    assert_eq!(stages, 2);
    assert!(dockerfile.contains("HEALTHCHECK") && dockerfile.contains("/readyz"));
}
