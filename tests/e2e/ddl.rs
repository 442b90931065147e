//! The outbox table changes under load.
