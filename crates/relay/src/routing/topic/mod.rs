//! From an aggregate type to a topic: a template, or a regular expression as Debezium has it.

mod java_regex;
mod java_syntax;
mod name;
mod rule;
mod template;

pub use java_regex::{JavaRegex, UnsupportedRegex};
pub use name::{CharacterKind, IllegalTopicName, TopicName};
pub use rule::OnMismatch;
pub(crate) use rule::{NoTopic, TopicRule};
pub use template::{IllegalTemplate, TopicTemplate};
