//! The product: everything of the router that touches the world.

pub mod postgres;
