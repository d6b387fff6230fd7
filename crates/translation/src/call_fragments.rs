//! Assigns the fragments of tool calls in a stream to calls.
//!
//! The chat API addresses fragments by the index of their call, so they may interleave; the first has an id and a name.
//! Engines leave out indices or ids, send the same index for every call, repeat ids and names in every fragment, give a new
//! id in each, or send the name after the id.

use std::hash::{BuildHasher as _, RandomState};

use super::{
    Malformed,
    call_arguments::CallArguments,
    chat_answer::CallDelta,
    json::{filled, inner, nested_text},
};

/// The most calls of one answer.
const MOST_CALLS: usize = 1024;
/// The most bytes of arguments in one answer.
const MOST_ARGUMENTS: usize = 16 << 20;

/// The calls of one answer, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls {
    all: Vec<Call>,
    /// Bytes of arguments so far.
    size: usize,
    random: RandomState,
}

/// A call. Its texts are escaped.
#[derive(Debug, Default)]
pub(super) struct Call {
    index: Option<u64>,
    /// Its id at the engine; empty if it has none.
    pub(super) id: String,
    /// Empty until it is known.
    pub(super) name: String,
    pub(super) arguments: CallArguments,
    /// Arguments that can be shown, and are not yet.
    pub(super) unshown: String,
}

impl Calls {
    /// Adds a fragment. Returns the position of its call; `None` if it says nothing.
    pub(super) fn add(&mut self, delta: &CallDelta<'_>) -> Result<Option<usize>, Malformed> {
        let raw = delta.function.and_then(|function| function.arguments);
        let text = raw.map(|raw| inner(raw).map_or_else(|| nested_text(raw.get()).into(), std::borrow::Cow::Borrowed));
        let text = text.as_deref().filter(|text| *text != "null").unwrap_or_default();
        let (id, name) = (filled(delta.id), delta.name());
        let known = self.call_of(delta.index(), id, name, text);
        if known.is_none() && id.is_none() && name.is_none() && text.is_empty() && delta.index().is_none() {
            return Ok(None);
        }
        self.size += text.len();
        if self.size > MOST_ARGUMENTS {
            return Err(Malformed(format!("the backend's calls have more than {MOST_ARGUMENTS} bytes of arguments")));
        }
        let at = known.map_or_else(|| self.begin(delta.index()), Ok)?;
        let call = &mut self.all[at];
        if call.id.is_empty() {
            id.unwrap_or_default().clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.unwrap_or_default().clone_into(&mut call.name);
        }
        call.arguments.push(text, &mut call.unshown);
        Ok(Some(at))
    }

    /// Adds a call of a whole answer. Returns its position.
    pub(super) fn add_whole(&mut self, call: &CallDelta<'_>) -> Result<usize, Malformed> {
        let at = self.begin(None)?;
        let whole = CallDelta { index: None, ..*call };
        // Another call may have its id; its fragments come in one.
        let mut alone = Self { random: self.random.clone(), ..Self::default() };
        if alone.add(&whole)?.is_some()
            && let Some(call) = alone.all.pop()
        {
            self.all[at] = call;
        }
        Ok(at)
    }

    /// Begins a call, to which no earlier fragment belongs.
    fn begin(&mut self, index: Option<u64>) -> Result<usize, Malformed> {
        if self.all.len() == MOST_CALLS {
            return Err(Malformed(format!("the backend made more than {MOST_CALLS} tool calls")));
        }
        self.all.push(Call { index, ..Call::default() });
        Ok(self.all.len() - 1)
    }

    /// The call that a fragment continues, if it does not begin one.
    fn call_of(&self, index: Option<u64>, id: Option<&str>, name: Option<&str>, text: &str) -> Option<usize> {
        let last = self.all.len().checked_sub(1)?;
        let by_index = || self.all.iter().rposition(|call| call.index == index);
        let at = match (index, id) {
            // Of several calls with one index, the one with its id goes on, else the last. A fragment without a name begins
            // no call, so that its index may have moved on.
            (Some(_), Some(id)) => {
                let by_both = self.all.iter().rposition(|call| call.index == index && call.id == id);
                let by_id = || self.all.iter().rposition(|call| name.is_none() && call.id == id);
                by_both.or_else(by_id).or_else(by_index)?
            }
            (Some(_), None) => by_index()
                .or_else(|| Some(last).filter(|last| name.is_none() && !self.all[*last].arguments.is_complete()))?,
            (None, Some(id)) => self.all.iter().rposition(|call| call.id == id).unwrap_or(last),
            (None, None) => last,
        };
        let call = &self.all[at];
        let is_same_id = id.is_some_and(|id| id == call.id);
        let begins = match (id, name) {
            _ if is_same_id => false,
            (_, Some(name)) if !call.name.is_empty() && name != call.name => true,
            // An id in each fragment, but a name only in the first.
            (Some(_), None) => index.is_none(),
            // A new id and the name in each fragment.
            (Some(_), Some(_)) if index.is_some() && call.arguments.is_within() && !text.starts_with('{') => false,
            (Some(_), Some(_)) if !call.id.is_empty() => true,
            // `}{` is no JSON: the arguments of one call ended, and those of the next begin.
            (_, Some(_)) if call.name.is_empty() => false,
            (Some(_), Some(_)) => index.is_none() || !call.arguments.is_blank(),
            (None, Some(_)) if index.is_none() => !call.arguments.is_blank(),
            (None, Some(_)) => call.arguments.is_complete() && text.starts_with('{'),
            (None, None) => false,
        };
        (!begins).then_some(at)
    }

    /// The call at a position.
    pub(super) fn get(&mut self, at: usize) -> Option<&mut Call> {
        self.all.get_mut(at)
    }

    /// The number of calls.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The id of a call; `None` if it is missing, or an earlier call has it, so that results would be indistinguishable.
    pub(super) fn unique_id(&self, at: usize) -> Option<&str> {
        let id = &*self.all.get(at)?.id;
        (!id.is_empty() && self.all[..at].iter().all(|call| call.id != id)).then_some(id)
    }

    /// A new id for the call at a position.
    pub(super) fn new_id(&self, at: usize) -> String {
        format!("toolu_{:016x}{at:02}", self.random.hash_one(at))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::call_arguments::Rest;

    /// Name, id and arguments of each call.
    fn read(fragments: &Value) -> Vec<(String, String, String)> {
        let mut calls = Calls::default();
        for fragment in fragments.as_array().unwrap() {
            let text = fragment.to_string();
            calls.add(&serde_json::from_str(&text).unwrap()).unwrap();
        }
        let shown = |call: &mut Call| match call.arguments.finish() {
            Rest::Text(rest) => (std::mem::take(&mut call.unshown) + &rest).replace("\\\"", "\""),
            other => format!("{other:?}"),
        };
        calls.all.iter_mut().map(|call| (call.name.clone(), call.id.clone(), shown(call))).collect()
    }

    fn fragment(index: u64, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
        json!({ "index": index, "id": id, "function": { "name": name, "arguments": arguments } })
    }

    #[test]
    fn fragments_in_any_order_make_the_same_calls() {
        let (a, b) = (fragment(0, Some("a"), Some("f"), "{\"x\":"), fragment(1, Some("b"), Some("g"), "{\"y\":"));
        let (more_a, more_b) = (fragment(0, None, None, "1}"), fragment(1, None, None, "2}"));
        let call = |name: &str, id: &str, arguments: &str| (name.to_owned(), id.to_owned(), arguments.to_owned());
        let want = [call("f", "a", "{\"x\":1}"), call("g", "b", "{\"y\":2}")];
        for order in [[&a, &more_a, &b, &more_b], [&a, &b, &more_a, &more_b], [&a, &b, &more_b, &more_a]] {
            assert_eq!(read(&json!(order)), want);
        }
        let renamed = [
            fragment(0, Some("a"), Some("f"), "{\"x\":"),
            fragment(0, Some("z"), None, "1}"),
            fragment(1, Some("b"), Some("g"), "{\"y\":2}"),
        ];
        assert_eq!(read(&json!(renamed)), want);
        let repeated = [
            fragment(0, Some("a"), Some("f"), "{\"x\":"),
            fragment(0, Some("a"), Some("f"), "1}"),
            fragment(0, Some("b"), Some("g"), "{\"y\":2}"),
            fragment(0, Some("b"), Some("g"), "{\"y\":2}"),
        ];
        assert_eq!(read(&json!(repeated)), want);
        let one_index = [
            fragment(0, Some("a"), Some("f"), "{\"x\":"),
            fragment(0, Some("b"), Some("g"), "{\"y\":"),
            fragment(0, Some("a"), None, "1}"),
            fragment(1, Some("b"), None, "2}"),
        ];
        assert_eq!(read(&json!(one_index)), want);
        let moving_index = [
            fragment(0, Some("a"), Some("f"), "{\"x\":"),
            fragment(1, None, None, "1}"),
            fragment(1, Some("b"), Some("g"), "{\"y\":"),
            fragment(2, None, None, "2}"),
        ];
        assert_eq!(read(&json!(moving_index)), want);
        let renewed = [
            fragment(0, Some("a"), Some("f"), "{\"x\":"),
            fragment(0, Some("z"), Some("f"), "1}"),
            fragment(1, Some("b"), Some("g"), "{\"y\":2}"),
        ];
        assert_eq!(read(&json!(renewed)), want);
    }
}
