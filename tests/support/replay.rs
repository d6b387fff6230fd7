//! Replays recorded traffic against a gateway: arrivals at their times, prompts of their lengths, and the answers.

use std::{fs::File, io::BufReader, time::Duration};

use serde_json::{Value, json};
use signalbox::sim::trace::{Arrival, azure, excerpt};
use tokio::{task::JoinSet, time::Instant};

use super::{
    client::{self, End, Sse},
    data_dir,
};

/// Bytes of prose that count as one token.
const BYTES_PER_TOKEN: usize = 4;

/// Arrivals per second at the start of that trace.
const PER_SECOND: f64 = 2.7;

/// One answer as its client saw it.
#[derive(Debug)]
pub struct Replayed {
    /// The request.
    pub arrival: Arrival,
    /// Id of the request, from the answer's headers.
    pub id: String,
    /// Pool that answered, from the answer's headers: empty if the stream was opened before its first token.
    pub pool: String,
    /// End of the answer.
    pub ending: Ending,
    /// Time from sending the request to the first content.
    pub ttft: Option<Duration>,
    /// Prompt and completion tokens of the answer's usage.
    pub usage: Option<(u64, u64)>,
}

/// End of an answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    /// With `[DONE]`.
    Done,
    /// With an error message, before or within the stream.
    Error(String),
    /// In any other way, which is a failure.
    Odd(String),
}

/// Reads the first `count` arrivals of Azure's conversation trace; makes similar ones, with a message, if the trace is missing. Answers have
/// at most `longest` tokens.
pub fn arrivals(count: usize, longest: u32) -> Vec<Arrival> {
    let mut arrivals = recorded(count);
    for arrival in &mut arrivals {
        arrival.output_tokens = arrival.output_tokens.min(longest);
    }
    arrivals
}

fn recorded(count: usize) -> Vec<Arrival> {
    let file = data_dir().join("traces/azure_conv.csv.gz");
    let Ok(open) = File::open(&file) else {
        eprintln!("no recorded trace: {} is not there (set SIGNALBOX_DATA); made-up arrivals", file.display());
        return excerpt(1, count, PER_SECOND).collect();
    };
    let rows = azure(BufReader::new(flate2::read::GzDecoder::new(open)));
    rows.take(count).collect::<Result<_, _>>().unwrap_or_else(|problem| panic!("{}: {problem}", file.display()))
}

/// Sends each arrival at its time, `speed` times as fast as recorded, to `models` in turn, and returns the answers.
pub async fn replay(url: &str, arrivals: Vec<Arrival>, speed: f64, models: &[&str]) -> Vec<Replayed> {
    let (client, start) = (client::http(), Instant::now());
    let mut asking = JoinSet::new();
    for ((number, arrival), model) in (0..).zip(arrivals).zip(models.iter().cycle()) {
        let body = body(model, number, &arrival);
        let request = client::json(client.post(format!("{url}/chat/completions")), &body)
            .header("x-sim-output-tokens", arrival.output_tokens);
        tokio::time::sleep_until(start + arrival.at.div_f64(speed)).await;
        asking.spawn(ask(request, arrival));
    }
    asking.join_all().await
}

async fn ask(request: reqwest::RequestBuilder, arrival: Arrival) -> Replayed {
    let began = Instant::now();
    let mut stream = Sse::send(request).await;
    let (id, pool) = (stream.header("x-request-id").to_owned(), stream.header("x-signalbox-pool").to_owned());
    let (mut ttft, mut usage) = (None, None);
    let ending = loop {
        let data = match stream.data().await {
            // Read to the end: a client that leaves at `[DONE]` may look like one that left before.
            Ok(data) if data == "[DONE]" => match stream.data().await {
                Err(End::Clean) => break Ending::Done,
                more => break Ending::Odd(format!("after [DONE]: {more:?}")),
            },
            Ok(data) => data,
            Err(End::Clean) if !stream.status.is_success() => break Ending::Odd(format!("{}", stream.status)),
            Err(end) => break Ending::Odd(format!("no [DONE]: {end:?}")),
        };
        let Ok(chunk) = serde_json::from_str::<Value>(&data) else { break Ending::Odd(format!("no JSON: {data}")) };
        if let Some(message) = chunk["error"]["message"].as_str() {
            break Ending::Error(message.to_owned());
        }
        if chunk["choices"][0]["delta"]["content"].as_str().is_some_and(|content| !content.is_empty()) {
            ttft.get_or_insert_with(|| began.elapsed());
        }
        let tokens = |kind: &str| chunk["usage"][kind].as_u64();
        usage = tokens("prompt_tokens").zip(tokens("completion_tokens")).or(usage);
    };
    Replayed { arrival, id, pool, ending, ttft, usage }
}

/// Makes a chat request with a prompt of the arrival's length and a beginning of its own.
fn body(model: &str, number: u64, arrival: &Arrival) -> Value {
    const WORDS: [&str; 8] = ["signal ", "lamp ", "track ", "the ", "lever ", "of a ", "points ", "block, "];
    let mut dice = fastrand::Rng::with_seed(number);
    let mut text = format!("{number}: ");
    let length = arrival.prompt_tokens as usize * BYTES_PER_TOKEN;
    while text.len() < length {
        text.push_str(WORDS[dice.usize(0..WORDS.len())]);
    }
    text.truncate(length);
    json!({
        "model": model,
        "stream": true,
        "stream_options": { "include_usage": true },
        "messages": [{ "role": "user", "content": text }],
    })
}

/// Nearest-rank quantile of `times`.
pub fn quantile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    let rank = (share * times.len() as f64).ceil() as usize;
    times.get(rank.max(1) - 1).copied().unwrap_or_default()
}
