//! Numbers in a refusal of a prompt that is too long.

use super::{Verdict, verdict_of_message};

/// Counts of tokens that a refusal states.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ContextCounts {
    /// Tokens of the prompt.
    pub prompt: u64,
    /// Tokens that were asked for as the answer.
    pub output: Option<u64>,
    /// Size of the context.
    pub limit: u64,
}

/// Least number that is taken for a count of tokens where the wording is unknown.
const SMALLEST: u64 = 100;

/// Reads the message of a refusal. `None` if the prompt is not too long by it, `Some(None)` if it states no counts.
pub fn context_counts(message: &str) -> Option<Option<ContextCounts>> {
    (verdict_of_message(None, message) == Verdict::TooLong).then(|| known(message).or_else(|| of_two(message)))
}

/// Counts by the wordings of OpenAI, vLLM, `SGLang` and llama.cpp.
fn known(message: &str) -> Option<ContextCounts> {
    let limit = after(
        message,
        &[
            "maximum context length is ",
            "context length of ",
            "context length is only ",
            "context size (",
            "context length (",
        ],
    )?;
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
    Some(ContextCounts { prompt, output, limit })
}

/// Counts of a message with two different numbers: the larger one does not fit into the other.
fn of_two(message: &str) -> Option<ContextCounts> {
    let mut numbers: Vec<u64> = numbers(message).filter(|number| *number >= SMALLEST).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let [limit, prompt] = numbers[..] else { return None };
    Some(ContextCounts { prompt, output: None, limit })
}

/// Whole numbers of a message. Digits within a name are none.
fn numbers(message: &str) -> impl Iterator<Item = u64> {
    let words = message.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | ',' | '_' | '-')));
    words.filter_map(|word| {
        let word = word.trim_end_matches(['.', ',']);
        word.strip_suffix(".0").unwrap_or(word).replace(',', "").parse().ok()
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_known_and_unknown_wordings() {
        let of = |prompt, output, limit| Some(Some(ContextCounts { prompt, output, limit }));
        for (message, want) in [
            (
                "This model's maximum context length is 8192 tokens. However, you requested 9100 tokens (9000 in the messages, 100 in the completion).",
                of(9000, Some(100), 8192),
            ),
            (
                "You passed 9000 input tokens and requested 64 output tokens. However, the model's context length is only 8192 tokens",
                of(9000, Some(64), 8192),
            ),
            (
                "The input token count (1,100,000) exceeds the maximum number of tokens allowed (1048576).",
                of(1_100_000, None, 1_048_576),
            ),
            (
                "The sum of prompt length (9000.0), query length (0) should not exceed max_num_tokens (8192)",
                of(9000, None, 8192),
            ),
            ("Prompt exceeds max length", Some(None)),
            ("Your request exceeded model token limit: 131072", Some(None)),
            ("no such tool", None),
        ] {
            assert_eq!(context_counts(message), want, "{message}");
        }
    }
}
