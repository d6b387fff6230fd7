//! The scheduler's view of a prompt: its length and the chained hashes of its blocks.

/// The division of a prompt into blocks.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Blocks of growing size in bytes: 64 of 64, 64 of 128, 64 of 256, and 512 from there on. Small where prompts
    /// diverge (system prompts, greetings), large where they are long.
    #[default]
    Growing,
    /// Equal blocks of this many bytes (at least one).
    Fixed(u32),
}

/// Number of blocks of each size of the growing layout.
const RUN: u64 = 64;
/// Block sizes of the growing layout's runs, and of all later blocks, in bytes.
const SIZES: [u64; 3] = [64, 128, 256];
const LAST: u64 = 512;

impl Layout {
    /// Total bytes of the first `blocks` blocks.
    pub const fn bytes(self, blocks: usize) -> u64 {
        let mut left = blocks as u64;
        if let Self::Fixed(size) = self {
            return left * if size == 0 { 1 } else { size as u64 };
        }
        let (mut bytes, mut run) = (0, 0);
        while run < SIZES.len() && left > 0 {
            let here = if left < RUN { left } else { RUN };
            bytes += here * SIZES[run];
            left -= here;
            run += 1;
        }
        bytes + left * LAST
    }

    /// Number of whole blocks in the first `bytes` bytes.
    pub const fn blocks(self, bytes: u64) -> usize {
        let mut left = bytes;
        if let Self::Fixed(size) = self {
            return (left / if size == 0 { 1 } else { size as u64 }) as usize;
        }
        let (mut blocks, mut run) = (0, 0);
        while run < SIZES.len() {
            if left < RUN * SIZES[run] {
                return (blocks + left / SIZES[run]) as usize;
            }
            left -= RUN * SIZES[run];
            blocks += RUN;
            run += 1;
        }
        (blocks + left / LAST) as usize
    }
}

/// Bytes of text that a token of an attachment stands for.
const TOKEN_BYTES: u64 = 4;

/// A passage of a prompt whose bytes are no text: an attachment's data, or a value that no model reads.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// Its first byte.
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
    /// The tokens that it stands for.
    pub tokens: u64,
}

/// A prompt as the scheduler sees it. Nothing of its text is kept.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt<'a> {
    /// Its length in bytes.
    pub bytes: u64,
    /// Chained hashes of its whole blocks from the start: equal hashes mean an equal prefix up to the block's end.
    /// There may be fewer hashes than blocks; the rest is not known to be cached anywhere.
    pub blocks: &'a [u64],
    /// The division into blocks.
    pub layout: Layout,
    /// Its passages that are no text, in order.
    pub passages: &'a [Passage],
    /// Bytes of escapes in its text, beyond the characters that they stand for.
    pub escapes: u64,
}

impl Prompt<'_> {
    /// The bytes of text that it weighs as much as: its own, without escapes, and those of its attachments' tokens.
    pub fn weight(&self) -> u64 {
        self.weight_of(self.bytes)
    }

    /// The weight of its first `bytes` bytes.
    pub fn weight_of(&self, bytes: u64) -> u64 {
        if self.passages.is_empty() && self.escapes == 0 {
            return bytes;
        }
        let (mut inside, mut other) = (0, 0);
        for passage in self.passages.iter().take_while(|passage| passage.start < bytes) {
            let length = passage.end.saturating_sub(passage.start).max(1);
            let read = bytes.min(passage.end).saturating_sub(passage.start);
            inside += read;
            other += (passage.tokens * TOKEN_BYTES).saturating_mul(read) / length;
        }
        let text = bytes.saturating_sub(inside);
        // Escapes are spread over the text.
        let escapes = (self.escapes as f64 * (text as f64 / self.bytes.max(1) as f64)) as u64;
        text - escapes.min(text) + other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_weigh_their_tokens_and_escapes_nothing() {
        let passages =
            [Passage { start: 100, end: 100_100, tokens: 500 }, Passage { start: 100_200, end: 100_300, tokens: 0 }];
        let prompt = Prompt { bytes: 100_400, passages: &passages, ..Prompt::default() };
        assert_eq!(prompt.weight(), 100 + 2000 + 100 + 100);
        assert_eq!([0, 100, 50_100, 100_100, 100_250].map(|bytes| prompt.weight_of(bytes)), [0, 100, 1100, 2100, 2200]);
        let escaped = Prompt { bytes: 6000, escapes: 4000, ..Prompt::default() };
        assert_eq!((escaped.weight(), escaped.weight_of(3000)), (2000, 1000));
        assert_eq!(Prompt { bytes: 70, ..Prompt::default() }.weight(), 70);
    }

    #[test]
    fn blocks_and_bytes_are_each_others_inverse() {
        for layout in [Layout::Growing, Layout::Fixed(2048), Layout::Fixed(0)] {
            for blocks in 0..2000 {
                let bytes = layout.bytes(blocks);
                assert_eq!(layout.blocks(bytes), blocks, "{layout:?}");
                assert!(blocks == 0 || layout.blocks(bytes - 1) == blocks - 1, "{layout:?}");
            }
        }
        assert_eq!(Layout::Growing.blocks(512 * 1024), 1160);
    }
}
