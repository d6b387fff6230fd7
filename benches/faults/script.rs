//! Engine behaviour for each fault of the catalogue.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use serde_json::json;

use crate::{
    mock::Plan,
    provider::{Pace, Prefill, refusal},
    site::{Asked, Script},
};

/// The primary's and the fallback's model.
pub(crate) const PRIMARY: &str = "large";
pub(crate) const BACKUP: &str = "other";
/// Tokens of an answer, and of a stream that dies.
pub(crate) const TOKENS: usize = 60;
pub(crate) const CUT: usize = 40;
const PACE: Pace = Pace::millis(20, 10);
const STALL: Duration = Duration::from_secs(30);
/// Silence of a reasoning model, longer than common default time-outs.
const MINUTE: Duration = Duration::from_secs(61);
/// Error messages of the primary and of the content filter.
pub(crate) const DOWN: &str = "the primary is down";
pub(crate) const FILTERED: &str = "the prompt was filtered by the content management policy";

/// A fault of the catalogue. Ids with a letter are variants, which do not count among the sixteen.
pub(crate) struct Fault {
    pub(crate) id: &'static str,
    pub(crate) what: &'static str,
}

const fn fault(id: &'static str, what: &'static str) -> Fault {
    Fault { id, what }
}

pub(crate) const FAULTS: [Fault; 22] = [
    fault("1", "429 with `Retry-After: 2`, then fine"),
    fault("1b", "429 with `Retry-After: 20`, always"),
    fault("2", "429 always, no header"),
    fault("3", "500 once"),
    fault("4", "503 always"),
    fault("4b", "503 always, and the fallback answers 500"),
    fault("5", "connection reset before the head, once"),
    fault("6", "accepts, never answers"),
    fault("7", "head at once, first token after 20 s"),
    fault("8", "every stream dies after 40 of 60 tokens"),
    fault("8b", "a stream dies after 40 of 60 tokens, once"),
    fault("9", "every stream stalls for 30 s after 40 tokens, then closes"),
    fault("9b", "a stream stalls for 30 s after 40 tokens, once"),
    fault("10", "the tenth event is invalid JSON"),
    fault("11", "complete, but no `[DONE]`"),
    fault("12", "400 `context_length_exceeded`; the fallback has room"),
    fault("12b", "400 `context_length_exceeded` from both"),
    fault("13", "400 content filter"),
    fault("14", "a stream dies once, and no engine accepts a prefill"),
    fault("15", "down for a minute, then healthy; a request every 4 s"),
    fault("16", "503 always; whose name and usage"),
    fault("17", "a minute of silent reasoning"),
];

/// Behaviour of a fault's engines, until `healed` is set.
pub(crate) fn script(id: &'static str, healed: Arc<AtomicBool>) -> Script {
    Arc::new(move |asked: &Asked| match asked.ask.model.as_str() {
        PRIMARY if !healed.load(Relaxed) => primary(id, asked),
        _ => fallback(id, asked),
    })
}

fn primary(id: &str, asked: &Asked) -> Plan {
    let Asked { ask, number, .. } = asked;
    let first = *number == 0;
    let limited = |after: &str| Plan::error(429, "slow down").header("retry-after", after);
    let spoken = |plan: Plan, events: &[String]| events.iter().fold(plan, |plan, event| plan.event(event));
    match id {
        "1" if first => limited("2"),
        "1b" => limited("20"),
        "2" => Plan::error(429, "slow down"),
        "3" if first => Plan::error(500, "an error of the moment"),
        "4" | "4b" | "15" | "16" => Plan::error(503, DOWN),
        "5" if first => Plan::reset_at_once(),
        "6" => Plan::silence(),
        "7" => {
            let events = ask.events(Prefill::Native);
            spoken(Plan::stream().event(&events[0]).pause(Duration::from_secs(20)), &events[1..]).done()
        }
        "8" => ask.beginning(CUT, PACE).cut(),
        "8b" | "14" if first => ask.beginning(CUT, PACE).cut(),
        "9" => ask.beginning(CUT, PACE).pause(STALL).cut(),
        "9b" if first => ask.beginning(CUT, PACE).pause(STALL).cut(),
        "10" => {
            let events = ask.events(Prefill::Native);
            let broken = "{\"id\": \"chatcmpl-1\", \"choices\": [{\"index\"";
            spoken(spoken(Plan::stream(), &events[..9]).event(broken), &events[9..]).done()
        }
        "11" => spoken(Plan::stream(), &ask.events(Prefill::Native)),
        "12" | "12b" => too_long(),
        "13" => {
            let error = json!({ "error": { "message": FILTERED, "type": "invalid_request_error", "param": "prompt",
                "code": "content_filter" } });
            Plan::json(400, &error)
        }
        "17" => spoken(Plan::stream().pause(MINUTE), &ask.events(Prefill::Native)).done(),
        _ => fallback(id, asked),
    }
}

/// Behaviour of the fallback, and of the primary while it is healthy.
fn fallback(id: &str, Asked { ask, .. }: &Asked) -> Plan {
    match id {
        "4b" => Plan::error(500, "the fallback is broken"),
        "12b" => too_long(),
        "14" => ask.answer(PACE, Prefill::Rejected),
        _ => ask.answer(PACE, Prefill::Native),
    }
}

fn too_long() -> Plan {
    refusal(
        "context_length_exceeded",
        "This model's maximum context length is 8192 tokens. However, your messages have 9000.",
    )
}
