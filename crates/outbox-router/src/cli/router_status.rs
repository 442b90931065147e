//! What a running router with this configuration says of itself.

use serde_json::Value;

use super::http;
use crate::config::Config;

/// The router's `/status.json`; `None` where no router of this slot answers.
pub(super) async fn read(config: &Config) -> Option<Value> {
    let body = http::get(config.admin.listen, "/status.json").await?;
    let router: Value = serde_json::from_str(&body).ok()?;
    follows(&router, config.postgres.slot.as_str()).then_some(router)
}

/// Whether the answer is about this slot: a router of another slot may listen at the same address.
/// An answer that names no slot counts.
fn follows(router: &Value, slot: &str) -> bool {
    let theirs = router.get("slot").and_then(|slot| slot.get("name")?.as_str());
    theirs.is_none_or(|theirs| theirs == slot)
}
