//! Embeddings without a model: each word adds its own direction, so that texts with common words are similar.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    api_request::texts,
    problem::Problem,
    text::{hash, tokens},
};

/// Default dimensions of a vector.
const DIMENSIONS: usize = 384;

/// Most dimensions, and most inputs of a request.
const MAX_DIMENSIONS: usize = 4_096;

#[derive(Deserialize)]
struct Body {
    model: String,
    input: Value,
    dimensions: Option<usize>,
    encoding_format: Option<String>,
}

/// A parsed request for embeddings.
#[derive(Debug)]
pub(super) struct Embed {
    pub(super) model: String,
    /// Texts with their number of tokens.
    pub(super) inputs: Vec<(String, u32)>,
    dimensions: usize,
    base64: bool,
}

impl Embed {
    /// Reads the body of `/v1/embeddings`.
    pub(super) fn read(body: &[u8], forced: Option<u32>) -> Result<Self, Problem> {
        let body: Body = serde_json::from_slice(body)?;
        let dimensions = body.dimensions.unwrap_or(DIMENSIONS);
        if dimensions == 0 || dimensions > MAX_DIMENSIONS {
            return Err(Problem::field(
                "dimensions",
                format!("`dimensions` has to be between 1 and {MAX_DIMENSIONS}."),
            ));
        }
        let base64 = match body.encoding_format.as_deref() {
            None | Some("float") => false,
            Some("base64") => true,
            Some(other) => {
                let message = format!("`encoding_format` has to be `float` or `base64`, not `{other}`.");
                return Err(Problem::field("encoding_format", message));
            }
        };
        let inputs = texts(body.input).filter(|inputs| inputs.len() <= MAX_DIMENSIONS).ok_or_else(|| {
            Problem::field(
                "input",
                format!("`input` has to be a string, tokens, or a list of up to {MAX_DIMENSIONS} of either."),
            )
        })?;
        let counted = |(text, count): (String, Option<u32>)| {
            let count = forced.or(count).unwrap_or_else(|| tokens(&text)).max(1);
            (text, count)
        };
        Ok(Self { model: body.model, inputs: inputs.into_iter().map(counted).collect(), dimensions, base64 })
    }

    /// Builds the response.
    pub(super) fn answer(&self) -> Value {
        let data = self.inputs.iter().enumerate().map(|(index, (text, _))| {
            let vector = vector(text, self.dimensions);
            let embedding = if self.base64 {
                let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
                json!(base64(&bytes))
            } else {
                json!(vector)
            };
            json!({"object": "embedding", "index": index, "embedding": embedding})
        });
        let tokens: u64 = self.inputs.iter().map(|(_, count)| u64::from(*count)).sum();
        json!({
            "object": "list",
            "data": data.collect::<Vec<_>>(),
            "model": self.model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        })
    }
}

/// Unit vector that depends on the words of `text`, not on their order, case or punctuation.
fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    let mut sum = vec![0.0_f32; dimensions];
    let mut add = |word: &str| {
        let mut dice = fastrand::Rng::with_seed(hash(0, word.to_lowercase().as_bytes()));
        for number in &mut sum {
            *number += dice.f32() - 0.5;
        }
    };
    // A component common to all texts, so that a text without words has a direction.
    add("");
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).for_each(add);
    let length = sum.iter().map(|number| number * number).sum::<f32>().sqrt();
    if length > 0.0 {
        for number in &mut sum {
            *number /= length;
        }
    }
    sum
}

/// `bytes` in base64 with padding, the form in which `OpenAI`'s Python client asks for vectors.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place > group.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cosine(one: &str, other: &str) -> f32 {
        vector(one, 384).iter().zip(vector(other, 384)).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn vectors_have_length_one_and_depend_on_words() {
        assert!((cosine("How do trains work?", "how do TRAINS work") - 1.0).abs() < 1e-5);
        assert!(cosine("how do trains work", "how do planes work") > 0.6);
        assert!(cosine("how do trains work", "bake me a cake") < 0.5);
        assert!((cosine("", "") - 1.0).abs() < 1e-5);
        assert_eq!(vector("a", 7).len(), 7);
    }

    #[test]
    fn base64_is_the_standard_one() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xFF, 0xFE]), "//4=");
    }

    #[test]
    fn requests_are_checked() {
        for (body, field) in [
            (json!({"model": "m", "input": []}), "input"),
            (json!({"model": "m", "input": "a", "dimensions": 0}), "dimensions"),
            (json!({"model": "m", "input": "a", "encoding_format": "hex"}), "encoding_format"),
        ] {
            let read = Embed::read(body.to_string().as_bytes(), None);
            assert!(matches!(read, Err(Problem::Field { param, .. }) if param == field), "{body}");
        }
    }
}
