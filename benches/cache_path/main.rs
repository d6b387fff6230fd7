//! Cost of the exact cache inside the gateway: for a request that may not share answers, and for one that hits. No sockets.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench reports on stdout and panics on errors")]

#[path = "../decision/figures.rs"]
mod figures;
#[path = "../overhead/machine.rs"]
mod machine;

use std::{alloc::System, sync::Arc, time::Duration};

use bytes::Bytes;
use clap::Parser;
use http::{HeaderMap, HeaderValue};
use signalbox::{
    cache::{Directives, ExactCache, KeyParts, Keys, Origin, Record, eligible},
    policy::Scope,
    protocol::{Canonical, RequestBody, Transcript},
    types::{Endpoint, Moment},
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use self::figures::Figures;

/// Counts allocations of the system allocator. The gateway uses jemalloc, so times of steps that allocate differ from the gateway's.
#[global_allocator]
pub(crate) static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Number of answers in the cache.
const KEPT: usize = 10_000;
/// Bytes of a prompt and of a cached answer's text.
const LENGTH: usize = 8 << 10;

/// Command-line arguments.
#[derive(clap::Parser)]
#[command(name = "cache_path", about = "Bench of the exact cache's steps")]
struct Args {
    /// Smoke test: a second instead of several
    #[arg(long)]
    quick: bool,
    /// Passed by `cargo bench`; without it (`cargo test --all-targets`) the run is a quick one
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let args = Args::parse();
    let rounds = if args.quick || !args.bench { 500 } else { 20_000 };
    println!("{}\n", machine::line(&machine::read()));
    println!("| step | p50 | p99 | allocations |\n|---|---:|---:|---:|");
    bypass(rounds);
    hits(rounds);
}

fn text(number: usize) -> String {
    format!("{number} {}", "lorem ipsum dolor ".repeat(LENGTH / 18))
}

fn body(number: usize, more: &str) -> RequestBody {
    let text = text(number);
    let json = format!(
        r#"{{"model":"auto","messages":[{{"role":"system","content":"Be brief."}},{{"role":"user","content":"{text}"}}],"max_tokens":256{more}}}"#
    );
    RequestBody::json(Endpoint::Chat, Bytes::from(json)).unwrap()
}

/// Measures requests that may not share answers, up to where that is known.
fn bypass(rounds: usize) {
    let mut headers = HeaderMap::new();
    for (name, value) in [("user-agent", "bench"), ("accept", "*/*"), ("authorization", "Bearer x"), ("x-a", "b")] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (request, more) in [("no temperature", ""), ("temperature 0.7, eight more members", MEMBERS)] {
        let body = body(0, more);
        let mut figures = Figures::with_capacity(rounds);
        for _ in 0..rounds {
            figures.measure(|| {
                let directives = Directives::read(&headers, body.member("cache")).unwrap();
                (directives, eligible::exact(Endpoint::Chat, None, &body, false).unwrap_err())
            });
        }
        println!("| past the cache: {request} | {figures} |");
    }
}

const MEMBERS: &str =
    r#","temperature":0.7,"top_p":0.9,"seed":7,"stop":["a"],"presence_penalty":0,"user":"u","n":1,"stream":true"#;

/// Measures requests with a cached answer, in a full cache.
fn hits(rounds: usize) {
    let keys = Keys::new([7; 32]);
    let scope = keys.scope(Scope::Key, Some("web"), None).unwrap();
    let cache = ExactCache::default();
    cache.set_capacity(1 << 30);
    let now = Moment::default();
    let key = |body: &RequestBody| {
        let form = Canonical::of(Endpoint::Chat, body).unwrap();
        keys.exact(&KeyParts { scope, model: "auto", namespace: "", headers: b"", form: &form })
    };
    let bodies: Vec<RequestBody> = (0..KEPT.min(rounds)).map(|number| body(number, r#","temperature":0"#)).collect();
    for body in &bodies {
        cache.insert(key(body), record(scope), Duration::from_hours(1), now);
    }
    let (mut keyed, mut found, mut whole, mut streamed) = (
        Figures::with_capacity(rounds),
        Figures::with_capacity(rounds),
        Figures::with_capacity(rounds),
        Figures::with_capacity(rounds),
    );
    for round in 0..rounds {
        let body = &bodies[round * 7919 % bodies.len()];
        let key = keyed.measure(|| key(body));
        let found = found.measure(|| cache.get(&key, None, |record| record.may_serve(&[Origin(1)]), now).unwrap());
        whole.measure(|| found.record.transcript.whole().clone());
        streamed.measure(|| found.record.transcript.events(true, false));
    }
    let name = |what: &str| format!("{what} ({} answers kept, 8 KB each)", bodies.len());
    println!("| key of an 8 KB request | {keyed} |");
    println!("| {} | {found} |", name("lookup"));
    println!("| the kept answer, whole | {whole} |");
    println!("| the kept answer, as a stream | {streamed} |");
}

fn record(scope: signalbox::cache::ScopeId) -> Arc<Record> {
    let answer = format!(
        r#"{{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":"{}"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":2000,"completion_tokens":2000}}}}"#,
        text(0)
    );
    Arc::new(Record {
        transcript: Transcript::of_whole(Endpoint::Chat, answer.as_bytes(), 1 << 20).unwrap(),
        scope,
        caller: Some("web".into()),
        route: "auto".into(),
        pool: "small".into(),
        origin: Origin(1),
        cost_usd: Some(0.001),
        seconds: 2.0,
    })
}
