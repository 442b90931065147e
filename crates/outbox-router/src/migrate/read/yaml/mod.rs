//! A `KafkaConnector` of Strimzi, alone or among other resources of the same file, or inside of an
//! OpenShift template. A `KafkaConnect` in the same file tells the worker's settings.

mod resources;
mod tree;

use super::{super::properties::Properties, error::ReadError};

pub(super) fn read(text: &str) -> Result<Properties, ReadError> {
    resources::connector(&tree::documents(text)?)
}
