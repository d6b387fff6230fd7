//! A streaming caller: sends one request and records the response, with times.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::provider;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The proxy's base address, without `/v1`.
    pub(crate) url: String,
    pub(crate) model: String,
    pub(crate) key: Option<&'static str>,
    pub(crate) case: String,
    pub(crate) tokens: usize,
    pub(crate) stream: bool,
    /// `max_tokens`, for a model that would otherwise generate `tokens`.
    pub(crate) most: Option<usize>,
    /// Further members of the body; a null removes one.
    pub(crate) more: Value,
    pub(crate) patience: Duration,
}

/// The response to one request, as its caller saw it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    pub(crate) status: Option<u16>,
    /// Values of response headers that may name the model which answered.
    pub(crate) named: Vec<String>,
    pub(crate) text: String,
    /// Time to the first piece of text.
    pub(crate) first: Option<Duration>,
    /// Time to the last piece of text.
    pub(crate) last: Option<Duration>,
    pub(crate) took: Duration,
    pub(crate) finish: Option<String>,
    pub(crate) done: bool,
    pub(crate) error: Option<ApiError>,
    /// Tokens of prompt and answer.
    pub(crate) usage: Option<(u64, u64)>,
    /// Model names in the body.
    pub(crate) models: BTreeSet<String>,
    pub(crate) roles: usize,
    /// Events that are no JSON.
    pub(crate) garbled: usize,
    /// The transport error or the caller's time-out that ended it.
    pub(crate) broken: Option<String>,
}

/// An error object, of an error status or within a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct ApiError {
    pub(crate) code: String,
    pub(crate) message: String,
}

/// An HTTP client with its own connections.
pub(crate) fn client() -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder().no_proxy().tls_certs_only([]).pool_max_idle_per_host(1_000).build()
}

/// Sends the request and reads the response to its end.
pub(crate) async fn ask(client: &reqwest::Client, request: &Request) -> Reply {
    let began = Instant::now();
    let mut reply = Reply::default();
    let reading = tokio::time::timeout(request.patience, receive(client, request, began, &mut reply)).await;
    reply.took = began.elapsed();
    match reading {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            // Only the innermost cause is specific.
            let mut cause: &dyn std::error::Error = &error;
            while let Some(source) = cause.source() {
                cause = source;
            }
            reply.broken = Some(cause.to_string());
        }
        Err(_) => reply.broken = Some(format!("the caller gave up: after {} s", request.patience.as_secs())),
    }
    reply
}

async fn receive(
    client: &reqwest::Client,
    request: &Request,
    began: Instant,
    reply: &mut Reply,
) -> Result<(), reqwest::Error> {
    let mut body = json!({ "model": request.model,
        "messages": [{ "role": "user", "content": provider::prompt(&request.case, request.tokens) }] });
    if request.stream {
        body["stream"] = true.into();
        body["stream_options"] = json!({ "include_usage": true });
    }
    if let Some(most) = request.most {
        body["max_tokens"] = most.into();
    }
    for (name, value) in request.more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    // A null removes a member.
    body.as_object_mut().into_iter().for_each(|members| members.retain(|_, value| !value.is_null()));
    let path = if body.get("input").is_some() { "embeddings" } else { "chat/completions" };
    let mut post = client.post(format!("{}/v1/{path}", request.url)).header("content-type", "application/json");
    if let Some(key) = request.key {
        post = post.bearer_auth(key);
    }
    let mut response = post.body(body.to_string()).send().await?;
    reply.status = Some(response.status().as_u16());
    let naming = |name: &str| name.starts_with("x-signalbox-model") || name.starts_with("x-litellm-model");
    let headers = response.headers().iter().filter(|(name, _)| naming(name.as_str()));
    reply.named = headers.filter_map(|(_, value)| value.to_str().ok().map(str::to_owned)).collect();
    let events = response
        .headers()
        .get("content-type")
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.starts_with("text/event-stream"));
    let mut buffer = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        buffer.extend_from_slice(&chunk);
        while let Some((end, length)) = events.then(|| event_end(&buffer)).flatten() {
            reply.event(&buffer[..end], began);
            buffer.drain(..end + length);
        }
    }
    if events {
        reply.event(&buffer, began);
    } else {
        reply.document(&buffer, began);
    }
    Ok(())
}

/// Offset and length of the first event's terminator.
fn event_end(buffer: &[u8]) -> Option<(usize, usize)> {
    let at = |end: &[u8]| memchr::memmem::find(buffer, end).map(|at| (at, end.len()));
    [at(b"\n\n"), at(b"\r\n\r\n")].into_iter().flatten().min()
}

impl Reply {
    fn event(&mut self, event: &[u8], began: Instant) {
        let event = String::from_utf8_lossy(event);
        let data: Vec<&str> = event.lines().filter_map(|line| Some(line.strip_prefix("data:")?.trim_start())).collect();
        match data.join("\n").as_str() {
            "" => {}
            "[DONE]" => self.done = true,
            data => match serde_json::from_str::<Value>(data) {
                Ok(value) => self.chunk(&value, began),
                Err(_) => self.garbled += 1,
            },
        }
    }

    fn chunk(&mut self, value: &Value, began: Instant) {
        self.noted(value);
        let choice = &value["choices"][0];
        self.roles += usize::from(choice["delta"]["role"].is_string());
        let text = choice["delta"]["content"].as_str().unwrap_or_default();
        if !text.is_empty() {
            let now = began.elapsed();
            self.first.get_or_insert(now);
            self.last = Some(now);
            self.text += text;
        }
    }

    fn document(&mut self, body: &[u8], began: Instant) {
        let Ok(value) = serde_json::from_slice::<Value>(body) else {
            if !body.is_empty() {
                self.garbled += 1;
            }
            return;
        };
        self.noted(&value);
        let text = value["choices"][0]["message"]["content"].as_str().unwrap_or_default();
        if !text.is_empty() {
            self.first = Some(began.elapsed());
            self.last = self.first;
        }
        text.clone_into(&mut self.text);
    }

    fn noted(&mut self, value: &Value) {
        if let Some(model) = value["model"].as_str().filter(|model| !model.is_empty()) {
            self.models.insert(model.to_owned());
        }
        if let Some(finish) = value["choices"][0]["finish_reason"].as_str() {
            self.finish = Some(finish.to_owned());
        }
        let count = |name: &str| value["usage"][name].as_u64();
        if let Some(usage) = count("prompt_tokens").zip(count("completion_tokens")) {
            self.usage = Some(usage);
        }
        let error = &value["error"];
        if error.is_object() || error.is_string() {
            let word = |name: &str| match &error[name] {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            };
            let message = word("message").or(error.as_str().map(str::to_owned)).unwrap_or_default();
            self.error = Some(ApiError { code: word("code").or(word("type")).unwrap_or_default(), message });
        }
    }
}
