//! Ids of calls as Messages accepts them, and which call each result belongs to.
//!
//! Messages takes ids of letters, digits, `_` and `-`, each once in a conversation, and a result for every call in the turn
//! after it. Engines write ids such as `functions.search:0`, and begin anew in every turn; clients cut conversations between a
//! call and its result. The ids depend on the messages before them alone, so that a longer conversation begins with the same
//! bytes.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use super::request::Message;

/// A call of the assistant.
pub(super) struct Call {
    /// Its id at the upstream.
    pub(super) id: String,
    /// True if its result follows in the next turn.
    pub(super) answered: bool,
}

/// The calls and results of a conversation, by the index of their message.
pub(super) struct Calls {
    calls: HashMap<usize, Vec<Call>>,
    /// Results, with the message and the place of their call.
    results: HashMap<usize, (usize, usize)>,
}

/// A call that waits for its result.
struct Pending<'m> {
    id: &'m str,
    message: usize,
    at: usize,
}

impl Calls {
    /// Reads the calls and results of a conversation.
    pub(super) fn read(messages: &[Message<'_>]) -> Self {
        let mut read = Self { calls: HashMap::new(), results: HashMap::new() };
        let mut ids = Ids::default();
        let mut pending: Vec<Pending<'_>> = Vec::new();
        let mut spoken = false;
        for (index, message) in messages.iter().enumerate() {
            match &*message.role.0 {
                "assistant" => {
                    // Results stand in the turn after the calls, or nowhere.
                    if std::mem::take(&mut spoken) {
                        pending.clear();
                    }
                    let calls = message.tool_calls.as_deref().unwrap_or_default();
                    let list = read.calls.entry(index).or_default();
                    for (at, call) in calls.iter().enumerate() {
                        let id = call.id.as_ref().map_or("", |id| &*id.0);
                        pending.push(Pending { id, message: index, at });
                        list.push(Call { id: ids.accepted(id), answered: false });
                    }
                }
                "tool" => {
                    spoken = true;
                    let id = message.tool_call_id.as_ref().map_or("", |id| &*id.0);
                    let Some(found) = pending.iter().position(|call| call.id == id) else { continue };
                    let Pending { message, at, .. } = pending.remove(found);
                    read.results.insert(index, (message, at));
                    if let Some(call) = read.calls.get_mut(&message).and_then(|list| list.get_mut(at)) {
                        call.answered = true;
                    }
                }
                _ => spoken = true,
            }
        }
        read
    }

    /// The calls of a message.
    pub(super) fn of(&self, message: usize) -> &[Call] {
        self.calls.get(&message).map(Vec::as_slice).unwrap_or_default()
    }

    /// The id of the call that the result in a message belongs to, if there is one.
    pub(super) fn answered_by(&self, message: usize) -> Option<&str> {
        let (of, at) = self.results.get(&message)?;
        self.of(*of).get(*at).map(|call| &*call.id)
    }
}

/// The ids of a conversation so far.
#[derive(Default)]
struct Ids {
    used: HashSet<String>,
    /// The number of times that each id was asked for.
    counts: HashMap<String, u64>,
}

impl Ids {
    /// An id in the characters that Messages accepts, which no call before has.
    fn accepted(&mut self, id: &str) -> String {
        let base = in_accepted_characters(id);
        if self.used.insert(base.clone().into_owned()) {
            return base.into_owned();
        }
        let count = self.counts.entry(base.clone().into_owned()).or_insert(1);
        loop {
            *count += 1;
            let next = format!("{base}_{count}");
            if self.used.insert(next.clone()) {
                return next;
            }
        }
    }
}

fn in_accepted_characters(id: &str) -> Cow<'_, str> {
    let accepted = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    if id.chars().all(accepted) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(id.chars().map(|character| if accepted(character) { character } else { '_' }).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::request_tests::{text, translated};

    fn call(id: &str) -> Value {
        json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}})
    }

    fn result(id: &str, content: &str) -> Value {
        json!({"role": "tool", "tool_call_id": id, "content": content})
    }

    fn turns(messages: &Value) -> (Value, Vec<String>) {
        let (got, dropped) = translated(&json!({"model": "m", "messages": messages}));
        (got["messages"].clone(), dropped)
    }

    fn used(id: &str) -> Value {
        json!({"type": "tool_use", "id": id, "name": "f", "input": {}})
    }

    fn answered(id: &str, content: &str) -> Value {
        json!({"type": "tool_result", "tool_use_id": id, "content": content})
    }

    #[test]
    fn ids_that_collide_are_kept_apart() {
        let (got, _) = turns(&json!([
            {"role": "assistant", "tool_calls": [call("f.0"), call("f:0"), call("é"), call("è")]},
            result("f:0", "2"), result("f.0", "1"), result("è", "4"), result("é", "3"),
            {"role": "assistant", "tool_calls": [call("f.0"), call("f_0"), call("f_0_2")]},
            result("f.0", "5"), result("f_0", "6"), result("f_0_2", "7"),
        ]));
        assert_eq!(
            got,
            json!([
                {"role": "assistant", "content": [used("f_0"), used("f_0_2"), used("_"), used("__2")]},
                {"role": "user", "content": [answered("f_0_2", "2"), answered("f_0", "1"), answered("__2", "4"), answered("_", "3")]},
                {"role": "assistant", "content": [used("f_0_3"), used("f_0_4"), used("f_0_2_2")]},
                {"role": "user", "content": [answered("f_0_3", "5"), answered("f_0_4", "6"), answered("f_0_2_2", "7")]},
            ])
        );
    }

    #[test]
    fn equal_ids_in_a_turn_take_their_results_in_order() {
        let (got, _) = turns(&json!([
            {"role": "assistant", "tool_calls": [call("a"), call("a")]}, result("a", "1"), result("a", "2"),
        ]));
        assert_eq!(got[0]["content"], json!([used("a"), used("a_2")]));
        assert_eq!(got[1]["content"], json!([answered("a", "1"), answered("a_2", "2")]));
    }

    #[test]
    fn calls_without_results_get_one() {
        let missing = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "(no result)"});
        let (got, _) = turns(&json!([
            {"role": "assistant", "tool_calls": [call("a"), call("b")]}, result("b", "1"),
            {"role": "user", "content": "go on"},
            {"role": "assistant", "tool_calls": [call("c")]},
            {"role": "assistant", "content": "then", "tool_calls": [call("d")]}, result("d", "2"),
            {"role": "assistant", "tool_calls": [call("e")]},
        ]));
        assert_eq!(
            got,
            json!([
                {"role": "assistant", "content": [used("a"), used("b")]},
                {"role": "user", "content": [missing("a"), answered("b", "1"), text("go on")]},
                {"role": "assistant", "content": [used("c")]},
                {"role": "user", "content": [missing("c")]},
                {"role": "assistant", "content": [text("then"), used("d")]},
                {"role": "user", "content": [answered("d", "2")]},
                {"role": "assistant", "content": [used("e")]},
                {"role": "user", "content": [missing("e")]},
            ])
        );
    }

    #[test]
    fn results_without_a_call_become_text() {
        let (got, dropped) = turns(&json!([
            {"role": "user", "content": "a"}, result("gone", "18°"),
            {"role": "assistant", "content": "b"}, result("gone", ""),
            {"role": "user", "content": "c"},
        ]));
        assert_eq!(
            got,
            json!([
                {"role": "user", "content": [text("a"), text("Result of a tool call that is not shown:"), text("18°")]},
                {"role": "assistant", "content": [text("b")]},
                {"role": "user", "content": [text("c")]},
            ])
        );
        assert_eq!(dropped, ["messages[].tool_call_id"]);
    }

    #[test]
    fn parallel_calls_in_several_messages_share_a_turn() {
        let (got, _) = turns(&json!([
            {"role": "assistant", "tool_calls": [call("a")]}, {"role": "assistant", "tool_calls": [call("b")]},
            result("a", "1"), result("b", "2"),
        ]));
        assert_eq!(got[0]["content"], json!([used("a"), used("b")]));
        assert_eq!(got[1]["content"], json!([answered("a", "1"), answered("b", "2")]));
    }
}
