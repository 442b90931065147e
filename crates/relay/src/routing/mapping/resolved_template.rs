//! A template whose columns are known by their positions.

use pgoutput::TupleColumns;

use super::column_text::text;
use crate::routing::{
    pointer::JsonPointer,
    template::{Part, Template},
};

/// A template whose columns are known by their positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvedTemplate {
    parts: Vec<ResolvedPart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ResolvedPart {
    Text(String),
    /// The first that is not NULL.
    Placeholder(Vec<(usize, Option<JsonPointer>)>),
}

/// Why a template has no text for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfilled {
    /// Nothing fills a placeholder.
    Null,
    /// A column with a pointer holds no JSON.
    NotJson,
    /// A value is not UTF-8, which the connection's `client_encoding` excludes.
    Form,
}

impl ResolvedTemplate {
    /// Finds the columns of a template. Where a placeholder names several, those that the table
    /// lacks are left out.
    ///
    /// # Errors
    /// A placeholder for which the table has no column, as it is written.
    pub(crate) fn new(
        template: &Template,
        position: impl Fn(&str) -> Option<usize>,
    ) -> Result<Self, String> {
        let part = |part: &Part| match part {
            Part::Text(text) => Ok(ResolvedPart::Text(text.clone())),
            Part::Placeholder(alternatives) => {
                let found: Vec<_> = alternatives
                    .iter()
                    .filter_map(|alternative| {
                        Some((position(&alternative.column)?, alternative.pointer.clone()))
                    })
                    .collect();
                if found.is_empty() {
                    let names: Vec<String> = alternatives.iter().map(ToString::to_string).collect();
                    return Err(names.join("|"));
                }
                Ok(ResolvedPart::Placeholder(found))
            }
        };
        template.parts().iter().map(part).collect::<Result<_, _>>().map(|parts| Self { parts })
    }

    /// The positions of its columns.
    pub(crate) fn positions(&self) -> impl Iterator<Item = usize> {
        self.parts
            .iter()
            .flat_map(|part| match part {
                ResolvedPart::Text(_) => &[][..],
                ResolvedPart::Placeholder(alternatives) => alternatives.as_slice(),
            })
            .map(|(position, _)| *position)
    }

    /// Appends the text for a row.
    pub(super) fn write(&self, row: TupleColumns<'_>, out: &mut String) -> Result<(), Unfilled> {
        for part in &self.parts {
            match part {
                ResolvedPart::Text(text) => out.push_str(text),
                ResolvedPart::Placeholder(alternatives) => fill(alternatives, row, out)?,
            }
        }
        Ok(())
    }
}

fn fill(
    alternatives: &[(usize, Option<JsonPointer>)],
    row: TupleColumns<'_>,
    out: &mut String,
) -> Result<(), Unfilled> {
    for (position, pointer) in alternatives {
        let Some(value) = text(row, *position) else { continue };
        match pointer {
            None => {
                out.push_str(str::from_utf8(value).map_err(|_| Unfilled::Form)?);
                return Ok(());
            }
            Some(pointer) => {
                if let Some(found) = pointer.find(value).map_err(|_| Unfilled::NotJson)? {
                    out.push_str(&found);
                    return Ok(());
                }
            }
        }
    }
    Err(Unfilled::Null)
}
