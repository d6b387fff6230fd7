//! The settings that grow, one at a time. All others stay at the base: a pool of one backend, no keys, no cache, prompts of 1 kB.

use std::{net::SocketAddr, sync::Arc};

use crate::engine::Kind;

/// Requests that are measured where each is another one.
const DIFFERENT: u64 = 2_000;
const KB: usize = 1_000;

/// A setting that grows.
pub(crate) struct Dimension {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<Point>,
}

/// A gateway's settings, and the requests to measure it with.
pub(crate) struct Point {
    /// The value of the setting.
    pub(crate) value: u64,
    /// The policy, without its addresses.
    pub(crate) policy: String,
    /// The file of keys beside the policy, if it names one.
    pub(crate) keys: Option<String>,
    /// Processors of the gateway.
    pub(crate) processors: &'static str,
    /// Requests that are sent once before, from 0 to this number.
    pub(crate) filled: u64,
    pub(crate) fill: fn(u64) -> Vec<u8>,
    /// Requests that are measured, in turn.
    pub(crate) requests: Vec<Arc<[u8]>>,
}

impl Point {
    fn new(value: u64, policy: String, requests: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let requests = requests.into_iter().map(Into::into).collect();
        Self { value, policy, keys: None, processors: "0", filled: 0, fill: |_| Vec::new(), requests }
    }
}

/// All dimensions, over the engine at `engine`. A quick run has the two lowest points of each.
pub(crate) fn dimensions(engine: SocketAddr, quick: bool) -> Vec<Dimension> {
    let base = || pools(engine, 1);
    let usual = || [request("plain", "none", &prompt(0, KB))];
    let points = |values: &[u64], point: &dyn Fn(u64) -> Point| {
        let values = if quick { &values[..values.len().min(2)] } else { values };
        values.iter().map(|&value| point(value)).collect()
    };
    let cached = |answers: u64| Point {
        filled: answers,
        fill: |number| request("plain", "none", &prompt(number, KB)),
        ..Point::new(
            answers,
            base() + "cache: { memory: 8Gi, exact: { ttl: 24h, temperature: any, scope: shared } }\n",
            (0..DIFFERENT.min(answers))
                .map(|number| request("plain", "none", &prompt(number * (answers / DIFFERENT).max(1), KB))),
        )
    };
    vec![
        Dimension {
            name: "backends of a pool",
            points: points(&[1, 16, 64, 256, 1_000], &|count| Point::new(count, pools(engine, count), usual())),
        },
        Dimension {
            name: "bytes of a prompt",
            points: points(&[1_000, 10_000, 100_000, 1_000_000], &|bytes| {
                Point::new(bytes, base(), [request("plain", "none", &prompt(0, bytes as usize))])
            }),
        },
        Dimension {
            name: "routes",
            points: points(&[1, 20, 200], &|count| {
                let names = (0..count).map(|route| format!("m{route}: {{ to: plain }}")).collect::<Vec<_>>();
                let policy = base() + &format!("models: {{ {} }}\n", names.join(", "));
                let requests = (0..count).map(|route| request(&format!("m{route}"), "none", &prompt(0, KB)));
                Point::new(count, policy, requests)
            }),
        },
        Dimension {
            name: "keys",
            points: points(&[1, 1_000, 100_000], &|count| {
                // A policy file may have 4 MiB, which is less than 100,000 keys.
                let listed = (0..count).map(|number| {
                    let hash = blake3::hash(key(number).as_bytes());
                    format!(r#"{{"id":"k{number}","hash":"blake3:{hash}","limits":{{"rpm":100000000}}}}"#)
                });
                let listed = format!(r#"{{"keys":[{}]}}"#, listed.collect::<Vec<_>>().join(","));
                let used = (0..count).step_by((count / DIFFERENT).max(1) as usize);
                let requests = used.map(|number| request("plain", &key(number), &prompt(0, KB)));
                let policy = base() + "managed_keys: { path: keys.json }\n";
                Point { keys: Some(listed), ..Point::new(count, policy, requests) }
            }),
        },
        Dimension { name: "cached answers", points: points(&[1, 10_000, 100_000, 1_000_000], &cached) },
        Dimension {
            name: "processors",
            points: points(&[1, 2], &|count| Point {
                processors: if count == 1 { "0" } else { "0,1" },
                ..Point::new(count, base(), usual())
            }),
        },
    ]
}

fn key(number: u64) -> String {
    format!("sk-scale-{number:032}")
}

/// A pool of the engine under `count` addresses that differ in their paths: to the gateway, `count` engines.
fn pools(engine: SocketAddr, count: u64) -> String {
    let model = Kind::Plain.model();
    let urls: Vec<String> = (0..count).map(|number| format!("http://{engine}/e{number}/v1")).collect();
    format!("pools: {{ {model}: {{ model: {model}, backends: [{}] }} }}\n", urls.join(", "))
}

/// A prompt of `bytes` bytes that differs from others from its start.
fn prompt(number: u64, bytes: usize) -> String {
    let sentence = "The 7.15 to the junction is held at the home signal until the down goods has cleared. ";
    let start = format!("{number:020} ");
    start.chars().chain(sentence.chars().cycle()).take(bytes).collect()
}

fn request(model: &str, key: &str, text: &str) -> Vec<u8> {
    let body = format!(
        r#"{{"model":"{model}","messages":[{{"role":"user","content":"{text}"}}],"max_tokens":64,"temperature":0.7}}"#
    );
    let length = body.len();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}
