//! A generated part of a Markdown document, between `<!-- NAME:begin -->` and `<!-- NAME:end -->`.

/// The document with this between the markers; `None` where they are missing or in the wrong order.
pub(crate) fn with_section(document: &str, name: &str, section: &str) -> Option<String> {
    let begin = format!("<!-- {name}:begin -->");
    let end = format!("<!-- {name}:end -->");
    let (before, rest) = document.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{section}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_between_the_markers_is_replaced() {
        let document =
            "# A\n<!-- x:begin -->\nold\n<!-- x:end -->\n<!-- y:begin -->\n<!-- y:end -->\n";
        let made = with_section(document, "x", "new\n").unwrap();
        assert_eq!(
            made,
            "# A\n<!-- x:begin -->\nnew\n<!-- x:end -->\n<!-- y:begin -->\n<!-- y:end -->\n"
        );
        assert_eq!(with_section(&made, "x", "new\n").unwrap(), made, "twice is once");
    }

    #[test]
    fn missing_or_swapped_markers_are_an_error() {
        assert_eq!(with_section("# A\n", "x", ""), None);
        assert_eq!(with_section("<!-- x:end -->\n<!-- x:begin -->\n", "x", ""), None);
    }
}
