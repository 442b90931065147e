//! Which of the resources in a file is the connector, and which properties it has.

use super::{
    super::{
        super::properties::{Properties, Property},
        error::ReadError,
        form::Form,
        server,
    },
    servers,
    tree::Node,
};

const ONE: &str = "give one KafkaConnector with Debezium's EventRouter";

/// The properties of the one connector in these documents.
pub(super) fn connector(documents: &[Node]) -> Result<(Form, Properties), ReadError> {
    let mut found = Found::default();
    for document in documents {
        found.look_at(document, &[])?;
    }
    // Among several connectors, the one that routes an outbox is meant.
    let outboxes: Vec<&Connector<'_>> =
        found.connectors.iter().filter(|connector| connector.routes()).collect();
    let connector = match (outboxes.as_slice(), found.connectors.as_slice()) {
        ([one], _) => one,
        ([], [one]) => one,
        ([], []) => return found.server().unwrap_or_else(|| Err(nothing(documents))),
        ([_, second, ..], _) => {
            let error = ReadError::new("a second connector with an EventRouter", ONE);
            return Err(error.at(second.node.line));
        }
        ([], [_, second, ..]) => {
            return Err(ReadError::new("several connectors", ONE).at(second.node.line));
        }
    };
    let mut properties = connector.properties()?;
    if let Some(worker) = found.worker {
        add_worker(worker, &mut properties);
    }
    Ok((Form::Yaml, properties))
}

/// What the documents hold.
#[derive(Default)]
struct Found<'n> {
    connectors: Vec<Connector<'n>>,
    worker: Option<&'n Node>,
    /// Debezium Servers, each with its line.
    servers: Vec<(usize, Properties)>,
}

impl<'n> Found<'n> {
    /// The one Debezium Server; `None` where there is none.
    fn server(self) -> Option<Result<(Form, Properties), ReadError>> {
        if let [_, (line, _), ..] = self.servers.as_slice() {
            return Some(Err(ReadError::new("several Debezium Servers", "give one").at(*line)));
        }
        let (_, properties) = self.servers.into_iter().next()?;
        Some(Ok((Form::ServerProperties, server::as_connector(properties))))
    }

    fn look_at(&mut self, node: &'n Node, parameters: &'n [Node]) -> Result<(), ReadError> {
        match node.get("kind").and_then(Node::text) {
            Some("KafkaConnector") => self.connectors.push(Connector { node, parameters }),
            Some("KafkaConnect") => self.worker = Some(node),
            Some("DebeziumServer") => {
                self.servers.push((node.line, servers::of_operator(node)?));
            }
            Some("Template" | "List") => {
                let parameters = node.get("parameters").map_or(parameters, Node::items);
                for list in ["objects", "items"].iter().filter_map(|name| node.get(name)) {
                    let mut items = list.items().iter();
                    items.try_for_each(|item| self.look_at(item, parameters))?;
                }
            }
            Some(_) => {}
            // The settings of a connector as YAML, without a resource around them.
            None if settings(node).get("connector.class").is_some() => {
                self.connectors.push(Connector { node, parameters });
            }
            None => self.servers.extend(servers::of_compose(node)),
        }
        Ok(())
    }
}

/// `config`, or the node itself.
fn settings(node: &Node) -> &Node {
    node.get("config").unwrap_or(node)
}

struct Connector<'n> {
    node: &'n Node,
    /// Of the OpenShift template around it.
    parameters: &'n [Node],
}

impl Connector<'_> {
    fn routes(&self) -> bool {
        let spec = self.node.get("spec").unwrap_or(self.node);
        let texts = settings(spec).members().iter().filter_map(|member| member.node.text());
        texts.into_iter().any(|text| text.ends_with("EventRouter"))
    }

    fn properties(&self) -> Result<Properties, ReadError> {
        let mut properties = Properties::default();
        let Some(spec) = self.node.get("spec") else {
            if let Some(name) = self.node.get("name") {
                self.push("name", "name", name, &mut properties)?;
            }
            self.push_settings(settings(self.node), &mut properties)?;
            return Ok(properties);
        };
        if let Some(name) = self.node.get("metadata").and_then(|metadata| metadata.get("name")) {
            self.push("name", "metadata.name", name, &mut properties)?;
        }
        for member in spec.members() {
            match member.name.as_str() {
                "class" => {
                    self.push("connector.class", "spec.class", &member.node, &mut properties)?;
                }
                "tasksMax" => {
                    self.push("tasks.max", "spec.tasksMax", &member.node, &mut properties)?;
                }
                "config" => self.push_settings(&member.node, &mut properties)?,
                other => {
                    let name = format!("spec.{other}");
                    properties.push(Property::new(name, "", member.line));
                }
            }
        }
        Ok(properties)
    }

    fn push_settings(&self, settings: &Node, to: &mut Properties) -> Result<(), ReadError> {
        settings
            .members()
            .iter()
            .filter(|member| !std::ptr::eq(settings, self.node) || member.name != "name")
            .try_for_each(|member| self.push(&member.name, &member.name, &member.node, to))
    }

    fn push(
        &self,
        name: &str,
        written: &str,
        node: &Node,
        to: &mut Properties,
    ) -> Result<(), ReadError> {
        let value = self.filled(node.single(written)?);
        to.push(Property { written: written.to_owned(), ..Property::new(name, &value, node.line) });
        Ok(())
    }

    /// The text with the template's parameters, where the template gives them a value.
    fn filled(&self, text: &str) -> String {
        self.parameters.iter().fold(text.to_owned(), |text, parameter| {
            let of = |name| parameter.get(name).and_then(Node::text);
            let (Some(name), Some(value)) = (of("name"), of("value")) else { return text };
            text.replace(&format!("${{{{{name}}}}}"), value).replace(&format!("${{{name}}}"), value)
        })
    }
}

/// What the worker's own resource says about brokers and converters, where the connector says
/// nothing.
fn add_worker(worker: &Node, properties: &mut Properties) {
    let Some(spec) = worker.get("spec") else { return };
    for (member, name) in [
        ("bootstrapServers", "producer.override.bootstrap.servers"),
        ("tls", "worker.tls"),
        ("authentication", "worker.authentication"),
    ] {
        let node = spec.get(member).filter(|_| properties.get(name).is_none());
        if let Some(node) = node {
            let written = format!("KafkaConnect spec.{member}");
            let text = node.text().unwrap_or_default();
            properties.push(Property { written, ..Property::new(name, text, node.line) });
        }
    }
    let settings = spec.get("config").map(Node::members).unwrap_or_default();
    for class in ["key.converter", "value.converter", "header.converter"] {
        // A connector that names a class of its own inherits no option of the worker's.
        if properties.get(class).is_some() {
            continue;
        }
        for member in settings.iter().filter(|member| member.name.starts_with(class)) {
            let text = member.node.text().unwrap_or_default();
            let written = format!("KafkaConnect spec.config.{}", member.name);
            let property = Property::new(member.name.clone(), text, member.line);
            properties.push(Property { written, ..property });
        }
    }
}

/// There is no connector: says what there is.
fn nothing(documents: &[Node]) -> ReadError {
    let kinds: Vec<&str> =
        documents.iter().filter_map(|document| document.get("kind")?.text()).collect();
    let hint = match kinds.as_slice() {
        kinds if kinds.contains(&"ConfigMap") => "give the text of application.properties alone",
        _ => ONE,
    };
    if kinds.is_empty() {
        return ReadError::new("YAML without a connector.class", hint);
    }
    ReadError::new(format!("no KafkaConnector among {}", kinds.join(", ")), hint)
}
