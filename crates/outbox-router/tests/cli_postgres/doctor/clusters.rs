//! Faults of a cluster of two brokers, and of what encrypts the connections to both servers.
//!
//! The certificate is that of a name which is no loopback address, since nothing is asked of a
//! connection that stays on the machine. It leads there all the same: 0x7f000001 is 127.0.0.1.

use rcgen::{CertificateParams, KeyPair};
use testbed::{
    kafka::{KafkaCluster, KafkaOptions},
    postgres::{DATABASE, PostgresOptions, PostgresServer},
    proxy::Proxy,
};

use super::{
    ledger::Ledger,
    pair::TOPIC,
    place::{Place, STATE},
};

pub(super) const CODES: &[&str] = &["D031", "D035", "D043", "D044"];

/// A state topic on the broker that is stopped.
const LONELY: &str = "lonely.state";

const NAME: &str = "0x7f000001";

#[tokio::test]
pub(super) async fn each_fault_of_a_cluster_and_of_encryption_is_named_by_its_code_alone() {
    let ledger = Ledger::default();
    // The brokers' second listener is the one that wants credentials.
    let ways = [(); 2].map(|()| Proxy::start("127.0.0.1:1").expect("a proxy"));
    let options = KafkaOptions::default()
        .brokers(2)
        .advertise(ways[0].address())
        .advertise(ways[1].address())
        .set(
            "listener.security.protocol.map",
            "CONTROLLER:PLAINTEXT,DIRECT:PLAINTEXT,PROXIED:SASL_PLAINTEXT",
        )
        .set("sasl.enabled.mechanisms", "PLAIN")
        .set(
            "listener.name.proxied.plain.sasl.jaas.config",
            "org.apache.kafka.common.security.plain.PlainLoginModule required \
             user_router=\"secret\";",
        );
    let mut kafka = KafkaCluster::start(options).await.expect("Kafka");
    for (id, way) in [1, 2].into_iter().zip(&ways) {
        way.set_target(kafka.broker(id).and_then(|one| one.proxied_address()).expect("a listener"));
    }
    kafka.create_replicated_topic(TOPIC, &[&[1, 2]]).await.expect("a topic");
    kafka.create_replicated_topic(STATE, &[&[1, 2]]).await.expect("a topic");
    kafka.set_topic(STATE, &[("cleanup.policy", "compact")]).await.expect("set");
    let postgres = PostgresOptions::version(15).set("max_slot_wal_keep_size", "10GB");
    let mut postgres = PostgresServer::start(postgres).await.expect("a server");
    let place = Place::new(&ledger, &postgres.address(), DATABASE, &kafka.bootstrap());
    place.set_up().await;
    place.expect_nothing("two brokers", &[]).await;

    let secured = ways.each_ref().map(Proxy::address).join(",");
    credentials(&place, &secured).await;
    certificate(&mut postgres, &place).await;

    kafka.create_replicated_topic("outbox.event.single", &[&[2]]).await.expect("a topic");
    let found = place.expect("D031", &[]).await;
    assert!(found.remedy("D031").contains(r#""replicas":[2,1]"#), "{found:?}");
    kafka.create_replicated_topic(LONELY, &[&[2]]).await.expect("a topic");
    kafka.set_topic(LONELY, &[("cleanup.policy", "compact")]).await.expect("set");
    kafka.broker(2).expect("a broker").stop().await.expect("stopped");
    place.expect("D035", &[]).await;
    // What cannot be read is not missing.
    kafka.delete_topic("outbox.event.single").await.expect("deleted");
    let state = format!("kafka.state_topic={LONELY}");
    let found = place.expect("D035", &["--set", &state]).await;
    assert!(found.finding("D035").to_string().contains(LONELY), "{found:?}");
    ledger.assert_proved(CODES);
}

/// The same password on a listener that encrypts nothing.
async fn credentials(place: &Place<'_>, servers: &str) {
    let settings = [
        format!("kafka.bootstrap_servers={servers}"),
        "kafka.properties.security.protocol=SASL_PLAINTEXT".to_owned(),
        "kafka.properties.sasl.mechanism=PLAIN".to_owned(),
        "kafka.properties.sasl.username=router".to_owned(),
        "kafka.properties.sasl.password=secret".to_owned(),
    ];
    let words: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    place.expect("D044", &words).await;
    let words: Vec<&str> = words
        .into_iter()
        .map(
            |word| {
                if word.ends_with("=secret") { "kafka.properties.sasl.password=x" } else { word }
            },
        )
        .collect();
    let found = place.doctor(&words).await;
    assert!(found.serious().contains("K002"), "the password is asked for: {found:?}");
}

async fn certificate(server: &mut PostgresServer, place: &Place<'_>) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![NAME.to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    let file = server.write_file("server.pem", certificate.as_bytes()).expect("written");
    server.write_file("server.key", key.serialize_pem().as_bytes()).expect("written");
    server
        .set(&[("ssl_cert_file", "server.pem"), ("ssl_key_file", "server.key"), ("ssl", "on")])
        .await
        .expect("set");
    let host = format!("{NAME}:{}", server.port());
    place.by(&host, "?sslmode=require").expect("D043", &[]).await;
    let verified = format!("?sslmode=verify-full&sslrootcert={}", file.display());
    place.by(&host, &verified).expect_nothing("the certificate is verified", &[]).await;
}
