//! Checks that concern several values at once.

use relay::OutboxTable;

use super::{
    error::{ConfigCode, ConfigError},
    keys::Config,
    meaning,
    outbox::validate_table,
    places::Places,
    polled::validate_polled,
    polling,
    quantity::print_size,
    read::Problems,
    retention,
};

/// Checks the values against each other.
pub(super) fn validate(config: &Config, places: &Places, problems: &mut Problems<'_>) {
    meaning::validate(config, places, problems);
    polling::validate_retry(&config.retry, places, problems);
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
    let state_topic = config.kafka.state_topic.as_ref();
    if let Some(topic) =
        config.dead_letters.topic.as_ref().filter(|topic| Some(*topic) == state_topic)
    {
        let message = format!("dead_letters.topic is the kafka.state_topic ({topic})");
        problems.push(
            ConfigError::new(ConfigCode::Contradiction, message)
                .hint("the state topic is compacted, and holds nothing but witnesses"),
        );
    }
    let tables: Vec<&OutboxTable> = config.tables().collect();
    let of_rows = (config.postgres.source, &tables[..], state_topic);
    retention::validate(&config.retention, of_rows, problems);
    for (index, outbox) in config.outbox.iter().enumerate() {
        let table = &outbox.table;
        if let Some(first) = config.tables().take(index).position(|it| it.name == table.name) {
            let message =
                format!("outbox[{first}] and outbox[{index}] are both the table {}", table.name);
            problems.push(
                ConfigError::new(ConfigCode::Contradiction, message)
                    .hint("one [[outbox]] for each table"),
            );
        }
        let place = format!("outbox[{index}]");
        validate_table(&place, table, (config.postgres.source, state_topic), problems);
        validate_polled(&place, &outbox.polled, places, problems);
    }
}
