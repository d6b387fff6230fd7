//! Members of requests that must not reach a backend, for reasons that lie in the two of them rather than in the policy.

use std::borrow::Cow;

use http::HeaderMap;

use super::engine_control;
use crate::stages::Call;
use signalbox_fleet::Backend;
use signalbox_policy::Engine;
use signalbox_protocol::RequestBody;
use signalbox_types::Name;

/// The names of the members to leave out: words that steer the engine, and biases of tokens, which are for the vocabulary
/// of the model `biased`. Removes headers that steer the engine.
pub(super) fn of(
    call: &Call,
    (engine, backend): (&Engine, &Backend),
    body: &RequestBody,
    biased: Option<&Name>,
    headers: &mut HeaderMap,
) -> Vec<String> {
    let mut names = engine_control::take_out(call, engine, body, headers);
    if biased.is_some_and(|model| backend.spec.identity_for(body.model.as_deref()) != Some(&**model)) {
        names.extend(body.token_biases().map(str::to_owned));
    }
    names
}

/// The members that the policy leaves out at a backend, and those of one request.
pub(super) fn with<'a>(own: &'a [String], of_request: &[String]) -> Cow<'a, [String]> {
    if of_request.is_empty() { own.into() } else { [own, of_request].concat().into() }
}
