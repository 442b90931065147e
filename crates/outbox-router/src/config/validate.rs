//! Checks that concern several values at once.

use relay::{ColumnNames, OutboxTable, Preset, Role, Timestamp, map_columns};

use super::{
    error::{ConfigCode, ConfigError},
    keys::Config,
    quantity::print_size,
    read::Problems,
};

/// Checks the values against each other.
pub(super) fn validate(config: &Config, problems: &mut Problems<'_>) {
    let limits = &config.limits;
    if limits.window_bytes < limits.row_bytes {
        let (window, row) = (print_size(limits.window_bytes), print_size(limits.row_bytes));
        let message =
            format!("limits.window_bytes ({window}) is smaller than limits.row_bytes ({row})");
        problems.push(
            ConfigError::new(ConfigCode::Contradiction, message)
                .hint("one row of the largest size must fit into the window"),
        );
    }
    let behind = &config.monitor.bytes_behind;
    if behind.warning >= behind.critical {
        let (warning, critical) = (print_size(behind.warning), print_size(behind.critical));
        let message = format!(
            "monitor.bytes_behind.warning ({warning}) is not below \
             monitor.bytes_behind.critical ({critical})"
        );
        problems.push(
            ConfigError::new(ConfigCode::Contradiction, message)
                .hint("the warning must come before the error"),
        );
    }
    for (index, outbox) in config.outbox.iter().enumerate() {
        if let Some(first) = config.outbox.iter().take(index).position(|o| o.name == outbox.name) {
            let message =
                format!("outbox[{first}] and outbox[{index}] are both the table {}", outbox.name);
            problems.push(
                ConfigError::new(ConfigCode::Contradiction, message)
                    .hint("one [[outbox]] for each table"),
            );
        }
        let roles = needed_but_left_out(outbox);
        if !roles.is_empty() {
            let roles = roles.join(", ");
            let message = format!("outbox[{index}].columns leaves out {roles}");
            problems.push(
                ConfigError::new(ConfigCode::Contradiction, message)
                    .hint("an empty list is for columns that an event can do without"),
            );
        }
        let has_timestamp = outbox.columns.get(Role::Timestamp).is_some_and(|n| !n.is_empty());
        if has_timestamp && outbox.timestamp != Timestamp::Column {
            let message =
                format!("outbox[{index}].columns.timestamp names a column that is not read");
            problems.push(
                ConfigError::new(ConfigCode::Contradiction, message)
                    .hint("set timestamp = \"column\", or leave columns.timestamp out"),
            );
        }
        if let Some(state) = &config.kafka.state_topic
            && outbox.topic.to_string() == state.as_str()
        {
            let message = format!("outbox[{index}].topic is the kafka.state_topic ({state})");
            problems.push(
                ConfigError::new(ConfigCode::Contradiction, message)
                    .hint("the witness, the record in the state topic, is not for consumers"),
            );
        }
        if outbox.headers.id == outbox.headers.event_type {
            let name = &outbox.headers.id;
            let message = format!("outbox[{index}].headers gives two headers the name {name:?}");
            problems.push(ConfigError::new(ConfigCode::Contradiction, message));
        }
    }
}

/// Roles that every event needs and that the configuration leaves without a column. `map_columns`
/// decides which are needed, for a table that has the columns of all roles.
fn needed_but_left_out(outbox: &OutboxTable) -> Vec<&'static str> {
    let preset = Preset::Default;
    let names = Role::ALL.into_iter().flat_map(|role| preset.columns(role));
    let columns: Vec<&[u8]> = names.map(|name| name.as_bytes()).collect();
    let is_needed = |role: &Role| {
        let mut without = ColumnNames::default();
        without.set(*role, Vec::new());
        let table = OutboxTable { preset, columns: without, ..outbox.clone() };
        map_columns(&table, &columns).is_err()
    };
    let left_out = |role: &Role| outbox.columns.get(*role).is_some_and(<[String]>::is_empty);
    Role::ALL.into_iter().filter(left_out).filter(is_needed).map(Role::as_str).collect()
}
