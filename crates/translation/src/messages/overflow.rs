//! Rewords an engine's report of a full context to that of Anthropic's API.
//!
//! Claude Code compacts a conversation on `prompt is too long: N tokens > M maximum`, and lowers `max_tokens` on
//! ``input length and `max_tokens` exceed context limit: A + B > M``. It shows any other wording as a fatal error.

use std::borrow::Cow;

/// The phrases by which engines and providers report a context that is too small.
const PHRASES: [&str; 6] = [
    "maximum context length",
    "available context size",
    "context_length_exceeded",
    "context window",
    "maximum input length",
    "longer than the model's context length",
];

/// The message, reworded if it reports a full context. `counts` are the prompt's tokens and the context's size.
pub(super) fn reworded(message: &str, counts: Option<(u64, u64)>) -> Cow<'_, str> {
    let already = message.contains("prompt is too long") || message.contains("exceed context limit");
    if already || (counts.is_none() && !PHRASES.iter().any(|phrase| message.contains(phrase))) {
        return Cow::Borrowed(message);
    }
    let found = counts.map(|(prompt, limit)| (prompt, None, limit)).or_else(|| numbers(message));
    match found {
        Some((prompt, Some(output), limit)) if prompt < limit => Cow::Owned(format!(
            "input length and `max_tokens` exceed context limit: {prompt} + {output} > {limit}, decrease input length or \
             `max_tokens` and try again ({message})"
        )),
        Some((prompt, _, limit)) => {
            Cow::Owned(format!("prompt is too long: {prompt} tokens > {limit} maximum ({message})"))
        }
        None => Cow::Owned(format!("prompt is too long ({message})")),
    }
}

/// The prompt's tokens, the requested output, and the limit, from the wordings of OpenAI, vLLM, `SGLang` and llama.cpp.
fn numbers(message: &str) -> Option<(u64, Option<u64>, u64)> {
    let limit =
        after(message, &["maximum context length is ", "context length of ", "context size (", "context length ("])?;
    // The narrower wordings first: some messages also give the sum of prompt and output.
    let prompt =
        before(message, &[" in the messages", " input tokens", " tokens from the input", " tokens in the input"])
            .or_else(|| {
                after(
                    message,
                    &["resulted in ", "input has ", "request (", "The input (", "requested ", "contains at least "],
                )
            })?;
    let output = before(message, &[" in the completion", " output tokens", " tokens for the completion"])
        .or_else(|| after(message, &["is too large: "]));
    Some((prompt, output, limit))
}

/// The number that follows the first of `phrases` that the message has.
fn after(message: &str, phrases: &[&str]) -> Option<u64> {
    phrases.iter().find_map(|phrase| {
        let (_, rest) = message.split_once(phrase)?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..end)?.parse().ok()
    })
}

/// The number that precedes the first of `phrases` that the message has.
fn before(message: &str, phrases: &[&str]) -> Option<u64> {
    phrases.iter().find_map(|phrase| {
        let (rest, _) = message.split_once(phrase)?;
        let start = rest.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
        rest.get(start..)?.parse().ok()
    })
}
