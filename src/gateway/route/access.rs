//! What a key may ask for. It is looked at before anything is looked up, so that nobody learns what there is for others.

use http::StatusCode;

use super::Asking;
use crate::{
    policy::{Key, ModelPattern},
    types::{Endpoint, Fault},
};

impl Asking<'_> {
    /// Refuses a request for a model that its key may not use. Where the key may not use all, also what may name models in places that
    /// nobody here reads: batches and files, requests without a model, and `models`, by which some providers are told of others to fall back to.
    pub(super) fn check_access(&self) -> Result<(), Fault> {
        let key = self.key.map(|at| &self.policy().keys[at]);
        let Some(key) = key.filter(|key| key.models.is_some()) else { return Ok(()) };
        let unread = matches!(self.endpoint, Endpoint::Batches | Endpoint::Files);
        match &self.body.model {
            Some(model) if !key.may_use(model) => Err(refused(key, model)),
            Some(_) if self.body.members().any(|(name, _)| name.eq_ignore_ascii_case(b"models")) => {
                let message = format!("the key '{}' may use certain models only: name one, in 'model'", key.id);
                let fault = Fault::client(StatusCode::FORBIDDEN, "model_refused", message).with_code("model_not_found");
                Err(Fault { param: Some("models".into()), ..fault })
            }
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

/// The answer to a key that asks for a model which it may not use, whether or not there is one of this name.
pub(in crate::gateway) fn refused(key: &Key, model: &str) -> Fault {
    let shown: String = model.chars().take(100).collect();
    let patterns = key.models.iter().flatten().map(ModelPattern::to_string).collect::<Vec<_>>().join("', '");
    let message = format!("the key '{}' may not use the model '{shown}': it may use '{patterns}'", key.id);
    let fault = Fault::client(StatusCode::FORBIDDEN, "model_refused", message).with_code("model_not_found");
    Fault { param: Some("model".into()), ..fault }
}
