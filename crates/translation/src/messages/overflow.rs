//! Rewords an engine's report of a full context to that of Anthropic's API.
//!
//! Claude Code compacts a conversation on `prompt is too long: N tokens > M maximum`, and lowers `max_tokens` on
//! ``input length and `max_tokens` exceed context limit: A + B > M``. It shows any other wording as a fatal error.

use std::borrow::Cow;

use signalbox_engines::{ContextCounts, context_counts};

/// The message, reworded if it reports a full context. `counts` are the prompt's tokens and the context's size.
pub(super) fn reworded(message: &str, counts: Option<(u64, u64)>) -> Cow<'_, str> {
    if message.contains("prompt is too long") || message.contains("exceed context limit") {
        return Cow::Borrowed(message);
    }
    let stated = counts.map(|(prompt, limit)| Some(ContextCounts { prompt, output: None, limit }));
    let Some(found) = stated.or_else(|| context_counts(message)) else { return Cow::Borrowed(message) };
    match found {
        Some(ContextCounts { prompt, output: Some(output), limit }) if prompt < limit => Cow::Owned(format!(
            "input length and `max_tokens` exceed context limit: {prompt} + {output} > {limit}, decrease input length or \
             `max_tokens` and try again ({message})"
        )),
        Some(ContextCounts { prompt, limit, .. }) => {
            Cow::Owned(format!("prompt is too long: {prompt} tokens > {limit} maximum ({message})"))
        }
        None => Cow::Owned(format!("prompt is too long ({message})")),
    }
}
