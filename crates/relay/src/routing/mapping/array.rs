//! The elements of an array of texts, from PostgreSQL's text of it (manual: "Arrays", Array Input
//! and Output Syntax). The elements of an array of several dimensions follow each other.

/// Calls `each` with every element, in order; `None` stands for NULL.
///
/// # Errors
/// The text is not that of an array.
pub(super) fn elements(
    text: &str,
    mut each: impl FnMut(Option<&str>),
) -> Result<(), MalformedArray> {
    // An array whose subscripts do not begin at 1 has them in front: `[0:1]={a,b}`.
    let body = match text.starts_with('[') {
        true => text.split_once('=').map_or(text, |(_, body)| body),
        false => text,
    };
    let mut characters = body.char_indices().peekable();
    let mut depth = 0_u32;
    let mut unescaped = String::new();
    while let Some((start, character)) = characters.next() {
        match character {
            '{' => depth += 1,
            '}' => depth = depth.checked_sub(1).ok_or(MalformedArray)?,
            ',' => {}
            _ if depth == 0 => return Err(MalformedArray),
            '"' => {
                unescaped.clear();
                loop {
                    match characters.next().ok_or(MalformedArray)?.1 {
                        '"' => break,
                        '\\' => unescaped.push(characters.next().ok_or(MalformedArray)?.1),
                        other => unescaped.push(other),
                    }
                }
                each(Some(&unescaped));
            }
            _ => {
                let mut end = body.len();
                while let Some(&(at, next)) = characters.peek() {
                    if matches!(next, ',' | '}') {
                        end = at;
                        break;
                    }
                    characters.next();
                }
                let element = body.get(start..end).ok_or(MalformedArray)?;
                each((element != "NULL").then_some(element));
            }
        }
    }
    if depth == 0 && body.starts_with('{') { Ok(()) } else { Err(MalformedArray) }
}

/// A text that is not that of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MalformedArray;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Option<String>>, MalformedArray> {
        let mut all = Vec::new();
        elements(text, |element| all.push(element.map(str::to_owned))).map(|()| all)
    }

    #[test]
    fn elements_are_read_as_postgresql_writes_them() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(read("{}").unwrap(), []);
        assert_eq!(read("{a,b c,NULL}").unwrap(), [some("a"), some("b c"), None]);
        assert_eq!(
            read(r#"{"","NULL","a,b","q\"\\","{}"}"#).unwrap(),
            [some(""), some("NULL"), some("a,b"), some("q\"\\"), some("{}")]
        );
        assert_eq!(read("{{a,1},{ü,2}}").unwrap(), [some("a"), some("1"), some("ü"), some("2")]);
        assert_eq!(read("[0:1]={a,b}").unwrap(), [some("a"), some("b")]);
    }

    #[test]
    fn what_is_no_array_is_refused() {
        for text in ["", "a", "{", "}", "{a", "{\"a}", "{a}}", "a{b}", "{a}b", "[0:1]="] {
            assert_eq!(read(text), Err(MalformedArray), "{text}");
        }
    }
}
