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

/// Words of a time or a fact that moves with it, whatever stands beside them.
const VOLATILE: &str = "today todays tonight tomorrow yesterday currently current latest newest recent upcoming nowadays breaking \
    weather forecast news nearby nearest heute jetzt gestern aktuell aktuelle hoy ahora aujourd maintenant";

/// Consecutive words of that kind.
const VOLATILE_PHRASES: [&str; 24] = [
    "this week",
    "this month",
    "this year",
    "this morning",
    "last week",
    "last month",
    "last year",
    "next week",
    "next month",
    "next year",
    "time is it",
    "near me",
    "around me",
    "exchange rate",
    "share price",
    "stock price",
    "who won",
    "score of",
    "mein kontostand",
    "meine bestellung",
    "mi pedido",
    "mi saldo",
    "ma commande",
    "mon solde",
];

/// Words that put a price or a value to what is traded, and what is traded by the minute.
const VALUES: &str = "price prices worth value trading rate";
const TRADED: &str = "bitcoin btc ethereum eth crypto gold silver oil gas stock stocks share shares dollar euro yen";

/// Words of what one person has and what changes: "where is my order".
const OWN: &str = "my our mine";
const STATES: &str = "order orders balance status package parcel delivery shipment refund payment appointment booking reservation \
    flight application claim ticket case bill invoice points usage location schedule score";
/// Words before which "I" asks for a way, which all have in common: "how do I track my order".
const WAYS: &str = "do can should could must may would";

/// True if a text asks for a fact that may soon change or differs between persons, by its words, in a few languages. A
/// word such as "my" or "price" alone asks for none: "how do I reset my password".
pub fn is_volatile(text: &str) -> bool {
    let words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '’')
        // Longer than any of those words.
        .map(|word| if word.len() > 32 { "" } else { word })
        .filter(|word| !word.is_empty())
        .map(|word| word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect())
        .collect();
    let is = |list: &str, word: &str| list.split_whitespace().any(|listed| listed == word);
    let has = |list: &str| words.iter().any(|word| is(list, word));
    let says = |phrase: &&str| {
        let parts: Vec<&str> = phrase.split(' ').collect();
        words.windows(parts.len()).any(|found| found.iter().zip(&parts).all(|(word, part)| word == part))
    };
    // "What now?" asks what to do.
    let now = words.iter().enumerate().any(|(at, word)| {
        let before = at.checked_sub(1).map_or("", |at| &*words[at]);
        word == "now" && !matches!(before, "" | "what" | "and" | "until" | "by" | "from" | "but")
    });
    let way = words.windows(2).any(|pair| is(WAYS, &pair[0]) && pair[1] == "i")
        || words.windows(2).any(|pair| pair[0] == "how" && pair[1] == "to");
    let own = words
        .iter()
        .enumerate()
        .any(|(at, word)| is(OWN, word) && words[at + 1..].iter().take(2).any(|next| is(STATES, next)));
    now || has(VOLATILE) || VOLATILE_PHRASES.iter().any(says) || has(VALUES) && has(TRADED) || own && !way
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
            "Where is my order?",
            "What's the status of our last shipment?",
            "What is the price now?",
            "price of gold",
            "events this week",
            "pharmacies near me",
            "What time is it in Tokyo",
            "Wie wird das Wetter heute",
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
            "reset my password",
            "How do I track my order?",
            "My screen is broken, what now?",
            "What is the price of shipping?",
            "Is my data safe here?",
            "Where do the koalas live?",
            "What time is checkout?",
            "",
        ] {
            assert!(!is_volatile(text), "{text}");
        }
    }
}
