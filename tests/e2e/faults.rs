//! Connections that hang, break or answer late.
