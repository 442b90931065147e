//! The properties of one connector, in the order of the file. Whoever translates a property takes
//! it out, so that what is left was not translated.

/// One property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Property {
    /// Its name in a connector's configuration, whatever the file's form.
    pub(super) name: String,
    /// Its name as the file has it.
    pub(super) written: String,
    /// Its value, without the space around it.
    pub(super) value: String,
    /// Its line in the file, counted from 1.
    pub(super) line: usize,
}

impl Property {
    /// A property whose name is written as Connect knows it.
    pub(super) fn new(name: impl Into<String>, value: &str, line: usize) -> Self {
        let name = name.into();
        Self { written: name.clone(), name, value: value.trim().to_owned(), line }
    }

    /// Whether the value is this word; the words of Kafka and Debezium are compared without case.
    pub(super) fn is(&self, word: &str) -> bool {
        self.value.eq_ignore_ascii_case(word)
    }
}

/// What has not been taken yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Properties(Vec<Property>);

impl Properties {
    /// Adds a property. As in Java, a later value of the same name replaces an earlier one.
    pub(super) fn push(&mut self, property: Property) {
        self.0.retain(|known| known.name != property.name);
        self.0.push(property);
    }

    /// Looks at a property and leaves it.
    pub(super) fn get(&self, name: &str) -> Option<&Property> {
        self.0.iter().find(|property| property.name == name)
    }

    /// Takes a property out.
    pub(super) fn take(&mut self, name: &str) -> Option<Property> {
        let at = self.0.iter().position(|property| property.name == name)?;
        Some(self.0.remove(at))
    }

    /// Takes every property below a prefix out; their names keep it.
    pub(super) fn take_below(&mut self, prefix: &str) -> Vec<Property> {
        self.0.extract_if(.., |property| property.name.starts_with(prefix)).collect()
    }

    /// All that are left, in the order of the file.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Property> {
        self.0.iter()
    }

    /// Takes all that are left.
    pub(super) fn into_rest(self) -> Vec<Property> {
        self.0
    }
}
