//! Binary format of cached answers, for the disk and for other gateways: versioned, and strict on reading.
//!
//! The input was sealed by its writer. Even so nothing is trusted: other versions, entries made with another secret,
//! invalid numbers, vectors that are not of length 1 and trailing bytes are rejected. The layout has structs of its
//! own, so that a change of internal types changes no stored byte. The encoding is postcard's
//! (<https://postcard.jamesmunns.com/wire-format>).

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    key::{CompatKey, ExactKey, Keys, ScopeId},
    record::{Origin, Record},
};
use signalbox_protocol::{Parts, Transcript};
use signalbox_types::Usage;

/// Version of the layout.
const VERSION: u8 = 1;
/// Length of the version and the fingerprint of the keys.
const HEAD: usize = 9;
/// Tolerated deviation of a vector's length from 1.
const NEARLY: f32 = 1e-3;

/// Reason why bytes were rejected.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Written by another release.
    #[error("written by another version")]
    Version,
    /// Their keys were made with another secret, so no request would match them.
    #[error("written under another secret")]
    Secret,
    /// Not in the format of this version.
    #[error("not a cached answer")]
    Form,
}

/// An answer with the text it answers.
#[derive(Clone, Debug, PartialEq)]
pub struct SemanticEntry {
    /// Key of everything else that must be equal.
    pub compat: CompatKey,
    /// The text. Its comparison features are derived again by the reading release.
    pub text: String,
    /// Name of the embedders. Vectors are compared only under the same name.
    pub embedder: String,
    /// Vector of the text by the deciding embedder.
    pub vector: Box<[f32]>,
    /// Exact key of the request that was answered.
    pub exact: ExactKey,
    /// The answer.
    pub record: Arc<Record>,
}

/// Serialised form of an answer, which borrows from the record or the input.
#[derive(Serialize, Deserialize)]
struct Answer<'a> {
    chat: bool,
    #[serde(borrow)]
    whole: Raw<'a>,
    usage: Option<[Option<u64>; 4]>,
    pieces: Vec<[u32; 4]>,
    scope: [u8; 16],
    #[serde(borrow)]
    caller: Option<&'a str>,
    route: &'a str,
    pool: &'a str,
    origin: u64,
    cost_usd: Option<f64>,
    seconds: f64,
}

#[derive(Serialize, Deserialize)]
struct StoredEntry<'a> {
    compat: [u8; 32],
    text: &'a str,
    embedder: &'a str,
    vector: Vec<f32>,
    exact: [u8; 32],
    #[serde(borrow)]
    answer: Answer<'a>,
}

/// Serialises a byte slice at once instead of byte by byte.
struct Raw<'a>(&'a [u8]);

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Raw<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&[u8]>::deserialize(deserializer).map(Self)
    }
}

/// Serialises an answer found by its exact key.
pub fn write_record(keys: &Keys, record: &Record) -> Vec<u8> {
    write(keys, &Answer::of(record))
}

/// Reads the output of [`write_record`].
///
/// # Errors
///
/// [`Unreadable`] for any other input.
pub fn read_record(keys: &Keys, bytes: &[u8]) -> Result<Record, Unreadable> {
    read::<Answer<'_>>(keys, bytes)?.record().ok_or(Unreadable::Form)
}

/// Serialises an answer found by its text.
pub fn write_semantic(keys: &Keys, meaning: &SemanticEntry) -> Vec<u8> {
    let SemanticEntry { compat, text, embedder, vector, exact, record } = meaning;
    let (compat, exact) = (*compat.as_bytes(), *exact.as_bytes());
    write(keys, &StoredEntry { compat, text, embedder, vector: vector.to_vec(), exact, answer: Answer::of(record) })
}

/// Reads the output of [`write_semantic`].
///
/// # Errors
///
/// [`Unreadable`] for any other input.
pub fn read_semantic(keys: &Keys, bytes: &[u8]) -> Result<SemanticEntry, Unreadable> {
    let StoredEntry { compat, text, embedder, vector, exact, answer } = read(keys, bytes)?;
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if !(1.0 - NEARLY..=1.0 + NEARLY).contains(&length) {
        return Err(Unreadable::Form);
    }
    Ok(SemanticEntry {
        compat: CompatKey::from_bytes(compat),
        text: text.to_owned(),
        embedder: embedder.to_owned(),
        vector: vector.into(),
        exact: ExactKey::from_bytes(exact),
        record: Arc::new(answer.record().ok_or(Unreadable::Form)?),
    })
}

fn write(keys: &Keys, what: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    bytes.push(VERSION);
    bytes.extend_from_slice(&keys.fingerprint());
    // Writing to a vector cannot fail, and the layout can represent every value. If that ever changes, the reader
    // rejects the truncated bytes.
    postcard::to_extend(what, bytes).unwrap_or_default()
}

fn read<'a, T: Deserialize<'a>>(keys: &Keys, bytes: &'a [u8]) -> Result<T, Unreadable> {
    match bytes.split_first_chunk::<HEAD>() {
        Some(([VERSION, fingerprint @ ..], body)) if *fingerprint == keys.fingerprint() => {
            match postcard::take_from_bytes(body) {
                Ok((read, [])) => Ok(read),
                _ => Err(Unreadable::Form),
            }
        }
        Some(([VERSION, ..], _)) => Err(Unreadable::Secret),
        Some(_) => Err(Unreadable::Version),
        None => Err(Unreadable::Form),
    }
}

impl<'a> Answer<'a> {
    fn of(record: &'a Record) -> Self {
        let Parts { chat, whole, usage, pieces } = record.transcript.parts();
        let counts = |usage: Usage| {
            [Some(usage.prompt_tokens), usage.cached_tokens, Some(usage.completion_tokens), usage.reasoning_tokens]
        };
        Self {
            chat,
            whole: Raw(whole),
            usage: usage.map(counts),
            pieces,
            scope: *record.scope.as_bytes(),
            caller: record.caller.as_deref(),
            route: &record.route,
            pool: &record.pool,
            origin: record.origin.0,
            cost_usd: record.cost_usd,
            seconds: record.seconds,
        }
    }

    fn record(&self) -> Option<Record> {
        let usage = match self.usage {
            None => None,
            Some([prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens]) => Some(Usage {
                prompt_tokens: prompt_tokens?,
                cached_tokens,
                completion_tokens: completion_tokens?,
                reasoning_tokens,
                ..Usage::default()
            }),
        };
        let plausible = |number: f64| number.is_finite() && number >= 0.0;
        if !plausible(self.seconds) || !self.cost_usd.is_none_or(plausible) {
            return None;
        }
        let parts = Parts { chat: self.chat, whole: self.whole.0, usage, pieces: self.pieces.clone() };
        Some(Record {
            transcript: Transcript::of_parts(&parts)?,
            scope: ScopeId::from_bytes(self.scope),
            caller: self.caller.map(Into::into),
            route: self.route.into(),
            pool: self.pool.into(),
            origin: Origin(self.origin),
            cost_usd: self.cost_usd,
            seconds: self.seconds,
        })
    }
}

/// Reads any bytes as cached answers and checks that writing them gives the same bytes. An entry point for fuzzers.
///
/// # Panics
///
/// If the bytes differ.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_codec(bytes: &[u8]) {
    let keys = Keys::new([7; 32]);
    // The fuzzer cannot guess the fingerprint, so it is inserted.
    let Some((version, body)) = bytes.split_first() else { return };
    let bytes = [&[*version][..], &keys.fingerprint(), body].concat();
    if let Ok(record) = read_record(&keys, &bytes) {
        assert_eq!(read_record(&keys, &write_record(&keys, &record)).as_ref(), Ok(&record));
        record.transcript.events(true, true);
    }
    if let Ok(meaning) = read_semantic(&keys, &bytes) {
        assert_eq!(read_semantic(&keys, &write_semantic(&keys, &meaning)).as_ref(), Ok(&meaning));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use signalbox_types::Endpoint;

    fn keys() -> Keys {
        Keys::new([7; 32])
    }

    fn record(text: &str, endpoint: Endpoint, cost_usd: Option<f64>) -> Record {
        let said = serde_json::json!({ "content": text, "role": "assistant" });
        let choice = if endpoint == Endpoint::Chat {
            serde_json::json!({ "index": 0, "message": said, "finish_reason": "stop" })
        } else {
            serde_json::json!({ "index": 0, "text": text, "finish_reason": "stop" })
        };
        let usage = serde_json::json!({ "prompt_tokens": 7, "completion_tokens": 300 });
        let body = serde_json::json!({ "choices": [choice], "usage": usage }).to_string();
        Record {
            transcript: Transcript::of_whole(endpoint, body.as_bytes(), 1 << 20).unwrap(),
            scope: ScopeId::from_bytes([3; 16]),
            caller: text.len().is_multiple_of(2).then(|| "web".into()),
            route: "auto".into(),
            pool: "small".into(),
            origin: Origin(u64::MAX - 1),
            cost_usd,
            seconds: 1.25,
        }
    }

    fn meaning(text: &str, record: Record) -> SemanticEntry {
        SemanticEntry {
            compat: CompatKey::from_bytes([4; 32]),
            text: text.to_owned(),
            embedder: "static+minilm".to_owned(),
            vector: [0.6, -0.8].into(),
            exact: ExactKey::from_bytes([5; 32]),
            record: Arc::new(record),
        }
    }

    /// A release that cannot read these files must have another version.
    #[test]
    fn the_layout_is_stable() {
        let record = record("Paris.", Endpoint::Chat, Some(0.25));
        let samples = [
            ("record", write_record(&keys(), &record)),
            ("meaning", write_semantic(&keys(), &meaning("capital?", record))),
        ];
        for (name, bytes) in samples {
            // The fuzz entry point inserts the fingerprint itself.
            let bytes = [&bytes[..1], &bytes[HEAD..]].concat();
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/codec").join(name);
            if std::env::var_os("SIGNALBOX_UPDATE").is_some() {
                std::fs::write(&file, &bytes).unwrap();
            }
            assert!(
                std::fs::read(&file).unwrap() == bytes,
                "{name} is written otherwise; SIGNALBOX_UPDATE=1 takes that over"
            );
            fuzz_codec(&bytes);
        }
    }

    #[test]
    fn foreign_bytes_are_rejected() {
        let bytes = write_record(&keys(), &record("a", Endpoint::Chat, None));
        let refused = |bytes: &[u8]| read_record(&keys(), bytes).unwrap_err();
        assert_eq!(read_record(&Keys::new([8; 32]), &bytes), Err(Unreadable::Secret));
        assert_eq!(refused(&[&[VERSION + 1], &bytes[1..]].concat()), Unreadable::Version);
        assert_eq!(refused(&[&bytes[..], &[0]].concat()), Unreadable::Form, "something is left over");
        for end in 0..bytes.len() {
            assert_eq!(refused(&bytes[..end]), Unreadable::Form, "{end}");
        }
        for cost in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(refused(&write_record(&keys(), &record("a", Endpoint::Chat, Some(cost)))), Unreadable::Form);
        }
        for vector in [&[0.6, 0.9][..], &[f32::NAN, 0.8], &[]] {
            let odd = SemanticEntry { vector: vector.into(), ..meaning("a", record("a", Endpoint::Chat, None)) };
            assert_eq!(read_semantic(&keys(), &write_semantic(&keys(), &odd)), Err(Unreadable::Form), "{vector:?}");
        }
    }

    proptest! {
        #[test]
        fn written_entries_are_read_back(text in "a.{0,80}", chat in any::<bool>(), cost in prop::option::of(0.0f64..1e6)) {
            let endpoint = if chat { Endpoint::Chat } else { Endpoint::Completions };
            let record = record(&text, endpoint, cost);
            prop_assert_eq!(read_record(&keys(), &write_record(&keys(), &record)), Ok(record.clone()));
            let meaning = meaning(&text, record);
            prop_assert_eq!(read_semantic(&keys(), &write_semantic(&keys(), &meaning)), Ok(meaning));
        }
    }
}
