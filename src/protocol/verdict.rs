//! Whether an answer is of any use, as far as that shows without a second model.
//!
//! An answer that is still coming is judged by what there is: what may still turn out well passes. Of several choices, one that fails
//! is enough. The checks that read the text as language (a refusal, a loop) may be wrong; what they cost then is a second answer.
//!
//! The logprobs of tokens are taken as Gupta et al. found them to tell most ("Language Model Cascades: Token-level uncertainty and
//! beyond", ICLR 2024): their mean, which does not grow with the length of the answer, and a low quantile, which one bad stretch shows
//! in where a mean hides it.

use serde_json::Value;

use super::{
    draft::{Call, Choice, Draft},
    json_schema::satisfies,
    refusal::declines,
    wanted::{Format, Tool, Wanted},
};
use crate::types::{Check, Checks};

/// Longest unit of a loop, in bytes: about a paragraph.
const LONGEST_UNIT: usize = 400;
/// Fewest times in a row, and fewest bytes in all, that make a loop of a repetition.
const FEWEST_TURNS: usize = 8;
const SHORTEST_LOOP: usize = 200;
/// The quantile of logprobs that is looked at, the tokens that it takes, and how many times as low as the mean it may be.
const LOW_QUANTILE: f64 = 0.1;
const FEWEST_LOGPROBS: usize = 20;
const LOW_FACTOR: f64 = 4.0;

/// What an answer is held against.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What is looked at.
    pub checks: Checks,
    /// The lowest mean logprob, in nats a token; without effect where logprobs are not looked at.
    pub min_logprob: f64,
    /// What the request asks for.
    pub wanted: Wanted,
}

impl Bar {
    /// The first check that an answer does not pass.
    pub fn fails(&self, draft: &Draft) -> Option<Check> {
        draft.choices.iter().find_map(|choice| self.choice_fails(choice, draft.over))
    }

    /// In an order in which the check that says most comes first.
    fn choice_fails(&self, choice: &Choice, over: bool) -> Option<Check> {
        let found: [(Check, &dyn Fn() -> bool); 7] = [
            (Check::Refusal, &|| refuses(choice)),
            (Check::Empty, &|| over && is_empty(choice)),
            (Check::Repetition, &|| loops(&choice.text)),
            (Check::Length, &|| !self.wanted.limited && cut(choice)),
            (Check::Tools, &|| self.misses_tools(choice, over)),
            (Check::Schema, &|| self.misses_form(choice, over)),
            (Check::Logprobs, &|| unsure(&choice.logprobs, self.min_logprob)),
        ];
        found.into_iter().find(|(check, fails)| self.checks.has(*check) && fails()).map(|(check, _)| check)
    }

    fn misses_tools(&self, choice: &Choice, over: bool) -> bool {
        if cut(choice) {
            // What was cut is complete in nothing, and not for want of understanding.
            return false;
        }
        let nothing_called = over && self.wanted.must_call && choice.calls.is_empty() && !choice.other;
        nothing_called || choice.finished_calls().iter().any(|call| !takes(self.wanted.tools.as_deref(), call))
    }

    fn misses_form(&self, choice: &Choice, over: bool) -> bool {
        if matches!(self.wanted.format, Format::Any) || choice.other || cut(choice) {
            return false;
        }
        if !choice.calls.is_empty() || !choice.refusal.is_empty() {
            return false;
        }
        if !over && choice.finish.is_none() {
            return !may_become_json(&choice.text);
        }
        let Ok(value) = serde_json::from_str::<Value>(&choice.text) else { return true };
        match &self.wanted.format {
            Format::Any => false,
            Format::Object => !value.is_object(),
            Format::Schema(schema) => !satisfies(&value, schema),
        }
    }
}

fn cut(choice: &Choice) -> bool {
    choice.finish.as_deref() == Some("length")
}

fn refuses(choice: &Choice) -> bool {
    !choice.refusal.is_empty() || choice.finish.as_deref() == Some("content_filter") || declines(&choice.text)
}

fn is_empty(choice: &Choice) -> bool {
    choice.text.trim().is_empty() && choice.calls.is_empty() && choice.refusal.is_empty() && !choice.other
}

/// Whether one of the tools takes a call. Where the tools are not known, its arguments must be JSON.
fn takes(tools: Option<&[Tool]>, call: &Call) -> bool {
    let tool = match tools {
        Some(tools) => match tools.iter().find(|tool| tool.name == call.name) {
            Some(tool) => Some(tool),
            None => return false,
        },
        None => None,
    };
    // A tool without arguments may be called with nothing at all.
    let text = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
    let Ok(arguments) = serde_json::from_str::<Value>(text) else { return false };
    arguments.is_object()
        && tool.and_then(|tool| tool.parameters.as_ref()).is_none_or(|schema| satisfies(&arguments, schema))
}

/// Whether more text could make a JSON document of this.
fn may_become_json(text: &str) -> bool {
    let open = |text: &str| match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => true,
        Err(error) => error.is_eof(),
    };
    // Of half a number (`-`, `1.`, `2e+`) the reader says that it is wrong, not that it is too short.
    open(text) || open(text.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E')))
}

/// Whether the text ends in one unit, again and again. A unit without a letter (a line of dashes, zeros) is none.
fn loops(text: &str) -> bool {
    let text = text.trim_end().as_bytes();
    (1..=LONGEST_UNIT.min(text.len() / FEWEST_TURNS)).any(|unit| {
        let long = SHORTEST_LOOP.max(unit * FEWEST_TURNS);
        let Some(end) = text.len().checked_sub(long).map(|start| &text[start..]) else { return false };
        let turn = &end[end.len() - unit..];
        // Each byte is as the one a unit before it.
        end[unit..] == end[..end.len() - unit] && turn.iter().any(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii())
    })
}

/// Whether the mean of these logprobs is below `least`, or the lowest tenth of them far below.
fn unsure(logprobs: &[f64], least: f64) -> bool {
    if logprobs.is_empty() {
        return false;
    }
    let mean = logprobs.iter().sum::<f64>() / logprobs.len() as f64;
    if mean < least {
        return true;
    }
    if logprobs.len() < FEWEST_LOGPROBS {
        return false;
    }
    let mut sorted = logprobs.to_vec();
    let at = (sorted.len() as f64 * LOW_QUANTILE) as usize;
    let (_, low, _) = sorted.select_nth_unstable_by(at, f64::total_cmp);
    *low < least * LOW_FACTOR
}

/// Reads foreign bytes as an answer, whole and event by event, and judges it. For fuzzing.
pub fn fuzz_verdict(input: &[u8]) {
    let wanted = Wanted { format: Format::Object, tools: Some(Vec::new()), must_call: true, limited: false };
    let bar = Bar { checks: Check::ALL.into_iter().collect(), min_logprob: -1.0, wanted };
    if let Some(draft) = Draft::whole(input) {
        bar.fails(&draft);
    }
    let mut draft = Draft::default();
    for line in input.split(|byte| *byte == b'\n') {
        draft.push(line);
        bar.fails(&draft);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{protocol::RequestBody, types::Endpoint};

    fn bar(request: &Value) -> Bar {
        let mut body = json!({ "model": "m", "messages": [1] });
        body.as_object_mut().unwrap().extend(request.as_object().unwrap().clone());
        let body = RequestBody::json(Endpoint::Chat, body.to_string().into()).unwrap();
        Bar { checks: Check::ALL.into_iter().collect(), min_logprob: -1.0, wanted: Wanted::read(&body) }
    }

    fn whole(request: &Value, choice: &Value) -> Option<Check> {
        let body = json!({ "choices": [choice] }).to_string();
        bar(request).fails(&Draft::whole(body.as_bytes()).unwrap())
    }

    fn text(request: &Value, text: &str, finish: &str) -> Option<Check> {
        whole(request, &json!({ "message": { "content": text }, "finish_reason": finish }))
    }

    /// What is found while `text` is still coming.
    fn coming(request: &Value, text: &str) -> Option<Check> {
        let mut draft = Draft::default();
        draft.push(json!({ "choices": [{ "delta": { "content": text } }] }).to_string().as_bytes());
        bar(request).fails(&draft)
    }

    fn none() -> Value {
        json!({})
    }

    #[test]
    fn a_plain_answer_passes() {
        assert_eq!(text(&none(), "Paris.", "stop"), None);
        assert_eq!(coming(&none(), "Par"), None);
        assert_eq!(coming(&none(), ""), None, "it may yet say something");
    }

    #[test]
    fn empty_cut_and_refused_answers_fail() {
        assert_eq!(text(&none(), " \n", "stop"), Some(Check::Empty));
        assert_eq!(text(&none(), "Once upon", "length"), Some(Check::Length));
        assert_eq!(text(&json!({ "max_tokens": 2 }), "Once upon", "length"), None, "that was asked for");
        assert_eq!(text(&none(), "I'm sorry, but I can't help with that.", "stop"), Some(Check::Refusal));
        assert_eq!(coming(&none(), "Sorry, I cannot assist"), Some(Check::Refusal));
        assert_eq!(text(&none(), "a", "content_filter"), Some(Check::Refusal));
        let declined = json!({ "message": { "content": null, "refusal": "No." }, "finish_reason": "stop" });
        assert_eq!(whole(&json!({ "response_format": { "type": "json_object" } }), &declined), Some(Check::Refusal));
        let spoken =
            json!({ "message": { "content": null, "audio": { "data": "UklGRg==" } }, "finish_reason": "stop" });
        assert_eq!(whole(&none(), &spoken), None);
    }

    #[test]
    fn one_bad_choice_of_several_is_enough() {
        let choice = |text: &str| json!({ "message": { "content": text }, "finish_reason": "stop" });
        let mut second = choice("");
        second["index"] = json!(1);
        let body = json!({ "choices": [choice("fine"), second] }).to_string();
        assert_eq!(bar(&none()).fails(&Draft::whole(body.as_bytes()).unwrap()), Some(Check::Empty));
    }

    #[test]
    fn the_form_asked_for_is_held_to() {
        let object = json!({ "response_format": { "type": "json_object" } });
        assert_eq!(text(&object, "{\"a\": 1}", "stop"), None);
        assert_eq!(text(&object, "[1]", "stop"), Some(Check::Schema));
        assert_eq!(text(&object, "```json\n{}\n```", "stop"), Some(Check::Schema));
        let schema = json!({ "type": "object", "required": ["a"] });
        let request = json!({ "response_format": { "type": "json_schema", "json_schema": { "schema": schema } } });
        assert_eq!(text(&request, "{\"a\": 1}", "stop"), None);
        assert_eq!(text(&request, "{\"b\": 1}", "stop"), Some(Check::Schema));
        assert_eq!(coming(&request, "{\"b\": 1"), None, "what is missing may still come");
        assert_eq!(coming(&request, "Sure! Here"), Some(Check::Schema));
        let limited = json!({ "response_format": { "type": "json_object" }, "max_tokens": 3 });
        assert_eq!(text(&limited, "{\"a\":", "length"), None);
    }

    fn tools() -> Value {
        json!({ "tools": [
            { "type": "function", "function": { "name": "weather", "parameters": {
                "type": "object", "required": ["city"], "properties": { "city": { "type": "string" } } } } },
            { "type": "function", "function": { "name": "now" } },
        ] })
    }

    fn call(name: &str, arguments: &str) -> Value {
        let function = json!({ "name": name, "arguments": arguments });
        json!({ "message": { "content": null, "tool_calls": [{ "function": function }] }, "finish_reason": "tool_calls" })
    }

    #[test]
    fn calls_have_to_be_taken_by_a_tool() {
        let request = tools();
        assert_eq!(whole(&request, &call("weather", "{\"city\":\"Ulm\"}")), None);
        assert_eq!(whole(&request, &call("now", "")), None);
        for (name, arguments) in [
            ("weathr", "{\"city\":\"Ulm\"}"),
            ("weather", "{\"city\":\"Ulm\""),
            ("weather", "{\"city\":7}"),
            ("weather", "{}"),
            ("weather", "\"Ulm\""),
        ] {
            assert_eq!(whole(&request, &call(name, arguments)), Some(Check::Tools), "{name} {arguments}");
        }
        assert_eq!(whole(&none(), &call("built_in", "{}")), None, "tools that the request does not name");
        assert_eq!(text(&request, "It rains.", "stop"), None);
        let mut must = tools();
        must["tool_choice"] = json!("required");
        assert_eq!(text(&must, "It rains.", "stop"), Some(Check::Tools));
        assert_eq!(coming(&must, "Let me see."), None);
    }

    #[test]
    fn loops_are_seen_and_lists_are_not() {
        for unit in ["the ", "I am here to help you. ", "\n- Item: an item of the list", "我不知道。"] {
            assert!(loops(&format!("An answer. {}", unit.repeat(60))), "{unit}");
            assert!(!loops(&unit.repeat(4)), "{unit} is there four times only");
            assert!(!loops(&(unit.repeat(60) + " And that was it.")), "{unit} came to an end");
        }
        assert!(!loops(&"-".repeat(500)) && !loops(&"0, ".repeat(200)) && !loops(&"| --- ".repeat(99)));
        let numbered: Vec<_> = (0..80).map(|n| format!("{n}. an item of the list")).collect();
        assert!(!loops(&numbered.join("\n")));
    }

    #[test]
    fn low_logprobs_are_seen_in_the_mean_and_in_the_lowest_tenth() {
        let sure = vec![-0.1; 40];
        assert!(!unsure(&sure, -1.0) && !unsure(&[], -1.0));
        assert!(unsure(&[-1.5; 40], -1.0) && unsure(&[-3.0], -1.0));
        let stretch = [vec![-0.1; 40], vec![-5.0; 6]].concat();
        assert!(unsure(&stretch, -1.0), "a mean of -0.74 hides six bad tokens");
        assert!(!unsure(&[vec![-0.1; 40], vec![-5.0; 2]].concat(), -1.0));
        let choice = json!({ "message": { "content": "a" }, "finish_reason": "stop",
            "logprobs": { "content": [{ "token": "a", "logprob": -2.0 }] } });
        assert_eq!(whole(&none(), &choice), Some(Check::Logprobs));
    }

    #[test]
    fn only_what_is_in_the_set_is_looked_at() {
        let bar = Bar { checks: Checks::default(), ..bar(&none()) };
        assert_eq!(bar.fails(&Draft::whole(br#"{"choices":[{"message":{"content":""}}]}"#).unwrap()), None);
    }

    proptest! {
        #[test]
        fn no_beginning_of_a_json_document_fails(numbers in prop::collection::vec(any::<f64>(), 0..4), text in ".{0,12}", cut in any::<prop::sample::Index>()) {
            let whole = json!({ "a": [numbers, text, null, true], "b": { "c": -1.5e-7 } }).to_string();
            let mut end = cut.index(whole.len() + 1);
            while !whole.is_char_boundary(end) {
                end -= 1;
            }
            prop_assert!(may_become_json(&whole[..end]), "{}", &whole[..end]);
        }
    }
}
