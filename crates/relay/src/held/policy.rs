//! What follows from an event that cannot be delivered: the section `[on_error]`.

use crate::failure::Code;

/// What to do with an event that cannot be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// Stop at it until a person has removed the cause.
    #[default]
    Halt,
    /// Make it a dead letter, and go on with the events of other keys.
    DeadLetter,
}

impl OnError {
    /// As it is written in `[on_error]`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Halt => "halt",
            Self::DeadLetter => "dead_letter",
        }
    }
}

/// Why an event cannot be delivered, as `[on_error]` tells it apart. A missing topic, a missing
/// right and a broker that is down are none of these: they pass, and concern more than one event.
/// Neither is a table that does not fit its configuration, since every row of it would fail alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorClass {
    /// A value of the row cannot be used.
    BadRow,
    /// The row has no legal topic.
    Unroutable,
    /// The row, or its record, is too large.
    TooLarge,
    /// The broker refuses the record.
    Rejected,
}

const CLASSES: [(Code, ErrorClass); 12] = [
    (Code::KeyIsNull, ErrorClass::BadRow),
    (Code::IdIsNull, ErrorClass::BadRow),
    (Code::HeadersMalformed, ErrorClass::BadRow),
    (Code::TimestampUnusable, ErrorClass::BadRow),
    (Code::PartitionUnusable, ErrorClass::BadRow),
    (Code::NotJson, ErrorClass::BadRow),
    (Code::TopicIsNull, ErrorClass::Unroutable),
    (Code::TopicIllegal, ErrorClass::Unroutable),
    (Code::RouteMismatch, ErrorClass::Unroutable),
    (Code::RowTooLarge, ErrorClass::TooLarge),
    (Code::RecordTooLarge, ErrorClass::TooLarge),
    (Code::RecordRefused, ErrorClass::Rejected),
];

impl ErrorClass {
    /// Every class there is.
    pub const ALL: [Self; 4] = [Self::BadRow, Self::Unroutable, Self::TooLarge, Self::Rejected];

    /// The class of a code; `None` for a code that is never one event's alone.
    pub fn of(code: Code) -> Option<Self> {
        CLASSES.iter().find(|(known, _)| *known == code).map(|(_, class)| *class)
    }

    /// The key of `[on_error]`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadRow => "bad_row",
            Self::Unroutable => "unroutable",
            Self::TooLarge => "too_large",
            Self::Rejected => "rejected",
        }
    }
}

/// The section `[on_error]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ErrorPolicy {
    /// For [`ErrorClass::BadRow`].
    pub bad_row: OnError,
    /// For [`ErrorClass::Unroutable`].
    pub unroutable: OnError,
    /// For [`ErrorClass::TooLarge`].
    pub too_large: OnError,
    /// For [`ErrorClass::Rejected`].
    pub rejected: OnError,
}

impl ErrorPolicy {
    /// What follows from an event that fails with this code.
    pub fn of(self, code: Code) -> OnError {
        ErrorClass::of(code).map_or(OnError::Halt, |class| self.of_class(class))
    }

    /// What follows from an event that fails for a reason of this class.
    pub const fn of_class(self, class: ErrorClass) -> OnError {
        match class {
            ErrorClass::BadRow => self.bad_row,
            ErrorClass::Unroutable => self.unroutable,
            ErrorClass::TooLarge => self.too_large,
            ErrorClass::Rejected => self.rejected,
        }
    }

    /// Whether any event can become a dead letter.
    pub fn has_dead_letters(self) -> bool {
        let Self { bad_row, unroutable, too_large, rejected } = self;
        [bad_row, unroutable, too_large, rejected].contains(&OnError::DeadLetter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Class;

    /// What passes by itself, or concerns more than one event, never makes a dead letter.
    #[test]
    fn only_what_is_wrong_with_one_event_makes_it_a_dead_letter() {
        let policy = ErrorPolicy {
            bad_row: OnError::DeadLetter,
            unroutable: OnError::DeadLetter,
            too_large: OnError::DeadLetter,
            rejected: OnError::DeadLetter,
        };
        for code in Code::ALL {
            let is_dead_letter = policy.of(*code) == OnError::DeadLetter;
            let may_be = matches!(code.class(), Class::Mendable) || *code == Code::RecordRefused;
            assert!(!is_dead_letter || may_be, "{code}");
        }
        for code in [Code::TopicMissing, Code::TopicForbidden, Code::KafkaUnreachable] {
            assert_eq!(policy.of(code), OnError::Halt, "{code}");
        }
        for code in [Code::ColumnMissing, Code::PresetUnclear, Code::ColumnType, Code::RowUpdated] {
            assert_eq!(policy.of(code), OnError::Halt, "{code} concerns the whole table");
        }
    }

    #[test]
    fn each_class_has_a_policy_of_its_own() {
        let policy = ErrorPolicy { rejected: OnError::DeadLetter, ..ErrorPolicy::default() };
        assert_eq!(policy.of(Code::RecordRefused), OnError::DeadLetter);
        assert_eq!(policy.of(Code::KeyIsNull), OnError::Halt);
        assert!(policy.has_dead_letters());
        assert!(!ErrorPolicy::default().has_dead_letters());
    }
}
