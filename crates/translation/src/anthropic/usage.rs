//! Writes token counts as chat completions have them. Messages counts cached tokens beside `input_tokens`, chat
//! completions within `prompt_tokens`.

use super::raw;
use crate::json;
use signalbox_protocol::UsageReport;

/// Appends the `usage` object of chat completions.
pub(super) fn write(report: &UsageReport, out: &mut Vec<u8>) {
    let (prompt, completion) = (report.prompt().unwrap_or(0), report.completion().unwrap_or(0));
    out.extend_from_slice(b"{\"prompt_tokens\":");
    json::number(out, prompt);
    count(out, "completion_tokens", Some(completion));
    count(out, "total_tokens", Some(prompt.saturating_add(completion)));
    if let Some(cached) = report.cached() {
        out.extend_from_slice(b",\"prompt_tokens_details\":{\"cached_tokens\":");
        json::number(out, cached);
        out.push(b'}');
    }
    if let Some(reasoning) = report.reasoning() {
        out.extend_from_slice(b",\"completion_tokens_details\":{\"reasoning_tokens\":");
        json::number(out, reasoning);
        out.push(b'}');
    }
    count(out, "cache_creation_input_tokens", report.written());
    if let Some((short, long)) = report.written_by_age() {
        out.extend_from_slice(b",\"cache_creation\":{\"ephemeral_5m_input_tokens\":");
        json::number(out, short);
        count(out, "ephemeral_1h_input_tokens", Some(long));
        out.push(b'}');
    }
    out.push(b'}');
}

fn count(out: &mut Vec<u8>, name: &str, count: Option<u64>) {
    if let Some(count) = count {
        raw::key(out, name);
        json::number(out, count);
    }
}
