//! The topic of dead letters (`dead_letters.topic`). `setup` makes it as little as other topics of
//! events, but says what is missing: otherwise the first dead letter would.

use std::io;

use relay::{Code, Failure, TopicName};

use crate::{
    blocking::blocking,
    cli::RecordPart,
    codes::hint,
    config::Config,
    kafka::{TopicDescription, look_up_topics, topic_command},
    prepare,
};

/// Prints the command that makes it.
pub(super) fn print(config: &Config, out: &mut (dyn io::Write + Send)) -> io::Result<()> {
    let Some(topic) = topic(config) else { return Ok(()) };
    let made = topic_command(&prepare::kafka_settings(config), topic);
    if let Some(command) = made.filter(|_| config.kafka.create_topics.is_none()) {
        writeln!(out, "-- the topic of dead letters, in a shell, if it does not exist")?;
        writeln!(out, "-- {command}\n")?;
    }
    Ok(())
}

/// Says whether it exists, and what to type if it does not.
pub(super) async fn report(
    part: RecordPart,
    config: &Config,
    out: &mut (dyn io::Write + Send),
) -> io::Result<()> {
    let Some(topic) = topic(config) else { return Ok(()) };
    match part {
        RecordPart::Skip => {
            writeln!(out, "topic {topic}, of dead letters: not looked up")
        }
        RecordPart::Include => match look_up(config, topic.clone()).await {
            Ok(_) => writeln!(out, "topic {topic}, of dead letters: exists already"),
            Err(failure) if failure.code == Code::TopicMissing => {
                if config.kafka.create_topics.is_some() {
                    let when = "with the first dead letter";
                    return writeln!(
                        out,
                        "topic {topic}, of dead letters: the router makes it {when}"
                    );
                }
                let hint = hint(&failure).unwrap_or_default();
                writeln!(out, "topic {topic}, of dead letters: does not exist\n  hint: {hint}")
            }
            Err(failure) => {
                writeln!(out, "topic {topic}, of dead letters: {failure}")?;
                hint(&failure).map_or(Ok(()), |hint| writeln!(out, "  hint: {hint}"))
            }
        },
    }
}

/// `None` where no dead letter becomes a record.
fn topic(config: &Config) -> Option<&TopicName> {
    config.dead_letters.topic.as_ref().filter(|_| config.on_error.has_dead_letters())
}

async fn look_up(config: &Config, topic: TopicName) -> Result<TopicDescription, Failure> {
    let settings = prepare::kafka_settings(config);
    let found = blocking(move || look_up_topics(&settings, vec![topic])).await?;
    let missing = || Err(Failure::new(Code::KafkaUnreachable, "Kafka has not answered"));
    found.into_iter().next().map_or_else(missing, |(_, found)| found)
}
