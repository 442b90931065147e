//! A tap of the running router, asked again and again.

use std::{io, net::SocketAddr, time::Duration};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::args::{TapArgs, TapContent};
use crate::{
    cli::http::{self, Answer},
    tap::Line,
};

/// How long a router that does not answer is asked again: it may be short of connections. What it
/// has answered meanwhile is answered again, so nothing is lost.
const ASKED_AGAIN_FOR: Duration = Duration::from_secs(2);
/// How long a person who ends the command waits at most.
const ENDED_WITHIN: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(200);

/// See the module's header.
pub(super) struct Connection {
    listen: SocketAddr,
    /// The query that opens the tap.
    wanted: String,
    id: String,
    after: u64,
}

/// Why there is no tap.
pub(super) enum NoTap {
    /// Nobody answers, or not as a router does.
    NoRouter(io::Error),
    /// The router refuses it, for this reason.
    Refused(String),
}

/// What the router has answered.
pub(super) enum Answered {
    Lines(Vec<Line>),
    /// It does not know the tap: it was restarted, or this command did not ask for a minute.
    Forgotten,
}

impl Connection {
    pub(super) async fn open(listen: SocketAddr, args: &TapArgs) -> Result<Self, NoTap> {
        let mut wanted = String::from("/tap?");
        for (name, value) in [("topic", &args.topic), ("key", &args.key)] {
            if let Some(value) = value {
                let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
                wanted.push_str(&format!("{name}={value}&"));
            }
        }
        if args.content == TapContent::Show {
            wanted.push_str("content=true");
        }
        let mut connection = Self { listen, wanted, id: String::new(), after: 0 };
        connection.open_again().await?;
        Ok(connection)
    }

    pub(super) fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Opens the tap, or opens it anew.
    pub(super) async fn open_again(&mut self) -> Result<(), NoTap> {
        let answer = http::get_answer(self.listen, &self.wanted).await.map_err(NoTap::NoRouter)?;
        let lines = match answer.status {
            200 => lines(&answer.body).map_err(NoTap::NoRouter)?,
            404 => return Err(NoTap::Refused("this router's version has no tap".to_owned())),
            _ => return Err(NoTap::Refused(reason(&answer))),
        };
        let Some(Line::Tap { id, after }) = lines.into_iter().next_back() else {
            return Err(NoTap::NoRouter(io::ErrorKind::InvalidData.into()));
        };
        (self.id, self.after) = (id, after);
        Ok(())
    }

    /// The next lines, which may be none.
    pub(super) async fn next(&mut self) -> Result<Answered, NoTap> {
        let path = format!("/tap?id={}&after={}", self.id, self.after);
        let answer = self.ask(&path).await.map_err(NoTap::NoRouter)?;
        match answer.status {
            200 => {}
            410 => return Ok(Answered::Forgotten),
            _ => return Err(NoTap::Refused(reason(&answer))),
        }
        let mut lines = lines(&answer.body).map_err(NoTap::NoRouter)?;
        // Without its last line an answer is not complete, and is asked for again.
        let Some(Line::Tap { after, .. }) = lines.pop() else {
            return Ok(Answered::Lines(Vec::new()));
        };
        self.after = after;
        Ok(Answered::Lines(lines))
    }

    /// Ends the tap, so that another can be opened at once. The router forgets it anyway.
    pub(super) async fn end(self) {
        let path = format!("/tap?id={}&end", self.id);
        let ended = http::get_answer(self.listen, &path);
        let _unanswered = tokio::time::timeout(ENDED_WITHIN, ended).await;
    }

    async fn ask(&self, path: &str) -> io::Result<Answer> {
        let asked = async {
            loop {
                match http::get_answer(self.listen, path).await {
                    Ok(answer) => return answer,
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        };
        match tokio::time::timeout(ASKED_AGAIN_FOR, asked).await {
            Ok(answer) => Ok(answer),
            Err(_) => Err(http::get_answer(self.listen, path).await.err().unwrap_or_else(|| {
                // It answers again now, too late to be waited for.
                io::ErrorKind::TimedOut.into()
            })),
        }
    }
}

fn lines(body: &str) -> io::Result<Vec<Line>> {
    let is_whole = |line: &&str| line.ends_with('\n');
    let lines = body.split_inclusive('\n').take_while(is_whole);
    lines.map(|line| serde_json::from_str(line).map_err(io::Error::from)).collect()
}

/// Why a request is refused, in the router's words.
fn reason(answer: &Answer) -> String {
    let body: Option<Value> = serde_json::from_str(&answer.body).ok();
    let said = body.as_ref().and_then(|body| body.get("error")?.as_str());
    said.map_or_else(|| format!("the router answers with status {}", answer.status), str::to_owned)
}
