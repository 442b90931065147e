//! One connection to the admin endpoint: one request, one answer, within fixed time and memory.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::Router;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::timeout,
};

use super::room::Place;

/// The whole head of a request has to come within this time: a client sends it in one packet.
const HEAD_WITHIN: Duration = Duration::from_secs(2);

/// Of a request's head. It is also the least that hyper accepts.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// Of a request. A browser sends about twenty.
const HEADERS_MAX: usize = 64;

/// The answer has ten seconds, however late the request came. A scrape takes milliseconds; what
/// lasts longer by intent is begun again.
const ENDS_AFTER: Duration = HEAD_WITHIN.saturating_add(Duration::from_secs(10));

/// Serves one request. What goes wrong concerns the client alone, which sees it, too.
pub(super) async fn serve(stream: TcpStream, place: Arc<Place>, router: Router) {
    let asked = Arc::clone(&place);
    let pages = TowerToHyperService::new(router);
    let service = service_fn(move |request: Request<Incoming>| {
        asked.asked();
        hyper::service::Service::call(&pages, request.map(axum::body::Body::new))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(Watched { stream, place }), service);
    let _ended = timeout(ENDS_AFTER, connection).await;
}

/// A stream that says whether its client reads.
struct Watched {
    stream: TcpStream,
    place: Arc<Place>,
}

impl Watched {
    fn saw<T>(&self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &written {
            Poll::Pending => self.place.stalls(),
            Poll::Ready(_) => self.place.reads(),
        }
        written
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.saw(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    // Without these two, every answer would be copied into one buffer before it is sent.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.saw(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
