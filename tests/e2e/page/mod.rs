//! The page at `/` in a real browser: what a person sees who opens it in the night.

mod browser;
mod devtools;
mod screenshots;

use std::time::Duration;

use browser::{Browser, Scripts};
use e2e::{Fixture, SHORT_DEADLINE};
use serde_json::Value;
use testbed::kafka::KafkaOptions;
use testbed::load::Load;
use tokio::time::Instant;

/// Around the hash of the page's style.
const POLICY: (&str, &str) = (
    "default-src 'none'; style-src 'sha256-",
    "='; script-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);

fn url(fixture: &Fixture) -> String {
    format!("http://{}/", fixture.router.admin())
}

fn load() -> Load {
    Load { events_per_second: Some(50), ..Load::default() }
}

#[tokio::test]
async fn an_open_page_follows_a_broker_that_goes_and_comes_back() {
    let mut fixture = Fixture::builder().own_kafka(KafkaOptions::default()).start().await.unwrap();
    let running = fixture.load(load());
    let mut browser = Browser::start(Scripts::On).await.unwrap();
    browser.open(&url(&fixture)).await.unwrap();
    browser.wait_verdict("OK").await.unwrap();
    browser.wait("events", "document.querySelector('#topics td.number') !== null").await.unwrap();
    // It is gone when the page is loaded again.
    browser.evaluate("window.isTheSamePage = true").await.unwrap();

    let broker = fixture.kafka.owned().unwrap().broker(1).unwrap();
    broker.stop().await.unwrap();
    browser.wait_verdict("BLOCKED").await.unwrap();
    assert_eq!(browser.text("#verdict .meta li").await.unwrap(), "Kafka has to act");
    let blamed = browser.text(".node.is-blamed h3").await.unwrap();
    assert_eq!(blamed.trim(), "Kafka");
    let code = browser.text("#verdict .meta code").await.unwrap();
    assert!(code.starts_with('K'), "{code}");
    let to_do = browser.text("#to-do").await.unwrap();
    assert!(to_do.contains(&format!("outbox-router explain {code}")), "{to_do}");
    let title = browser.evaluate("document.title").await.unwrap();
    assert!(title.as_str().unwrap().starts_with("BLOCKED · "), "{title}");
    browser.wait("an age", "document.querySelector('#stuck .age') !== null").await.unwrap();
    let spoken = browser.text("#spoken").await.unwrap();
    assert!(spoken.starts_with("BLOCKED"), "{spoken}");
    let status = fixture.status().await.unwrap();
    assert_eq!(status["verdict"]["word"], "blocked");

    fixture.kafka.owned().unwrap().start_again().await.unwrap();
    browser.wait_verdict("OK").await.unwrap();
    // What waited for it is acknowledged a moment later.
    browser.wait("nobody", "document.querySelector('.node.is-blamed') === null").await.unwrap();
    let changes = browser.text("#timeline ol").await.unwrap();
    assert!(changes.contains("BLOCKED"), "{changes}");

    // A stream ends every few seconds and is opened again; nobody notices.
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(browser.evaluate("window.isTheSamePage").await.unwrap(), Value::Bool(true));
    assert_eq!(browser.evaluate("document.getElementById('lost').hidden").await.unwrap(), true);
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
    fixture.note(running.stop().await.unwrap());
}

#[tokio::test]
async fn without_scripts_the_first_paint_has_verdict_and_slot_and_comes_again() {
    let fixture = Fixture::builder().start().await.unwrap();
    let mut browser = Browser::start(Scripts::Off).await.unwrap();
    browser.open(&url(&fixture)).await.unwrap();
    assert!(!browser.text("h1").await.unwrap().is_empty());
    let slot = browser.text("#slot").await.unwrap();
    assert!(slot.contains("behind") && slot.contains("time to the limit"), "{slot}");
    let shown = "getComputedStyle(document.querySelector('.copy') ?? document.body).display";
    let buttons = browser.evaluate("document.querySelectorAll('.copy').length").await.unwrap();
    let display = browser.evaluate(shown).await.unwrap();
    assert!(buttons == 0 || display == "none", "a button that does nothing is shown");
    // The page refreshes itself.
    let first = browser.text("header time").await.unwrap();
    browser
        .wait(
            "another page",
            &format!("document.querySelector('header time')?.innerText !== {first:?}"),
        )
        .await
        .unwrap();
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}

#[tokio::test]
async fn the_page_is_small_strict_and_fits_a_phone() {
    let mut fixture = Fixture::builder().start().await.unwrap();
    let running = fixture.load(load());
    let mut browser = Browser::start(Scripts::On).await.unwrap();
    browser.resize(360, 740).await.unwrap();
    browser.open(&url(&fixture)).await.unwrap();
    browser.wait("events", "document.querySelector('#topics td.number') !== null").await.unwrap();

    let width = browser.evaluate("document.documentElement.scrollWidth").await.unwrap();
    assert_eq!(width, 360, "it scrolls sideways");
    let loaded = "performance.getEntriesByType('resource').map(entry => entry.name)";
    let loaded = browser.evaluate(loaded).await.unwrap();
    let mut bytes = 0;
    for path in ["/", "/page/script.js"] {
        bytes += fixture.router.get(path).await.unwrap().body.len();
        let script = format!(
            "fetch({path:?}).then(({{ headers }}) => ['content-security-policy', \
             'x-content-type-options', 'referrer-policy'].map(name => headers.get(name)))"
        );
        let headers = browser.evaluate(&script).await.unwrap();
        let headers = headers.as_array().unwrap();
        let policy = headers[0].as_str().unwrap();
        assert!(policy.starts_with(POLICY.0) && policy.ends_with(POLICY.1), "{policy}");
        assert_eq!(headers[1..], ["nosniff", "no-referrer"], "{path}");
    }
    let elsewhere = loaded.as_array().unwrap().iter().filter_map(Value::as_str);
    let elsewhere: Vec<&str> = elsewhere.filter(|name| !name.starts_with(&url(&fixture))).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
    // The first paint of a browser includes its own start; that of the next page does not.
    let times = "(() => {
        const [paint] = performance.getEntriesByName('first-contentful-paint');
        const [page] = performance.getEntriesByType('navigation');
        return paint && [page.responseEnd, paint.startTime].map(Math.round);
    })()";
    for _ in 0..5 {
        browser.wait("a paint", &format!("Array.isArray({times})")).await.unwrap();
        let times = browser.evaluate(times).await.unwrap();
        println!("page and first contentful paint after {times} ms");
        browser.open(&url(&fixture)).await.unwrap();
    }
    // What this browser needs on this machine for a page that is one word.
    for _ in 0..5 {
        browser.open("data:text/html,<p>one</p>").await.unwrap();
        browser.wait("a paint", &format!("Array.isArray({times})")).await.unwrap();
        println!("a page of one word after {} ms", browser.evaluate(times).await.unwrap());
    }
    browser.open(&url(&fixture)).await.unwrap();
    browser.wait("events", "document.querySelector('#topics td.number') !== null").await.unwrap();
    println!("{bytes} bytes in all");
    assert!(bytes < 100_000, "{bytes} bytes");

    // What the policy is there for.
    let inline = "new Promise(done => {
        document.addEventListener('securitypolicyviolation', event => done(event.blockedURI));
        const script = document.createElement('script');
        script.textContent = 'window.wasRun = true';
        document.body.append(script);
    })";
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
    assert_eq!(browser.evaluate(inline).await.unwrap(), "inline");
    browser.evaluate("1").await.unwrap();
    let is_refusal = |line: &&String| line.contains("Content Security Policy");
    assert!(browser.complaints().iter().any(|line| is_refusal(&line)), "the console says so");
    fixture.note(running.stop().await.unwrap());
}

#[tokio::test]
async fn a_page_without_a_router_says_that_it_has_no_answer() {
    let mut fixture = Fixture::builder().start().await.unwrap();
    let mut browser = Browser::start(Scripts::On).await.unwrap();
    browser.open(&url(&fixture)).await.unwrap();
    browser.wait("the script", "document.getElementById('spoken').innerText !== ''").await.unwrap();
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());

    fixture.kill_router().await.unwrap();
    browser.wait("the bar", "!document.getElementById('lost').hidden").await.unwrap();
    let lost = browser.text("#lost").await.unwrap();
    assert!(lost.contains("No answer from the router since "), "{lost}");
    let title = browser.evaluate("document.title").await.unwrap();
    assert!(title.as_str().unwrap().starts_with("NO ANSWER"), "{title}");

    fixture.restart().await.unwrap();
    browser.wait("an answer", "document.getElementById('lost').hidden").await.unwrap();
    // One that hangs says as little.
    fixture.router.pause().unwrap();
    browser.wait("the bar", "!document.getElementById('lost').hidden").await.unwrap();
    fixture.router.resume().unwrap();
    browser.wait("an answer", "document.getElementById('lost').hidden").await.unwrap();

    // An open page holds up no stop.
    let asked = Instant::now();
    fixture.router.sigterm().unwrap();
    let exit = fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    println!("stopped after {:?}", asked.elapsed());
    assert_eq!(exit.code(), Some(0));
}
