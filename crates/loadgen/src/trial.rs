//! A trial request before the run, which detects a wrong address, key or model. It is in no figure.

use std::time::Duration;

use http::{HeaderMap, Method};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;
use tokio::time::timeout;

use super::{
    Ask, Counted, Failure, Http, Target,
    http::{OddKey, shown},
};
use signalbox_upstream::{Client, outgoing::Outgoing};

/// Tokens of its prompt and its answer.
const PROMPT: u32 = 8;
const OUTPUT: u32 = 1;
/// Limits for the list of models: time and size.
const MODELS_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_MODELS_BYTES: usize = 16 << 20;

/// A permanent error: later requests would fail too.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The server cannot be reached.
    #[error(
        "nothing answers at {0}: {1}; is the server running, and is that its address, such as http://127.0.0.1:4100?"
    )]
    Unreachable(String, String),
    /// The path does not exist.
    #[error(
        "{0} has no chat API (it answers 404): give the base of its API with `--url`, such as http://127.0.0.1:4100/v1"
    )]
    NoApi(String),
    /// The key is refused.
    #[error("the server refuses the key ({0}): {1}; give one with `--key`, or in SIGNALBOX_KEY or OPENAI_API_KEY")]
    Key(u16, String),
    /// The model does not exist.
    #[error("the server refuses the model `{0}`: {1}; `--model` names another{2}")]
    Model(String, String, String),
    /// The request is refused.
    #[error("the server refuses such requests ({0}): {1}")]
    Request(u16, String),
    /// The list of models is empty.
    #[error("the server lists no models: name one with `--model`")]
    NoModels,
    /// The key is not a valid header value.
    #[error(transparent)]
    OddKey(#[from] OddKey),
}

/// Models that the server at `base` lists; empty without a list.
async fn models(client: &Client, base: &str, headers: HeaderMap) -> Result<Vec<String>, Failure> {
    let asked = Outgoing { method: Method::GET, url: format!("{base}/models"), headers, body: bytes::Bytes::new() };
    let answered = timeout(MODELS_TIMEOUT, async {
        let response = client.send(asked).await.map_err(|error| Failure::Connect(error.to_string()))?;
        let (head, body) = response.into_parts();
        let body =
            Limited::new(body, MAX_MODELS_BYTES).collect().await.map_err(|error| Failure::Cut(error.to_string()))?;
        let body = body.to_bytes();
        if !head.status.is_success() {
            return Err(Failure::refusal(head.status.as_u16(), &body));
        }
        let list: Value = serde_json::from_slice(&body).unwrap_or_default();
        let names = list["data"].as_array().into_iter().flatten().filter_map(|model| model["id"].as_str());
        Ok(names.map(str::to_owned).collect())
    });
    answered.await.unwrap_or(Err(Failure::Timeout(MODELS_TIMEOUT)))
}

/// Default model: `auto` if it is listed, else the first one.
pub async fn first_model(client: &Client, base: &str, key: Option<&str>) -> Result<String, Refused> {
    let listed = models(client, base, shown(key)?).await.map_err(|failure| refused(base, "", &failure, &[]))?;
    let auto = listed.iter().position(|name| name == "auto").unwrap_or(0);
    listed.into_iter().nth(auto).ok_or(Refused::NoModels)
}

/// Sends a small request for `model` to `http` at `base`. Transient failures (429, 5xx, a cut answer) are not reported here: they belong in
/// the figures. Returns the latencies that a gateway has counted for it.
pub async fn trial(
    client: &Client,
    http: &Http,
    base: &str,
    key: Option<&str>,
    model: &str,
    whole: bool,
    limit: Duration,
) -> Result<Counted, Refused> {
    let ask = Ask {
        at: Duration::ZERO,
        number: u64::MAX,
        prompt_tokens: PROMPT,
        output_tokens: OUTPUT,
        whole,
        blocks: [].into(),
        block_tokens: 0,
    };
    let mut counted = Counted::default();
    let Ok(answer) = timeout(limit, http.ask(&ask)).await else { return Ok(counted) };
    counted.add(&answer);
    match answer.failure {
        Some(
            failure @ (Failure::Connect(_)
            | Failure::Status { status: 300..=401 | 403 | 404 | 405 | 413 | 415 | 422, .. }),
        ) => {
            let listed = models(client, base, shown(key)?).await.unwrap_or_default();
            Err(refused(base, model, &failure, &listed))
        }
        _ => Ok(counted),
    }
}

fn refused(base: &str, model: &str, failure: &Failure, listed: &[String]) -> Refused {
    let Failure::Status { status, code, message } = failure else {
        return Refused::Unreachable(base.to_owned(), failure.message());
    };
    // A help follows: drop a full stop before it.
    let message = message.trim_end_matches('.').to_owned();
    match status {
        403 | 404 if code.contains("model") && !model.is_empty() => {
            let nearest = listed.iter().max_by(|a, b| near(a, model).total_cmp(&near(b, model)));
            let near = nearest.filter(|name| near(name, model) > 0.6);
            let hint = match near {
                // Many servers include a suggestion themselves.
                Some(_) if message.contains("did you mean") => String::new(),
                Some(name) => format!("; did you mean `{name}`?"),
                None if listed.is_empty() => String::new(),
                None => format!("; it lists: {}", listed.iter().take(12).cloned().collect::<Vec<_>>().join(", ")),
            };
            Refused::Model(model.to_owned(), message, hint)
        }
        401 | 403 => Refused::Key(*status, message),
        404 => Refused::NoApi(base.to_owned()),
        _ => Refused::Request(*status, message),
    }
}

fn near(name: &str, model: &str) -> f64 {
    strsim::jaro_winkler(name, model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_how_to_fix_them() {
        let message = |status: u16, code: &str, listed: &[&str]| {
            let failure = Failure::Status { status, code: code.to_owned(), message: "No.".to_owned() };
            let listed: Vec<String> = listed.iter().map(|name| (*name).to_owned()).collect();
            refused("http://h/v1", "smal", &failure, &listed).to_string()
        };
        assert!(message(404, "model_not_found", &["large", "small"]).ends_with("did you mean `small`?"));
        assert!(message(404, "model_not_found", &["x", "y"]).ends_with("; it lists: x, y"));
        assert!(message(404, "", &[]).contains("has no chat API"));
        assert!(message(401, "invalid_api_key", &[]).contains("SIGNALBOX_KEY"));
        assert_eq!(message(400, "", &[]), "the server refuses such requests (400): No");
        let unreachable = refused("http://h/v1", "", &Failure::Connect("refused".to_owned()), &[]).to_string();
        assert!(unreachable.starts_with("nothing answers at http://h/v1: refused"), "{unreachable}");
    }
}
