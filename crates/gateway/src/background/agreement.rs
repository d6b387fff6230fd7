//! Agreement of two answers, if their text shows it: tool calls, JSON, few words, or a result that both name.

use serde_json::Value;

use signalbox_protocol::AnswerContent;

/// Most words of an answer that is compared word by word.
const FEW_WORDS: usize = 12;
/// Marks that announce a result, in the order of search.
const ANNOUNCED: [&str; 4] = ["\\boxed{", "####", "answer is", "answer:"];

/// Returns true if both answers say the same, and `None` if their text does not show it.
pub(super) fn agree(one: &AnswerContent<'_>, other: &AnswerContent<'_>) -> Option<bool> {
    if !one.calls.is_empty() && !other.calls.is_empty() {
        return Some(calls(one) == calls(other));
    }
    if !one.calls.is_empty() || !other.calls.is_empty() {
        return None;
    }
    if let (Some(one), Some(other)) = (document(one.text), document(other.text)) {
        // A different wording in the document may be right too.
        return (one == other).then_some(true);
    }
    let (first, second) = (words(one.text), words(other.text));
    if first == second {
        return Some(true);
    }
    if let (Some(one), Some(other)) = (result(one.text), result(other.text)) {
        return Some(one == other);
    }
    let few = first.len() <= FEW_WORDS && second.len() <= FEW_WORDS;
    let numbers = |words: &[String]| -> Vec<String> {
        words.iter().filter(|word| word.bytes().any(|byte| byte.is_ascii_digit())).cloned().collect()
    };
    let (one, other) = (numbers(&first), numbers(&second));
    (few && !one.is_empty() && !other.is_empty()).then(|| one == other)
}

fn calls<'a>(said: &'a AnswerContent<'_>) -> Vec<(&'a str, Value)> {
    let read = |arguments: &str| serde_json::from_str(arguments).unwrap_or_else(|_| Value::from(arguments));
    let mut calls: Vec<_> = said.calls.iter().map(|(name, arguments)| (*name, read(arguments))).collect();
    calls.sort_by_key(|(name, arguments)| (*name, arguments.to_string()));
    calls
}

fn document(text: &str) -> Option<Value> {
    let text = text.trim();
    let bare = text.strip_prefix("```json").or_else(|| text.strip_prefix("```"));
    let text = bare.and_then(|text| text.strip_suffix("```")).unwrap_or(text);
    serde_json::from_str(text).ok().filter(|value: &Value| value.is_object() || value.is_array())
}

fn words(text: &str) -> Vec<String> {
    let inner = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | ',' | '%');
    let words = text.split(|c: char| !inner(c)).map(|word| word.trim_matches(['-', '.', ',']));
    let plain = |word: &str| {
        let number = word.starts_with(|c: char| c.is_ascii_digit());
        if number { word.replace(',', "") } else { word.to_lowercase() }
    };
    words.filter(|word| !word.is_empty()).map(plain).collect()
}

/// Returns the result that is announced last.
fn result(text: &str) -> Option<Vec<String>> {
    let lower = text.to_lowercase();
    let (at, mark) = ANNOUNCED.iter().find_map(|mark| Some((lower.rfind(mark)?, mark)))?;
    let rest = lower[at + mark.len()..].lines().find(|line| !line.trim().is_empty())?;
    let rest = if mark.ends_with('{') { rest.split('}').next().unwrap_or(rest) } else { rest };
    let result = words(rest);
    (1..=FEW_WORDS).contains(&result.len()).then_some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> AnswerContent<'_> {
        AnswerContent { text, calls: Vec::new() }
    }

    #[test]
    fn only_what_the_words_show_is_decided() {
        for (one, other, expected) in [
            ("Paris.", "paris", Some(true)),
            ("Paris", "London", None),
            ("It is 42.", "42", Some(true)),
            ("1,000 m", "1000 m", Some(true)),
            ("It is 42.", "43", Some(false)),
            ("long talk ... The answer is 7.", "other talk\n#### 7", Some(true)),
            ("so \\boxed{12} it is", "the answer: 13", Some(false)),
            (r#"{"a": 1, "b": [2]}"#, "```json\n{\"b\":[2],\"a\":1}\n```", Some(true)),
            (r#"{"note": "fine"}"#, r#"{"note": "good"}"#, None),
            ("A story about a fox that ran.", "A tale of a wolf.", None),
        ] {
            assert_eq!(agree(&said(one), &said(other)), expected, "{one} / {other}");
            assert_eq!(agree(&said(other), &said(one)), expected, "{other} / {one}");
        }
    }

    #[test]
    fn calls_are_compared_by_what_they_mean() {
        let call = |arguments| AnswerContent { text: "", calls: vec![("weather", arguments)] };
        assert_eq!(agree(&call(r#"{"city":"Bonn","days":2}"#), &call(r#"{"days":2, "city":"Bonn"}"#)), Some(true));
        assert_eq!(agree(&call(r#"{"city":"Bonn"}"#), &call(r#"{"city":"Berlin"}"#)), Some(false));
        assert_eq!(agree(&call("{}"), &said("I cannot know the weather")), None);
    }
}
