//! Converters and formats: the bytes of key, value and headers.

use super::{
    super::{properties::Property, read::Form, report::PropertyFinding},
    chain::EventRouter,
    context::Context,
    given::GivenConverter,
};

/// How the value is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Converters {
    pub(super) value: GivenConverter,
}

/// The key or the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Key,
    Value,
}

impl Part {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Value => "value",
        }
    }
}

/// What a class or a format writes.
enum Known {
    Plain(GivenConverter),
    /// JSON, with its schema unless that is switched off.
    Json,
    /// Not supported, for this reason.
    Never(&'static str),
}

const REGISTRY: &str = "records with the id of a schema registry are not written";

/// By the last part of a class, or the name of a format of Debezium Server.
fn known(name: &str) -> Known {
    match name.rsplit('.').next().unwrap_or(name) {
        "StringConverter" | "simplestring" => Known::Plain(GivenConverter::String),
        "BinaryDataConverter" | "ByteBufferConverter" | "ByteArrayConverter" | "binary" => {
            Known::Plain(GivenConverter::Bytes)
        }
        // Formats of Confluent's managed connectors, whose JSON has no schema.
        "STRING" => Known::Plain(GivenConverter::String),
        "JSON" => Known::Plain(GivenConverter::Json),
        "JsonConverter" | "json" | "jsonbytearray"
            if !name.contains("apicurio") && !name.contains("confluent") =>
        {
            Known::Json
        }
        "CloudEventsConverter" | "cloudevents" => {
            Known::Never("the envelope of CloudEvents is not written")
        }
        "AvroConverter"
        | "avro"
        | "AVRO"
        | "JSON_SR"
        | "PROTOBUF"
        | "ProtobufConverter"
        | "protobuf"
        | "JsonSchemaConverter"
        | "ExtJsonConverter"
        | "JsonConverter"
        | "AWSKafkaAvroConverter" => Known::Never(REGISTRY),
        _ => Known::Never("the router runs no Java classes"),
    }
}

pub(super) fn translate(context: &mut Context<'_>, router: &EventRouter) -> Converters {
    let expands = router.get("table.expand.json.payload").is_some_and(|option| option.is("true"));
    let likely = if expands { GivenConverter::Json } else { GivenConverter::String };
    let key = one(context, Part::Key, context.given.key_converter, GivenConverter::String);
    let value = one(context, Part::Value, context.given.value_converter, likely);
    // The format of neither has to be written where it is what `auto` does.
    for (part, converter) in [(Part::Key, key), (Part::Value, value)] {
        if converter != GivenConverter::String {
            let format = format!("\"{}\"", converter.format());
            context.draft.outbox.raw(&format!("{}_format", part.as_str()), &format);
        }
    }
    headers(context);
    Converters { value }
}

fn one(
    context: &mut Context<'_>,
    part: Part,
    given: Option<GivenConverter>,
    likely: GivenConverter,
) -> GivenConverter {
    let Written { class, schemas, others } = take(context, part);
    for other in &others {
        context.report.carried(other, "an option of the converter");
    }
    let schemas_are_on = schemas.as_ref().is_none_or(|schemas| !schemas.is("false"));
    if let Some(given) = given {
        for property in class.iter().chain(&schemas) {
            let text = format!("--{}-converter decides instead", part.as_str());
            context.report.carried(property, text);
        }
        return given;
    }
    let Some(class) = class else {
        if context.form == Form::ServerProperties {
            return json(context, part, None, schemas.as_ref());
        }
        return assumed(context, part, likely, schemas.as_ref());
    };
    match known(&class.value) {
        Known::Plain(converter) => {
            let key = format!("outbox.{}_format = \"{}\"", part.as_str(), converter.format());
            context.report.carried(&class, key);
            if let Some(schemas) = &schemas {
                context.report.carried(schemas, "the converter knows no schemas");
            }
            converter
        }
        Known::Json if schemas_are_on => json(context, part, Some(&class), schemas.as_ref()),
        Known::Json => {
            for property in [&class].into_iter().chain(&schemas) {
                let key = format!("outbox.{}_format = \"json\"", part.as_str());
                context.report.carried(property, key);
            }
            GivenConverter::Json
        }
        Known::Never(why) => {
            let text = format!(
                "{}: {why}; with --accept the {} is the column as it is{}",
                class.value,
                part.as_str(),
                match part {
                    Part::Key =>
                        ": other bytes, and so other partitions: the order of a key \
                                  breaks at the switch",
                    Part::Value => "",
                }
            );
            let hint = format!("or choose: --{}-converter string, json or bytes", part.as_str());
            context.report.unsupported(PropertyFinding::of(&class, text).hint(hint));
            GivenConverter::String
        }
    }
}

/// `JsonConverter` with schemas, which is its default and that of Debezium Server.
fn json(
    context: &mut Context<'_>,
    part: Part,
    class: Option<&Property>,
    schemas: Option<&Property>,
) -> GivenConverter {
    if let Some(schemas) = schemas.filter(|schemas| class.is_none() && schemas.is("false")) {
        context.report.carried(schemas, format!("outbox.{}_format = \"json\"", part.as_str()));
        return GivenConverter::Json;
    }
    let text = format!(
        "JSON with a schema beside every {0} (schemas.enable is not false) is not written; with \
         --accept the {0} is JSON without it",
        part.as_str()
    );
    let hint = format!("or choose: --{}-converter string, json or bytes", part.as_str());
    let finding = match class.or(schemas) {
        Some(property) => PropertyFinding::of(property, text),
        None => PropertyFinding::absent(&format!("debezium.format.{}", part.as_str()), text),
    };
    context.report.unsupported(finding.hint(hint));
    GivenConverter::Json
}

/// The worker's converter applies, and only the worker's file knows which that is.
fn assumed(
    context: &mut Context<'_>,
    part: Part,
    likely: GivenConverter,
    schemas: Option<&Property>,
) -> GivenConverter {
    let likely = if schemas.is_some() { GivenConverter::Json } else { likely };
    let class = match likely {
        GivenConverter::String => "StringConverter",
        GivenConverter::Json => "JsonConverter without schemas",
        GivenConverter::Bytes => "BinaryDataConverter",
    };
    let what = match part {
        Part::Key => "; another one gives the keys other bytes, and so other partitions",
        Part::Value => "",
    };
    let name = format!("{}.converter", part.as_str());
    let text = format!(
        "the Kafka Connect worker's file decides, and is not given; {class} is assumed{what}"
    );
    let hint = format!("--{}-converter string, json or bytes", part.as_str());
    context.report.different(PropertyFinding::absent(&name, text).hint(hint));
    if let Some(schemas) = schemas {
        let text = format!("without {name} Kafka Connect does not read it");
        context.report.different(PropertyFinding::of(schemas, text));
    }
    likely
}

/// A converter as it is written.
struct Written {
    class: Option<Property>,
    schemas: Option<Property>,
    others: Vec<Property>,
}

fn take(context: &mut Context<'_>, part: Part) -> Written {
    let converter = format!("{}.converter", part.as_str());
    let mut class = context.input.take(&converter);
    let mut others = context.input.take_below(&format!("{converter}."));
    let mut schemas = schemas(&mut others);
    let managed = match part {
        Part::Key => "output.key.format",
        Part::Value => "output.data.format",
    };
    if class.is_none() && context.form != Form::ServerProperties {
        class = context.input.take(managed);
    }
    if context.form == Form::ServerProperties {
        if let Some(class) = class.take() {
            let text = format!(
                "no effect in Debezium Server, where debezium.format.{} decides",
                part.as_str()
            );
            context.report.different(PropertyFinding::of(&class, text));
        }
        let format = format!("debezium.format.{}", part.as_str());
        class = context.input.take(&format);
        others.extend(context.input.take_below(&format!("{format}.")));
        let of_format = self::schemas(&mut others);
        let of_both = context.input.get("debezium.format.schemas.enable").cloned();
        schemas = of_format.or(schemas).or(of_both);
        if part == Part::Value {
            context.input.take("debezium.format.schemas.enable");
        }
    }
    Written { class, schemas, others }
}

fn schemas(options: &mut Vec<Property>) -> Option<Property> {
    let at = options.iter().position(|option| option.name.ends_with(".schemas.enable"))?;
    // The delegate of a binary converter has options of the same name.
    let is_own = options.get(at).is_some_and(|option| !option.name.contains("delegate"));
    is_own.then(|| options.remove(at))
}

/// What a connector writes as headers, beside texts as they are.
enum HeaderFormat {
    Simple,
    String,
    Json,
    /// Debezium Server does not start with it.
    Refused,
    Unknown,
}

impl HeaderFormat {
    fn of(form: Form, name: &str) -> Self {
        match (form == Form::ServerProperties, name) {
            (true, "json" | "jsonbytearray") | (false, "JsonConverter") => Self::Json,
            (true, "connect" | "clientprovided") => Self::Unknown,
            (true, _) => Self::Refused,
            (false, "SimpleHeaderConverter") => Self::Simple,
            (false, "StringConverter") => Self::String,
            (false, _) => Self::Unknown,
        }
    }
}

fn headers(context: &mut Context<'_>) {
    let form = context.form;
    let (name, options) = if form == Form::ServerProperties {
        let name = context.input.take("debezium.format.header");
        (name, context.input.take_below("debezium.format.header."))
    } else {
        (context.input.take("header.converter"), context.input.take_below("header.converter."))
    };
    for option in &options {
        context.report.carried(option, "headers have no schema here");
    }
    let json = "headers are texts as they are; JSON puts a text into quotes, writes null for NULL \
                and Base64 for a numeric, and a schema around all of it unless that is off; compare \
                finds none of its records, because the header id has quotes, too";
    let string = "headers are texts as SimpleHeaderConverter writes them; StringConverter writes a \
                  bytea and a numeric without a declared scale as what cannot be read back, and an \
                  array as another list";
    let refused = "headers are texts as they are; Debezium Server does not start with this value: \
                   it knows json, jsonbytearray, connect and clientprovided";
    let unknown = "what it writes as headers is not known; here they are texts as they are";
    let report = &mut context.report;
    let Some(name) = &name else {
        if form == Form::ServerProperties {
            report.different(PropertyFinding::absent("debezium.format.header", json));
        }
        return;
    };
    let class = name.value.rsplit('.').next().unwrap_or_default();
    match HeaderFormat::of(form, class) {
        HeaderFormat::Simple => report.carried(name, "headers are texts as they are"),
        HeaderFormat::String => report.different(PropertyFinding::of(name, string)),
        HeaderFormat::Json => report.different(PropertyFinding::of(name, json)),
        HeaderFormat::Refused => report.different(PropertyFinding::of(name, refused)),
        HeaderFormat::Unknown => report.unsupported(PropertyFinding::of(name, unknown)),
    }
}
