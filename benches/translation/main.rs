//! Cost of translation: processor time and allocations per event of a translated stream beside one that passes natively,
//! and time per request body.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench reports on stdout and panics on errors")]

#[path = "../overhead/machine.rs"]
mod machine;

use std::{alloc::System, hint::black_box, time::Instant};

use bytes::Bytes;
use clap::Parser;
use serde_json::json;
use signalbox::{
    protocol::{EventReader, Splitter},
    translation::{AnswerTranslator, NoStates, anthropic, messages, responses},
    types::Endpoint,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Command-line arguments.
#[derive(clap::Parser)]
#[command(name = "translation", about = "Bench of the translation between APIs")]
struct Args {
    /// Smoke test: a few rounds
    #[arg(long)]
    quick: bool,
    /// Passed by `cargo bench`; without it (`cargo test --all-targets`) the run is a quick one
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let args = Args::parse();
    let rounds = if args.quick || !args.bench { 3 } else { 300 };
    println!("{}\n", machine::line(&machine::read()));
    println!(
        "A stream of 1,000 text events, split and read as the gateway does; a translated one is split once more, and written.\n"
    );
    println!("| stream | ns per event | of native | allocations per event |\n|---|---:|---:|---:|");
    let (chat, claude) = (chat_stream(), claude_stream());
    let native = stream("chat, native", rounds, None, || read(Endpoint::Chat, &chat, None));
    let claudes = stream("Messages, native", rounds, Some(native), || read(Endpoint::Messages, &claude, None));
    stream("chat to Messages", rounds, Some(native), || {
        read(Endpoint::Chat, &chat, Some(Translation::Caller(Box::new(messages::Answer::new(9)))))
    });
    let (_, echo) = responses::to_chat(br#"{"model":"m","input":"hi","stream":true}"#, &NoStates).unwrap();
    stream("chat to Responses", rounds, Some(native), || {
        read(
            Endpoint::Chat,
            &chat,
            Some(Translation::Caller(Box::new(responses::Answer::new(echo.clone(), "1", || 1)))),
        )
    });
    stream("Messages to chat (upstream), of native Messages", rounds, Some(claudes), || {
        read(Endpoint::Chat, &claude, Some(Translation::Upstream(Box::new(anthropic::Answer::new(1, true)))))
    });
    println!("\n| request with 80 KB of tools | µs |\n|---|---:|");
    let tool = |number: usize| {
        json!({ "name": format!("tool_{number}"), "description": "d".repeat(700), "input_schema":
        { "type": "object", "properties": { "path": { "type": "string", "description": "p".repeat(200) } } } })
    };
    let tools: Vec<_> = (0..75).map(tool).collect();
    let body =
        json!({ "model": "m", "max_tokens": 9, "tools": tools, "messages": [{ "role": "user", "content": "hi" }] });
    let body = body.to_string().into_bytes();
    let chat = messages::to_chat(&body, &NoStates).unwrap().body;
    request("Messages to chat", rounds, || messages::to_chat(&body, &NoStates).unwrap().body.len());
    request("chat to Messages", rounds, || {
        anthropic::from_chat(&chat, &anthropic::Defaults { max_tokens: 9 }).unwrap().body.len()
    });
}

fn chat_stream() -> Bytes {
    let chunk = |delta: &serde_json::Value, finish: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish });
        let chunk = json!({ "id": "chatcmpl-0123456789abcdef", "object": "chat.completion.chunk", "created": 1_795_000_000,
            "model": "qwen2.5-coder-32b-instruct", "choices": [choice] });
        format!("data: {chunk}\n\n")
    };
    let mut text = chunk(&json!({ "role": "assistant", "content": "" }), None);
    (0..1000).for_each(|number| text.push_str(&chunk(&json!({ "content": format!(" word{number}") }), None)));
    text.push_str(&chunk(&json!({}), Some("stop")));
    text.push_str("data: [DONE]\n\n");
    text.into()
}

fn claude_stream() -> Bytes {
    let mut text = String::new();
    let mut push = |event: serde_json::Value| {
        text.extend(["event: ", event["type"].as_str().unwrap(), "\ndata: ", &event.to_string(), "\n\n"]);
    };
    push(
        json!({ "type": "message_start", "message": { "id": "msg_1", "type": "message", "role": "assistant", "model": "claude",
        "content": [], "stop_reason": null, "usage": { "input_tokens": 9, "output_tokens": 1 } } }),
    );
    push(json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }));
    for number in 0..1000 {
        let delta = json!({ "type": "text_delta", "text": format!(" word{number}") });
        push(json!({ "type": "content_block_delta", "index": 0, "delta": delta }));
    }
    push(json!({ "type": "content_block_stop", "index": 0 }));
    push(
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 1000 } }),
    );
    push(json!({ "type": "message_stop" }));
    text.into()
}

/// An API between which and chat a stream is translated.
enum Translation {
    /// The caller's: the relay's events are split again, translated, and copied out of a buffer that stays.
    Caller(Box<dyn AnswerTranslator>),
    /// The upstream's: events become chat events before they are read.
    Upstream(Box<dyn AnswerTranslator>),
}

/// Splits and reads the events of a stream as the gateway does, and translates them. Returns the number of bytes for the
/// client.
fn read(endpoint: Endpoint, stream: &Bytes, translation: Option<Translation>) -> usize {
    let (mut caller, mut upstream) = match translation {
        None => (None, None),
        Some(Translation::Caller(translator)) => (Some(translator), None),
        Some(Translation::Upstream(translator)) => (None, Some(translator)),
    };
    let (mut events, mut again, mut sent) = (Splitter::new(1 << 20), Splitter::new(1 << 20), 0);
    let mut reader = EventReader::new(endpoint);
    let mut out = Vec::new();
    // In chunks, as a connection brings them.
    for at in (0..stream.len()).step_by(4096) {
        events.feed(stream.slice(at..stream.len().min(at + 4096)));
        while let Some(event) = events.next_event().unwrap() {
            if let Some(translator) = &mut upstream {
                let data = event.data().unwrap();
                let mut out = Vec::with_capacity(data.len() + 64);
                translator.event(&data, &mut out).unwrap();
                again.feed(out.into());
                while let Some(event) = again.next_event().unwrap() {
                    black_box(&event.data().map(|data| reader.read(&data)));
                    sent += event.raw.len();
                }
                continue;
            }
            black_box(&event.data().map(|data| reader.read(&data)));
            let Some(translator) = &mut caller else {
                sent += event.raw.len();
                continue;
            };
            again.feed(event.raw);
            while let Some(event) = again.next_event().unwrap() {
                translator.event(&event.data().unwrap(), &mut out).unwrap();
            }
            sent += Bytes::copy_from_slice(&out).len();
            out.clear();
        }
    }
    sent
}

/// Prints a row. Returns the median in nanoseconds per event.
fn stream(name: &str, rounds: usize, native: Option<f64>, work: impl Fn() -> usize) -> f64 {
    let region = Region::new(ALLOCATOR);
    black_box(work());
    let allocations = region.change().allocations as f64 / 1000.0;
    let nanoseconds = median(rounds, &work) * 1e9 / 1000.0;
    let ratio = native.map_or(1.0, |native| nanoseconds / native);
    println!("| {name} | {nanoseconds:.0} | {ratio:.2} | {allocations:.2} |");
    nanoseconds
}

fn request(name: &str, rounds: usize, work: impl Fn() -> usize) {
    println!("| {name} | {:.0} |", median(rounds, &work) * 1e6);
}

fn median(rounds: usize, work: &impl Fn() -> usize) -> f64 {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let started = Instant::now();
            black_box(work());
            started.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
