//! The TCP connections of a process to the database server, as the kernel shows them (sock_diag).
//!
//! The kernel answers in a fraction of a millisecond and needs no privilege. `ss` shows the same,
//! but would have to be installed, and each look would start a process that reads all of `/proc`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags,
};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};
use procfs::process::{FDTarget, Process};

/// What has come in on one connection so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) bytes: u64,
    /// Segments with data. One that the kernel did not cut, of up to 64 KiB, is one.
    pub(crate) segments: u64,
    /// The congestion control of the sender, which is the server.
    pub(crate) congestion: String,
}

/// Connections by the port of the client.
pub(crate) type Connections = BTreeMap<u16, Connection>;

/// A socket for questions to the kernel.
pub(crate) struct ConnectionSource {
    socket: Socket,
    server_port: u16,
}

impl ConnectionSource {
    /// # Errors
    ///
    /// Fails where the kernel was built without sock_diag, or a sandbox forbids it.
    pub(crate) fn open(server_port: u16) -> anyhow::Result<Self> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, server_port })
    }

    /// The connections that this process has to the server. There are none when it has ended.
    pub(crate) fn of(&self, pid: u32) -> anyhow::Result<Connections> {
        let Ok(own) = sockets(pid) else { return Ok(Connections::new()) };
        let (to_server, of_server) = (self.dump(End::Client)?, self.dump(End::Server)?);
        let mut congestion: BTreeMap<u16, String> = of_server
            .into_iter()
            .filter_map(|sender| Some((sender.header.socket_id.destination_port, name(&sender)?)))
            .collect();
        let own = to_server.iter().filter(|found| own.contains(&u64::from(found.header.inode)));
        let connections = own.filter_map(|found| {
            let port = found.header.socket_id.source_port;
            let (bytes, segments) = received(found)?;
            let congestion = congestion.remove(&port).unwrap_or_default();
            Some((port, Connection { bytes, segments, congestion }))
        });
        Ok(connections.collect())
    }

    /// Open connections with the server's port at this end. A JVM reaches IPv4 addresses through
    /// IPv6 sockets, so both families are asked for.
    fn dump(&self, end: End) -> anyhow::Result<Vec<InetResponse>> {
        let mut found = Vec::new();
        for (family, any) in [(AF_INET, SocketId::new_v4()), (AF_INET6, SocketId::new_v6())] {
            let socket_id = match end {
                End::Client => SocketId { destination_port: self.server_port, ..any },
                End::Server => SocketId { source_port: self.server_port, ..any },
            };
            self.dump_family(family, socket_id, &mut found)?;
        }
        Ok(found)
    }

    fn dump_family(
        &self,
        family: u8,
        socket_id: SocketId,
        found: &mut Vec<InetResponse>,
    ) -> anyhow::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        let request = SockDiagMessage::InetRequest(InetRequest {
            family,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::INFO | ExtensionFlags::CONG,
            states: StateFlags::ESTABLISHED,
            socket_id,
        });
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(request));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            if parse(&datagram, found)? == Dump::Complete {
                return Ok(());
            }
        }
    }
}

/// The ends of a connection.
#[derive(Debug, Clone, Copy)]
enum End {
    Client,
    Server,
}

/// Whether the kernel has said all.
#[derive(Debug, PartialEq, Eq)]
enum Dump {
    Continues,
    Complete,
}

/// Reads the messages of one datagram.
fn parse(mut datagram: &[u8], found: &mut Vec<InetResponse>) -> anyhow::Result<Dump> {
    while !datagram.is_empty() {
        let message = NetlinkMessage::<SockDiagMessage>::deserialize(datagram)?;
        let length = usize::try_from(message.header.length)?.next_multiple_of(4);
        // Whatever else a kernel may say is no socket.
        if let NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(answer)) = message.payload
        {
            found.push(*answer);
        } else if let NetlinkPayload::Error(error) = message.payload {
            return Err(error.to_io()).context("the kernel lists no sockets");
        } else if let NetlinkPayload::Done(_) = message.payload {
            return Ok(Dump::Complete);
        }
        datagram = datagram.get(length..).unwrap_or_default();
    }
    Ok(Dump::Continues)
}

fn received(connection: &InetResponse) -> Option<(u64, u64)> {
    connection.nlas.iter().find_map(|attribute| {
        let Nla::TcpInfo(info) = attribute else { return None };
        Some((info.bytes_received, u64::from(info.data_segs_in)))
    })
}

fn name(connection: &InetResponse) -> Option<String> {
    connection.nlas.iter().find_map(|attribute| {
        let Nla::Congestion(name) = attribute else { return None };
        Some(name.clone())
    })
}

/// The inodes of all sockets of a process.
fn sockets(pid: u32) -> anyhow::Result<BTreeSet<u64>> {
    let files = Process::new(i32::try_from(pid)?)?.fd()?;
    // A file may be closed between being listed and being read.
    let sockets = files.filter_map(|file| {
        let FDTarget::Socket(inode) = file.ok()?.target else { return None };
        Some(inode)
    });
    Ok(sockets.collect())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn what_one_connection_of_a_process_has_received_is_counted_in_bytes_and_segments() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let source = ConnectionSource::open(address.port()).unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.set_nodelay(true).unwrap();
        for _ in 0..10 {
            server.write_all(&[7; 100]).unwrap();
            let mut read = [0; 100];
            client.read_exact(&mut read).unwrap();
        }
        let port = client.local_addr().unwrap().port();
        let seen = source.of(std::process::id()).unwrap();
        let connection = &seen[&port];
        assert_eq!((connection.bytes, connection.segments), (1000, 10));
        let in_force = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
        assert_eq!(connection.congestion, in_force.unwrap().trim());
        drop(client);
        assert_eq!(source.of(std::process::id()).unwrap(), Connections::new());
    }

    #[test]
    fn connections_of_other_processes_are_left_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let source = ConnectionSource::open(address.port()).unwrap();
        let _client = TcpStream::connect(address).unwrap();
        let (_server, _) = listener.accept().unwrap();
        assert_eq!(source.of(std::process::id()).unwrap().len(), 1);
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let seen = source.of(other.id());
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(seen.unwrap(), Connections::new());
    }

    #[test]
    fn connections_that_need_several_datagrams_are_all_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let source = ConnectionSource::open(address.port()).unwrap();
        let pairs: Vec<_> = (0..100)
            .map(|_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap()))
            .collect();
        let seen = source.of(std::process::id()).unwrap();
        let ports: BTreeSet<u16> =
            pairs.iter().map(|(client, _)| client.local_addr().unwrap().port()).collect();
        assert_eq!(seen.keys().copied().collect::<BTreeSet<u16>>(), ports);
    }

    #[test]
    fn a_connection_to_an_ipv4_address_through_an_ipv6_socket_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let source = ConnectionSource::open(port).unwrap();
        // Where IPv6 is switched off there is no such socket.
        let Ok(_client) = TcpStream::connect(format!("[::ffff:127.0.0.1]:{port}")) else { return };
        let (_server, _) = listener.accept().unwrap();
        let seen = source.of(std::process::id()).unwrap();
        let names: Vec<&str> = seen.values().map(|found| found.congestion.as_str()).collect();
        assert!(matches!(names.as_slice(), [name] if !name.is_empty()), "{seen:?}");
    }
}
