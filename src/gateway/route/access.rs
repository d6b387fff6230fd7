//! What a key may ask for. It is looked at before anything is looked up, so that nobody learns what there is for others.

use http::StatusCode;

use super::Asking;
use crate::{
    policy::{Key, ModelPattern},
    types::Fault,
};

impl Asking<'_> {
    /// Refuses a request for a model that its key may not use; and one that names none, where the key may not use all: what it would do
    /// upstream, a batch in a file for one, is seen by nobody here.
    pub(super) fn check_access(&self) -> Result<(), Fault> {
        let Some(key) = self.key.map(|at| &self.policy().keys[at]) else { return Ok(()) };
        match &self.body.model {
            Some(model) if key.may_use(model) => Ok(()),
            Some(model) => Err(refused(key, model)),
            None if key.models.is_none() => Ok(()),
            None => {
                let message = format!(
                    "the key '{}' may use certain models only, and this request to '{}' names none",
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
