//! A `KafkaConnector` of Strimzi, alone or among other resources of the same file, or inside of an
//! OpenShift template. A `KafkaConnect` in the same file tells the worker's settings. Where no
//! connector is among them: Debezium Server, of its operator or in a compose file.

mod resources;
mod servers;
mod tree;

use super::{super::properties::Properties, error::ReadError, form::Form};

pub(super) fn read(text: &str) -> Result<(Form, Properties), ReadError> {
    resources::connector(&tree::documents(text)?)
}
