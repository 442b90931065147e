//! What a running router with this configuration says of itself.

use serde_json::Value;

use super::http;
use crate::config::{Config, SourceKind};

/// Who answers at `admin.listen`.
pub(super) enum Answer {
    /// Nobody, or nobody who speaks of a state.
    Nobody,
    /// The router of this configuration.
    Own(Value),
    /// A router of another pipeline, slot or database.
    Other(Other),
}

/// Another router than the one that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Other {
    /// What differs, in a person's words.
    pub(super) is: String,
}

/// Asks whoever listens. `database` is the one that the configuration names, where the caller knows
/// it.
pub(super) async fn ask(config: &Config, database: Option<&str>) -> Answer {
    let body = http::get(config.admin.listen, "/status.json").await;
    let router = body.and_then(|body| serde_json::from_str(&body).ok());
    let Some(router) = router.filter(Value::is_object) else { return Answer::Nobody };
    let own = config.postgres.source.as_str();
    let wanted = [
        ("pipeline", Some(config.name.as_str()), text(&router, "/name")),
        (
            "slot",
            Some(config.postgres.slot.as_str()),
            text(&router, "/slot_name").or_else(|| text(&router, "/slot/name")),
        ),
        ("database", database, text(&router, "/slot/database")),
        ("source", Some(own), Some(source(&router)).filter(|source| *source != own)),
    ];
    // What an answer does not name counts as the own.
    let differs = |ours: Option<&str>, theirs: Option<&str>| {
        ours.zip(theirs).is_some_and(|(ours, theirs)| ours != theirs)
    };
    if !wanted.iter().any(|(_, ours, theirs)| differs(*ours, *theirs)) {
        return Answer::Own(router);
    }
    let named =
        wanted.iter().filter_map(|(what, _, theirs)| Some(format!("{what} {}", (*theirs)?)));
    Answer::Other(Other { is: named.collect::<Vec<_>>().join(", ") })
}

/// The router's `/status.json`; `None` where no router of this configuration answers.
pub(super) async fn read(config: &Config) -> Option<Value> {
    match ask(config, None).await {
        Answer::Own(router) => Some(router),
        Answer::Nobody | Answer::Other(_) => None,
    }
}

/// Where the router's rows come from. The document of one that follows a slot does not name it.
fn source(router: &Value) -> &str {
    text(router, "/source").unwrap_or(SourceKind::Stream.as_str())
}

fn text<'r>(router: &'r Value, path: &str) -> Option<&'r str> {
    router.pointer(path)?.as_str()
}
