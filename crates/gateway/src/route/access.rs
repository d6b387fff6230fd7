//! Access checks for API keys. They run before any lookup, so that a caller cannot find out which models exist for
//! others.

use http::StatusCode;

use super::Asking;
use signalbox_policy::{Key, ModelGlob};
use signalbox_types::{Endpoint, Fault, endpoint::decoded};

/// Most layers of percent-encoding that are decoded in a query.
const MOST_CODED: usize = 4;

impl Asking<'_> {
    /// Rejects a request for a model that the key may not use. A key restricted to certain models is also refused
    /// requests that may name models where the gateway does not read them: batches, files and such, requests without a model,
    /// and `models`, the list of fallbacks that some providers accept.
    pub(super) fn check_access(&self) -> Result<(), Fault> {
        let key = self.key.map(|at| &self.policy().keys[at]);
        key.map_or(Ok(()), |key| check_endpoint(key, self.endpoint))?;
        let Some(key) = key.filter(|key| key.models.is_some()) else { return Ok(()) };
        let unread = self.endpoint.keeps_objects() && self.endpoint != Endpoint::Videos;
        match &self.body.model {
            Some(model) if !key.may_use(model) => Err(refused(key, model)),
            Some(_) if let Some(other) = self.body.other_model_field() => Err(one_model_only(key, other)),
            Some(_) if self.query.is_some_and(may_name_models) => Err(one_model_only(key, "query".to_owned())),
            Some(_) if !unread => Ok(()),
            _ => {
                let message = format!(
                    "the key '{}' may use certain models only, and which ones this request to '{}' would use cannot be told",
                    key.id,
                    self.endpoint.name()
                );
                let fault = Fault::client(StatusCode::FORBIDDEN, "model_refused", message);
                Err(fault.with_code("endpoint_not_allowed"))
            }
        }
    }
}

/// Rejects a request to an endpoint that the key may not use.
pub(crate) fn check_endpoint(key: &Key, endpoint: Endpoint) -> Result<(), Fault> {
    let Some(allowed) = key.endpoints.as_ref().filter(|allowed| !allowed.contains(&endpoint)) else { return Ok(()) };
    let allowed: Vec<_> = allowed.iter().map(|endpoint| endpoint.name()).collect();
    let message = format!(
        "the key '{}' may not use the endpoint '{}': it may use '{}' (keys.….endpoints in the policy)",
        key.id,
        endpoint.name(),
        allowed.join("', '")
    );
    Err(Fault::client(StatusCode::FORBIDDEN, "endpoint_refused", message).with_code("endpoint_not_allowed"))
}

/// True if a server may find a model in the query string, however often it decodes it.
fn may_name_models(query: &str) -> bool {
    let mut text = query.to_owned();
    for _ in 0..MOST_CODED {
        let plain = decoded(&text);
        if plain == text {
            return !text.is_ascii() || text.to_ascii_lowercase().contains("model");
        }
        text = plain;
    }
    true
}

fn one_model_only(key: &Key, param: String) -> Fault {
    let message =
        format!("the key '{}' may use certain models only: name one, in 'model', and none in '{param}'", key.id);
    let fault = Fault::client(StatusCode::FORBIDDEN, "model_refused", message).with_code("model_not_found");
    Fault { param: Some(param.into()), ..fault }
}

/// Builds the error for a model that the key may not use. It is the same whether or not the model exists.
pub(crate) fn refused(key: &Key, model: &str) -> Fault {
    let shown: String = model.chars().take(100).collect();
    let patterns = key.models.iter().flatten().map(ModelGlob::to_string).collect::<Vec<_>>().join("', '");
    let message = format!("the key '{}' may not use the model '{shown}': it may use '{patterns}'", key.id);
    let fault = Fault::client(StatusCode::FORBIDDEN, "model_refused", message).with_code("model_not_found");
    Fault { param: Some("model".into()), ..fault }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_may_name_a_model_is_detected() {
        for query in [
            "model=m",
            "Model=m",
            "models=m",
            "model[]=m",
            "x=1&model=m",
            "x=1;model=m",
            "%6dodel=m",
            "%256dodel=m",
            "%25256D%256fdel=m",
            "x=1%26model=m",
            "a=1#model",
            "%c1%ad%c1%afdel=m",
            "%25252525252525252525256dodel=m",
        ] {
            assert!(may_name_models(query), "{query}");
        }
        for query in ["", "beta=true", "api-version=2024-10-21&x=%20", "x=100%"] {
            assert!(!may_name_models(query), "{query}");
        }
    }
}
