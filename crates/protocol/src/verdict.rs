//! Checks whether an answer is usable, as far as that can be decided without a second model.
//!
//! An answer that is still arriving is judged by its content so far: it passes while it may still become valid. One
//! failing choice among several is enough. The checks that read the text as language (refusal, repetition) may be
//! wrong; a false alarm costs a second answer.
//!
//! The logprob statistics are those that Gupta et al. found most predictive ("Language Model Cascades: Token-level
//! uncertainty and beyond", ICLR 2024): the mean, which does not grow with the answer's length, and a low quantile,
//! which shows a bad stretch that the mean hides.

use serde_json::Value;

use super::{
    finish::Finish,
    json_schema::satisfies,
    partial_answer::{Call, Choice, PartialAnswer},
    refusal::declines,
    requirements::{AnswerRequirements, Format, Tool},
};
use signalbox_types::{Check, Checks};

/// The longest unit of a loop, in bytes: about a paragraph.
const LONGEST_UNIT: usize = 400;
/// The fewest repetitions in a row, and the fewest bytes in all, that count as a loop.
const FEWEST_TURNS: usize = 8;
const SHORTEST_LOOP: usize = 200;
/// The quantile of logprobs that is checked, the number of tokens it needs, and the largest factor by which it may be
/// below the required mean.
const LOW_QUANTILE: f64 = 0.1;
const FEWEST_LOGPROBS: usize = 20;
const LOW_FACTOR: f64 = 4.0;

/// The criteria that an answer must meet.
#[derive(Clone, Debug)]
pub struct AnswerCriteria {
    /// The checks to run.
    pub checks: Checks,
    /// The lowest mean logprob, in nats per token; unused if logprobs are not checked.
    pub min_logprob: f64,
    /// The request's own requirements.
    pub wanted: AnswerRequirements,
}

impl AnswerCriteria {
    /// The first check that the answer fails.
    pub fn fails(&self, draft: &PartialAnswer) -> Option<Check> {
        draft.choices.iter().find_map(|choice| self.choice_fails(choice, draft.over))
    }

    /// The most informative checks come first.
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
            // A truncated answer is incomplete for its length alone, which another check covers.
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
    choice.finish.as_deref().is_some_and(|reason| Finish::read(reason) == Finish::Length)
}

fn refuses(choice: &Choice) -> bool {
    let is_filtered = choice.finish.as_deref().is_some_and(|reason| Finish::read(reason) == Finish::Filter);
    !choice.refusal.is_empty() || is_filtered || declines(&choice.text)
}

fn is_empty(choice: &Choice) -> bool {
    choice.text.trim().is_empty() && choice.calls.is_empty() && choice.refusal.is_empty() && !choice.other
}

/// True if one of the tools accepts the call. If the tools are unknown, its arguments must be JSON.
fn takes(tools: Option<&[Tool]>, call: &Call) -> bool {
    let tool = match tools {
        Some(tools) => match tools.iter().find(|tool| tool.name == call.name) {
            Some(tool) => Some(tool),
            None => return false,
        },
        None => None,
    };
    // A tool without arguments may be called with an empty string.
    let text = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
    let Ok(arguments) = serde_json::from_str::<Value>(text) else { return false };
    arguments.is_object()
        && tool.and_then(|tool| tool.parameters.as_ref()).is_none_or(|schema| satisfies(&arguments, schema))
}

/// True if more text could make this a JSON document.
fn may_become_json(text: &str) -> bool {
    let open = |text: &str| match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => true,
        Err(error) => error.is_eof(),
    };
    // For half a number (`-`, `1.`, `2e+`) the parser reports a syntax error rather than an early end.
    open(text) || open(text.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E')))
}

/// True if the text ends in repetitions of one unit. A unit without a letter (a line of dashes, zeros) does not count.
fn loops(text: &str) -> bool {
    let text = text.trim_end().as_bytes();
    (1..=LONGEST_UNIT.min(text.len() / FEWEST_TURNS)).any(|unit| {
        let long = SHORTEST_LOOP.max(unit * FEWEST_TURNS);
        let Some(end) = text.len().checked_sub(long).map(|start| &text[start..]) else { return false };
        let turn = &end[end.len() - unit..];
        // Each byte equals the one a unit earlier.
        end[unit..] == end[..end.len() - unit] && turn.iter().any(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii())
    })
}

/// True if the mean logprob is below `least`, or the lowest tenth far below it.
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

/// Fuzz target: judges arbitrary bytes as an answer, whole and event by event.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_verdict(input: &[u8]) {
    let wanted =
        AnswerRequirements { format: Format::Object, tools: Some(Vec::new()), must_call: true, limited: false };
    let bar = AnswerCriteria { checks: Check::ALL.into_iter().collect(), min_logprob: -1.0, wanted };
    if let Some(draft) = PartialAnswer::whole(input) {
        bar.fails(&draft);
    }
    let mut draft = PartialAnswer::default();
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
    use crate::RequestBody;
    use signalbox_types::Endpoint;

    fn bar(request: &Value) -> AnswerCriteria {
        let mut body = json!({ "model": "m", "messages": [1] });
        body.as_object_mut().unwrap().extend(request.as_object().unwrap().clone());
        let body = RequestBody::json(Endpoint::Chat, body.to_string().into()).unwrap();
        AnswerCriteria {
            checks: Check::ALL.into_iter().collect(),
            min_logprob: -1.0,
            wanted: AnswerRequirements::read(&body),
        }
    }

    fn whole(request: &Value, choice: &Value) -> Option<Check> {
        let body = json!({ "choices": [choice] }).to_string();
        bar(request).fails(&PartialAnswer::whole(body.as_bytes()).unwrap())
    }

    fn text(request: &Value, text: &str, finish: &str) -> Option<Check> {
        whole(request, &json!({ "message": { "content": text }, "finish_reason": finish }))
    }

    /// The result while `text` is still arriving.
    fn coming(request: &Value, text: &str) -> Option<Check> {
        let mut draft = PartialAnswer::default();
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
        assert_eq!(bar(&none()).fails(&PartialAnswer::whole(body.as_bytes()).unwrap()), Some(Check::Empty));
    }

    #[test]
    fn the_requested_format_is_enforced() {
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
    fn calls_must_match_a_tool() {
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
    fn loops_are_recognised_and_lists_are_not() {
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
    fn low_logprobs_are_recognised_in_the_mean_and_the_lowest_tenth() {
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
    fn only_the_checks_in_the_set_run() {
        let bar = AnswerCriteria { checks: Checks::default(), ..bar(&none()) };
        assert_eq!(bar.fails(&PartialAnswer::whole(br#"{"choices":[{"message":{"content":""}}]}"#).unwrap()), None);
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
