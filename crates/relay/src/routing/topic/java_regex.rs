//! A regular expression in Java's syntax, run by an engine whose time is linear in the text.
//!
//! Java's and this crate's syntax are much alike, and where they look alike they may mean different
//! things: `\d` has only ASCII digits in Java, `a*+` is possessive there, `.` leaves out five line
//! terminators. So an expression is parsed first. What means the same is kept, what can be said in
//! another way is rewritten, and everything else is refused with its position. (Java SE API,
//! `java.util.regex.Pattern`; `tests/java_regex` has what Java answered.) Of categories such as
//! `\p{L}`, each engine knows the characters of its own version of Unicode.

use std::fmt;

use regex::Regex;
use regex_syntax::ast::{
    self, AssertionKind, Ast, ClassPerl, ClassPerlKind, ClassSet, ClassSetItem, Group, GroupKind,
    Literal, LiteralKind, Repetition, Span, SpecialLiteralKind,
};

use super::java_syntax::{
    can_be_empty, has_inner_group, is_category, is_code_point, is_group_name, is_optional,
    is_quantifier, is_single, is_zero,
};

/// An expression that means here what it means in Java.
#[derive(Clone)]
pub struct JavaRegex {
    text: String,
    /// Matches only a whole text (`Matcher.matches`).
    whole: Regex,
    /// Finds the first match (`Matcher.find`).
    first: Regex,
    /// Whether it has a `$`, which in Java also matches before a line terminator at the end.
    has_end_of_line: bool,
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
        let mut rewriting = Rewriting { text, edits: Vec::new(), has_end_of_line: false };
        rewriting.expression(&parsed, Position::Last)?;
        let has_end_of_line = rewriting.has_end_of_line;
        let rewritten = rewriting.apply();
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
            has_end_of_line,
        })
    }

    /// Whether the whole text matches. With a `$`, no text matches that ends with a line
    /// terminator: Java's first match may end before that terminator, and `find` would not.
    /// Such a text can be no topic either.
    pub fn matches(&self, text: &str) -> bool {
        let is_cut = self.has_end_of_line && text.ends_with(LINE_TERMINATORS);
        !is_cut && self.whole.is_match(text)
    }

    /// The first match in a text that matches as a whole, and its groups.
    pub(super) fn find<'t>(&self, text: &'t str) -> Option<regex::Captures<'t>> {
        self.first.captures(text)
    }

    /// Whether it has a group of this name.
    pub fn has_group(&self, name: &str) -> bool {
        self.first.capture_names().flatten().any(|known| known == name)
    }

    /// The group that Java reads in the digits after a `$`, and the digits that it takes for text:
    /// as many as make a group that exists belong to its number.
    pub fn numbered_group<'d>(&self, digits: &'d str) -> Option<(usize, &'d str)> {
        let groups = self.first.captures_len() - 1;
        (1..=digits.len()).rev().find_map(|length| {
            let (number, rest) = digits.split_at_checked(length)?;
            let number = number.parse().ok().filter(|number| *number <= groups)?;
            Some((number, rest))
        })
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
const LINE_TERMINATORS: [char; 5] = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// What is written in place of parts of an expression.
struct Rewriting<'t> {
    text: &'t str,
    edits: Vec<(Span, String)>,
    has_end_of_line: bool,
}

type Checked = Result<(), UnsupportedRegex>;

/// Where a part of an expression stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Nothing of the text can be matched after it.
    Last,
    Inner,
}

impl Rewriting<'_> {
    fn expression(&mut self, ast: &Ast, position: Position) -> Checked {
        match ast {
            Ast::Empty(_) => Ok(()),
            Ast::Flags(flags) => refuse("a flag such as (?i)", flags.span),
            Ast::Literal(literal) => self.character(literal),
            Ast::Dot(span) => {
                self.edits.push((**span, DOT.to_owned()));
                Ok(())
            }
            Ast::Assertion(assertion) => match assertion.kind {
                AssertionKind::StartLine | AssertionKind::StartText | AssertionKind::EndText => {
                    Ok(())
                }
                AssertionKind::EndLine if position == Position::Last => {
                    self.has_end_of_line = true;
                    Ok(())
                }
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
            Ast::ClassUnicode(class) => self.category(class.span),
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
            Ast::Repetition(repetition) => self.repetition(repetition),
            Ast::Group(group) => self.group(group, position),
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

    fn repetition(&mut self, repetition: &Repetition) -> Checked {
        let span = repetition.op.span;
        if !is_quantifier(self.source(span)) {
            return refuse("a quantifier that Java does not have", span);
        }
        if let Ast::Repetition(_) = *repetition.ast {
            return refuse("a possessive quantifier, or a second one", span);
        }
        if is_zero(repetition) {
            return refuse("a quantifier that is always zero", span);
        }
        // What a group holds in the end differs: Java tries an empty repetition at last, and keeps
        // what a group within held in a repetition that it has given up.
        if !is_single(repetition) && can_be_empty(&repetition.ast) {
            return refuse("a repetition of what may be empty", span);
        }
        if !is_optional(repetition) && has_inner_group(&repetition.ast) {
            return refuse("a repetition of what has a group within", span);
        }
        self.expression(&repetition.ast, Position::Inner)
    }

    fn group(&mut self, group: &Group, position: Position) -> Checked {
        match &group.kind {
            GroupKind::NonCapturing(flags) if !flags.items.is_empty() => {
                return refuse("a flag such as (?i:", flags.span);
            }
            GroupKind::CaptureName { starts_with_p: true, .. } => {
                return refuse("a group such as (?P<name>, in Java (?<name>,", group.span);
            }
            GroupKind::CaptureName { name, .. } if !is_group_name(&name.name) => {
                return refuse("a group's name that is not of a-z, A-Z and 0-9", name.span);
            }
            GroupKind::CaptureIndex(_)
            | GroupKind::CaptureName { .. }
            | GroupKind::NonCapturing(_) => {}
        }
        self.expression(&group.ast, position)
    }

    /// What stands between brackets.
    fn class(&mut self, item: &ClassSetItem) -> Checked {
        match item {
            ClassSetItem::Empty(_) => Ok(()),
            ClassSetItem::Literal(literal) if self.source(literal.span) == "]" => {
                refuse("a ] without a backslash in a class", literal.span)
            }
            ClassSetItem::Literal(literal) => self.character(literal),
            ClassSetItem::Range(range) => {
                let ends = [&range.start, &range.end];
                if ends.iter().any(|end| matches!(self.source(end.span), "-" | "[" | "]")) {
                    return refuse(
                        "a range from or to a character without its backslash",
                        range.span,
                    );
                }
                ends.iter().try_for_each(|end| self.character(end))
            }
            ClassSetItem::Ascii(class) => refuse("a class such as [:alpha:]", class.span),
            ClassSetItem::Unicode(class) => self.category(class.span),
            ClassSetItem::Perl(class) => {
                let members = members(class);
                let items =
                    if class.negated { format!("[^{members}]") } else { members.to_owned() };
                self.edits.push((class.span, items));
                Ok(())
            }
            ClassSetItem::Bracketed(class) => refuse("a class within a class", class.span),
            ClassSetItem::Union(union) => {
                let hyphens =
                    union.items.windows(2).find(|two| two.iter().all(|item| self.is_hyphen(item)));
                match hyphens.and_then(<[_]>::first) {
                    Some(first) => refuse("two hyphens without a backslash", *first.span()),
                    None => union.items.iter().try_for_each(|item| self.class(item)),
                }
            }
        }
    }

    fn is_hyphen(&self, item: &ClassSetItem) -> bool {
        self.source(*item.span()) == "-"
    }

    /// Java's `\v` is a class of several characters.
    fn character(&self, literal: &Literal) -> Checked {
        match literal.kind {
            LiteralKind::Special(SpecialLiteralKind::VerticalTab) => refuse("\\v", literal.span),
            LiteralKind::HexFixed(_) | LiteralKind::HexBrace(_)
                if !is_code_point(self.source(literal.span)) =>
            {
                refuse("an escape that Java does not have", literal.span)
            }
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
    fn category(&self, span: Span) -> Checked {
        if is_category(self.source(span)) {
            return Ok(());
        }
        refuse("a class such as \\p{Alpha} that is no general category", span)
    }

    /// How a part is written.
    fn source(&self, span: Span) -> &str {
        self.text.get(span.start.offset..span.end.offset).unwrap_or_default()
    }

    fn apply(mut self) -> String {
        let text = self.text;
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
        // Java matches the whole text, but its first match ends before the terminator.
        assert!(!regex(r"User$|[\s\S]+").matches("User\n"));
        assert!(regex(r"User\z|[\s\S]+").matches("User\n"));
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
            // Java refuses these.
            (r"a\u{41}", 2),
            (r"a\U00000041", 2),
            (r"a\U{41}", 2),
            (r"\x{ 41}", 4),
            (r"[\u{41}]", 2),
            (r"[a-\u{41}]", 2),
            ("a{ 2}", 2),
            ("a{1, 2}", 2),
            ("a{,2}", 3),
            ("(?P<a>b)", 1),
            ("(?<a_b>c)", 4),
            ("(?<a.b>c)", 4),
            ("(?<a[0]>c)", 4),
            ("(?<é>c)", 4),
            (r"a\p{lu}", 2),
            (r"a\pl", 2),
            (r"a\p{L_}", 2),
            (r"a\p{^L}", 2),
            (r"[\p{SD}]", 2),
            // Java reads these in another way.
            ("a{2}{3}", 5),
            ("b(a){0}", 5),
            ("(a*)*", 5),
            ("x(a|b?)+", 8),
            ("(a?b*){2}", 7),
            ("(?:(a)|){2,3}", 9),
            ("(^){2}", 4),
            ("(?:([ab])b)*bb", 12),
            ("((a)b)+", 7),
            ("(?:(a)b){0,1}", 9),
            ("[]-a]", 2),
            ("[--/]", 2),
            ("[+-[a]]", 2),
        ] {
            let refused = JavaRegex::parse(expression).map(|_| ()).unwrap_err();
            if refused.position != position {
                unexpected.push(format!("{expression}: {refused}"));
            }
        }
        assert!(unexpected.is_empty(), "{unexpected:#?}");
    }

    /// What Java answered. Its absent groups are compared as empty ones, which is what they are in
    /// a topic.
    #[test]
    fn matches_and_groups_are_those_of_java() {
        let vectors = include_str!("../../../tests/java_regex/vectors.tsv");
        let (mut compared, mut unexpected) = (0, Vec::new());
        for line in vectors.lines().filter(|line| !line.starts_with('#')) {
            let cells: Vec<&str> = line.split('\t').collect();
            let [pattern, text, taken, java] = cells[..] else { panic!("{line}") };
            let [pattern, text]: [String; 2] =
                [pattern, text].map(|json| serde_json::from_str(json).unwrap());
            let parsed = JavaRegex::parse(&pattern);
            if parsed.is_ok() != (taken == "taken") {
                unexpected.push(format!("{line}: {parsed:?}"));
            }
            let (Ok(regex), "taken") = (parsed, taken) else { continue };
            let groups = regex.matches(&text).then(|| {
                let found = regex.find(&text).unwrap();
                let texts = found.iter().map(|group| group.map_or("", |group| group.as_str()));
                texts.map(str::to_owned).collect::<Vec<String>>()
            });
            let java: Option<Vec<Option<String>>> = serde_json::from_str(java).unwrap();
            let java: Option<Vec<String>> =
                java.map(|groups| groups.into_iter().map(Option::unwrap_or_default).collect());
            if groups != java {
                unexpected.push(format!("{line}: {groups:?}"));
            }
            compared += 1;
        }
        assert!(unexpected.is_empty(), "{unexpected:#?}");
        assert!(compared > 200, "{compared}");
    }
}
