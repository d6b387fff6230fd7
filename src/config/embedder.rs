//! What decides whether two texts mean the same, as it is typed.

use std::time::Duration;

use schemars::{JsonSchema, Schema, json_schema};
use serde::Deserialize;

use super::{
    key_source::KeySource,
    mistake::Mistake,
    scalar::{Field, Scalar, Url, Word},
    shape::{Either, Located, Shapes},
};

/// The files of a sentence model in ONNX form, as they are on the hub.
pub const MODEL_FILES: [&str; 5] =
    ["model.onnx", "tokenizer.json", "config.json", "special_tokens_map.json", "tokenizer_config.json"];

const FORMS: &str = "`built-in`, `{ backend: { url: \"http://host:8000/v1\", model: NAME } }`, `{ fastembed: NAME }` or `{ onnx: FOLDER }`";

/// An embedder: the one that is compiled in, or another.
pub type Embedder = Either<BuiltIn, OtherEmbedder>;

/// The embedder that is compiled in, by its word.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct BuiltIn;

impl Scalar for BuiltIn {
    fn read(text: &str) -> Result<Self, Mistake> {
        if text == "built-in" {
            return Ok(Self);
        }
        Err(Mistake::new("not an embedder").help(format!("write {FORMS}")))
    }

    fn schema() -> Schema {
        json_schema!({ "enum": ["built-in"] })
    }
}

/// Another embedder than the one that is compiled in: one of the three.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OtherEmbedder {
    /// A server that speaks OpenAI's `/v1/embeddings`.
    pub backend: Option<Located<EmbeddingBackend>>,
    /// A model that fastembed knows, by its name there, such as `BGESmallENV15`; downloaded from the Hugging Face hub once. For builds
    /// with the feature `fastembed`.
    pub fastembed: Option<Field<String>>,
    /// A folder with a sentence model in ONNX form: `model.onnx`, `tokenizer.json`, `config.json`, `special_tokens_map.json` and
    /// `tokenizer_config.json`. Its path starts from this file's folder. For builds with the feature `fastembed`.
    pub onnx: Option<Field<String>>,
}

impl Shapes for OtherEmbedder {
    const EXPECTED: &'static str = "`built-in`, or a mapping with `backend`, `fastembed` or `onnx`";
}

/// A server that speaks OpenAI's `/v1/embeddings`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingBackend {
    /// Base address of its API, such as `http://127.0.0.1:8000/v1`.
    pub url: Field<Url>,
    /// The model's name there. It should read at least 512 tokens of a text.
    pub model: Field<Word>,
    /// The key it is called with.
    pub key: Option<KeySource>,
    /// Length of its vectors, for models that let it be chosen. Default: as the model has it.
    pub dimensions: Option<Field<u64>>,
    /// How long a lookup waits for a vector; what comes later is a miss. Default: `250ms`.
    pub timeout: Option<Field<Duration>>,
}
