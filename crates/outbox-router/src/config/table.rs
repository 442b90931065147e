//! How a table of keys is declared: one entry gives name, type, default, what the key takes and
//! what it means, and everything else follows from it.
//!
//! The declaration is a macro. A derive was rejected, because a procedural macro would be a crate
//! of its own for one use. serde was rejected, because it gives neither the place of a value nor
//! all problems at once.

use super::{
    entry::KeyEntry,
    print::Lines,
    read::{Problems, Section},
};

/// A declared table.
pub(super) trait DeclaredTable: Sized {
    /// Every key with its default.
    fn defaults() -> Self;

    /// Takes the keys out of the table. Every problem goes to `problems`, and its key keeps its
    /// default. Keys that are not known are left in it: several types may share one table.
    fn read_keys(section: &mut Section, problems: &mut Problems<'_>) -> Self;

    /// Reads the table, and reports what is left in it.
    fn read(mut section: Section, problems: &mut Problems<'_>) -> Self {
        let table = Self::read_keys(&mut section, problems);
        section.finish(problems);
        table
    }

    /// Writes every key that is set, with `prefix` before its name.
    fn write(&self, prefix: &str, lines: &mut Lines);

    /// Lists the keys, with `prefix` before their names.
    fn describe(prefix: &str, entries: &mut Vec<KeyEntry>);
}

/// Declares tables. `pub struct` makes the type; `impl` reads into a type that exists already.
///
/// ```text
/// pub struct Limits {
///     /// What the key means: the help text, and the field's documentation.
///     window_events: u64 = 20_000, count(1..=10_000_000);
/// //  name           type  default  what it takes
/// }
/// ```
///
/// In an `impl` a field may have another name in the file: `name as "table": …`.
macro_rules! tables {
    () => {};
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[doc = $help:literal])* $field:ident: $type:ty = $default:expr, $kind:expr;)*
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $($(#[doc = $help])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self::defaults()
            }
        }

        tables! {
            impl $name {
                $($(#[doc = $help])* $field: $type = $default, $kind;)*
            }
            $($rest)*
        }
    };
    (
        impl $name:ident {
            $(
                $(#[doc = $help:literal])*
                $field:ident $(as $key:literal)?: $type:ty = $default:expr, $kind:expr;
            )*
        }
        $($rest:tt)*
    ) => {
        impl DeclaredTable for $name {
            fn defaults() -> Self {
                Self { $($field: $default,)* }
            }

            fn read_keys(section: &mut Section, problems: &mut Problems<'_>) -> Self {
                Self {
                    $($field: {
                        let key = tables!(@key $field $($key)?);
                        Kind::<$type>::read(&$kind, key, section, problems)
                            .unwrap_or_else(|| $default)
                    },)*
                }
            }

            fn write(&self, prefix: &str, lines: &mut Lines) {
                $({
                    let key = format!("{prefix}{}", tables!(@key $field $($key)?));
                    Kind::<$type>::write(&$kind, &key, &self.$field, lines);
                })*
            }

            fn describe(prefix: &str, entries: &mut Vec<KeyEntry>) {
                $({
                    let name = format!("{prefix}{}", tables!(@key $field $($key)?));
                    let key = Named { name, help: &[$($help),*] };
                    Kind::<$type>::describe(&$kind, key, &$default, entries);
                })*
            }
        }

        tables! { $($rest)* }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
}

pub(super) use tables;
