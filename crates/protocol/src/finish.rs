//! Finish reasons of chat answers: engines and providers use many words for few ends.

/// The end that a finish reason means.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The answer is whole: a stop token, a stop string or a call of a tool, and any word that is not known.
    Whole,
    /// It reached the limit on its length, or filled the context.
    Length,
    /// A filter or the model itself refused.
    Filter,
    /// The engine failed.
    Failed,
    /// The engine cut it off.
    Aborted,
}

impl Finish {
    /// Reads a finish reason, whatever its case and separators are.
    #[must_use]
    pub fn read(reason: &str) -> Self {
        let letters: String = reason.chars().filter(char::is_ascii_alphanumeric).collect();
        match &*letters.to_ascii_lowercase() {
            "length"
            | "maxtokens"
            | "maxoutputtokens"
            | "maxlength"
            | "modellength"
            | "tokenlimit"
            | "modelcontextwindowexceeded"
            | "contextlengthexceeded" => Self::Length,
            // Gemini names each of its filters; `sensitive` is Zhipu's.
            "contentfilter"
            | "contentfiltered"
            | "guardrailintervened"
            | "refusal"
            | "safety"
            | "recitation"
            | "blocklist"
            | "prohibitedcontent"
            | "spii"
            | "imagesafety"
            | "sensitive"
            | "errortoxic" => Self::Filter,
            "error"
            | "errorlimit"
            | "failed"
            | "failure"
            | "internalerror"
            | "servererror"
            | "networkerror"
            | "malformedfunctioncall"
            | "unexpectedtoolcall"
            | "toomanytoolcalls"
            | "missingthoughtsignature" => Self::Failed,
            "abort"
            | "aborted"
            | "cancel"
            | "canceled"
            | "cancelled"
            | "usercancel"
            | "interrupted"
            | "timeout"
            | "insufficientsystemresource" => Self::Aborted,
            _ => Self::Whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_words_for_one_end_are_one() {
        for (end, words) in [
            (Finish::Whole, &["stop", "STOP", "eos_token", "tool_calls", "end_turn", "", "what_comes_later"][..]),
            (Finish::Length, &["length", "max_tokens", "MAX_TOKENS", "model_context_window_exceeded"]),
            (Finish::Filter, &["content_filter", "SAFETY", "PROHIBITED_CONTENT", "sensitive", "refusal"]),
            (Finish::Failed, &["error", "ERROR", "network_error", "MALFORMED_FUNCTION_CALL"]),
            (Finish::Aborted, &["abort", "Abort", "cancelled", "insufficient_system_resource"]),
        ] {
            for word in words {
                assert_eq!(Finish::read(word), end, "{word}");
            }
        }
    }
}
