use proptest::{prelude::*, test_runner::RngSeed};
use serde_json::json;

use super::*;

/// A byte-level BPE of 260 tokens, in the format of `tokenizer.json`: all bytes, and four merges.
fn tiny() -> ModelTokenizer {
    let mut vocab: Vec<String> = (0..=255_u8).map(|byte| byte_char(byte).to_string()).collect();
    let merges = [["t", "h"], ["th", "e"], ["Ġ", "the"], ["a", "n"]];
    vocab.extend(merges.iter().map(|[a, b]| format!("{a}{b}")));
    let vocab: serde_json::Map<_, _> = vocab.into_iter().enumerate().map(|(id, token)| (token, json!(id))).collect();
    let merges = merges.map(|pair| pair.join(" "));
    let json = json!({
        "version": "1.0",
        "truncation": { "max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right" },
        "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
        "post_processor": null, "decoder": null,
        "model": { "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": merges },
    });
    ModelTokenizer::read(json.to_string().as_bytes()).unwrap()
}

/// The character for a byte in byte-level vocabularies.
fn byte_char(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if printable(byte) {
        return char::from(byte);
    }
    let hidden = (0..byte).filter(|&byte| !printable(byte)).count() as u32;
    char::from_u32(256 + hidden).unwrap()
}

fn counter(encoding: Encoding) -> Counter {
    Counter::new(Arc::new(TokenizerSlot::open_ai(encoding)))
}

fn own() -> Counter {
    Counter::new(Arc::new(TokenizerSlot::own(tiny())))
}

fn chat(messages: &str) -> Rendered<'_> {
    Rendered { messages, ..Rendered::default() }
}

/// The messages of OpenAI's cookbook, whose counts come from its own function and from the API.
const JARGON: &str = r#"[
  {"role":"system","content":"You are a helpful, pattern-following assistant that translates corporate jargon into plain English."},
  {"role":"system","name":"example_user","content":"New synergies will help drive top-line growth."},
  {"role":"system","name":"example_assistant","content":"Things working well together will increase revenue."},
  {"role":"system","name":"example_user","content":"Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage."},
  {"role":"system","name":"example_assistant","content":"Let's talk later when we're less busy about how to do better."},
  {"role":"user","content":"This late pivot means we don't have time to boil the ocean for the client deliverable."}]"#;

#[test]
fn chats_are_counted_as_openai_reports_them() {
    assert_eq!(counter(Encoding::Cl100k).count(&chat(JARGON)).tokens, 129);
    assert_eq!(counter(Encoding::O200k).count(&chat(JARGON)).tokens, 124);
}

#[test]
fn tools_are_counted_as_openai_reports_them() {
    let body = Rendered {
        tools: r#"[{"type":"function","function":{"name":"get_current_weather","description":"Get the current weather in a given location","parameters":{"type":"object","properties":{"location":{"type":"string","description":"The city and state, e.g. San Francisco, CA"},"unit":{"type":"string","description":"The unit of temperature to return","enum":["celsius","fahrenheit"]}},"required":["location"]}}}]"#,
        messages: r#"[{"role":"system","content":"You are a helpful assistant that can answer to questions about the weather."},{"role":"user","content":"What's the weather like in San Francisco?"}]"#,
        ..Rendered::default()
    };
    assert_eq!(counter(Encoding::Cl100k).count(&body).tokens, 105);
    assert_eq!(counter(Encoding::O200k).count(&body).tokens, 101);
}

#[test]
fn escapes_are_counted_as_the_text_they_stand_for() {
    let counter = counter(Encoding::O200k);
    let plain = chat(r#"[{"role":"user","content":"お誕生日おめでとう"}]"#);
    let escaped = chat(r#"[{"role":"user","content":"\u304a\u8a95\u751f\u65e5\u304a\u3081\u3067\u3068\u3046"}]"#);
    assert_eq!(counter.count(&plain).tokens, 3 + 1 + 8 + 3);
    assert_eq!(counter.count(&plain), counter.count(&escaped));
    assert_eq!(counter.estimate(&plain), counter.estimate(&escaped));
}

#[test]
fn images_count_by_their_detail_and_are_not_learned_from() {
    let counter = counter(Encoding::O200k);
    let image = chat(
        r#"[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAAAAAA"}}]}]"#,
    );
    let (count, estimate) = (counter.count(&image), counter.estimate(&image));
    assert_eq!(count.tokens, 3 + 1 + 1 + 765 + 3);
    assert!((estimate.lo..=estimate.hi).contains(&count.tokens), "{estimate:?}");
    for _ in 0..100 {
        counter.learn(count.known, 2 * count.tokens);
        counter.learn(estimate.known, 2 * count.tokens);
    }
    assert_eq!(counter.count(&image), count);
}

#[test]
fn own_tokenizers_count_texts_and_a_template() {
    let counter = own();
    // " the" is one token, "an" is one, and " b" has two.
    let body = chat(r#"[{"role":"an","content":"the the b"}]"#);
    assert_eq!(counter.count(&body).tokens, 4 + 1 + (1 + 1 + 2) + 3, "truncation in the file is switched off");
    assert!(ModelTokenizer::read(b"{}").is_err() && ModelTokenizer::read(b"").is_err());
}

#[test]
fn long_texts_are_counted_in_parts_without_an_error() {
    let tokenizer = tiny();
    for text in ["the than at ".repeat(3_000), "the\nthan ".repeat(3_000), "a1\nb2\n".repeat(4_000)] {
        let short: u64 = text.split_inclusive('\n').map(|line| tokenizer.count(line, u64::MAX)).sum();
        assert_eq!(tokenizer.count(&text, u64::MAX), short);
    }
    let chinese = "你好，世界".repeat(2_000);
    let (whole, parts) = (chinese.len() as u64, tokenizer.count(&chinese, u64::MAX));
    assert!(whole.abs_diff(parts) <= 2 * whole / 4096, "{parts} for {whole}");
}

#[test]
fn without_a_tokenizer_reports_are_learned() {
    let source = Arc::new(TokenizerSlot::learned());
    let counter = Counter::new(source.clone());
    let text = "The quick brown fox jumps over the lazy dog. ";
    let bodies: Vec<String> =
        (1..200).map(|n| json!([{ "role": "user", "content": text.repeat(n) }]).to_string()).collect();
    let truth = |n: u64| 40 + 9 * n;
    for (n, messages) in (1..).zip(&bodies) {
        let estimate = counter.estimate(&chat(messages));
        counter.learn(estimate.known, truth(n));
    }
    for (n, messages) in (1..).zip(&bodies).skip(20) {
        let got = counter.estimate(&chat(messages));
        assert!(got.expected.abs_diff(truth(n)) <= 8 + truth(n) / 20, "{got:?} for {}", truth(n));
        assert!((got.lo..=got.hi).contains(&truth(n)));
        assert_eq!(got.cost, Cost { bytes: 0, blocks: false });
        assert!(!counter.exceeds(&chat(messages), got.expected));
        assert_eq!(got.exceeds(got.expected - 1), Some(true));
    }
    assert!(!counter.is_exact());
    source.put(tiny());
    assert!(counter.is_exact());
}

#[test]
fn template_tokens_are_learned_on_top_of_the_count() {
    let counter = counter(Encoding::Cl100k);
    let raw = counter.count(&chat(JARGON)).counted;
    for n in 1..200 {
        let messages = json!([{ "role": "user", "content": "word ".repeat(n) }]).to_string();
        let count = counter.count(&chat(&messages));
        counter.learn(count.known, count.counted + 25);
    }
    let count = counter.count(&chat(JARGON));
    assert_eq!(count.counted, raw);
    assert!(count.tokens.abs_diff(raw + 25) <= 4, "{count:?}");
    assert!(!counter.exceeds(&chat(JARGON), count.tokens) && counter.exceeds(&chat(JARGON), count.tokens - 1));
}

/// Texts of every script, including hostile JSON.
fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-zA-Z ,.]{0,200}",
        "[ \\n\\t]{0,30}[a-z0-9_(){};=]{0,60}",
        "[0-9a-f]{0,80}",
        "[你好世界，。한국어日本]{0,60}",
        "[éàüЖждשלום]{0,60}",
        "\\PC{0,40}",
        Just("don't we're I'LL <|endoftext|> \u{feff}\u{200b}\r\n".to_owned()),
        Just("the ".repeat(2_200)),
    ];
    prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

fn agree(counter: &Counter, messages: &str) -> Result<(), TestCaseError> {
    let body = chat(messages);
    let (count, estimate) = (counter.count(&body), counter.estimate(&body));
    let tokens = count.tokens;
    prop_assert!(estimate.at_least <= tokens && tokens <= estimate.at_most, "{estimate:?} {count:?}");
    prop_assert!(estimate.lo <= estimate.expected && estimate.expected <= estimate.hi);
    for limit in [0, 1, tokens / 2, tokens.saturating_sub(1), tokens, tokens + 1, 2 * tokens, u64::MAX] {
        prop_assert_eq!(counter.exceeds(&body, limit), tokens > limit, "{} tokens, limit {}", tokens, limit);
        if let Some(decided) = estimate.exceeds(limit) {
            prop_assert_eq!(decided, tokens > limit);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn limits_and_bounds_agree_with_counts(texts in prop::collection::vec(text(), 0..4), learned in 0..40_u64) {
        let messages: Vec<_> = texts.iter().map(|text| json!({ "role": "user", "content": text })).collect();
        let messages = serde_json::Value::from(messages).to_string();
        for counter in [counter(Encoding::Cl100k), counter(Encoding::O200k), own(), Counter::new(Arc::default())] {
            for n in 0..learned {
                counter.learn(CountBasis { tokens: 100 * n, exact: true, text: true }, 120 * n + 30);
            }
            agree(&counter, &messages)?;
        }
    }

    #[test]
    fn hostile_json_does_not_panic(messages in "(\\[|\\{|\\}|\\]|,|:|\"|\"role\":|\"content\":|\"image_url\":|\\\\ud83d|\\\\u0000|\\\\|null|[0-9]|é|a b ){0,60}") {
        for counter in [counter(Encoding::O200k), own()] {
            agree(&counter, &messages)?;
        }
    }
}
