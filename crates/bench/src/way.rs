//! The ways on which readers reach PostgreSQL in the runs over one backlog.

use crate::choices::{Socket, value_name};

/// A socket, and the congestion control of its connections if it is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) socket: Socket,
    /// `None` for the system's own, and for a unix socket, which has none.
    pub(crate) congestion: Option<String>,
}

impl Way {
    /// Every socket under every congestion control that is chosen.
    pub(crate) fn all(sockets: &[Socket], congestion: &[String]) -> Vec<Self> {
        let ways = sockets.iter().flat_map(|&socket| {
            let names: Vec<Option<String>> = match (socket, congestion) {
                (Socket::Unix, _) | (_, []) => vec![None],
                (Socket::Tcp | Socket::Tls, names) => names.iter().cloned().map(Some).collect(),
            };
            names.into_iter().map(move |congestion| Self { socket, congestion })
        });
        ways.collect()
    }

    /// For people, and for the names of runs.
    pub(crate) fn name(&self) -> String {
        let socket = value_name(self.socket);
        self.congestion.as_ref().map_or(socket.clone(), |name| format!("{socket} {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tcp_socket_is_combined_with_every_congestion_control_and_a_unix_socket_with_none() {
        let sockets = [Socket::Tcp, Socket::Unix, Socket::Tls];
        let names = |congestion: &[String]| -> Vec<String> {
            Way::all(&sockets, congestion).iter().map(Way::name).collect()
        };
        assert_eq!(names(&[]), ["tcp", "unix", "tls"]);
        assert_eq!(
            names(&["bbr".to_owned(), "cubic".to_owned()]),
            ["tcp bbr", "tcp cubic", "unix", "tls bbr", "tls cubic"]
        );
    }
}
