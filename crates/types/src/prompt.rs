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
}

#[cfg(test)]
mod tests {
    use super::*;

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
