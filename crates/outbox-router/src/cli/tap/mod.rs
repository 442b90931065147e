//! `tap`: events of the running router, as they are routed. The router's end is [`crate::tap`],
//! which says why this command cannot slow it.

mod args;
mod connection;
mod print;

use std::{io, net::SocketAddr, pin::pin};

use super::{Audience, Exit, Form, TaskError, Terminal};
use crate::config::Config;
pub use args::{TapArgs, TapContent};
use connection::{Answered, Connection, NoTap};
use print::Printer;

/// Prints until Ctrl-C, until the router goes away, or until so many events are printed.
pub(super) async fn tap(
    args: &TapArgs,
    config: &Config,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let listen = config.admin.listen;
    let mut interrupt = pin!(tokio::signal::ctrl_c());
    let opened = tokio::select! {
        biased;
        _ = &mut interrupt => return Ok(Exit::Done),
        opened = Connection::open(listen, args) => opened,
    };
    let mut connection = match opened {
        Ok(connection) => connection,
        Err(NoTap::NoRouter(error)) => return Ok(nobody(listen, &error, terminal)?),
        Err(NoTap::Refused(why)) => return Ok(refused(&why, terminal)?),
    };
    writeln!(terminal.err, "tapping the router at {listen} (admin.listen)")?;
    let ended = tokio::select! {
        biased;
        _ = &mut interrupt => Ok(Exit::Done),
        ended = follow(&mut connection, args, terminal) => ended,
    };
    connection.end().await;
    match ended {
        // The reader has seen enough, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        ended => Ok(ended?),
    }
}

/// Prints until the router goes away, or until so many events are printed.
async fn follow(
    connection: &mut Connection,
    args: &TapArgs,
    terminal: &mut Terminal<'_>,
) -> io::Result<Exit> {
    let form = match terminal.audience {
        Audience::Person => args.form,
        Audience::Machine => Form::Json,
    };
    let mut printer = Printer::new(form, args.content, args.limit);
    loop {
        let went_on = match connection.next().await {
            Ok(Answered::Lines(lines)) => {
                for line in &lines {
                    printer.line(line, terminal.out)?;
                    if printer.is_enough() {
                        terminal.out.flush()?;
                        return Ok(Exit::Done);
                    }
                }
                terminal.out.flush()?;
                continue;
            }
            Ok(Answered::Forgotten) => {
                writeln!(
                    terminal.err,
                    "the router was restarted, or this command did not read for a minute: what was \
                     routed meanwhile is not shown"
                )?;
                connection.open_again().await
            }
            Err(why) => Err(why),
        };
        match went_on {
            Ok(()) => {}
            Err(NoTap::Refused(why)) => return refused(&why, terminal),
            Err(NoTap::NoRouter(_)) => {
                let listen = connection.listen();
                writeln!(
                    terminal.err,
                    "error: the router at {listen} does not answer any more: it has stopped, and \
                     what it routed last may not be shown"
                )?;
                return Ok(Exit::Failure);
            }
        }
    }
}

fn nobody(listen: SocketAddr, error: &io::Error, terminal: &mut Terminal<'_>) -> io::Result<Exit> {
    writeln!(terminal.err, "error: no router answers at {listen} (admin.listen): {error}")?;
    writeln!(
        terminal.err,
        "  hint: tap shows what a running router does; start it with the same configuration, or \
         name its address: --set admin.listen=HOST:PORT"
    )?;
    Ok(Exit::Failure)
}

fn refused(why: &str, terminal: &mut Terminal<'_>) -> io::Result<Exit> {
    writeln!(terminal.err, "error: {why}")?;
    Ok(Exit::Failure)
}
