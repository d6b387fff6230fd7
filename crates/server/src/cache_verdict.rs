//! Eligibility of a request for each tier of the cache, by its form. No tier is searched: that an answer is kept, and near enough, shows
//! when the request is sent.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use signalbox_answers::eligible_text;
use signalbox_cache::{Bypass, eligible};
use signalbox_gateway::Serving;
use signalbox_protocol::{Canonical, RequestBody};
use signalbox_translation::{AnswerContext, CallerApi, NoStates, messages::ThinkingDisplay};
use signalbox_types::Endpoint;

/// The verdict of each tier, and of both together; `None` where the policy has no cache, or the request is none.
pub(super) fn may_reuse(serving: &Serving, endpoint: Endpoint, body: Bytes) -> Option<Value> {
    let caching = serving.snapshot.policy.caching.as_ref()?;
    let (endpoint, body) = as_looked_up(endpoint, body)?;
    let exact = caching.exact.is_some().then(|| eligible::exact(endpoint, None, &body, caching.any_temperature));
    let semantic = caching.semantic.as_ref().map(|semantic| {
        let form = Canonical::of(endpoint, &body).map_err(|_| Bypass::Ambiguous)?;
        eligible_text(semantic, (endpoint, None), &body, &form).map(|_| ())
    });
    // The reason of the tier that comes last is the one to mend.
    let whole = match (&exact, &semantic) {
        (Some(Ok(())), _) | (_, Some(Ok(()))) => Ok(()),
        (_, Some(Err(reason))) | (Some(Err(reason)), None) => Err(*reason),
        (None, None) => return None,
    };
    let mut verdict = described(whole);
    verdict["exact"] = json!(exact.map(described));
    verdict["semantic"] = json!(semantic.map(described));
    Some(verdict)
}

/// The request in the form in which caches see it: translated, if it is in one of the other callers' APIs.
fn as_looked_up(endpoint: Endpoint, body: Bytes) -> Option<(Endpoint, RequestBody)> {
    let Some(api) = CallerApi::of(endpoint) else { return Some((endpoint, RequestBody::json(endpoint, body).ok()?)) };
    let context = AnswerContext {
        prompt_tokens: 0,
        thinking: ThinkingDisplay::Hidden,
        states: Arc::new(NoStates),
        id: String::new(),
        held: None,
        model: None,
        now: || 0,
    };
    let chat = api.to_chat(&body, &context).ok()?.body;
    Some((Endpoint::Chat, RequestBody::json(Endpoint::Chat, chat.into()).ok()?))
}

fn described(verdict: Result<(), Bypass>) -> Value {
    match verdict {
        Ok(()) => json!({ "result": "eligible", "reason": null }),
        Err(bypass) => json!({ "result": "bypass", "reason": bypass.label() }),
    }
}
