//! What Java's expressions may be written with, where the parser of `regex-syntax` takes more.

use regex_syntax::ast::{Ast, Repetition, RepetitionKind, RepetitionRange};

/// The general categories, by the names that both engines know. Java's names have no other case,
/// no spaces and no negation.
const CATEGORIES: [&str; 37] = [
    "C", "Cc", "Cf", "Cn", "Co", "L", "LC", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn",
    "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm",
    "So", "Z", "Zl", "Zp", "Zs",
];

/// Whether it is `\p{…}` or `\P{…}` of a general category, or `\pL`.
pub(super) fn is_category(source: &str) -> bool {
    let Some(name) = source.strip_prefix(r"\p").or_else(|| source.strip_prefix(r"\P")) else {
        return false;
    };
    let braced = name.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
    let name = braced.unwrap_or(name);
    CATEGORIES.contains(&name)
}

/// Whether it is `\xhh`, `\uhhhh` or `\x{h…h}`.
pub(super) fn is_code_point(source: &str) -> bool {
    let is_hex = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let braced = source.strip_prefix(r"\x{").and_then(|rest| rest.strip_suffix('}'));
    let fixed = source.strip_prefix(r"\x").or_else(|| source.strip_prefix(r"\u"));
    braced.or(fixed).is_some_and(is_hex)
}

/// Whether it is a letter with letters and digits after it, all of them ASCII.
pub(super) fn is_group_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Whether it is `*`, `+`, `?`, `{n}`, `{n,}` or `{n,m}`, with or without a `?` after it.
pub(super) fn is_quantifier(source: &str) -> bool {
    let Some(counts) = source.strip_prefix('{') else {
        return true;
    };
    let counts = counts.strip_suffix('?').unwrap_or(counts);
    let is_count = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    counts.strip_suffix('}').is_some_and(|counts| {
        let (least, most) = counts.split_once(',').unwrap_or((counts, ""));
        !least.is_empty() && is_count(least) && is_count(most)
    })
}

/// Whether nothing is ever matched: this crate then drops the groups within, which Java counts.
pub(super) fn is_zero(repetition: &Repetition) -> bool {
    most(repetition) == Some(0)
}

/// Whether it is matched once at most.
pub(super) fn is_single(repetition: &Repetition) -> bool {
    most(repetition).is_some_and(|most| most <= 1)
}

/// Whether it is `?` or `??`.
pub(super) const fn is_optional(repetition: &Repetition) -> bool {
    matches!(repetition.op.kind, RepetitionKind::ZeroOrOne)
}

/// How many times it is repeated at most; `None` without a limit.
fn most(repetition: &Repetition) -> Option<u32> {
    match repetition.op.kind {
        RepetitionKind::ZeroOrOne => Some(1),
        RepetitionKind::Range(
            RepetitionRange::Exactly(most) | RepetitionRange::Bounded(_, most),
        ) => Some(most),
        RepetitionKind::ZeroOrMore
        | RepetitionKind::OneOrMore
        | RepetitionKind::Range(RepetitionRange::AtLeast(_)) => None,
    }
}

/// Whether it may match without taking a character.
pub(super) fn can_be_empty(ast: &Ast) -> bool {
    match ast {
        Ast::Empty(_) | Ast::Flags(_) | Ast::Assertion(_) => true,
        Ast::Literal(_)
        | Ast::Dot(_)
        | Ast::ClassUnicode(_)
        | Ast::ClassPerl(_)
        | Ast::ClassBracketed(_) => false,
        Ast::Repetition(repetition) => {
            let least = match repetition.op.kind {
                RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore => 0,
                RepetitionKind::OneOrMore => 1,
                RepetitionKind::Range(
                    RepetitionRange::Exactly(least)
                    | RepetitionRange::AtLeast(least)
                    | RepetitionRange::Bounded(least, _),
                ) => least,
            };
            least == 0 || can_be_empty(&repetition.ast)
        }
        Ast::Group(group) => can_be_empty(&group.ast),
        Ast::Alternation(alternation) => alternation.asts.iter().any(can_be_empty),
        Ast::Concat(concat) => concat.asts.iter().all(can_be_empty),
    }
}

/// Whether something holds a group that can be referred to, apart from being one itself.
pub(super) fn has_inner_group(ast: &Ast) -> bool {
    let Ast::Group(group) = ast else { return has_group(ast) };
    has_group(&group.ast)
}

fn has_group(ast: &Ast) -> bool {
    match ast {
        Ast::Group(group) => group.is_capturing() || has_group(&group.ast),
        Ast::Repetition(repetition) => has_group(&repetition.ast),
        Ast::Alternation(alternation) => alternation.asts.iter().any(has_group),
        Ast::Concat(concat) => concat.asts.iter().any(has_group),
        Ast::Empty(_)
        | Ast::Flags(_)
        | Ast::Literal(_)
        | Ast::Dot(_)
        | Ast::Assertion(_)
        | Ast::ClassUnicode(_)
        | Ast::ClassPerl(_)
        | Ast::ClassBracketed(_) => false,
    }
}
