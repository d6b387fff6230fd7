//! State that a provider wants back, in the next turn, with a call or the reasoning before it.
//!
//! Gemini signs calls (`extra_content.google.thought_signature`) and rejects the next turn without the signature.
//! `OpenRouter` wants `reasoning_details` back unchanged, `DeepSeek` the reasoning before each call. Callers of other APIs have
//! no place for that, or are not shown it. It is kept by the ids of the calls, which every caller sends back, and is put
//! into the chat message again when one does.
//!
//! Between the two, a chat message carries it in a member of its own, which names the pool that answered: another pool
//! would reject what it does not know.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

use super::{
    chat_answer::{CallDelta, Delta},
    json::says_something,
};

/// The member of a chat message that carries the state. Within a string, its quotes would be escaped.
const MEMBER: &str = r#","provider_state":{"#;
/// The name of that member.
const NAME: &str = "provider_state";
/// The most bytes of state of one answer. Larger state is not kept.
const MOST_STATE: usize = 1 << 20;
/// Separates an engine's id from what makes it unique, which are 16 hexadecimal digits.
const MARK: &str = "_ps";

/// The state of one answer.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProviderState {
    /// The pool that answered.
    pool: String,
    /// Members of the message.
    message: Map<String, Value>,
    /// Members of calls, by their ids at the engine.
    calls: Map<String, Value>,
}

/// Keeps state by the ids of calls, within bounds.
pub trait ProviderStates: Send + Sync {
    /// True if what is kept can be found again, so that calls get ids to find it by.
    fn is_lasting(&self) -> bool {
        true
    }

    /// Keeps the state of the answer that made these calls. `bytes` is its size.
    fn keep(&self, call_ids: Vec<String>, state: Arc<ProviderState>, bytes: usize);

    /// The state of the answer that made this call.
    fn of_call(&self, call_id: &str) -> Option<Arc<ProviderState>>;
}

/// A place that keeps nothing.
pub struct NoStates;

impl ProviderStates for NoStates {
    fn is_lasting(&self) -> bool {
        false
    }

    fn keep(&self, _: Vec<String>, _: Arc<ProviderState>, _: usize) {}

    fn of_call(&self, _: &str) -> Option<Arc<ProviderState>> {
        None
    }
}

/// The state of an answer that is being translated.
#[derive(Default)]
pub(super) struct StateBuilder {
    state: ProviderState,
    size: usize,
    /// True if the state will be kept.
    is_kept: bool,
    /// The calls, by their place in the answer.
    calls: Vec<CallState>,
}

/// The state of one call.
#[derive(Default)]
struct CallState {
    members: Map<String, Value>,
    /// Its id at the engine, or the one that it was given in place of none.
    id: String,
    /// The id that the caller has; empty until it is shown.
    shown: String,
}

impl StateBuilder {
    /// A builder of state that is kept in `states`.
    pub(super) fn within(states: &dyn ProviderStates) -> Self {
        Self { is_kept: states.is_lasting(), ..Self::default() }
    }

    /// Notes the pool that answers.
    pub(super) fn served_by(&mut self, pool: &str) {
        pool.clone_into(&mut self.state.pool);
    }

    /// Adds what a message, or a piece of one, carries for its provider.
    pub(super) fn note_message(&mut self, delta: &Delta<'_>) {
        for (name, raw) in delta.opaque() {
            self.add(None, name, raw);
        }
    }

    /// Adds what the call at the place `at`, or a fragment of it, carries for its provider.
    pub(super) fn note_call(&mut self, at: usize, delta: &CallDelta<'_>) {
        for (name, raw) in delta.opaque() {
            self.add(Some(at), name, raw);
        }
    }

    /// Adds reasoning. Callers may not be shown it, or not return it. `text` is escaped.
    pub(super) fn note_reasoning(&mut self, field: &'static str, text: &str) {
        self.size += text.len();
        if text.is_empty() || !self.is_kept || self.size > MOST_STATE {
            return;
        }
        let decoded: String = serde_json::from_str(&["\"", text, "\""].concat()).unwrap_or_default();
        match self.state.message.get_mut(field) {
            Some(Value::String(known)) => known.push_str(&decoded),
            _ => drop(self.state.message.insert(field.to_owned(), decoded.into())),
        }
    }

    fn call(&mut self, at: usize) -> &mut CallState {
        if self.calls.len() <= at {
            self.calls.resize_with(at + 1, CallState::default);
        }
        &mut self.calls[at]
    }

    fn add(&mut self, call: Option<usize>, name: &str, raw: &RawValue) {
        self.size += raw.get().len();
        let Ok(value) = serde_json::from_str::<Value>(raw.get()) else { return };
        if self.size > MOST_STATE {
            return;
        }
        let members = match call {
            None => &mut self.state.message,
            Some(at) => &mut self.call(at).members,
        };
        match (members.get_mut(name), value) {
            (Some(Value::String(known)), Value::String(piece)) if name == "reasoning_text" => known.push_str(&piece),
            (Some(known), value) => merge(known, value),
            (None, value) => drop(members.insert(name.to_owned(), value)),
        }
    }

    /// The id that the caller gets for the call at the place `at`, whose id at the engine is `id`. If there is state to
    /// keep, no other call has it: some engines number the calls of each answer.
    pub(super) fn call_id(&mut self, at: usize, id: &str) -> String {
        let (is_kept, of_message) = (self.is_kept, !self.state.message.is_empty());
        let call = self.call(at);
        let has_state = is_kept && (of_message || !call.members.is_empty());
        let shown = if has_state { format!("{id}{MARK}{:016x}", fastrand::u64(..)) } else { id.to_owned() };
        id.clone_into(&mut call.id);
        shown.clone_into(&mut call.shown);
        shown
    }

    /// Keeps the state, if there is any and a call to find it by, which is one with an id of its own.
    pub(super) fn keep(&mut self, states: &dyn ProviderStates) {
        let mut state = std::mem::take(&mut self.state);
        let mut call_ids = Vec::new();
        for call in std::mem::take(&mut self.calls).into_iter().filter(|call| !call.shown.is_empty()) {
            if call.shown != call.id {
                call_ids.push(call.shown);
            }
            if !call.members.is_empty() {
                state.calls.insert(call.id, call.members.into());
            }
        }
        if !call_ids.is_empty() && self.size <= MOST_STATE {
            states.keep(call_ids, state.into(), self.size);
        }
    }
}

/// Merges a later piece of a member into the earlier ones. Entries of lists with the same `index` and `type` are one: their
/// texts arrive in pieces.
fn merge(known: &mut Value, new: Value) {
    match (known, new) {
        (_, Value::Null) => {}
        (Value::Object(known), Value::Object(new)) => {
            for (name, value) in new {
                match known.get_mut(&name) {
                    Some(known) => merge(known, value),
                    None => drop(known.insert(name, value)),
                }
            }
        }
        (Value::Array(known), Value::Array(new)) => {
            for entry in new {
                merge_entry(known, entry);
            }
        }
        (known, new) => *known = new,
    }
}

/// Joins an entry with the one of a list that it continues, or adds it.
fn merge_entry(known: &mut Vec<Value>, entry: Value) {
    let place = |entry: &Value| (entry.get("index").cloned(), entry.get("type").cloned());
    let joins = entry.get("index").is_some_and(Value::is_u64);
    let last = known.len().wrapping_sub(1);
    // Pieces of thinking without an index follow one another, up to its signature.
    let goes_on = |(at, it): &(usize, &mut Value)| {
        *at == last && is_open_thinking(it) && entry.get("type") == Some(&"thinking".into())
    };
    let is_same = |it: &(usize, &mut Value)| if joins { place(it.1) == place(&entry) } else { goes_on(it) };
    match known.iter_mut().enumerate().find(is_same).map(|(_, it)| it) {
        Some(it) => join(it, entry),
        None => known.push(entry),
    }
}

/// True for a piece of thinking whose signature has not come.
fn is_open_thinking(entry: &Value) -> bool {
    let is_signed = entry.get("signature").and_then(Value::as_str).is_some_and(|signature| !signature.is_empty());
    entry.get("type") == Some(&"thinking".into()) && !is_signed
}

/// Joins two pieces of one entry: its texts go on, its other members are repeated.
fn join(known: &mut Value, new: Value) {
    let (Value::Object(known), Value::Object(new)) = (known, new) else { return };
    for (name, value) in new {
        match (known.get_mut(&name), value) {
            (Some(Value::String(text)), Value::String(piece))
                if matches!(&*name, "text" | "summary" | "data" | "thinking") =>
            {
                text.push_str(&piece);
            }
            (_, Value::Null) => {}
            (_, value) => drop(known.insert(name, value)),
        }
    }
}

/// The id of a call at its engine, for the id that the caller has.
pub(super) fn engine_id(id: &str) -> &str {
    let Some((engine, mark)) = id.rsplit_once(MARK) else { return id };
    let is_ours = mark.len() == 16 && mark.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_ours { engine } else { id }
}

/// Appends the state to a chat message, after another member.
pub(super) fn write(state: &ProviderState, out: &mut Vec<u8>) {
    out.extend_from_slice(&MEMBER.as_bytes()[..MEMBER.len() - 1]);
    // Writing into memory cannot fail.
    let _ = serde_json::to_writer(out, state);
}

/// True if a chat request that was made by translation carries state.
pub(super) fn is_carried(body: &[u8]) -> bool {
    memchr::memmem::find(body, MEMBER.as_bytes()).is_some()
}

/// A chat request for the pool `pool`: state that it gave is put where it was, other state is removed. `None` if the request
/// has no state. Messages without state stay byte for byte.
#[must_use]
pub fn unpacked(body: &[u8], pool: &str) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Conversation<'a> {
        #[serde(borrow)]
        messages: Vec<&'a RawValue>,
    }
    let Conversation { messages } = serde_json::from_slice(body).ok()?;
    let mut out = Vec::with_capacity(body.len());
    let mut at = 0;
    for raw in messages.into_iter().filter(|raw| raw.get().contains(MEMBER)) {
        let Some(message) = unpacked_message(raw, pool) else { continue };
        let start = raw.get().as_ptr() as usize - body.as_ptr() as usize;
        out.extend_from_slice(&body[at..start]);
        out.extend_from_slice(&message);
        at = start + raw.get().len();
    }
    if at == 0 {
        return None;
    }
    out.extend_from_slice(&body[at..]);
    Some(out)
}

fn unpacked_message(raw: &RawValue, pool: &str) -> Option<Vec<u8>> {
    let mut message: Map<String, Value> = serde_json::from_str(raw.get()).ok()?;
    let state: ProviderState = serde_json::from_value(message.remove(NAME)?).ok()?;
    if state.pool == pool {
        for (name, value) in state.message {
            message.entry(name).or_insert(value);
        }
        for call in message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
            let members = call.get("id").and_then(Value::as_str).and_then(|id| state.calls.get(id));
            if let (Some(Value::Object(members)), Value::Object(call)) = (members, call) {
                call.extend(members.clone());
            }
        }
    }
    serde_json::to_vec(&message).ok()
}

impl<'a> Delta<'a> {
    /// The members that only the provider understands.
    fn opaque(&self) -> impl Iterator<Item = (&'static str, &'a RawValue)> {
        [
            ("reasoning_details", self.reasoning_details),
            ("thinking_blocks", self.thinking_blocks),
            ("reasoning_text", self.reasoning_text),
            ("reasoning_opaque", self.reasoning_opaque),
            ("reasoning_signature", self.reasoning_signature),
            ("thought_signature", self.thought_signature),
            ("extra_content", self.extra_content),
            ("provider_specific_fields", self.provider_specific_fields),
        ]
        .into_iter()
        .filter_map(|(name, raw)| Some((name, raw?)))
        .filter(|(_, raw)| says_something(raw))
    }
}

impl<'a> CallDelta<'a> {
    /// The members that only the provider understands.
    fn opaque(&self) -> impl Iterator<Item = (&'static str, &'a RawValue)> {
        [
            ("extra_content", self.extra_content),
            ("thought_signature", self.thought_signature),
            ("signature", self.signature),
            ("provider_specific_fields", self.provider_specific_fields),
        ]
        .into_iter()
        .filter_map(|(name, raw)| Some((name, raw?)))
        .filter(|(_, raw)| says_something(raw))
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::Mutex};

    use serde_json::json;

    use super::*;
    use crate::{AnswerContext, CallerApi, ChatRequest, messages::ThinkingDisplay};

    #[derive(Default)]
    struct Kept(Mutex<HashMap<String, Arc<ProviderState>>>);

    impl ProviderStates for Kept {
        fn keep(&self, call_ids: Vec<String>, state: Arc<ProviderState>, _: usize) {
            self.0.lock().unwrap().extend(call_ids.into_iter().map(|id| (id, state.clone())));
        }

        fn of_call(&self, call_id: &str) -> Option<Arc<ProviderState>> {
            self.0.lock().unwrap().get(call_id).cloned()
        }
    }

    /// A tool loop of two turns. Returns the assistant's message of the second, as the pool `pool` gets it.
    fn second_turn(api: CallerApi, message: &Value, is_streamed: bool, pool: &str) -> Value {
        let states: Arc<dyn ProviderStates> = Arc::new(Kept::default());
        let context = AnswerContext {
            prompt_tokens: 1,
            states,
            thinking: ThinkingDisplay::Hidden,
            model: None,
            id: "1".into(),
            held: None,
            now: || 1,
        };
        let user = json!({ "role": "user", "content": "a" });
        let request = |more: &[Value]| {
            let mut turns = vec![user.clone()];
            turns.extend_from_slice(more);
            let list = if api == CallerApi::Messages { "messages" } else { "input" };
            let mut body = json!({ "model": "m", "stream": is_streamed, list: turns });
            if api == CallerApi::Messages {
                body["max_tokens"] = 9.into();
            }
            api.to_chat(body.to_string().as_bytes(), &context).unwrap()
        };
        let mut answer = request(&[]).answer;
        answer.served_by("gemini");
        let shown: Vec<Value> = if is_streamed {
            let mut out = Vec::new();
            let chunk = json!({ "choices": [{ "delta": message }] });
            let end = json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }] });
            for data in [chunk.to_string(), end.to_string(), "[DONE]".to_owned()] {
                answer.event(data.as_bytes(), &mut out).unwrap();
            }
            let text = String::from_utf8(out).unwrap();
            let datas = text.lines().filter_map(|line| line.strip_prefix("data: "));
            let events: Vec<Value> = datas.map(|data| serde_json::from_str(data).unwrap()).collect();
            if api == CallerApi::Messages {
                let starts = events.iter().filter(|event| event["content_block"]["type"] == "tool_use");
                starts.map(|event| event["content_block"].clone()).collect()
            } else {
                events.last().unwrap()["response"]["output"].as_array().unwrap().clone()
            }
        } else {
            let whole = json!({ "choices": [{ "message": message, "finish_reason": "tool_calls" }] });
            let whole: Value = serde_json::from_slice(&answer.whole(whole.to_string().as_bytes()).unwrap()).unwrap();
            let list = if api == CallerApi::Messages { "content" } else { "output" };
            whole[list].as_array().unwrap().clone()
        };
        let id = |call: &Value| call["id"].clone();
        let turns = if api == CallerApi::Messages {
            let calls = shown.iter().filter(|block| block["type"] == "tool_use");
            let results = calls.map(|call| json!({ "type": "tool_result", "tool_use_id": id(call), "content": "r" }));
            let results: Vec<Value> = results.collect();
            vec![json!({ "role": "assistant", "content": shown }), json!({ "role": "user", "content": results })]
        } else {
            let calls = shown.iter().filter(|item| item["type"] == "function_call");
            let results =
                calls.map(|call| json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "r" }));
            let results: Vec<Value> = results.collect();
            shown.into_iter().chain(results).collect()
        };
        let ChatRequest { body, carries_state, .. } = request(&turns);
        assert!(carries_state);
        let body: Value = serde_json::from_slice(&unpacked(&body, pool).unwrap()).unwrap();
        let messages = body["messages"].as_array().unwrap();
        let assistant = messages.iter().position(|message| message["role"] == "assistant").unwrap();
        for (call, result) in
            messages[assistant]["tool_calls"].as_array().unwrap().iter().zip(&messages[assistant + 1..])
        {
            assert_eq!(call["id"], result["tool_call_id"]);
        }
        messages[assistant].clone()
    }

    #[test]
    fn what_a_provider_wants_back_comes_back_to_it_alone() {
        let signed = json!({ "google": { "thought_signature": "S" } });
        let function = json!({ "name": "f", "arguments": "{}" });
        let details = json!([
            { "type": "reasoning.text", "text": "hm", "signature": "S", "index": 0 },
            { "type": "reasoning.encrypted", "data": "E", "index": 1 },
        ]);
        let message = json!({ "role": "assistant", "content": null, "reasoning_details": details, "tool_calls": [
            { "index": 0, "id": "c0", "type": "function", "function": function, "extra_content": signed },
            { "index": 1, "id": "c1", "type": "function", "function": function },
        ] });
        for api in [CallerApi::Messages, CallerApi::Responses] {
            for is_streamed in [false, true] {
                let back = second_turn(api, &message, is_streamed, "gemini");
                assert_eq!(back["reasoning_details"], details, "{api:?} {is_streamed}");
                assert_eq!(back["tool_calls"][0]["extra_content"], signed);
                assert_eq!((&back["tool_calls"][0]["id"], &back["tool_calls"][1]["id"]), (&json!("c0"), &json!("c1")));
                let other = second_turn(api, &message, is_streamed, "other");
                assert!(other.get("reasoning_details").is_none() && other.get(NAME).is_none());
                assert!(other["tool_calls"][0].get("extra_content").is_none());
            }
        }
    }

    #[test]
    fn reasoning_that_the_caller_is_not_shown_comes_back() {
        for field in ["reasoning_content", "reasoning"] {
            let call = json!({ "id": "c", "function": { "name": "f", "arguments": "{}" } });
            let message = json!({ "content": null, field: "h\"m", "tool_calls": [call] });
            for is_streamed in [false, true] {
                assert_eq!(second_turn(CallerApi::Messages, &message, is_streamed, "gemini")[field], "h\"m");
            }
        }
    }

    #[test]
    fn pieces_of_reasoning_are_joined() {
        let mut state = StateBuilder::default();
        for details in [
            json!([{ "type": "reasoning.text", "text": "a", "index": 0 }]),
            json!([{ "type": "reasoning.text", "text": "b", "index": 0, "signature": "S" }]),
            json!([{ "type": "reasoning.text", "text": "c", "index": 1 }]),
        ] {
            let delta = json!({ "reasoning_details": details }).to_string();
            state.note_message(&serde_json::from_str(&delta).unwrap());
        }
        let want = json!([
            { "type": "reasoning.text", "text": "ab", "index": 0, "signature": "S" },
            { "type": "reasoning.text", "text": "c", "index": 1 },
        ]);
        assert_eq!(state.state.message["reasoning_details"], want);
    }

    #[test]
    fn ids_are_made_unique_only_where_state_is_found_by_them() {
        let mut state = StateBuilder { is_kept: true, ..StateBuilder::default() };
        assert_eq!(state.call_id(0, "c1"), "c1");
        state.note_reasoning("reasoning", "hm");
        let shown = state.call_id(1, "functions.f:0");
        assert_eq!((engine_id(&shown), shown.len()), ("functions.f:0", "functions.f:0".len() + 19));
        assert_ne!(state.call_id(1, "functions.f:0"), shown);
        let long = "functions.a_function_with_a_long_name:0";
        assert_ne!(state.call_id(2, long), state.call_id(3, long), "it is long, and the same in every conversation");
        for id in ["a", "a_ps", "a_ps0123", "_psxxxxxxxxxxxxxxxx"] {
            assert_eq!(engine_id(id), id);
        }
    }
}
