//! Rows may be missing for ever: the router stops, says which interval, and never goes on by itself.
