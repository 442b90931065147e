//! A regular expression in Java's syntax, run by an engine whose time is linear in the text.
//!
//! Java's and this crate's syntax are much alike, and where they look alike they may mean different
//! things: `\d` has only ASCII digits in Java, `a*+` is possessive there, `.` leaves out five line
//! terminators. So an expression is parsed first. What means the same is kept, what can be said in
//! another way is rewritten, and everything else is refused with its position. (Java SE API,
//! `java.util.regex.Pattern`.)

use std::fmt;

use regex::Regex;
use regex_syntax::ast::{
    self, AssertionKind, Ast, ClassPerl, ClassPerlKind, ClassSet, ClassSetItem, ClassUnicode,
    ClassUnicodeKind, GroupKind, Literal, LiteralKind, Span, SpecialLiteralKind,
};

/// An expression that means here what it means in Java.
#[derive(Clone)]
pub struct JavaRegex {
    text: String,
    /// Matches only a whole text (`Matcher.matches`).
    whole: Regex,
    /// Finds the first match (`Matcher.find`).
    first: Regex,
}

/// Why an expression is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} at character {position}")]
pub struct UnsupportedRegex {
    /// What is there.
    pub what: String,
    /// Where it begins, in characters from 1.
    pub position: usize,
}

impl JavaRegex {
    /// Reads an expression.
    ///
    /// # Errors
    /// It is malformed, or holds something that this engine lacks or would read in another way.
    pub fn parse(text: &str) -> Result<Self, UnsupportedRegex> {
        let parsed = ast::parse::Parser::new().parse(text).map_err(|error| {
            let what = format!("what is not supported here ({})", error.kind());
            UnsupportedRegex { what, position: error.span().start.column }
        })?;
        let mut rewriting = Rewriting { edits: Vec::new() };
        rewriting.expression(&parsed, Position::Last)?;
        let rewritten = rewriting.apply(text);
        let compile = |pattern: &str| {
            Regex::new(pattern).map_err(|error| UnsupportedRegex {
                what: format!("an expression that cannot be compiled ({error})"),
                position: 1,
            })
        };
        Ok(Self {
            text: text.to_owned(),
            whole: compile(&format!(r"\A(?:{rewritten})\z"))?,
            first: compile(&rewritten)?,
        })
    }

    /// Whether the whole text matches.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.whole.is_match(text)
    }

    /// The first match in a text, and its groups.
    pub(super) fn find<'t>(&self, text: &'t str) -> Option<regex::Captures<'t>> {
        self.first.captures(text)
    }

    /// Whether it has a group of this name.
    pub fn has_group(&self, name: &str) -> bool {
        self.first.capture_names().flatten().any(|known| known == name)
    }

    /// The number of its groups.
    pub fn groups(&self) -> usize {
        self.first.captures_len() - 1
    }
}

impl fmt::Display for JavaRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for JavaRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JavaRegex").field(&self.text).finish()
    }
}

impl PartialEq for JavaRegex {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for JavaRegex {}

/// Java's `\d`, `\s` and `\w`, without the brackets.
const DIGITS: &str = "0-9";
const SPACES: &str = r" \t\n\x0B\x0C\r";
const WORD: &str = "a-zA-Z_0-9";
/// Java's `.`, which leaves out every line terminator.
const DOT: &str = r"[^\n\r\u{85}\u{2028}\u{2029}]";

/// What is written in place of parts of an expression.
struct Rewriting {
    edits: Vec<(Span, String)>,
}

type Checked = Result<(), UnsupportedRegex>;

/// Where a part of an expression stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Nothing of the text can be matched after it.
    Last,
    Inner,
}

impl Rewriting {
    fn expression(&mut self, ast: &Ast, position: Position) -> Checked {
        match ast {
            Ast::Empty(_) => Ok(()),
            Ast::Flags(flags) => refuse("a flag such as (?i)", flags.span),
            Ast::Literal(literal) => character(literal),
            Ast::Dot(span) => {
                self.edits.push((**span, DOT.to_owned()));
                Ok(())
            }
            Ast::Assertion(assertion) => match assertion.kind {
                AssertionKind::StartLine | AssertionKind::StartText | AssertionKind::EndText => {
                    Ok(())
                }
                AssertionKind::EndLine if position == Position::Last => Ok(()),
                AssertionKind::EndLine => refuse("a $ that is not at the end", assertion.span),
                AssertionKind::WordBoundary
                | AssertionKind::NotWordBoundary
                | AssertionKind::WordBoundaryStart
                | AssertionKind::WordBoundaryEnd
                | AssertionKind::WordBoundaryStartAngle
                | AssertionKind::WordBoundaryEndAngle
                | AssertionKind::WordBoundaryStartHalf
                | AssertionKind::WordBoundaryEndHalf => refuse("a word boundary", assertion.span),
            },
            Ast::ClassUnicode(class) => category(class),
            Ast::ClassPerl(class) => {
                let not = if class.negated { "^" } else { "" };
                self.edits.push((class.span, format!("[{not}{}]", members(class))));
                Ok(())
            }
            Ast::ClassBracketed(class) => match &class.kind {
                ClassSet::Item(item) => self.class(item),
                ClassSet::BinaryOp(operation) => {
                    refuse("a combination of character classes", operation.span)
                }
            },
            Ast::Repetition(repetition) => {
                if let Ast::Repetition(_) = *repetition.ast {
                    return refuse("a possessive quantifier", repetition.op.span);
                }
                self.expression(&repetition.ast, Position::Inner)
            }
            Ast::Group(group) => match &group.kind {
                GroupKind::NonCapturing(flags) if !flags.items.is_empty() => {
                    refuse("a flag such as (?i:", flags.span)
                }
                GroupKind::CaptureIndex(_)
                | GroupKind::CaptureName { .. }
                | GroupKind::NonCapturing(_) => self.expression(&group.ast, position),
            },
            Ast::Alternation(alternation) => {
                alternation.asts.iter().try_for_each(|ast| self.expression(ast, position))
            }
            Ast::Concat(concat) => {
                let last = concat.asts.len().saturating_sub(1);
                concat.asts.iter().enumerate().try_for_each(|(index, ast)| {
                    self.expression(ast, if index == last { position } else { Position::Inner })
                })
            }
        }
    }

    /// What stands between brackets.
    fn class(&mut self, item: &ClassSetItem) -> Checked {
        match item {
            ClassSetItem::Empty(_) => Ok(()),
            ClassSetItem::Literal(literal) => character(literal),
            ClassSetItem::Range(range) => {
                character(&range.start).and_then(|()| character(&range.end))
            }
            ClassSetItem::Ascii(class) => refuse("a class such as [:alpha:]", class.span),
            ClassSetItem::Unicode(class) => category(class),
            ClassSetItem::Perl(class) => {
                let members = members(class);
                let items =
                    if class.negated { format!("[^{members}]") } else { members.to_owned() };
                self.edits.push((class.span, items));
                Ok(())
            }
            ClassSetItem::Bracketed(class) => refuse("a class within a class", class.span),
            ClassSetItem::Union(union) => union.items.iter().try_for_each(|item| self.class(item)),
        }
    }

    fn apply(mut self, text: &str) -> String {
        self.edits.sort_by_key(|(span, _)| span.start.offset);
        let mut rewritten = String::new();
        let mut done = 0;
        for (span, replacement) in &self.edits {
            rewritten.push_str(text.get(done..span.start.offset).unwrap_or_default());
            rewritten.push_str(replacement);
            done = span.end.offset;
        }
        rewritten.push_str(text.get(done..).unwrap_or_default());
        rewritten
    }
}

/// Java's `\v` is a class of several characters, and it has no `\u{…}`.
fn character(literal: &Literal) -> Checked {
    match literal.kind {
        LiteralKind::Special(SpecialLiteralKind::VerticalTab) => refuse("\\v", literal.span),
        LiteralKind::Special(_)
        | LiteralKind::Verbatim
        | LiteralKind::Meta
        | LiteralKind::Superfluous
        | LiteralKind::Octal
        | LiteralKind::HexFixed(_)
        | LiteralKind::HexBrace(_) => Ok(()),
    }
}

/// General categories have the same names in both; scripts, blocks and POSIX classes do not.
fn category(class: &ClassUnicode) -> Checked {
    match &class.kind {
        ClassUnicodeKind::OneLetter(_) => Ok(()),
        ClassUnicodeKind::Named(name) if name.len() <= 2 => Ok(()),
        ClassUnicodeKind::Named(_) | ClassUnicodeKind::NamedValue { .. } => {
            refuse("a class such as \\p{Alpha} that is no general category", class.span)
        }
    }
}

const fn members(class: &ClassPerl) -> &'static str {
    match class.kind {
        ClassPerlKind::Digit => DIGITS,
        ClassPerlKind::Space => SPACES,
        ClassPerlKind::Word => WORD,
    }
}

fn refuse(what: &str, span: Span) -> Checked {
    Err(UnsupportedRegex { what: what.to_owned(), position: span.start.column })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regex(text: &str) -> JavaRegex {
        JavaRegex::parse(text).unwrap()
    }

    #[test]
    fn what_debezium_and_tutorials_use_is_taken() {
        for (expression, value) in [
            ("(?<routedByValue>.*)", "User"),
            ("^(.*)$", "User"),
            ("(User|Order)", "Order"),
            (r"([a-z]+)\.(\w+)", "shop.User_1"),
            (r"(?:com\.example\.)?(?<name>[A-Za-z\d]+?)(?:Event)?", "com.example.Order7Event"),
            (r"[\s\S]+", "a\nb"),
            (r"\p{Lu}\p{L}*", "Österreich"),
        ] {
            assert!(regex(expression).matches(value), "{expression}");
        }
    }

    /// Each of these texts matches with this engine's own reading of the expression, and not with
    /// Java's.
    #[test]
    fn classes_mean_what_they_mean_in_java() {
        for (expression, value) in [
            (r"\d", "٣"),
            (r"\w", "é"),
            (r"\s", "\u{a0}"),
            (".", "\r"),
            (".", "\u{85}"),
            (".", "\u{2028}"),
            (r"[\d]", "٣"),
            (r"[^\W]", "é"),
        ] {
            assert!(!regex(expression).matches(value), "{expression} {value:?}");
        }
        for (expression, value) in [(r"\D", "٣"), (r"\W", "é"), (r"[\W]", "é"), (r"\s", "\u{b}")]
        {
            assert!(regex(expression).matches(value), "{expression} {value:?}");
        }
    }

    #[test]
    fn only_a_whole_text_matches() {
        assert!(!regex("User").matches("Users"));
        assert!(!regex("User|Use").matches("Users"));
        assert!(regex("User|Users").matches("Users"));
        assert!(!regex("User$").matches("User\n"));
    }

    #[test]
    fn what_differs_or_is_lacking_is_refused_with_its_position() {
        let mut unexpected = Vec::new();
        for (expression, position) in [
            ("a(?=b)", 2),
            ("(?!a).*", 1),
            ("(?<=a)b", 1),
            (r"(a)\1", 4),
            (r"a\k<x>", 2),
            ("ab*+", 4),
            ("a++", 3),
            ("(?>a)", 3),
            (r"\Qa\E", 1),
            (r"a\b", 2),
            (r"a\h", 2),
            (r"a\R", 2),
            (r"a\Z", 2),
            (r"a\v", 2),
            ("(?i)user", 1),
            ("a(?i:user)", 4),
            ("a$b", 2),
            ("[a&&b]", 2),
            ("[a[b]]", 3),
            ("[[:alpha:]]", 2),
            (r"\p{Alpha}", 1),
            (r"\p{IsGreek}", 1),
            (r"\<a", 1),
            ("(", 1),
            ("a**", 3),
            ("[z-a]", 2),
        ] {
            let refused = JavaRegex::parse(expression).map(|_| ()).unwrap_err();
            if refused.position != position {
                unexpected.push(format!("{expression}: {refused}"));
            }
        }
        assert!(unexpected.is_empty(), "{unexpected:#?}");
    }
}
