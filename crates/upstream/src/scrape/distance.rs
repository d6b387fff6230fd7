//! Network distance of an engine: the time to establish a connection, which its operating system answers without the
//! engine.

use std::{sync::Arc, time::Duration};

use tokio::net::{TcpStream, lookup_host};

use signalbox_fleet::Engine;
use signalbox_types::Clock;

/// Pause after the first measurement, which happens while much else starts and is often slow.
const FIRST: Duration = Duration::from_secs(1);
/// Pause between later measurements.
const EVERY: Duration = Duration::from_secs(10);
/// Timeout of a connection.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Measures the round trip to `engine` until the task is aborted.
pub(super) async fn poll(engine: Arc<Engine>, clock: Clock) {
    let Some((host, port)) = place(&engine.id.url) else { return };
    let mut pause = FIRST;
    loop {
        if let Ok(Some(seconds)) = tokio::time::timeout(TIMEOUT, round_trip(&host, port, clock)).await {
            engine.round_trip.record(seconds, clock.now());
        }
        tokio::time::sleep(pause.mul_f64(0.9 + 0.2 * fastrand::f64())).await;
        pause = (pause * 2).min(EVERY);
    }
}

/// Seconds of one round trip, to the first address that answers. Name resolution is not included, and the connection is
/// closed unused.
async fn round_trip(host: &str, port: u16, clock: Clock) -> Option<f64> {
    for address in lookup_host((host, port)).await.ok()? {
        let started = clock.now();
        if TcpStream::connect(address).await.is_ok() {
            return Some(clock.now().seconds_since(started));
        }
    }
    None
}

/// Host and port of a URL.
fn place(url: &str) -> Option<(String, u16)> {
    let uri: http::Uri = url.parse().ok()?;
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']').to_owned();
    Some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_takes_a_round_trip() {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let took = round_trip("127.0.0.1", port, Clock::start()).await.unwrap();
        assert!((0.0..1.0).contains(&took), "{took}");
        drop(listener);
        assert_eq!(round_trip("127.0.0.1", port, Clock::start()).await, None);
    }

    #[test]
    fn every_address_has_a_port() {
        for (url, want) in [
            ("http://g1:8000/v1", ("g1", 8000)),
            ("http://g1/v1", ("g1", 80)),
            ("https://api.example.com", ("api.example.com", 443)),
            ("http://[::1]:9/v1", ("::1", 9)),
        ] {
            assert_eq!(place(url), Some((want.0.to_owned(), want.1)));
        }
    }
}
