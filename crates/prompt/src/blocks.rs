//! Chained hashes of a prompt's blocks, which identify prompts with a common prefix.

use std::sync::Arc;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use signalbox_types::{Layout, Passage, Prompt};

/// The block layout of all prompts.
const LAYOUT: Layout = Layout::Growing;

/// The most blocks that are hashed: 2 MB of prompt. If two prompts agree that far, the rest makes no difference to
/// their placement.
const MAX_BLOCKS: usize = 4096;

/// The longest block, in bytes.
const MAX_BLOCK_BYTES: usize = 512;

/// Computes the chained hashes of a prompt's whole blocks in one pass over its bytes, which may arrive in any pieces:
/// `h_k = xxh3(block_k)` seeded with `h_{k−1}`, the first with the salt's hash. Equal hashes thus mean an equal prefix.
/// Only a block that spans two pushes is copied.
pub struct BlockHasher {
    chain: u64,
    hashes: Vec<u64>,
    bytes: u64,
    /// The current block, and the number of its bytes received.
    carried: [u8; MAX_BLOCK_BYTES],
    begun: usize,
}

impl BlockHasher {
    /// Starts a prompt. `salt` separates prompts that share no cache: tenants, models, adapters.
    pub fn new(salt: &[u8]) -> Self {
        Self { chain: xxh3_64(salt), hashes: Vec::new(), bytes: 0, carried: [0; MAX_BLOCK_BYTES], begun: 0 }
    }

    /// Adds the next bytes of the prompt.
    pub fn push(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        while self.hashes.len() < MAX_BLOCKS {
            let size = size(self.hashes.len());
            let wanted = size - self.begun;
            let Some((block, rest)) = bytes.split_at_checked(wanted) else {
                self.carried[self.begun..self.begun + bytes.len()].copy_from_slice(bytes);
                self.begun += bytes.len();
                return;
            };
            if self.begun == 0 {
                self.hash(block);
            } else {
                self.carried[self.begun..size].copy_from_slice(block);
                self.begun = 0;
                let carried = self.carried;
                self.hash(&carried[..size]);
            }
            bytes = rest;
        }
    }

    /// The hashes of all whole blocks. An incomplete last block has none.
    pub fn finish(self) -> Blocks {
        Blocks { hashes: self.hashes.into(), bytes: self.bytes, layout: LAYOUT, ..Blocks::default() }
    }

    fn hash(&mut self, block: &[u8]) {
        self.chain = xxh3_64_with_seed(block, self.chain);
        self.hashes.push(self.chain);
    }
}

/// Size in bytes of the block after the first `blocks` blocks.
fn size(blocks: usize) -> usize {
    (LAYOUT.bytes(blocks + 1) - LAYOUT.bytes(blocks)) as usize
}

/// A prompt's hashes and its length. Cheap to clone; the default is an empty prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    hashes: Arc<[u64]>,
    bytes: u64,
    layout: Layout,
    passages: Arc<[Passage]>,
    escapes: u64,
}

impl Blocks {
    /// A prompt of `bytes` bytes whose blocks were hashed elsewhere.
    pub fn new(hashes: Arc<[u64]>, bytes: u64, layout: Layout) -> Self {
        Self { hashes, bytes, layout, ..Self::default() }
    }

    /// With the passages that are no text, in order, and the bytes of escapes beyond their characters.
    #[must_use]
    pub fn with_passages(self, passages: Arc<[Passage]>, escapes: u64) -> Self {
        Self { passages, escapes, ..self }
    }

    /// The scheduler's view of the prompt.
    pub fn prompt(&self) -> Prompt<'_> {
        Prompt {
            bytes: self.bytes,
            blocks: &self.hashes,
            layout: self.layout,
            passages: &self.passages,
            escapes: self.escapes,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    fn hashed(salt: &[u8], parts: &[&[u8]]) -> Blocks {
        let mut hasher = BlockHasher::new(salt);
        for part in parts {
            hasher.push(part);
        }
        hasher.finish()
    }

    fn text(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * at / 7) as u8).collect()
    }

    #[test]
    fn whole_blocks_are_hashed_and_all_bytes_counted() {
        for length in [0, 63, 64, 65, 4096, 4096 + 127, 4096 + 128, 28_672 + 511, 28_672 + 512] {
            let blocks = hashed(b"", &[&text(length)]);
            assert_eq!(blocks.prompt().bytes, length as u64);
            assert_eq!(blocks.prompt().blocks.len(), Layout::Growing.blocks(length as u64), "{length}");
        }
        assert_eq!(hashed(b"x", &[]).prompt(), Blocks::default().prompt());
    }

    #[test]
    fn a_block_depends_on_all_before_it_and_on_the_salt() {
        let one = text(40_000);
        let mut other = one.clone();
        other[5_000] ^= 1;
        let (one, other, salted) = (hashed(b"a", &[&one]), hashed(b"a", &[&other]), hashed(b"b", &[&one]));
        let parts = Layout::Growing.blocks(5_000);
        let (one, other, salted) = (one.prompt().blocks, other.prompt().blocks, salted.prompt().blocks);
        assert_eq!(one[..parts], other[..parts]);
        assert!(one[parts..].iter().zip(&other[parts..]).all(|(one, other)| one != other));
        assert!(one.iter().zip(salted).all(|(one, salted)| one != salted));
    }

    #[test]
    fn bytes_beyond_the_block_limit_are_only_counted() {
        let long = text(3 << 20);
        let blocks = hashed(b"", &[&long[..100], &long[100..]]);
        assert_eq!((blocks.prompt().blocks.len(), blocks.prompt().bytes), (MAX_BLOCKS, 3 << 20));
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn push_boundaries_make_no_difference(length in 0..60_000_usize, mut cuts in prop::collection::vec(0..60_000_usize, 0..40)) {
            let text = text(length);
            cuts.extend([0, length]);
            cuts.sort_unstable();
            let parts: Vec<&[u8]> =
                cuts.windows(2).map(|cut| &text[cut[0].min(length)..cut[1].min(length)]).collect();
            prop_assert_eq!(hashed(b"salt", &parts), hashed(b"salt", &[&text]));
        }
    }
}
