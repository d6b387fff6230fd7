//! The facts of a request that conditions and tiers use. The journal keeps them, so that `signalbox replay` can apply another policy.

use std::{
    fmt::Write as _,
    hash::{BuildHasher as _, RandomState},
    sync::LazyLock,
};

use serde::{Serialize, Serializer};

use signalbox_types::{Complexity, Name};

/// Key of the hashes: `SipHash` with 128 random bits of this process, so that readers of a journal cannot test guessed prompts against them.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Blocks of a prompt that are kept, which cover its first 60 KB.
const MOST_BLOCKS: usize = 256;

/// The facts of a request that conditions and tiers use. They contain no text; hashes are keyed with a secret of this process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoutingFacts {
    /// `interactive` or `batch`.
    pub class: &'static str,
    /// The client's limit on the answer's tokens, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Number of tools offered.
    pub tools: u32,
    /// Number of images in the request.
    pub images: u32,
    /// Number of sounds in the request.
    pub audio: u32,
    /// Number of videos in the request.
    pub video: u32,
    /// Number of documents and other files in the request.
    pub files: u32,
    /// True if the answer was to follow a JSON schema.
    pub schema: bool,
    /// Number of user messages.
    pub turns: u32,
    /// True if the last message holds results of tools.
    pub tool_loop: bool,
    /// Hash of the conversation's name, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<Hash>,
    /// Hash of the conversation's user messages up to the last turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<Hash>,
    /// Hash of the conversation's user messages up to the turn before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said_before: Option<Hash>,
    /// The prompt's language, `""` where it is unknown; `None` where the policy does not use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<&'static str>,
    /// The prompt's complexity by the built-in weights; `None` where the policy does not use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complexity: Option<ComplexityScore>,
    /// Chained hashes of the prompt's blocks, where the policy asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<BlockHashes>,
}

impl RoutingFacts {
    /// Approximate heap size, in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.blocks.as_ref().map_or(0, |blocks| blocks.0.len())
    }
}

/// The complexity of a prompt, without the features that moved it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComplexityScore {
    /// Share of prompts that gain less from a larger model.
    pub score: f64,
    /// Expected quality of the smallest model's answer.
    pub quality: f64,
    /// Expected gain in quality from a larger model.
    pub gap: f64,
    /// Confidence in the score, 0 to 1.
    pub confidence: f64,
    /// Version of the weights.
    pub weights: Name,
}

impl ComplexityScore {
    /// Describes `complexity`, which was computed with these weights.
    pub fn of(complexity: &Complexity, weights: Name) -> Self {
        let Complexity { score, quality, gap, confidence, .. } = *complexity;
        Self { score, quality, gap, confidence, weights }
    }
}

/// A hash, written as hex text: some readers of JSON lose digits of numbers of this size.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Hash(u64);

impl Hash {
    /// Keys `hash` with this process's secret.
    pub fn keyed(hash: u64) -> Self {
        Self(KEY.hash_one(hash))
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{:016x}", self.0))
    }
}

/// The lower halves of hashes, eight hex digits each, in one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockHashes(String);

impl BlockHashes {
    /// Keys and joins the hashes of the first blocks.
    pub fn of(blocks: &[u64]) -> Self {
        let mut text = String::with_capacity(blocks.len().min(MOST_BLOCKS) * 8);
        for hash in blocks.iter().take(MOST_BLOCKS) {
            let _ = write!(text, "{:08x}", Hash::keyed(*hash).0 & 0xFFFF_FFFF);
        }
        Self(text)
    }
}

impl Serialize for BlockHashes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_written_as_keyed_hex_text() {
        assert_eq!(serde_json::to_string(&Hash(0x1F)).unwrap(), "\"000000000000001f\"");
        let (one, other) = (BlockHashes::of(&[1, 2, 3]).0, BlockHashes::of(&[1, 2, 4]).0);
        assert_eq!((one.len(), &one[..16]), (24, &other[..16]));
        assert_ne!(one, other);
        assert_ne!(&one[..8], "00000001", "the hashes are keyed");
        assert_eq!(BlockHashes::of(&[7; 1000]).0.len(), 256 * 8);
    }
}
