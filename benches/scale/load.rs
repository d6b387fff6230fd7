//! Measures a point: fills the gateway, then sends requests one after the other, and many at once.

use std::{
    cell::Cell,
    io,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::LocalSet;

use crate::{client::Connection, dimensions::Point, gateway::Gateway, report::Row};

/// Clients that send at once.
const MANY: usize = 32;

/// Measures `point`. A quick run takes a second.
pub(crate) async fn measure(point: &Point, engine: SocketAddr, quick: bool) -> io::Result<Row> {
    let gateway = Gateway::start(&point.policy, point.keys.as_deref(), point.processors)?;
    let empty = gateway.resident();
    let fill = (0..if quick { point.filled.min(100) } else { point.filled }).map(point.fill);
    exchange(gateway.listen, MANY, fill.map(Into::into), None).await?;
    let length = |seconds| if quick { Duration::from_millis(100) } else { Duration::from_secs(seconds) };
    let measured = async |address, clients, seconds| {
        let requests = point.requests.clone().into_iter().cycle();
        exchange(address, clients, requests, Some(length(seconds))).await
    };
    // Warm-up.
    measured(gateway.listen, MANY, 1).await?;
    let (began, before) = (Instant::now(), gateway.cpu());
    let many = measured(gateway.listen, MANY, 4).await?;
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), gateway.cpu().saturating_sub(before));
    let one = quantiles(measured(gateway.listen, 1, 2).await?);
    let direct = quantiles(measured(engine, 1, 1).await?);
    let (metrics_bytes, metrics_time) = gateway.metrics()?;
    Ok(Row {
        value: point.value,
        rate: many.len() as f64 / seconds,
        cpu: cpu.div_f64(many.len().max(1) as f64),
        added: [0, 1].map(|at| one[at].saturating_sub(direct[at])),
        empty,
        resident: gateway.resident(),
        metrics_bytes,
        metrics_time,
        started: gateway.started,
    })
}

/// Sends `requests` from `clients` connections, each after the answer to the one before it, until there are no more or
/// `length` is over. Returns the time of each.
async fn exchange(
    address: SocketAddr,
    clients: usize,
    requests: impl Iterator<Item = Arc<[u8]>> + 'static,
    length: Option<Duration>,
) -> io::Result<Vec<Duration>> {
    let began = Instant::now();
    let requests = Rc::new(Cell::new(Some(requests)));
    let next = move || {
        let mut taken = requests.take()?;
        let next = if length.is_some_and(|length| began.elapsed() >= length) { None } else { taken.next() };
        requests.set(Some(taken));
        next
    };
    let local = LocalSet::new();
    let clients: Vec<_> = (0..clients)
        .map(|_| {
            let next = next.clone();
            local.spawn_local(async move {
                let (mut connection, mut times) = (Connection::open(address).await?, Vec::new());
                while let Some(request) = next() {
                    times.push(connection.exchange(&request).await?.total);
                }
                Ok::<_, io::Error>(times)
            })
        })
        .collect();
    local.await;
    let mut times = Vec::new();
    for client in clients {
        times.append(&mut client.await.map_err(io::Error::other)??);
    }
    Ok(times)
}

/// Median and 99th percentile.
fn quantiles(mut times: Vec<Duration>) -> [Duration; 2] {
    times.sort_unstable();
    [0.5, 0.99].map(|quantile| {
        let place = (quantile * times.len() as f64) as usize;
        times.get(place.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
    })
}
