//! Eligibility: decides which requests may share answers at all. A request that is not known to be safe may not.

use signalbox_protocol::{RequestBody, canonical::is_zero};
use signalbox_types::{Endpoint, Outline};

/// Reason why a request bypasses a cache.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// The policy, the route or the caller disables the cache.
    Off,
    /// The endpoint is neither chat nor completions.
    Endpoint,
    /// The URL has query parameters of unknown meaning.
    Query,
    /// The answer is sampled: the temperature is not 0.
    Temperature,
    /// The answer is or may be audio.
    Audio,
    /// The answer depends on a search.
    Search,
    /// Answers are shared per user, and the request names none.
    User,
    /// The request is ambiguous.
    Ambiguous,
    /// Semantic: it has tools or tool results.
    Tools,
    /// Semantic: it has images, audio or files.
    Media,
    /// Semantic: it asks for several answers.
    Choices,
    /// Semantic: it asks for logprobs.
    Logprobs,
    /// Semantic: the last message is not plain text of a user.
    NoText,
    /// Semantic: that text is longer than the embedder reads.
    Long,
    /// Semantic: the answer may soon change, or differ for another person.
    Volatile,
}

impl Bypass {
    /// Label of low cardinality for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Endpoint => "endpoint",
            Self::Query => "query",
            Self::Temperature => "temperature",
            Self::Audio => "audio",
            Self::Search => "search",
            Self::User => "user",
            Self::Ambiguous => "unclear",
            Self::Tools => "tools",
            Self::Media => "media",
            Self::Choices => "choices",
            Self::Logprobs => "logprobs",
            Self::NoText => "no_text",
            Self::Long => "long",
            Self::Volatile => "volatile",
        }
    }
}

/// Checks that identical requests may share an answer to this one. Cheap: it reads the names of the members, the values
/// of a few and, if the request is otherwise eligible, the kinds of its tools.
///
/// # Errors
///
/// [`Bypass`] if they may not.
pub fn exact(endpoint: Endpoint, query: Option<&str>, body: &RequestBody, any_temperature: bool) -> Result<(), Bypass> {
    if !matches!(endpoint, Endpoint::Chat | Endpoint::Completions) {
        return Err(Bypass::Endpoint);
    }
    if query.is_some_and(|query| !query.is_empty()) {
        return Err(Bypass::Query);
    }
    let mut cold = any_temperature;
    for (name, raw) in body.members() {
        match name {
            b"temperature" => cold |= is_zero(raw),
            b"audio" | b"modalities" if raw != b"null" && raw != br#"["text"]"# => return Err(Bypass::Audio),
            name if SEARCHES.contains(&name) && !matches!(raw, b"null" | b"false" | b"[]") => {
                return Err(Bypass::Search);
            }
            _ => {}
        }
    }
    if !cold {
        return Err(Bypass::Temperature);
    }
    // Tools of other kinds are run by the provider, such as a search.
    let hosted = body.tool_kinds().any(|kind| !matches!(kind, b"function" | b"custom"));
    if hosted { Err(Bypass::Search) } else { Ok(()) }
}

/// Members that ask providers for a search: OpenAI, xAI, Perplexity, Qwen, `OpenRouter`, Azure.
const SEARCHES: [&[u8]; 11] = [
    b"web_search_options",
    b"web_search",
    b"search_parameters",
    b"search_options",
    b"search_recency_filter",
    b"search_domain_filter",
    b"enable_search",
    b"enable_web_search",
    b"plugins",
    b"data_sources",
    b"connectors",
];

/// Checks that requests of the same meaning may share an answer to this one, whose last user text is `text`; denies by
/// default. Requires what [`exact`] requires, except the temperature, and that the wording is not
/// [volatile](is_volatile). `most_bytes` is the longest text that the embedder reads. Returns the text.
///
/// # Errors
///
/// [`Bypass`] if they may not.
pub fn semantic<'a>(
    body: &RequestBody,
    outline: &Outline,
    text: Option<&'a str>,
    most_bytes: usize,
) -> Result<&'a str, Bypass> {
    let given = |name: &str| body.member(name).is_some_and(|raw| !matches!(raw, b"null" | b"false" | b"[]"));
    if outline.tools + outline.tool_results > 0 || given("tools") || given("functions") {
        return Err(Bypass::Tools);
    }
    if outline.images + outline.audio + outline.files > 0 {
        return Err(Bypass::Media);
    }
    if body.member("n").is_some_and(|n| n != b"1" && n != b"null") {
        return Err(Bypass::Choices);
    }
    if given("logprobs") || given("top_logprobs") {
        return Err(Bypass::Logprobs);
    }
    let text = text.filter(|text| !text.trim().is_empty()).ok_or(Bypass::NoText)?;
    if text.len() > most_bytes { Err(Bypass::Long) } else { Ok(text) }
}

/// Words whose answer depends on the time, the place or the person. "I" and "me" alone do not count: "how do I …" has a
/// general answer.
const VOLATILE: [&str; 50] = [
    "now",
    "today",
    "todays",
    "tonight",
    "tomorrow",
    "yesterday",
    "currently",
    "current",
    "latest",
    "newest",
    "recent",
    "recently",
    "lately",
    "upcoming",
    "nowadays",
    "live",
    "breaking",
    "weather",
    "forecast",
    "news",
    "price",
    "prices",
    "stock",
    "score",
    "scores",
    "exchange",
    "my",
    "mine",
    "im",
    "ive",
    "our",
    "ours",
    "here",
    "nearby",
    "nearest",
    "heute",
    "jetzt",
    "morgen",
    "gestern",
    "aktuell",
    "aktuelle",
    "mein",
    "meine",
    "hoy",
    "ahora",
    "mi",
    "aujourd",
    "maintenant",
    "mon",
    "ma",
];

/// Pairs of consecutive words of that kind.
const VOLATILE_PAIRS: [[&str; 2]; 12] = [
    ["this", "week"],
    ["this", "month"],
    ["this", "year"],
    ["this", "morning"],
    ["last", "week"],
    ["last", "month"],
    ["last", "year"],
    ["next", "week"],
    ["next", "month"],
    ["next", "year"],
    ["right", "away"],
    ["what", "time"],
];

/// True if a text asks for something that may soon change or differs between persons, by its words, in a few languages.
pub fn is_volatile(text: &str) -> bool {
    let mut before = String::new();
    for word in text.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '’').filter(|word| !word.is_empty()) {
        // Longer than any of those words.
        if word.len() > 32 {
            before.clear();
            continue;
        }
        let word: String = word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
        if VOLATILE.contains(&&*word)
            || VOLATILE_PAIRS.iter().any(|[first, second]| *first == before && *second == word)
        {
            return true;
        }
        before = word;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(more: &str) -> RequestBody {
        let text = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}]{more}}}"#);
        RequestBody::json(Endpoint::Chat, text.into()).unwrap()
    }

    #[test]
    fn identical_requests_share_only_deterministic_answers() {
        let of = |more| exact(Endpoint::Chat, None, &body(more), false);
        for cold in [
            r#","temperature":0"#,
            r#","temperature":-0.0"#,
            r#","temperature":0e3,"tools":[{"type":"function"}],"n":2,"plugins":[]"#,
        ] {
            assert_eq!(of(cold), Ok(()), "{cold}");
        }
        for (more, want) in [
            ("", Bypass::Temperature),
            (r#","temperature":null"#, Bypass::Temperature),
            (r#","temperature":"0""#, Bypass::Temperature),
            (r#","temperature":0.01,"seed":1"#, Bypass::Temperature),
            (r#","temperature":0,"modalities":["text","audio"]"#, Bypass::Audio),
            (r#","temperature":0,"web_search_options":{}"#, Bypass::Search),
            (r#","temperature":0,"enable_search":true"#, Bypass::Search),
            (r#","temperature":0,"plugins":[{"id":"web"}]"#, Bypass::Search),
            (r#","temperature":0,"tools":[{"type":"function"},{"type":"web_search"}]"#, Bypass::Search),
            (r#","temperature":0,"tools":[{"name":"x"}]"#, Bypass::Search),
        ] {
            assert_eq!(of(more), Err(want), "{more}");
        }
        assert_eq!(exact(Endpoint::Chat, Some(""), &body(""), true), Ok(()), "the policy says any");
        assert_eq!(exact(Endpoint::Chat, Some("a=1"), &body(""), true), Err(Bypass::Query));
        assert_eq!(exact(Endpoint::Embeddings, None, &body(""), true), Err(Bypass::Endpoint));
    }

    #[test]
    fn semantic_sharing_is_denied_by_default() {
        let of = |more: &str, text| {
            let body = body(more);
            let mut outline = Outline::default();
            body.outline(&mut outline);
            semantic(&body, &outline, text, 100)
        };
        let list = Some("sort a list");
        assert_eq!(of("", list), Ok("sort a list"));
        assert_eq!(of(r#","n":1,"logprobs":false,"tools":[],"seed":1"#, list), Ok("sort a list"));
        for (more, text, want) in [
            (r#","tools":[{"type":"function"}]"#, Some("a"), Bypass::Tools),
            (r#","functions":[{"name":"f"}]"#, Some("a"), Bypass::Tools),
            (r#","n":2"#, Some("a"), Bypass::Choices),
            (r#","logprobs":true"#, Some("a"), Bypass::Logprobs),
            (r#","top_logprobs":2"#, Some("a"), Bypass::Logprobs),
            ("", None, Bypass::NoText),
            ("", Some(" \n"), Bypass::NoText),
        ] {
            assert_eq!(of(more, text), Err(want), "{more} {text:?}");
        }
        assert_eq!(of("", Some(&"a ".repeat(51))), Err(Bypass::Long));
    }

    #[test]
    fn volatile_wording_is_recognised() {
        for text in [
            "What's today's date?",
            "Who is the CURRENT president",
            "latest iPhone",
            "reset my password",
            "I'm lost",
            "events this week",
            "What time is it in Tokyo",
            "Wie wird das Wetter morgen",
        ] {
            assert!(is_volatile(text), "{text}");
        }
        for text in [
            "Explain nowcasting",
            "capital of France",
            "what does 'mystery' mean",
            "sort this list",
            "weeks in a year",
            "time complexity of quicksort",
            "How do I bake bread?",
            "Tell me about the US",
            "",
        ] {
            assert!(!is_volatile(text), "{text}");
        }
    }
}
