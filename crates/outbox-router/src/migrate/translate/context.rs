//! What the translations share: what is left of the input, the draft, and the lists.

use super::{
    super::{
        draft::{Draft, Text},
        names::{self, Treatment},
        placeholder,
        properties::{Properties, Property},
        read::Form,
        report::{PropertyFinding, Report},
    },
    given::Given,
};

/// What the translations share.
pub(super) struct Context<'g> {
    pub(super) form: Form,
    pub(super) given: &'g Given,
    pub(super) input: Properties,
    pub(super) draft: Draft,
    pub(super) report: Report,
}

impl Context<'_> {
    /// Takes a property that the table says is carried over, and says so.
    pub(super) fn carry(&mut self, name: &str) -> Option<Property> {
        let property = self.input.take(name)?;
        if let Some(Treatment::Carried(key)) = names::treatment(names::CONNECTOR, name) {
            self.report.carried(&property, key);
        }
        Some(property)
    }

    /// The value with our placeholders in place of Debezium's.
    pub(super) fn text(&mut self, property: &Property, variable: &str) -> Text {
        let translated = placeholder::translate(&property.value, self.form, variable);
        for note in translated.notes {
            self.report.different(PropertyFinding::of(property, note));
        }
        translated.text
    }

    /// The same for a secret: its value becomes a variable unless it is a placeholder already.
    pub(super) fn secret(&mut self, property: &Property, variable: &str) -> Text {
        let text = self.text(property, variable);
        if text.as_literal().is_none() {
            return text;
        }
        let what = format!("the value is not copied: ${{env:{variable}}} is read at the start");
        self.report.different(PropertyFinding::of(property, what).hint(format!("set {variable}")));
        Text::variable(variable)
    }
}
