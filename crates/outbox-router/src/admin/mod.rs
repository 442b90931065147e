//! stub until the real one is merged
#![allow(missing_docs, clippy::unused_async)]
pub struct Settings;
pub async fn serve(_l: tokio::net::TcpListener, _s: Settings, _r: tokio::sync::watch::Receiver<crate::monitor::RelayReport>, _m: tokio::sync::watch::Receiver<crate::monitor::MonitorReport>) -> std::io::Result<()> { std::future::pending().await }
