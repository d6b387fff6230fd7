//! Reads the `usage` object of an answer: the one place that knows the names and shapes of token counts.
//!
//! Engines differ in names, in the shape of numbers and in what the prompt's count includes. Every member is read by
//! itself, so that one in an unexpected shape is unknown and leaves the others as they are.

use std::fmt;

use serde::{
    Deserializer as _,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use signalbox_types::Usage;

/// Token counts as an engine reports them. Reports of one answer may come in parts, see [`UsageReport::update`].
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageReport {
    /// `prompt_tokens`, which includes cached tokens.
    prompt: Option<u64>,
    /// `input_tokens`, which Anthropic counts without cached tokens, and the Responses API with them.
    input: Option<u64>,
    completion: Option<u64>,
    total: Option<u64>,
    /// Cached and cache-written tokens by names of APIs that count them within the prompt.
    cached: Option<u64>,
    written: Option<u64>,
    /// The same by Anthropic's names.
    cache_read: Option<u64>,
    cache_creation: Option<u64>,
    written_5m: Option<u64>,
    written_1h: Option<u64>,
    reasoning: Option<u64>,
    /// Gemini's count of reasoning, which is never within that of the answer.
    thoughts: Option<u64>,
}

impl UsageReport {
    /// Reads a `usage` object. `None` if it holds no count of tokens.
    pub fn read(json: &str) -> Option<Self> {
        let mut report = Self::default();
        each_member(json, |name, value| report.member(name, value));
        (report != Self::default()).then_some(report)
    }

    fn member(&mut self, name: &str, value: &str) {
        let slot = match name {
            "prompt_tokens" | "promptTokenCount" => &mut self.prompt,
            "input_tokens" => &mut self.input,
            "completion_tokens" | "output_tokens" | "candidatesTokenCount" => &mut self.completion,
            "total_tokens" | "totalTokenCount" => &mut self.total,
            // The first is DeepSeek's, the second Moonshot's, the last Gemini's.
            "prompt_cache_hit_tokens" | "cached_tokens" | "cachedContentTokenCount" => &mut self.cached,
            "thoughtsTokenCount" | "thoughts_token_count" => &mut self.thoughts,
            "cache_write_tokens" => &mut self.written,
            "cache_read_input_tokens" => &mut self.cache_read,
            "cache_creation_input_tokens" => &mut self.cache_creation,
            "reasoning_tokens" => &mut self.reasoning,
            "prompt_tokens_details" | "input_tokens_details" => {
                return each_member(value, |name, value| {
                    let slot = match name {
                        "cached_tokens" => &mut self.cached,
                        "cache_write_tokens" | "cache_creation_tokens" => &mut self.written,
                        _ => return,
                    };
                    later(slot, count(value));
                });
            }
            "completion_tokens_details" | "output_tokens_details" => {
                return each_member(value, |name, value| {
                    if matches!(name, "reasoning_tokens" | "thinking_tokens") {
                        later(&mut self.reasoning, count(value));
                    }
                });
            }
            "cache_creation" => {
                return each_member(value, |name, value| {
                    let slot = match name {
                        "ephemeral_5m_input_tokens" => &mut self.written_5m,
                        "ephemeral_1h_input_tokens" => &mut self.written_1h,
                        _ => return,
                    };
                    later(slot, count(value));
                });
            }
            _ => return,
        };
        later(slot, count(value));
    }

    /// Takes the counts of a later report of the same answer. Zeros do not replace counts: engines report them for
    /// unknown.
    pub fn update(&mut self, now: &Self) {
        for (known, now) in [
            (&mut self.prompt, now.prompt),
            (&mut self.input, now.input),
            (&mut self.completion, now.completion),
            (&mut self.total, now.total),
            (&mut self.cached, now.cached),
            (&mut self.written, now.written),
            (&mut self.cache_read, now.cache_read),
            (&mut self.cache_creation, now.cache_creation),
            (&mut self.written_5m, now.written_5m),
            (&mut self.written_1h, now.written_1h),
            (&mut self.reasoning, now.reasoning),
            (&mut self.thoughts, now.thoughts),
        ] {
            later(known, now);
        }
    }

    /// Tokens of the whole prompt, those in the prompt cache included.
    pub fn prompt(&self) -> Option<u64> {
        let Some(base) = self.base() else {
            // Its count is missing or unreadable, but the others may tell.
            return Some(self.total?.saturating_sub(self.completion?));
        };
        Some(base.saturating_add(self.beside(base)))
    }

    /// Tokens of the prompt that the engine found in its prefix cache.
    pub fn cached(&self) -> Option<u64> {
        let cached = first(self.cached, self.cache_read)?;
        // No part is larger than the whole.
        Some(self.prompt().map_or(cached, |prompt| cached.min(prompt)))
    }

    /// Tokens of the prompt that the engine wrote to its prefix cache.
    pub fn written(&self) -> Option<u64> {
        first(self.written, self.cache_creation)
    }

    /// Those of [`Self::written`] that are kept for five minutes, and for an hour, if the engine reports either.
    pub fn written_by_age(&self) -> Option<(u64, u64)> {
        let known = self.written_5m.or(self.written_1h).is_some();
        known.then_some((self.written_5m.unwrap_or(0), self.written_1h.unwrap_or(0)))
    }

    /// Tokens of the answer, its reasoning included.
    pub fn completion(&self) -> Option<u64> {
        let rest = || self.total?.checked_sub(self.prompt()?).filter(|rest| *rest > 0);
        let Some(counted) = self.completion else { return rest() };
        Some(counted.saturating_add(self.reasoning_beside(counted)))
    }

    /// Tokens of the answer that are reasoning.
    pub fn reasoning(&self) -> Option<u64> {
        let named = first(self.reasoning, self.thoughts);
        let beside = self.completion.map_or(0, |counted| self.reasoning_beside(counted));
        if beside > 0 { named.max(Some(beside)) } else { named }
    }

    /// Tokens of the prompt and the answer together.
    pub fn total(&self) -> Option<u64> {
        let sum = self.prompt()?.saturating_add(self.completion()?);
        Some(self.total.map_or(sum, |total| total.max(sum)))
    }

    /// Reasoning that the provider bills on top of the answer's `counted` tokens. Its total shows that, or reasoning
    /// that is more than the answer.
    fn reasoning_beside(&self, counted: u64) -> u64 {
        let reasoning = self.reasoning.unwrap_or(0);
        if let Some(thoughts) = self.thoughts.filter(|thoughts| *thoughts > 0) {
            return thoughts;
        }
        if reasoning > counted {
            return reasoning;
        }
        let rest = || self.total?.checked_sub(self.prompt()?)?.checked_sub(counted);
        match rest().unwrap_or(0) {
            rest if reasoning > 0 => rest.min(reasoning),
            rest => rest,
        }
    }

    /// The counts for limits, costs and records. `None` if neither prompt nor answer was counted.
    pub fn usage(&self) -> Option<Usage> {
        let (prompt, completion) = (self.prompt(), self.completion());
        prompt.or(completion)?;
        Some(Usage {
            prompt_tokens: prompt.unwrap_or(0),
            cached_tokens: self.cached(),
            cache_written_tokens: self.written(),
            completion_tokens: completion.unwrap_or(0),
            reasoning_tokens: self.reasoning(),
        })
    }

    /// The counts of an answer that is no text, such as embeddings or a ranking. A total without other counts is that
    /// of the prompt.
    pub(super) fn usage_without_text(&self) -> Option<Usage> {
        let alone = || self.total.map(|prompt_tokens| Usage { prompt_tokens, ..Usage::default() });
        self.usage().or_else(alone)
    }

    /// The prompt's count by its own name.
    fn base(&self) -> Option<u64> {
        first(self.prompt, self.input)
    }

    /// Cached tokens of the prompt that its count `base` leaves out.
    fn beside(&self, base: u64) -> u64 {
        // The first are named by the API that does not count them in the prompt, the others by those that do.
        let extra = self.cache_read.unwrap_or(0).saturating_add(self.cache_creation.unwrap_or(0));
        let within = self.cached.unwrap_or(0).saturating_add(self.written.unwrap_or(0));
        let counted = base.saturating_add(self.completion.unwrap_or(0));
        let reasoning = first(self.thoughts, self.reasoning).unwrap_or(0);
        let is_sum = |total: u64, of: u64| total == of || total == of.saturating_add(reasoning);
        let is_beside = match self.total {
            Some(total) if is_sum(total, counted) => false,
            Some(total) if extra == 0 => return if is_sum(total, counted.saturating_add(within)) { within } else { 0 },
            Some(total) if is_sum(total, counted.saturating_add(extra)) => true,
            // Gateways use both families of names, of which one decides; no part is larger than the whole.
            _ if self.prompt.is_some_and(|prompt| prompt > 0) => extra > base,
            _ => self.cached.unwrap_or(0) == 0,
        };
        if is_beside { extra } else { 0 }
    }
}

/// Reads the usage of an answer that is text.
pub(super) fn of_text(usage: &RawValue) -> Option<Usage> {
    UsageReport::read(usage.get())?.usage()
}

/// Reads the usage of any other answer.
pub(super) fn without_text(usage: &RawValue) -> Option<Usage> {
    UsageReport::read(usage.get())?.usage_without_text()
}

/// The first count that is not 0, else the first that is known.
fn first(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.filter(|count| *count > 0).or(other.filter(|count| *count > 0)).or(one).or(other)
}

fn later(known: &mut Option<u64>, now: Option<u64>) {
    *known = first(now, *known);
}

/// Reads a count: a number or the text of one. A fraction is rounded; what cannot be a count is unknown.
fn count(value: &str) -> Option<u64> {
    let text = value.strip_prefix('"').map_or(value, |text| text.trim_end_matches('"').trim());
    if let Ok(count) = text.parse() {
        return Some(count);
    }
    // The bound keeps the conversion exact: beyond it a float does not know its units.
    let number: f64 = text.parse().ok()?;
    (0.0..9e15).contains(&number).then(|| number.round() as u64)
}

/// Calls `each` with the name and the JSON text of each member of the object `json`; not at all for other values.
/// Names with escapes are passed as they are written.
fn each_member(json: &str, each: impl FnMut(&str, &str)) {
    struct Members<F>(F);

    impl<'de, F: FnMut(&str, &str)> Visitor<'de> for Members<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
            while let Some(name) = map.next_key::<&'de RawValue>()? {
                let value: &'de RawValue = map.next_value()?;
                (self.0)(name.get().trim_matches('"'), value.get());
            }
            Ok(())
        }
    }

    if json.starts_with('{') {
        // The text was read as JSON before; members up to a fault count.
        let _ = serde_json::Deserializer::from_str(json).deserialize_map(Members(each));
    }
}

/// Fuzz target: reads arbitrary bytes as a `usage` object.
///
/// # Panics
/// If a part of the prompt that Anthropic's names report is larger than the prompt.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_usage_report(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Some(report) = UsageReport::read(text) else { return };
    let mut twice = report;
    twice.update(&report);
    assert_eq!(report, twice);
    let by_anthropics_names = report.cached.is_none() && report.prompt.is_none() && report.total.is_none();
    if let (Some(prompt), true) = (report.prompt(), by_anthropics_names) {
        assert!(report.cached().unwrap_or(0) <= prompt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prompt, cached, written, completion, reasoning.
    type Counts = (u64, Option<u64>, Option<u64>, u64, Option<u64>);

    fn counts(json: &str) -> Counts {
        let usage = UsageReport::read(json).unwrap_or_else(|| panic!("{json}"));
        let usage = usage.usage().unwrap_or_else(|| panic!("{json}"));
        let Usage { prompt_tokens, cached_tokens, cache_written_tokens, completion_tokens, reasoning_tokens } = usage;
        (prompt_tokens, cached_tokens, cache_written_tokens, completion_tokens, reasoning_tokens)
    }

    /// The counts of a report with the members `more` beside 100 prompt tokens and 7 of the answer.
    fn with(more: &str) -> Counts {
        counts(&format!(r#"{{"prompt_tokens":100,"completion_tokens":7,"total_tokens":107,{more}}}"#))
    }

    #[test]
    fn every_api_names_counts_in_its_own_way() {
        for (json, want) in [
            (r#"{"prompt_tokens":9,"completion_tokens":5}"#, (9, None, None, 5, None)),
            (
                r#"{"input_tokens":9,"output_tokens":5,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":2},"output_tokens_details":{"reasoning_tokens":3}}"#,
                (9, Some(4), Some(2), 5, Some(3)),
            ),
            (
                r#"{"input_tokens":9,"output_tokens":5,"cache_read_input_tokens":80,"cache_creation_input_tokens":11,"output_tokens_details":{"thinking_tokens":3}}"#,
                (100, Some(80), Some(11), 5, Some(3)),
            ),
            // Both families in one object: zeros stand for unknown.
            (
                r#"{"prompt_tokens":0,"completion_tokens":0,"input_tokens":9,"output_tokens":5}"#,
                (9, None, None, 5, None),
            ),
            (r#"{"output_tokens":5}"#, (0, None, None, 5, None)),
        ] {
            assert_eq!(counts(json), want, "{json}");
        }
        assert_eq!(UsageReport::read("{}"), None);
        assert_eq!(UsageReport::read(r#"[{"prompt_tokens":1}]"#), None);
        assert_eq!(UsageReport::read(r#"{"queue_time":0.1}"#), None);
    }

    #[test]
    fn cached_tokens_have_many_names() {
        for more in [
            r#""prompt_tokens_details":{"cached_tokens":80}"#,
            r#""prompt_tokens_details":{"cached_tokens":80.0,"audio_tokens":null}"#,
            r#""cached_tokens":80"#,
            r#""cached_tokens":80,"prompt_tokens_details":{"cached_tokens":0}"#,
            r#""prompt_cache_hit_tokens":80,"prompt_cache_miss_tokens":20"#,
            r#""cache_read_input_tokens":80,"cache_creation_input_tokens":null"#,
            r#""cache_read_input_tokens":80,"prompt_tokens_details":{"cached_tokens":80}"#,
        ] {
            assert_eq!(with(more), (100, Some(80), None, 7, None), "{more}");
        }
        for more in [
            r#""prompt_tokens_details":{"cached_tokens":40,"cache_write_tokens":30}"#,
            r#""prompt_tokens_details":{"cached_tokens":40,"cache_creation_tokens":30}"#,
            r#""cached_tokens":40,"cache_write_tokens":30"#,
            r#""cache_read_input_tokens":40,"cache_creation_input_tokens":30"#,
        ] {
            assert_eq!(with(more), (100, Some(40), Some(30), 7, None), "{more}");
        }
    }

    #[test]
    fn one_odd_member_leaves_the_others() {
        for odd in
            ["-1", "[]", "[80]", "{}", "null", "true", "\"many\"", "1e400", "99999999999999999999", "\"\\ud800\""]
        {
            let more = format!(r#""prompt_tokens_details":{{"cached_tokens":{odd},"cache_write_tokens":2}}"#);
            assert_eq!(with(&more), (100, None, Some(2), 7, None), "{odd}");
            let more =
                format!(r#""prompt_tokens_details":{odd},"completion_tokens_details":{odd},"cache_creation":{odd}"#);
            assert_eq!(with(&more), (100, None, None, 7, None), "{odd}");
            let json = format!(r#"{{"completion_tokens":7,"prompt_tokens":{odd},"total_tokens":107}}"#);
            assert_eq!(counts(&json), (100, None, None, 7, None), "{odd}");
        }
        // Members may be repeated.
        assert_eq!(with(r#""prompt_tokens":100"#), (100, None, None, 7, None));
    }

    #[test]
    fn numbers_come_as_floats_and_as_text() {
        for (value, want) in
            [("3", 3), ("3.0", 3), ("3.6", 4), ("3e2", 300), ("\"3\"", 3), ("\" 3.0 \"", 3), ("-0.0", 0)]
        {
            let json = format!(r#"{{"prompt_tokens":{value},"completion_tokens":{value}}}"#);
            assert_eq!(counts(&json), (want, None, None, want, None), "{value}");
        }
        assert_eq!(counts(r#"{"prompt_tokens":18446744073709551615}"#).0, u64::MAX);
    }

    #[test]
    fn the_total_shows_whether_cached_tokens_are_within_the_prompt() {
        for (json, want) in [
            // An Anthropic answer in chat's names, the cached tokens left beside.
            (r#"{"prompt_tokens":20,"completion_tokens":7,"total_tokens":107,"cache_read_input_tokens":80}"#, 100),
            (r#"{"prompt_tokens":20,"completion_tokens":7,"total_tokens":27,"cache_read_input_tokens":10}"#, 20),
            (r#"{"prompt_tokens":20,"completion_tokens":7,"cache_read_input_tokens":80}"#, 100),
            (r#"{"prompt_tokens":100,"completion_tokens":7,"cache_read_input_tokens":80}"#, 100),
            // Anthropic's names with the cached tokens within.
            (r#"{"input_tokens":100,"output_tokens":7,"total_tokens":107,"cache_read_input_tokens":80}"#, 100),
            (
                r#"{"input_tokens":100,"output_tokens":7,"cache_read_input_tokens":80,"input_tokens_details":{"cached_tokens":80}}"#,
                100,
            ),
            (r#"{"input_tokens":18446744073709551615,"cache_read_input_tokens":1}"#, u64::MAX),
        ] {
            assert_eq!(counts(json).0, want, "{json}");
        }
    }

    #[test]
    fn reasoning_is_counted_once_wherever_it_is_named() {
        for (json, want) in [
            // Within the answer, as its total says.
            (
                r#"{"prompt_tokens":100,"completion_tokens":320,"total_tokens":420,"reasoning_tokens":300}"#,
                (320, Some(300)),
            ),
            (r#"{"prompt_tokens":100,"completion_tokens":320,"reasoning_tokens":300}"#, (320, Some(300))),
            (r#"{"prompt_tokens":100,"completion_tokens":300,"reasoning_tokens":300}"#, (300, Some(300))),
            // On top of it.
            (
                r#"{"prompt_tokens":100,"completion_tokens":20,"total_tokens":420,"reasoning_tokens":300}"#,
                (320, Some(300)),
            ),
            (
                r#"{"prompt_tokens":100,"completion_tokens":400,"total_tokens":800,"reasoning_tokens":300}"#,
                (700, Some(300)),
            ),
            (r#"{"prompt_tokens":100,"completion_tokens":20,"reasoning_tokens":300}"#, (320, Some(300))),
            (
                r#"{"input_tokens":100,"output_tokens":20,"output_tokens_details":{"reasoning_tokens":300}}"#,
                (320, Some(300)),
            ),
            // In the total alone.
            (r#"{"prompt_tokens":100,"completion_tokens":20,"total_tokens":420}"#, (320, Some(300))),
            (
                r#"{"prompt_tokens":100,"completion_tokens":20,"total_tokens":420,"reasoning_tokens":0}"#,
                (320, Some(300)),
            ),
            (r#"{"promptTokenCount":100,"candidatesTokenCount":400,"thoughtsTokenCount":300}"#, (700, Some(300))),
            (
                r#"{"promptTokenCount":100,"candidatesTokenCount":20,"totalTokenCount":420,"thoughtsTokenCount":300}"#,
                (320, Some(300)),
            ),
            // The total has other tokens too.
            (
                r#"{"prompt_tokens":100,"completion_tokens":20,"total_tokens":450,"reasoning_tokens":10}"#,
                (30, Some(10)),
            ),
            // Cached tokens explain the total.
            (
                r#"{"prompt_tokens":20,"completion_tokens":7,"total_tokens":107,"cache_read_input_tokens":80}"#,
                (7, None),
            ),
            (r#"{"prompt_tokens":20,"completion_tokens":7,"total_tokens":107,"cached_tokens":80}"#, (7, None)),
            (
                r#"{"prompt_tokens":20,"completion_tokens":7,"total_tokens":407,"cache_read_input_tokens":80,"reasoning_tokens":300}"#,
                (307, Some(300)),
            ),
            // A total that is too small is no evidence.
            (r#"{"prompt_tokens":100,"completion_tokens":20,"total_tokens":20}"#, (20, None)),
        ] {
            let (.., completion, reasoning) = counts(json);
            assert_eq!((completion, reasoning), want, "{json}");
        }
        let total = |json| UsageReport::read(json).unwrap().total();
        assert_eq!(
            total(r#"{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"reasoning_tokens":300}"#),
            Some(420)
        );
        assert_eq!(
            total(r#"{"prompt_tokens":100,"completion_tokens":20,"total_tokens":450,"reasoning_tokens":10}"#),
            Some(450)
        );
        assert_eq!(total(r#"{"prompt_tokens":100,"completion_tokens":20}"#), Some(120));
    }

    #[test]
    fn parts_of_a_report_add_up() {
        let mut report =
            UsageReport::read(r#"{"input_tokens":20,"cache_read_input_tokens":80,"output_tokens":1}"#).unwrap();
        report
            .update(&UsageReport::read(r#"{"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":9}"#).unwrap());
        assert_eq!((report.prompt(), report.cached(), report.completion()), (Some(100), Some(80), Some(9)));
        let aged = UsageReport::read(r#"{"cache_creation":{"ephemeral_1h_input_tokens":4}}"#).unwrap();
        assert_eq!((aged.written_by_age(), aged.usage()), (Some((0, 4)), None));
    }

    #[test]
    fn a_total_alone_is_of_the_prompt_where_there_is_no_text() {
        let report = UsageReport::read(r#"{"total_tokens":30}"#).unwrap();
        assert_eq!(report.usage_without_text().map(|usage| usage.prompt_tokens), Some(30));
        assert_eq!(report.usage(), None);
    }
}
