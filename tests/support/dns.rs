//! A DNS server on loopback, over UDP, whose records a test changes while it runs.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};

use tokio::{net::UdpSocket, task::JoinHandle};

const A: u16 = 1;
const AAAA: u16 = 28;
const SRV: u16 = 33;

/// A running DNS server, stopped on drop.
pub struct Dns {
    addr: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Zone {
    /// Record data by name in lower case and type.
    records: BTreeMap<(String, u16), Vec<Vec<u8>>>,
    ttl: u32,
    fails: bool,
    asked: usize,
}

impl Dns {
    /// Starts a server without records, whose answers are valid for `ttl` seconds.
    pub async fn start(ttl: u32) -> Self {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).await.expect("the DNS server binds to loopback");
        let addr = socket.local_addr().expect("a bound socket has an address");
        let zone = Arc::new(Mutex::new(Zone { ttl, ..Zone::default() }));
        let shared = zone.clone();
        let serving = tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
                let answer = answer(&buffer[..length], &mut shared.lock().expect("the zone's lock"));
                if let Some(answer) = answer {
                    socket.send_to(&answer, peer).await.ok();
                }
            }
        });
        Self { addr, zone, serving }
    }

    /// Its address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sets the addresses of `name`.
    pub fn set(&self, name: &str, addresses: impl IntoIterator<Item = IpAddr>) {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for address in addresses {
            match address {
                IpAddr::V4(ip) => v4.push(ip.octets().to_vec()),
                IpAddr::V6(ip) => v6.push(ip.octets().to_vec()),
            }
        }
        let mut zone = self.zone.lock().expect("the zone's lock");
        zone.records.insert((name.to_owned(), A), v4);
        zone.records.insert((name.to_owned(), AAAA), v6);
    }

    /// Sets the SRV records of `name`: priority, weight, port and target.
    pub fn set_services<'a>(&self, name: &str, services: impl IntoIterator<Item = (u16, u16, u16, &'a str)>) {
        let data = services.into_iter().map(|(priority, weight, port, target)| {
            let mut data: Vec<u8> = [priority, weight, port].iter().flat_map(|number| number.to_be_bytes()).collect();
            for label in target.split('.').filter(|label| !label.is_empty()) {
                data.push(label.len() as u8);
                data.extend(label.bytes());
            }
            data.push(0);
            data
        });
        let data = data.collect();
        self.zone.lock().expect("the zone's lock").records.insert((name.to_owned(), SRV), data);
    }

    /// Makes every query fail with `SERVFAIL`, or ends that.
    pub fn fail(&self, fails: bool) {
        self.zone.lock().expect("the zone's lock").fails = fails;
    }

    /// Number of queries so far.
    pub fn asked(&self) -> usize {
        self.zone.lock().expect("the zone's lock").asked
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The answer to a query with one question.
fn answer(query: &[u8], zone: &mut Zone) -> Option<Vec<u8>> {
    zone.asked += 1;
    let (name, end) = question(query)?;
    let kind = u16::from_be_bytes([*query.get(end)?, *query.get(end + 1)?]);
    let known = zone.records.keys().any(|(known, _)| *known == name);
    let records = zone.records.get(&(name, kind)).map_or(&[][..], Vec::as_slice);
    let code = if zone.fails {
        2
    } else if known {
        0
    } else {
        3
    };
    let records = if zone.fails { &[][..] } else { records };
    let mut out = query[..2].to_vec();
    // A response that is authoritative, recursion available.
    out.extend([0x85, 0x80 | code, 0, 1]);
    out.extend((records.len() as u16).to_be_bytes());
    out.extend([0, 0, 0, 0]);
    out.extend(query.get(12..end + 4)?);
    for data in records {
        out.extend([0xc0, 0x0c]);
        out.extend(kind.to_be_bytes());
        out.extend([0, 1]);
        out.extend(zone.ttl.to_be_bytes());
        out.extend((data.len() as u16).to_be_bytes());
        out.extend(data);
    }
    Some(out)
}

/// Name of the first question, in lower case and without a final dot, and the offset behind it.
fn question(query: &[u8]) -> Option<(String, usize)> {
    let (mut at, mut labels) = (12, Vec::new());
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels.join("."), at));
        }
        labels.push(String::from_utf8_lossy(query.get(at..at + length)?).to_ascii_lowercase());
        at += length;
    }
}
