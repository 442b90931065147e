//! `migrate debezium`: reads the file, prints the TOML to standard output or to `--out`, and the
//! three lists to standard error. While something is not supported, it writes no TOML unless
//! `--accept` is given: a configuration that lacks something must not look complete.

mod args;
mod take_over;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::Path,
};

use serde_json::{Value, json};

pub(super) use take_over::Origin;

pub use args::{Converter, Direction, GiveBack, MigrateArgs, MigrateFrom, TakeOver, Unsupported};

use super::{Exit, Form, Terminal};
use crate::{
    config::{ConfigCode, ConfigError},
    migrate::{self, FILE_BYTES_MAX, Given, GivenConverter, Migration, PropertyFinding},
};

/// Translates, and does nothing else.
pub(super) fn debezium(args: &MigrateArgs, terminal: &mut Terminal<'_>) -> io::Result<Exit> {
    let migration = match translated(args, terminal)? {
        Ok(migration) => migration,
        Err(exit) => return Ok(exit),
    };
    let toml = usable(args, &migration);
    if let (Some(out), Some(toml)) = (&args.out, toml)
        && let Err(error) = write_new(out, toml)
    {
        return not_written(out, &error, terminal);
    }
    match args.form {
        Form::Json => {
            let object = as_json(&migration, toml);
            writeln!(terminal.out, "{object:#}")?;
        }
        Form::Text => {
            if let (None, Some(toml)) = (&args.out, toml) {
                write!(terminal.out, "{toml}")?;
                terminal.out.flush()?;
            }
            lists(&migration, terminal.err)?;
            next_step(args, &migration, toml, terminal.err)?;
        }
    }
    Ok(if toml.is_some() { Exit::Done } else { Exit::Failure })
}

/// Checks whether the slot can be handed over.
pub(super) async fn hand_over(
    direction: Direction,
    args: &MigrateArgs,
    mut origin: Origin<'_>,
    terminal: &mut Terminal<'_>,
) -> io::Result<Exit> {
    let migration = match translated(args, terminal)? {
        Ok(migration) => migration,
        Err(exit) => return Ok(exit),
    };
    if let Some(out) = &args.out {
        origin.file = None;
        if let Some(toml) = usable(args, &migration) {
            if let Err(error) = write_new(out, toml) {
                return not_written(out, &error, terminal);
            }
            origin.file = Some(out.clone());
        }
    }
    take_over::hand_over(direction, args, &migration, origin, terminal).await
}

/// The configuration, unless something of the file is missing in it that nobody has accepted.
fn usable<'m>(args: &MigrateArgs, migration: &'m Migration) -> Option<&'m str> {
    let is_accepted = args.unsupported == Unsupported::Accept || migration.is_complete();
    migration.toml.as_deref().filter(|_| is_accepted)
}

/// The translation, or how the command ends where there is none.
fn translated(
    args: &MigrateArgs,
    terminal: &mut Terminal<'_>,
) -> io::Result<Result<Migration, Exit>> {
    let shown = args.file.display().to_string();
    let refused = |message: String| ConfigError::new(ConfigCode::MigrationSource, message);
    let text = match read(&args.file, terminal) {
        Ok(text) => text,
        Err(error) => {
            let error = refused(format!("cannot read {shown}: {error}"));
            writeln!(terminal.err, "{error}")?;
            return Ok(Err(Exit::Configuration));
        }
    };
    match migrate::debezium(&text, &given(args)) {
        Ok(migration) => Ok(Ok(migration)),
        Err(error) => {
            let error = refused(format!("{shown}: {error}")).hint(error.hint.clone());
            writeln!(terminal.err, "{error}")?;
            Ok(Err(Exit::Configuration))
        }
    }
}

fn given(args: &MigrateArgs) -> Given {
    let converter = |converter| match converter {
        Converter::String => GivenConverter::String,
        Converter::Json => GivenConverter::Json,
        Converter::Bytes => GivenConverter::Bytes,
    };
    let name = args.file.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.filter(|name| name != "-").unwrap_or_else(|| "standard input".to_owned());
    Given {
        // The name goes into a comment, which ends with its line.
        file: name.replace(char::is_control, " "),
        bootstrap_servers: args.bootstrap_servers.clone(),
        tables: args.tables.clone(),
        key_converter: args.key_converter.map(converter),
        value_converter: args.value_converter.map(converter),
    }
}

fn read(path: &Path, terminal: &mut Terminal<'_>) -> io::Result<String> {
    let mut text = String::new();
    let limit = FILE_BYTES_MAX + 1;
    let read = if path.as_os_str() == "-" {
        io::Read::take(&mut terminal.input, limit).read_to_string(&mut text)?
    } else {
        File::open(path)?.take(limit).read_to_string(&mut text)?
    };
    if u64::try_from(read).is_ok_and(|read| read > FILE_BYTES_MAX) {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(text)
}

/// Writes a file that does not exist yet, whole or not at all.
fn write_new(path: &Path, toml: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let written = file.write_all(toml.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        // What is left of it must not be taken for a configuration.
        fs::remove_file(path).unwrap_or_default();
    }
    written
}

fn not_written(path: &Path, error: &io::Error, terminal: &mut Terminal<'_>) -> io::Result<Exit> {
    let path = path.display();
    if error.kind() == io::ErrorKind::AlreadyExists {
        writeln!(terminal.err, "error: {path} exists, and is not overwritten")?;
        writeln!(terminal.err, "  hint: give another name, or move it away")?;
    } else {
        writeln!(terminal.err, "error: cannot write {path}: {error}")?;
    }
    Ok(Exit::Failure)
}

type Out<'o> = &'o mut (dyn io::Write + Send);

fn lists(migration: &Migration, out: Out<'_>) -> io::Result<()> {
    writeln!(out, "read      {}", migration.source)?;
    carried(&migration.carried, out)?;
    findings("behaves differently", &migration.different, out)?;
    findings("not supported", &migration.unsupported, out)
}

/// In two columns: what the file has, and the key that it became.
fn carried(findings: &[PropertyFinding], out: Out<'_>) -> io::Result<()> {
    const WIDTH_MAX: usize = 64;
    if findings.is_empty() {
        return Ok(());
    }
    writeln!(out, "\ncarried over")?;
    let width =
        findings.iter().map(|finding| property_with_line(finding).len()).max().unwrap_or_default();
    let width = width.min(WIDTH_MAX);
    for finding in findings {
        writeln!(out, "  {:width$}  {}", property_with_line(finding), finding.text)?;
    }
    Ok(())
}

fn findings(title: &str, findings: &[PropertyFinding], out: Out<'_>) -> io::Result<()> {
    if findings.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    for finding in findings {
        writeln!(out, "  {}", property_with_line(finding))?;
        writeln!(out, "      {}", finding.text)?;
        if let Some(hint) = &finding.hint {
            writeln!(out, "      hint: {hint}")?;
        }
    }
    Ok(())
}

/// The property, with its line where the file has it.
fn property_with_line(finding: &PropertyFinding) -> String {
    match finding.line {
        Some(line) => format!("{line}: {}", finding.property),
        None => finding.property.clone(),
    }
}

/// What to type next.
fn next_step(
    args: &MigrateArgs,
    migration: &Migration,
    written: Option<&str>,
    out: Out<'_>,
) -> io::Result<()> {
    let file = args.out.as_ref().map_or_else(|| "FILE".to_owned(), |out| out.display().to_string());
    writeln!(out)?;
    if written.is_some() {
        let from = args.file.display();
        writeln!(out, "to do     outbox-router check --config {file}")?;
        writeln!(out, "          outbox-router compare --config {file}")?;
        return writeln!(
            out,
            "          outbox-router migrate debezium {from} --take-over --config {file}"
        );
    }
    if migration.toml.is_none() {
        return writeln!(out, "to do     nothing was written: it cannot be translated");
    }
    writeln!(
        out,
        "to do     nothing was written: {} not supported; follow the hints, or add --accept to go \
         on without",
        match migration.unsupported.len() {
            1 => "one thing is".to_owned(),
            several => format!("{several} things are"),
        }
    )
}

fn as_json(migration: &Migration, toml: Option<&str>) -> Value {
    json!({
        "source": migration.source,
        "toml": toml,
        "carried": list(&migration.carried),
        "different": list(&migration.different),
        "unsupported": list(&migration.unsupported),
    })
}

fn list(findings: &[PropertyFinding]) -> Vec<Value> {
    let one = |finding: &PropertyFinding| {
        json!({
            "property": finding.property,
            "line": finding.line,
            "text": finding.text,
            "hint": finding.hint,
        })
    };
    findings.iter().map(one).collect()
}
