//! What is shipped beside the binary: compose file, image and systemd unit parse, and say what they
//! must. No container is started: what the files name is tried one by one.

#![expect(clippy::unwrap_used, reason = "in the helpers of a test, too, what is missing fails it")]

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    path::Path,
    process::Command,
    thread,
};

use outbox_router::{cli::Exit, config::Config};

fn file(name: &str) -> String {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    std::fs::read_to_string(root.join(name)).unwrap()
}

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

/// The instructions of the image's last stage, in order, with lines that go on joined.
fn image() -> Vec<(String, String)> {
    let text = file("Dockerfile").replace("\\\n", " ");
    let instructions = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (name, arguments) = line.split_once(' ')?;
        Some((name.to_owned(), arguments.trim().to_owned()))
    });
    let mut stages: Vec<Vec<_>> = Vec::new();
    for (name, arguments) in instructions {
        if name == "FROM" {
            stages.push(Vec::new());
        }
        stages.last_mut().unwrap().push((name, arguments));
    }
    assert_eq!(stages.len(), 2, "one stage compiles, one runs");
    stages.pop().unwrap()
}

fn instruction(name: &str) -> String {
    let found: Vec<String> =
        image().into_iter().filter(|(known, _)| known == name).map(|(_, it)| it).collect();
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    found.into_iter().next().unwrap()
}

/// The values of a key of the systemd unit.
fn unit(section: &str, key: &str) -> Vec<String> {
    let text = file("config/systemd/outbox-router.service");
    let mut here = "";
    let mut values = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(name) => here = name,
            None => {
                let (name, value) = line.split_once('=').unwrap();
                if (here, name) == (section, key) {
                    values.push(value.to_owned());
                }
            }
        }
    }
    values
}

#[test]
fn the_compose_file_is_valid_and_has_all_four_services() {
    let mut services: Vec<String> =
        compose(&["config", "--services"]).lines().map(str::to_owned).collect();
    services.sort();
    assert_eq!(services, ["kafka", "postgres", "router", "setup"]);
    let config = compose(&["config"]);
    for needle in ["wal_level=logical", "stop_grace_period: 30s", "no-new-privileges:true"] {
        assert!(config.contains(needle), "{needle} is not in\n{config}");
    }
    assert_eq!(config.matches("read_only: true").count(), 2, "{config}");
}

/// A broker tells clients where to connect, so a host that is only known in the network would keep
/// programs on this machine out.
#[test]
fn kafka_can_be_reached_from_the_network_and_from_this_machine() {
    let config = compose(&["config"]);
    let line = |name: &str| {
        let found = config.lines().find_map(|line| line.trim().strip_prefix(name));
        found.unwrap_or_else(|| panic!("{name} is not in\n{config}")).trim().to_owned()
    };
    let listeners = line("KAFKA_LISTENERS:");
    let advertised = line("KAFKA_ADVERTISED_LISTENERS:");
    for (name, port, at) in
        [("NETWORK", "19092", "kafka:19092"), ("HOST", "9092", "127.0.0.1:9092")]
    {
        assert!(listeners.contains(&format!("{name}://:{port}")), "{listeners}");
        assert!(advertised.contains(&format!("{name}://{at}")), "{advertised}");
    }
    assert_eq!(line("KAFKA_INTER_BROKER_LISTENER_NAME:"), "NETWORK");
    assert!(config.contains("- 127.0.0.1:9092:9092"), "{config}");
    assert_eq!(config.matches("OUTBOX_ROUTER__KAFKA__BOOTSTRAP_SERVERS: kafka:19092").count(), 2);
}

#[test]
fn the_composed_router_is_no_superuser() {
    let config = compose(&["config"]);
    let url = "OUTBOX_ROUTER__POSTGRES__URL: postgres://outbox_router:";
    assert_eq!(config.matches(url).count(), 2, "{config}");
    let administrator = config.matches("postgres://postgres:postgres@").count();
    assert_eq!(administrator, 1, "setup alone connects as the superuser: {config}");
    assert!(config.contains("- --role\n    - outbox_router\n    - --admin-url\n"), "{config}");
}

#[test]
fn the_image_runs_as_a_number_and_exposes_where_it_listens() {
    let (user, group) =
        instruction("USER").split_once(':').map(|(u, g)| (u.parse(), g.parse())).unwrap();
    let (user, group): (u32, u32) = (user.unwrap(), group.unwrap());
    assert!(user >= 1_000 && group >= 1_000, "{user}:{group} belongs to the system");
    let listen = instruction("ENV");
    let address = listen.strip_prefix("OUTBOX_ROUTER__ADMIN__LISTEN=").unwrap();
    let address: std::net::SocketAddr = address.parse().unwrap();
    assert!(address.ip().is_unspecified(), "{address}");
    assert_eq!(instruction("EXPOSE"), address.port().to_string());
    let installed = instruction("RUN");
    assert!(!installed.contains("curl") && !installed.contains("useradd"), "{installed}");
}

/// Runs the image's own command against something that answers so.
fn is_healthy(answer: Option<&'static str>) -> bool {
    is_healthy_at("0.0.0.0", "127.0.0.1", answer)
}

/// The same, where the router listens on such an address.
fn is_healthy_at(listen: &str, bound: &str, answer: Option<&'static str>) -> bool {
    let health = instruction("HEALTHCHECK");
    let (_, command) = health.split_once("CMD ").unwrap();
    let command: Vec<String> = serde_json::from_str(command).unwrap();
    let listener = TcpListener::bind(format!("{bound}:0")).unwrap();
    let listen = format!("{listen}:{}", listener.local_addr().unwrap().port());
    let server = answer.map(|answer| {
        thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                client.read_exact(&mut byte).unwrap();
                asked.extend(byte);
            }
            client.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(asked).unwrap()
        })
    });
    let (program, arguments) = command.split_first().unwrap();
    let mut asking = Command::new(program);
    asking.args(arguments).env("OUTBOX_ROUTER__ADMIN__LISTEN", listen);
    let output = asking.output().unwrap();
    if let Some(server) = server {
        assert_eq!(server.join().unwrap(), "GET /livez HTTP/1.0\r\n\r\n");
    }
    output.status.success()
}

#[test]
fn the_images_health_is_whether_the_routers_tasks_run() {
    assert!(is_healthy(Some("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")));
    assert!(!is_healthy(Some("HTTP/1.1 503 Service Unavailable\r\n\r\n")));
    assert!(!is_healthy(Some("")));
    assert!(!is_healthy(None));
}

#[test]
fn the_images_health_is_asked_where_the_variable_says() {
    const WELL: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    for (listen, bound) in [("127.0.0.1", "127.0.0.1"), ("127.0.0.2", "127.0.0.2")] {
        assert!(is_healthy_at(listen, bound, Some(WELL)), "{listen}");
    }
    for listen in ["[::]", "[::1]"] {
        let bound = if listen == "[::]" { "127.0.0.1" } else { "[::1]" };
        if TcpListener::bind(format!("{bound}:0")).is_ok() {
            assert!(is_healthy_at(listen, bound, Some(WELL)), "{listen}");
        }
    }
}

#[test]
fn systemd_understands_the_unit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("outbox-router.service");
    let text = file("config/systemd/outbox-router.service");
    // The program that the unit names is not installed here.
    std::fs::write(&path, text.replace("/usr/local/bin/outbox-router", "/bin/true")).unwrap();
    let analyze = |arguments: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        let output = command.args(arguments).arg(&path).output();
        output.expect("systemd-analyze is missing: scripts/install.sh test installs it")
    };
    let verified = analyze(&["verify", "--man=no"]);
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && !said.contains("outbox-router"), "{said}");
    // systemd's own measure of what a broken service could reach: 10 is everything.
    let security = analyze(&["security", "--offline=yes", "--threshold=20"]);
    assert!(security.status.success(), "{}", String::from_utf8_lossy(&security.stdout));
}

#[test]
fn the_unit_leaves_time_to_drain_and_does_not_repeat_a_bad_configuration() {
    let one = |key: &str| {
        let values = unit("Service", key);
        assert_eq!(values.len(), 1, "{key}: {values:?}");
        values.into_iter().next().unwrap()
    };
    assert_eq!(one("Type"), "notify");
    let stop: u64 = one("TimeoutStopSec").trim_end_matches('s').parse().unwrap();
    let drain = Config::default().limits.shutdown.as_secs();
    assert!(stop >= drain + 5, "{stop} s for a drain of {drain} s");
    let prevented: Vec<u8> =
        one("RestartPreventExitStatus").split(' ').map(|code| code.parse().unwrap()).collect();
    assert_eq!(prevented, [Exit::Usage.code(), Exit::Configuration.code()]);
    assert_eq!(one("DynamicUser"), "yes");
    assert!(one("LoadCredential").starts_with("postgres-password:"));
    // Names are looked up, and both servers may be at a socket.
    assert_eq!(one("RestrictAddressFamilies"), "AF_INET AF_INET6 AF_UNIX");
}
