//! Which names of topics a table's template can make.

/// Whether a template makes this name, of some row: what stands between its placeholders is there,
/// in its order. A placeholder is `${name}`, or a group of a `route_regex`: `$1`.
pub(super) fn may_make(template: &str, name: &str) -> bool {
    let mut texts = Vec::new();
    let mut rest = template;
    while let Some((text, after)) = rest.split_once('$') {
        texts.push(text);
        rest = match after.strip_prefix('{') {
            Some(name) => name.split_once('}').map_or("", |(_, behind)| behind),
            None => after.trim_start_matches(|one: char| one.is_ascii_digit()),
        };
    }
    let Some((first, between)) = texts.split_first() else { return template == name };
    let Some(mut name) = name.strip_prefix(first).and_then(|name| name.strip_suffix(rest)) else {
        return false;
    };
    for text in between {
        // A placeholder may be filled with nothing.
        let Some((_, behind)) = name.split_once(text) else { return false };
        name = behind;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_makes_the_names_that_have_its_texts() {
        assert!(may_make("orders", "orders") && !may_make("orders", "orders2"));
        assert!(may_make("outbox.event.${aggregate_type}", "outbox.event.order"));
        assert!(may_make("outbox.event.${aggregate_type}", "outbox.event."));
        assert!(!may_make("outbox.event.${aggregate_type}", "other.event.order"));
        assert!(may_make("${tenant}.${aggregate_type}.v1", "a.b.v1"));
        assert!(!may_make("${tenant}.${aggregate_type}.v1", "a.v1"));
        assert!(may_make("${tenant}.${aggregate_type}.v1", ".b.v1"));
        assert!(may_make("events${suffix}", "events") && !may_make("events${suffix}", "event"));
        assert!(may_make("rg.$1", "rg.order") && !may_make("rg.$1", "r.order"));
        assert!(may_make("rg.$1-$12.v1", "rg.a-b.v1") && !may_make("rg.$1-$12.v1", "rg.a.b.v1"));
        assert!(may_make("${aggregate_type}", "anything"));
    }
}
