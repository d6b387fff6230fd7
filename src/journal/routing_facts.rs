//! What conditions and tiers may ask of a request, kept in its journal line, so that `signalbox replay` can try another policy on it.

use std::{
    fmt::Write as _,
    hash::{BuildHasher as _, RandomState},
    sync::LazyLock,
};

use serde::{Serialize, Serializer};

use crate::types::{Complexity, Name};

/// What hashes are keyed with (`SipHash`, with 128 bits that are drawn at the start and known to nobody): who reads a journal cannot try out
/// which prompts have them.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Blocks of a prompt that are kept: its first 60 KB.
const MOST_BLOCKS: usize = 256;

/// What conditions and tiers may ask of a request. Nothing of its text: hashes are keyed with what only this process knows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoutingFacts {
    /// `interactive` or `batch`.
    pub class: &'static str,
    /// The most tokens that were wanted of the answer, where the client said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Tools on offer.
    pub tools: u32,
    /// Images in the prompt.
    pub images: u32,
    /// Whether the answer was to follow a JSON schema.
    pub schema: bool,
    /// Messages that users wrote.
    pub turns: u32,
    /// Whether the results of tools came last.
    pub tool_loop: bool,
    /// The conversation, where it has a name, and what its users said, up to the last turn and to the one before: hashes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<Hash>,
    /// See [`session`](Self::session).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<Hash>,
    /// See [`session`](Self::session).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said_before: Option<Hash>,
    /// The prompt's language, `""` where it cannot be told; `None` where nothing asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<&'static str>,
    /// How hard the prompt seemed by the weights that are built in; `None` where nothing asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complexity: Option<Ranked>,
    /// Chained hashes of the prompt's blocks, where the policy wants them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<BlockHashes>,
}

impl RoutingFacts {
    /// About how much memory it takes beside itself, in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.blocks.as_ref().map_or(0, |blocks| blocks.0.len())
    }
}

/// How hard a prompt seemed, without the reasons.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranked {
    /// The share of prompts that gain less from a larger model.
    pub score: f64,
    /// The quality to expect of the smallest model's answer.
    pub quality: f64,
    /// What a larger one is expected to add.
    pub gap: f64,
    /// How far that can be relied on.
    pub confidence: f64,
    /// The weights that were used.
    pub weights: Name,
}

impl Ranked {
    /// What `complexity` says, by these weights.
    pub(crate) fn of(complexity: &Complexity, weights: Name) -> Self {
        let Complexity { score, quality, gap, confidence, .. } = *complexity;
        Self { score, quality, gap, confidence, weights }
    }
}

/// A hash, in hex: as a number, it would be more than some readers of JSON hold.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Hash(u64);

impl Hash {
    /// Stands for `hash` in this process's journals.
    pub(crate) fn keyed(hash: u64) -> Self {
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
    /// Of the first blocks.
    pub(crate) fn of(blocks: &[u64]) -> Self {
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
    fn hashes_are_text() {
        assert_eq!(serde_json::to_string(&Hash(0x1F)).unwrap(), "\"000000000000001f\"");
        let (one, other) = (BlockHashes::of(&[1, 2, 3]).0, BlockHashes::of(&[1, 2, 4]).0);
        assert_eq!((one.len(), &one[..16]), (24, &other[..16]));
        assert_ne!(one, other);
        assert_ne!(&one[..8], "00000001", "the hashes themselves are told to nobody");
        assert_eq!(BlockHashes::of(&[7; 1000]).0.len(), 256 * 8);
    }
}
