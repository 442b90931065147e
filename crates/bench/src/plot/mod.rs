//! Charts for the documentation, drawn from the JSON lines alone, so that they can be drawn again.

mod chart;
mod measurements;

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

/// The file that a line was read from: runs of one measurement are compared with each other, and
/// with no others.
const SOURCE: &str = "source";

/// Draws the charts for which `lines` has figures into files in `directory`, and returns their
/// names.
pub(crate) fn draw(lines: &[Value], directory: &Path) -> anyhow::Result<Vec<String>> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    let charts = [
        ("drain.svg", measurements::drain(lines)),
        ("cpu.svg", measurements::cpu(lines)),
        ("latency.svg", measurements::latency(lines)),
        ("flat.svg", measurements::flat(lines)),
    ];
    let mut written = Vec::new();
    for (name, chart) in charts {
        if let Some(chart) = chart {
            let file = directory.join(name);
            std::fs::write(&file, chart.draw()?)
                .with_context(|| format!("cannot write {}", file.display()))?;
            written.push(name.to_owned());
        }
    }
    Ok(written)
}

/// Reads JSON lines of earlier runs.
pub(crate) fn read(files: &[std::path::PathBuf]) -> anyhow::Result<Vec<Value>> {
    let mut lines = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let mut line: Value = serde_json::from_str(line)
                .with_context(|| format!("{} has a line that is no JSON", file.display()))?;
            if let Some(members) = line.as_object_mut() {
                members.insert(SOURCE.to_owned(), file.display().to_string().into());
            }
            lines.push(line);
        }
    }
    Ok(lines)
}
