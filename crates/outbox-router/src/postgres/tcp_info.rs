//! What the kernel says of a TCP connection (`TCP_INFO`).

use std::{os::fd::AsFd, sync::LazyLock};

use nix::{
    getsockopt_impl, sockopt_impl,
    sys::{socket::getsockopt, utsname::uname},
};

/// `tcpi_data_segs_in`, as the offset of a field of four bytes in `struct tcp_info`, which only
/// ever grows.
const DATA_SEGMENTS_IN: usize = 38;
/// The structure up to the next field, in fields of four bytes.
type Fields = [u32; DATA_SEGMENTS_IN + 1];

sockopt_impl!(
    /// The beginning of `struct tcp_info`, up to the field that is used.
    TcpInfo,
    GetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    Fields
);

/// The first kernel whose structure has the field. The option may not be asked of an older one:
/// nix takes a shorter answer for an error of the program.
const SINCE: (u32, u32) = (4, 6);

static IS_KNOWN: LazyLock<bool> =
    LazyLock::new(|| uname().is_ok_and(|system| version(system.release().to_str()) >= Some(SINCE)));

/// How many segments with data have arrived. A segment that the kernel did not cut, of up to 64
/// KiB, is one.
pub(super) fn segments_received(socket: &impl AsFd) -> Option<u32> {
    if !*IS_KNOWN {
        return None;
    }
    getsockopt(socket, TcpInfo).ok()?.get(DATA_SEGMENTS_IN).copied()
}

fn version(release: Option<&str>) -> Option<(u32, u32)> {
    let mut numbers = release?.split(|byte: char| !byte.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    #[tokio::test]
    async fn each_write_that_is_read_before_the_next_is_a_segment() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut reader = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut writer, _) = listener.accept().await.unwrap();
        assert_eq!(segments_received(&reader), Some(0));
        for count in 1..=3 {
            writer.write_all(b"abcd").await.unwrap();
            reader.read_exact(&mut [0; 4]).await.unwrap();
            assert_eq!(segments_received(&reader), Some(count));
        }
    }

    #[test]
    fn the_version_is_the_beginning_of_the_release() {
        assert_eq!(version(Some("6.18.44-fc-v657")), Some((6, 18)));
        assert_eq!(version(Some("3.10.0-1160.el7.x86_64")), Some((3, 10)));
        assert!(version(Some("4.4")) < Some(SINCE));
        assert_eq!(version(Some("unknown")), None);
        assert!(version(None) < Some(SINCE));
    }
}
