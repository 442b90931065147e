//! Debezium Server in YAML: the resource of its operator, and the environment of a container.

use super::{
    super::{
        super::properties::{Properties, Property},
        environment,
        error::ReadError,
    },
    tree::{Member, Node},
};

/// The settings of a `DebeziumServer`, as its operator writes `application.properties`.
pub(super) fn of_operator(node: &Node) -> Result<Properties, ReadError> {
    let mut server = Operator::default();
    let Some(spec) = node.get("spec") else { return Ok(server.properties) };
    if let Some(source) = spec.get("source") {
        server.part(source, "spec.source", ("class", "debezium.source.connector.class"))?;
        server.below(source, "spec.source", "debezium.source.")?;
    }
    if let Some(sink) = spec.get("sink") {
        server.part(sink, "spec.sink", ("type", "debezium.sink.type"))?;
        let kind = sink.get("type").and_then(Node::text).unwrap_or_default();
        server.below(sink, "spec.sink", &format!("debezium.sink.{kind}."))?;
    }
    if let Some(quarkus) = spec.get("quarkus") {
        server.below(quarkus, "spec.quarkus", "quarkus.")?;
    }
    for Member { name, node, .. } in spec.get("format").map(Node::members).unwrap_or_default() {
        let written = format!("spec.format.{name}");
        let format = format!("debezium.format.{name}");
        server.part(node, &written, ("type", &format))?;
        server.below(node, &written, &format!("{format}."))?;
    }
    let transforms = spec.get("transforms").map(Node::items).unwrap_or_default();
    let named = transforms.iter().enumerate().map(|(at, node)| (format!("t{at}"), node));
    server.list(spec, "transforms", named)?;
    let predicates = spec.get("predicates").map(Node::members).unwrap_or_default();
    let named = predicates.iter().map(|member| (member.name.clone(), &member.node));
    server.list(spec, "predicates", named)?;
    Ok(server.properties)
}

/// The Debezium Servers among the services of a compose file, each with its line.
pub(super) fn of_compose(node: &Node) -> Vec<(usize, Properties)> {
    let services = node.get("services").map(Node::members).unwrap_or_default();
    let nodes = services.iter().map(|service| &service.node).chain([node]);
    let environments = nodes.filter_map(|node| node.get("environment"));
    environments.filter_map(|node| Some((node.line, of_environment(node)?))).collect()
}

fn of_environment(node: &Node) -> Option<Properties> {
    let of_map = node.members().iter().filter_map(|member| {
        Some((member.name.as_str(), member.node.text()?.to_owned(), member.line))
    });
    let of_list = node.items().iter().filter_map(|item| {
        let (name, value) = item.text()?.split_once('=')?;
        Some((name, value.to_owned(), item.line))
    });
    // Compose fills in `${…}` itself, and writes `$$` for a dollar.
    let variables =
        of_map.chain(of_list).map(|(name, value, line)| (name, value.replace("$$", "$"), line));
    let variables: Vec<(&str, String, usize)> = variables.collect();
    environment::of(variables.iter().map(|(name, value, line)| (*name, value.as_str(), *line)))
}

#[derive(Default)]
struct Operator {
    properties: Properties,
}

impl Operator {
    fn push(&mut self, name: &str, written: String, node: &Node) -> Result<(), ReadError> {
        let property = Property::new(name, node.single(&written)?, node.line);
        self.properties.push(Property { written, ..property });
        Ok(())
    }

    /// A member that has a property of its own.
    fn part(
        &mut self,
        node: &Node,
        written: &str,
        (member, name): (&str, &str),
    ) -> Result<(), ReadError> {
        let Some(value) = node.get(member) else { return Ok(()) };
        self.push(name, format!("{written}.{member}"), value)
    }

    /// The members of `config`, which are names of properties after a prefix.
    fn below(&mut self, node: &Node, written: &str, prefix: &str) -> Result<(), ReadError> {
        let settings = node.get("config").map(Node::members).unwrap_or_default();
        settings.iter().try_for_each(|Member { name, node, .. }| {
            self.push(&format!("{prefix}{name}"), format!("{written}.config.{name}"), node)
        })
    }

    /// Transforms or predicates, each under a name.
    fn list<'n>(
        &mut self,
        spec: &Node,
        list: &str,
        named: impl Iterator<Item = (String, &'n Node)>,
    ) -> Result<(), ReadError> {
        let prefix = format!("debezium.{list}");
        let mut names = Vec::new();
        for (name, node) in named {
            let written = format!("spec.{list}.{name}");
            for member in ["type", "predicate", "negate"] {
                let property = format!("{prefix}.{name}.{member}");
                self.part(node, &written, (member, &property))?;
            }
            self.below(node, &written, &format!("{prefix}.{name}."))?;
            names.push(name);
        }
        if let Some(member) = spec.members().iter().find(|member| member.name == list) {
            let property = Property::new(prefix, &names.join(","), member.line);
            self.properties.push(Property { written: format!("spec.{list}"), ..property });
        }
        Ok(())
    }
}
