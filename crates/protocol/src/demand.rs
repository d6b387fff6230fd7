//! The work that a request may demand of an engine: the number and length of answers, and input from outside the body.

use memchr::memmem;

use super::{RequestBody, walk};
use signalbox_types::Endpoint;

/// The most answers to one request that are reserved for.
const MOST_CHOICES: u64 = 1024;
/// Members that set the number of answers.
const CHOICES: [&[u8]; 7] =
    [b"n", b"best_of", b"n_cmpl", b"num_completions", b"num_generations", b"num_return_sequences", b"candidate_count"];
/// Members that limit each answer, in tokens.
const LIMITS: [&[u8]; 6] =
    [b"max_tokens", b"max_completion_tokens", b"max_output_tokens", b"max_new_tokens", b"n_predict", b"num_predict"];
/// Members that make the engine read input from outside the body.
const REFERENCES: [&[u8]; 5] =
    [b"previous_response_id", b"conversation", b"web_search_options", b"data_sources", b"plugins"];
/// Non-text parts of a prompt.
const MEDIA: [&[u8]; 8] = [
    b"\"image_url\"",
    b"\"image\"",
    b"\"input_image\"",
    b"audio\"",
    b"\"video",
    b"\"file\"",
    b"\"document\"",
    b"\"web_search",
];

impl RequestBody {
    /// The number of answers requested: `n` or `best_of` under any of their names, times the number of prompts. At most
    /// 1024, because engines reject more.
    pub fn choices(&self, endpoint: Endpoint) -> u64 {
        let counts = self.members().filter(|(name, _)| CHOICES.contains(name));
        let counts = counts.filter_map(|(_, raw)| serde_json::from_slice::<f64>(raw).ok());
        let each = counts.map(|count| count as u64).max().unwrap_or(1).max(1);
        let prompts = match (endpoint, self.member("prompt")) {
            (Endpoint::Completions, Some(prompts)) => {
                walk::elements(prompts).filter(|prompt| matches!(prompt.first(), Some(b'"' | b'['))).count() as u64
            }
            _ => 1,
        };
        each.saturating_mul(prompts.max(1)).min(MOST_CHOICES)
    }

    /// The most tokens that one answer may have according to the client: the largest of its limits, because engines
    /// differ in which one they apply. `None` if it sets none.
    pub fn declared_tokens(&self) -> Option<u64> {
        let limits = self.members().filter(|(name, raw)| LIMITS.contains(name) && *raw != b"null");
        let count = |raw: &[u8]| match serde_json::from_slice::<f64>(raw) {
            Ok(count) if count >= 0.0 => count as u64,
            // A negative limit means no limit on engines that accept it.
            _ => u64::MAX,
        };
        limits.map(|(_, raw)| count(raw)).max().filter(|most| *most < u64::MAX)
    }

    /// True if the engine reads input from outside the body: images, audio, files, web results, or an earlier
    /// conversation that it has stored. Otherwise a prompt has no more tokens than the body has bytes.
    pub fn reads_elsewhere(&self, endpoint: Endpoint) -> bool {
        let referred = || self.members().any(|(name, raw)| REFERENCES.contains(&name) && raw != b"null");
        let attached = || MEDIA.iter().any(|media| memmem::find(self.bytes(), media).is_some());
        self.members.is_empty() || endpoint == Endpoint::Responses || referred() || attached()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn answer_counts_and_limits_are_read_under_all_their_names() {
        let chat = |more: &str| {
            let body = format!(r#"{{"model":"m","messages":[1]{more}}}"#);
            RequestBody::json(Endpoint::Chat, body.into()).unwrap()
        };
        for (more, choices) in [
            ("", 1),
            (r#","n":4"#, 4),
            (r#","n":null,"best_of":3"#, 3),
            (r#","n":2,"best_of":5,"n_cmpl":3"#, 5),
            (r#","n":0"#, 1),
            (r#","n":-3"#, 1),
            (r#","n":"8""#, 1),
            (r#","n":1e300"#, MOST_CHOICES),
        ] {
            assert_eq!(chat(more).choices(Endpoint::Chat), choices, "{more}");
        }
        let prompts = |prompt: &str| {
            let body = format!(r#"{{"model":"m","n":2,"prompt":{prompt}}}"#);
            RequestBody::json(Endpoint::Completions, body.into()).unwrap().choices(Endpoint::Completions)
        };
        assert_eq!([r#""a""#, r#"["a","b","c"]"#, "[1,2,3]", "[[1,2],[3]]", "[]"].map(prompts), [2, 6, 2, 4, 2]);
        for (more, most) in [
            ("", None),
            (r#","max_tokens":null"#, None),
            (r#","max_tokens":7"#, Some(7)),
            (r#","max_tokens":7,"max_completion_tokens":9"#, Some(9)),
            (r#","max_tokens":1,"n_predict":900"#, Some(900)),
            (r#","max_tokens":1,"n_predict":-1"#, None),
        ] {
            assert_eq!(chat(more).declared_tokens(), most, "{more}");
        }
    }

    #[test]
    fn prompts_with_input_from_elsewhere_are_recognised() {
        let reads = |messages: &str, more: &str| {
            let body = format!(r#"{{"model":"m","messages":{messages}{more}}}"#);
            RequestBody::json(Endpoint::Chat, body.into()).unwrap().reads_elsewhere(Endpoint::Chat)
        };
        let text = r#"[{"role":"user","content":"an image_url, \"image_url\" and a file"}]"#;
        assert!(!reads(text, "") && !reads(text, r#","plugins":null"#));
        assert!(reads(text, r#","web_search_options":{}"#));
        assert!(reads(
            r#"[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://h/a.png"}}]}]"#,
            ""
        ));
        assert!(reads(r#"[{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}]"#, ""));
        assert!(RequestBody::opaque(Bytes::new()).reads_elsewhere(Endpoint::Audio));
    }
}
