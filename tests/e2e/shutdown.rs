//! Stopping in order, and taking over.
