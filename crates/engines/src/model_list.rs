//! Lists of models, as engines and providers answer `GET /v1/models`.

use serde::Deserialize;
use serde_json::Value;

/// A model of a list. Members that only some servers have may be of any form elsewhere.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ModelEntry {
    /// The name that requests use.
    pub id: String,
    #[serde(default)]
    owned_by: Value,
    /// The base model of an adapter (vLLM).
    #[serde(default)]
    parent: Value,
    /// Of vLLM and `SGLang`.
    #[serde(default)]
    max_model_len: Value,
    /// Of hosted providers.
    #[serde(default, alias = "context_window", alias = "max_context_length")]
    context_length: Value,
    /// Of llama.cpp.
    #[serde(default)]
    meta: Value,
    /// Of llama.cpp's router.
    #[serde(default)]
    status: Value,
}

#[derive(Deserialize)]
struct List {
    data: Vec<ModelEntry>,
}

impl ModelEntry {
    /// Context length in tokens, if the list has it.
    pub fn context(&self) -> Option<u64> {
        let places = [&self.max_model_len, &self.context_length, &self.meta["n_ctx"], &self.meta["n_ctx_train"]];
        places.into_iter().find_map(Value::as_u64).filter(|tokens| *tokens > 0)
    }

    /// The maker of the model, or the engine; see [`Profile::of_owner`](super::Profile::of_owner).
    pub fn owner(&self) -> Option<&str> {
        self.owned_by.as_str()
    }

    /// True for an adapter of another model.
    pub fn is_adapter(&self) -> bool {
        self.parent.is_string()
    }

    /// True if the model is in memory and answers at once; `None` if the list does not say.
    pub fn is_loaded(&self) -> Option<bool> {
        self.status["value"].as_str().map(|status| status == "loaded")
    }
}

/// Models of a list; `None` if `body` is none.
pub fn model_list(body: &[u8]) -> Option<Vec<ModelEntry>> {
    serde_json::from_slice(body).ok().map(|List { data }| data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_all_engines_are_read() {
        let body = br#"{"object":"list","data":[
            {"id":"a","owned_by":"vllm","parent":null,"max_model_len":32768,"x":1},{"id":"sql","parent":"a"},
            {"id":"c","context_length":9},{"id":"d","context_length":0},{"id":"e","meta":{"n_ctx_train":7}},
            {"id":"f","meta":null,"owned_by":1,"status":{"value":"unloaded","args":[]}},{"id":"h","status":"active","max_model_len":"8k","context_window":5},{"id":"g","status":{"value":"loaded"}}]}"#;
        let list = model_list(body).unwrap();
        let contexts: Vec<_> = list.iter().map(ModelEntry::context).collect();
        assert_eq!(contexts, [Some(32_768), None, Some(9), None, Some(7), None, Some(5), None]);
        assert_eq!(list.iter().position(ModelEntry::is_adapter), Some(1));
        assert_eq!((list[0].is_loaded(), list[5].is_loaded(), list[7].is_loaded()), (None, Some(false), Some(true)));
        assert_eq!(list[0].owner(), Some("vllm"));
        assert!(model_list(b"[]").is_none() && model_list(br#"{"data":[]}"#).is_some_and(|it| it.is_empty()));
    }
}
