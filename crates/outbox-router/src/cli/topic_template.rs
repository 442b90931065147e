//! Which names of topics a table's template can make.

/// Whether a template makes this name, of some row: what stands between its placeholders is there,
/// in its order.
pub(super) fn may_make(template: &str, name: &str) -> bool {
    let mut texts = Vec::new();
    let mut rest = template;
    while let Some((text, after)) = rest.split_once("${") {
        texts.push(text);
        rest = after.split_once('}').map_or("", |(_, behind)| behind);
    }
    let Some((first, between)) = texts.split_first() else { return template == name };
    let Some(mut name) = name.strip_prefix(first).and_then(|name| name.strip_suffix(rest)) else {
        return false;
    };
    for text in between {
        // A placeholder is filled with something.
        let mut places = name.char_indices().skip(1).map(|(place, _)| place);
        let Some(place) = places.find(|place| name[*place..].starts_with(text)) else {
            return false;
        };
        name = &name[place + text.len()..];
    }
    !name.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_makes_the_names_that_have_its_texts() {
        assert!(may_make("orders", "orders") && !may_make("orders", "orders2"));
        assert!(may_make("outbox.event.${aggregate_type}", "outbox.event.order"));
        assert!(!may_make("outbox.event.${aggregate_type}", "outbox.event."));
        assert!(!may_make("outbox.event.${aggregate_type}", "other.event.order"));
        assert!(may_make("${tenant}.${aggregate_type}.v1", "a.b.v1"));
        assert!(!may_make("${tenant}.${aggregate_type}.v1", "a.v1"));
        assert!(!may_make("${tenant}.${aggregate_type}.v1", ".b.v1"));
        assert!(may_make("${aggregate_type}", "anything"));
    }
}
