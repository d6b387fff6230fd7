//! Memory of open streams: while they are open, and a minute after all have left.

use std::{
    error::Error,
    fmt::{self, Write},
    io,
    net::SocketAddr,
    time::Duration,
};

use memchr::memmem;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::sleep,
};

use crate::{
    gateway::Gateway,
    report::grouped,
    slow_engine::{self, Behaviour},
};

/// Name of the dimension.
pub(crate) const NAME: &str = "open streams";

const STREAMS: [u64; 4] = [1_000, 3_000, 9_000, 10_000];
/// Descriptors of this process and of the gateway for other things.
const OTHER_DESCRIPTORS: u64 = 1_000;
/// Time between two tokens of a stream.
const PACE: Duration = Duration::from_secs(1);
/// Streams that are opened at once: more would overflow the backlog of a listener.
const OPENED_AT_ONCE: u64 = 64;

/// Opens more and more streams at a new gateway each time, as many as `descriptors` allow: each takes two, here and there.
/// A quick run opens some.
pub(crate) async fn measure(descriptors: u64, quick: bool) -> Result<String, Box<dyn Error>> {
    let engine = slow_engine::start(Behaviour::Pace(PACE)).await?;
    let policy = format!("pools: {{ m: {{ model: m, backends: [\"http://{}/v1\"] }} }}\n", engine.address);
    let mut table = format!(
        "| {NAME} | memory before, MB | while open | kB per stream | a minute after | CPU per event, µs |\n|---:|---:|---:|---:|---:|---:|\n"
    );
    let (counts, rest) = if quick { (&[50][..], Duration::ZERO) } else { (&STREAMS[..], Duration::from_mins(1)) };
    for &count in counts.iter().filter(|count| 2 * **count + OTHER_DESCRIPTORS <= descriptors) {
        eprintln!("{NAME}: {count}");
        let gateway = Gateway::start(&policy, None, "0")?;
        let before = gateway.resident();
        let mut streams = JoinSet::new();
        for number in 0..count {
            if number % OPENED_AT_ONCE == 0 {
                sleep(Duration::from_millis(if quick { 1 } else { 20 })).await;
            }
            streams.spawn(hold(gateway.listen));
        }
        // All have begun, and sent some events.
        sleep(if quick { Duration::from_millis(500) } else { Duration::from_secs(10) }).await;
        let spent = gateway.cpu();
        sleep(if quick { PACE } else { PACE * 10 }).await;
        let events = count as f64 * if quick { 1.0 } else { 10.0 };
        let per_event = gateway.cpu().saturating_sub(spent).as_secs_f64() * 1e6 / events;
        if let Some(ended) = streams.try_join_next() {
            return Err(format!("a stream ended: {:?}", ended?).into());
        }
        let open = gateway.resident();
        streams.shutdown().await;
        sleep(rest).await;
        row(&mut table, count, [before, open, gateway.resident()], per_event)?;
    }
    Ok(table)
}

fn row(table: &mut String, count: u64, [before, open, after]: [f64; 3], per_event: f64) -> fmt::Result {
    let each = (open - before) * 1024.0 / count as f64;
    let count = grouped(count);
    writeln!(table, "| {count} | {before:.0} | {open:.0} | {each:.0} | {after:.0} | {per_event:.0} |")
}

/// Holds a stream open, and reads what comes. Ends only with an error.
async fn hold(address: SocketAddr) -> io::Result<()> {
    let body = r#"{"model":"m","stream":true,"max_tokens":100000,"messages":[{"role":"user","content":"Count."}]}"#;
    let mut stream = TcpStream::connect(address).await?;
    let length = body.len();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    let mut buffer = vec![0; 4096];
    let read = stream.read(&mut buffer).await?;
    if memmem::find(&buffer[..read], b" 200 ").is_none() {
        return Err(io::Error::other(String::from_utf8_lossy(&buffer[..read]).into_owned()));
    }
    while stream.read(&mut buffer).await? > 0 {}
    Err(io::ErrorKind::UnexpectedEof.into())
}
