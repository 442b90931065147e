//! `database.*` as `postgres.url`. No password is copied.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{
    super::{draft::Text, report::PropertyFinding},
    context::Context,
};

/// Everything but what RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The same in a path after the `?`, where a slash has no meaning.
const RESERVED_IN_PATH: &AsciiSet = &RESERVED.remove(b'/');

/// The rest of the connection, as parameters after the URL's `?`.
const PARAMETERS: [&str; 3] = ["sslrootcert", "sslcert", "sslkey"];

pub(super) fn translate(context: &mut Context<'_>) {
    let user = part(context, "database.user", "POSTGRES_USER", "PGUSER");
    let host = part(context, "database.hostname", "POSTGRES_HOST", "PGHOST");
    let database = part(context, "database.dbname", "POSTGRES_DB", "PGDATABASE");
    let password = context.carry("database.password").filter(|given| !given.value.is_empty());
    // A placeholder counts as not plain: its value is unknown here, and may need encoding.
    let needs_encoding =
        password.as_ref().is_some_and(|given| encoded(&given.value) != given.value);
    let password = password.map(|property| context.secret(&property, "POSTGRES_PASSWORD"));
    let mut url = Text::literal("postgres://");
    if let Some(user) = user {
        url.append(user.map_literals(encoded));
        if let Some(password) = password {
            url.push(":");
            url.append(password);
            if needs_encoding {
                let text = "the password becomes part of a URL: characters such as @ / % are \
                            percent-encoded in the variable";
                context.report.different(PropertyFinding::absent("postgres.url", text));
            }
        }
        url.push("@");
    }
    url.append(
        host.unwrap_or_default().map_literals(|host| {
            if host.contains(':') { format!("[{host}]") } else { encoded(host) }
        }),
    );
    if let Some(port) = context.carry("database.port") {
        let port = context.text(&port, "POSTGRES_PORT");
        url.push(":");
        url.append(port);
    }
    url.push("/");
    url.append(database.unwrap_or_default().map_literals(encoded));
    url.push("?");
    url.append(tls(context));
    context.draft.postgres.text("url", &url);
}

/// A part of the address; without it libpq's variable applies.
fn part(context: &mut Context<'_>, name: &str, variable: &str, of_libpq: &str) -> Option<Text> {
    let Some(property) = context.carry(name) else {
        let text = format!("it is not in the file; the variable {of_libpq} applies");
        context
            .report
            .different(PropertyFinding::absent(name, text).hint(format!("set {of_libpq}")));
        return None;
    };
    if property.value.contains(',') {
        let text = "several hosts: the router connects to one, the primary";
        context.report.unsupported(PropertyFinding::of(&property, text));
    }
    Some(context.text(&property, variable))
}

fn tls(context: &mut Context<'_>) -> Text {
    let mut parameters = Text::literal("sslmode=");
    if let Some(mode) = context.carry("database.sslmode") {
        parameters.append(context.text(&mode, "POSTGRES_SSLMODE"));
    } else {
        let text = "sslmode=prefer, Debezium's default, which checks no certificate";
        let hint = "leave sslmode out of the URL to have the server's certificate checked";
        context.report.different(PropertyFinding::absent("database.sslmode", text).hint(hint));
        parameters.push("prefer");
    }
    for name in PARAMETERS {
        let Some(property) = context.carry(&format!("database.{name}")) else { continue };
        if name == "sslkey" {
            let text = "Debezium reads the key as DER (PKCS #8), the router as PEM";
            let hint = "openssl pkcs8 -inform DER -nocrypt -in FILE -out FILE.pem";
            context.report.different(PropertyFinding::of(&property, text).hint(hint));
        }
        parameters.push(&format!("&{name}="));
        let value = context.text(&property, &format!("POSTGRES_{}", name.to_ascii_uppercase()));
        let in_path = |path: &str| utf8_percent_encode(path, RESERVED_IN_PATH).to_string();
        parameters.append(value.map_literals(in_path));
    }
    parameters
}

/// Percent-encodes what has a meaning in a URL.
fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}
