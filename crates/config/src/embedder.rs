//! The embedder of the semantic cache as written in the file.

use std::time::Duration;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::{
    key_source::KeySource,
    mistake::Mistake,
    patterns::{one_of, text_schema},
    scalar::{Field, Scalar, Url, Word},
    shape::{Either, Located, Shapes},
};

/// The files of a sentence model in ONNX form, as named on the Hugging Face hub.
pub const MODEL_FILES: [&str; 5] =
    ["model.onnx", "tokenizer.json", "config.json", "special_tokens_map.json", "tokenizer_config.json"];

const FORMS: &str = "`built-in`, `{ backend: { url: \"http://host:8000/v1\", model: NAME } }`, `{ fastembed: NAME }` or `{ onnx: FOLDER }`";

/// An embedder: the built-in one or another.
pub type Embedder = Either<BuiltIn, OtherEmbedder>;

/// The built-in embedder.
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
        text_schema("built-in", &["built-in"])
    }
}

/// Another embedder than the built-in one: one of the three.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = one_of(&["backend", "fastembed", "onnx"])))]
pub struct OtherEmbedder {
    /// A server with OpenAI's `/v1/embeddings`.
    pub backend: Option<Located<EmbeddingBackend>>,
    /// The name of a model that fastembed supports, such as `BGESmallENV15`; downloaded once from the Hugging Face hub.
    /// Requires a build with the feature `fastembed`.
    pub fastembed: Option<Field<String>>,
    /// A folder with a sentence model in ONNX form: `model.onnx`, `tokenizer.json`, `config.json`,
    /// `special_tokens_map.json` and `tokenizer_config.json`. Relative to this file's folder. Requires a build with the
    /// feature `fastembed`.
    pub onnx: Option<Field<String>>,
}

impl Shapes for OtherEmbedder {
    const EXPECTED: &'static str = "`built-in`, or a mapping with `backend`, `fastembed` or `onnx`";
}

/// A server with OpenAI's `/v1/embeddings`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingBackend {
    /// Base address of its API, such as `http://127.0.0.1:8000/v1`.
    pub url: Field<Url>,
    /// The model's name on that server. It should accept at least 512 tokens.
    pub model: Field<Word>,
    /// The API key for that server.
    pub key: Option<KeySource>,
    /// The length of its vectors, for models with a configurable length. Default: the model's own.
    pub dimensions: Option<Field<u64>>,
    /// The longest that a lookup waits for a vector; after that it is a miss. Default: `250ms`.
    pub timeout: Option<Field<Duration>>,
}
