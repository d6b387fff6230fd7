//! A vocabulary of byte-pair encoding, kept small: a tenth of a megabyte to two compiled in, ten in memory.
//!
//! `crates/prompt/assets/tokens/README.md` describes the file. Tokens are numbered by rank, which is the order of their merges.

use std::io::Read;

use flate2::read::DeflateDecoder;

/// Number of buckets of tokens by their first two bytes.
const BUCKETS: usize = 1 << 16;

/// A vocabulary of byte-pair encoding. Every single byte is a token.
#[derive(Debug)]
pub(super) struct Vocabulary {
    /// Tokens in the order of their bytes: where each ends, its first eight bytes and its rank.
    bytes: Vec<u8>,
    ends: Vec<u32>,
    heads: Vec<u64>,
    ranks: Vec<u32>,
    /// For each pair of first bytes, the number of tokens before the first that begins with it.
    buckets: Vec<u32>,
    /// By rank.
    tokens: Vec<Token>,
    /// By the rank of a left half, the range in `merges` of the right halves and results.
    merge_ends: Vec<u32>,
    merges: Vec<(u32, u32)>,
}

/// A token, in terms of others.
#[derive(Copy, Clone, Debug)]
struct Token {
    length: u32,
    /// The longest token that it begins with, other than itself; itself for a single byte.
    shorter: u32,
    /// The halves of its last merge; itself twice for a single byte.
    halves: (u32, u32),
}

/// A file that is no vocabulary.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a vocabulary: {0}")]
pub(super) struct VocabularyError(&'static str);

impl Vocabulary {
    /// Reads a file. Takes 10 to 50 ms.
    pub(super) fn read(file: &[u8]) -> Result<Self, VocabularyError> {
        let mut data = Vec::new();
        DeflateDecoder::new(file).read_to_end(&mut data).map_err(|_| VocabularyError("it cannot be inflated"))?;
        let columns = Columns::read(&data).ok_or(VocabularyError("it is cut short"))?;
        let mut made = Self::sorted(&columns).ok_or(VocabularyError("its tokens are not in order"))?;
        made.relate(&columns).ok_or(VocabularyError("a token has no halves"))?;
        Ok(made)
    }

    /// The tokens in the order of their bytes, and the longest that each begins with.
    fn sorted(columns: &Columns<'_>) -> Option<Self> {
        let count = columns.lengths.len();
        let mut made = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(count),
            heads: Vec::with_capacity(count),
            ranks: Vec::with_capacity(count),
            buckets: vec![0; BUCKETS + 1],
            tokens: vec![Token { length: 0, shorter: 0, halves: (0, 0) }; count],
            merge_ends: Vec::new(),
            merges: Vec::new(),
        };
        let (mut rest, mut token) = (columns.rest, Vec::new());
        // The tokens that the current one begins with, by length: the bytes' order puts them before it.
        let mut begun: Vec<(u32, u32)> = Vec::new();
        for at in 0..count {
            let (shared, length) = (usize::from(columns.shared[at]), usize::from(columns.lengths[at]));
            let added = length.checked_sub(shared).filter(|_| shared <= token.len() && length > 0)?;
            let previous = std::mem::take(&mut token);
            token.extend_from_slice(&previous[..shared]);
            token.extend_from_slice(rest.split_off(..added)?);
            if token <= previous {
                return None;
            }
            let rank = columns.rank(at);
            while begun.last().is_some_and(|&(length, _)| length as usize > shared) {
                begun.pop();
            }
            let shorter = begun.last().map_or(rank, |&(_, rank)| rank);
            if begun.is_empty() && length > 1 {
                return None;
            }
            begun.push((length as u32, rank));
            let slot = made.tokens.get_mut(rank as usize).filter(|slot| slot.length == 0)?;
            *slot = Token { length: length as u32, shorter, halves: (rank, rank) };
            made.bytes.extend_from_slice(&token);
            made.ends.push(made.bytes.len() as u32);
            made.heads.push(head(&token));
            made.ranks.push(rank);
            made.buckets[bucket(&token) + 1] += 1;
        }
        for at in 0..BUCKETS {
            made.buckets[at + 1] += made.buckets[at];
        }
        (0..=u8::MAX).all(|byte| made.longest(&[byte]).is_some()).then_some(made)
    }

    /// Finds the halves of each token, and from them the merge of each pair.
    fn relate(&mut self, columns: &Columns<'_>) -> Option<()> {
        let mut start = 0;
        let mut lefts = vec![0_u32; self.tokens.len() + 1];
        for at in 0..self.ranks.len() {
            let end = self.ends[at] as usize;
            let token = &self.bytes[start..end];
            if token.len() > 1 {
                let (left, right) = token.split_at_checked(usize::from(columns.splits[at]))?;
                let rank = self.ranks[at];
                let halves = (self.beginning(rank, left.len())?, self.find(right)?);
                if halves.0 >= rank || halves.1 >= rank {
                    return None;
                }
                self.tokens[rank as usize].halves = halves;
                lefts[halves.0 as usize + 1] += 1;
            }
            start = end;
        }
        for at in 1..lefts.len() {
            lefts[at] += lefts[at - 1];
        }
        self.merges = vec![(0, 0); lefts[self.tokens.len()] as usize];
        self.merge_ends = lefts;
        // Each start moves to its end while its range is filled.
        for (rank, token) in self.tokens.iter().enumerate().filter(|(_, token)| token.length > 1) {
            let end = &mut self.merge_ends[token.halves.0 as usize];
            self.merges[*end as usize] = (token.halves.1, rank as u32);
            *end += 1;
        }
        for rank in 0..self.tokens.len() {
            let range = self.merge_range(rank as u32);
            self.merges[range].sort_unstable();
        }
        Some(())
    }

    /// The length of a token in bytes.
    pub(super) fn length(&self, token: u32) -> usize {
        self.tokens[token as usize].length as usize
    }

    /// The longest token that `token` begins with, other than itself.
    pub(super) fn shorter(&self, token: u32) -> Option<u32> {
        let shorter = self.tokens[token as usize].shorter;
        (shorter != token).then_some(shorter)
    }

    /// The token of exactly these bytes.
    pub(super) fn find(&self, text: &[u8]) -> Option<u32> {
        self.longest(text).filter(|&token| self.length(token) == text.len())
    }

    /// The token of `length` that a token begins with.
    fn beginning(&self, mut token: u32, length: usize) -> Option<u32> {
        while self.length(token) > length {
            token = self.shorter(token)?;
        }
        (self.length(token) == length).then_some(token)
    }

    /// The longest token that `text` begins with.
    pub(super) fn longest(&self, text: &[u8]) -> Option<u32> {
        if text.is_empty() {
            return None;
        }
        // Every token that the text begins with is a beginning of the last one that is not after the text.
        let (key, wanted) = (bucket(text), head(text));
        let (first, last) = (self.buckets[key] as usize, self.buckets[key + 1] as usize);
        let heads = &self.heads[first..last];
        let equal = heads.partition_point(|&head| head < wanted);
        let many = heads[equal..].partition_point(|&head| head == wanted);
        let within = if many == 0 { 0 } else { self.not_after(first + equal, many, text) };
        let Some(at) = (equal + within).checked_sub(1).map(|at| first + at) else {
            return self.single(text[0]);
        };
        let common = self.token(at).iter().zip(text).take_while(|(one, other)| one == other).count();
        let mut token = self.ranks[at];
        while self.length(token) > common {
            token = self.shorter(token)?;
        }
        Some(token)
    }

    /// Number of the `many` tokens from `first` on that are not after `text`.
    fn not_after(&self, first: usize, many: usize, text: &[u8]) -> usize {
        let (mut low, mut high) = (0, many);
        while low < high {
            let middle = low.midpoint(high);
            if self.token(first + middle) <= text {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The token of a single byte.
    fn single(&self, byte: u8) -> Option<u32> {
        let at = self.buckets[usize::from(byte) << 8] as usize;
        (self.token_or_none(at)? == [byte]).then(|| self.ranks[at])
    }

    /// True if byte-pair encoding of the joined bytes of two tokens leaves these two tokens: no merge crosses them.
    ///
    /// Takes both apart in reverse order of their merges, and looks at each step for a merge across that comes first.
    pub(super) fn stay_apart(&self, mut left: u32, mut right: u32) -> bool {
        let mut limit = u32::MAX;
        loop {
            if self.merge(left, right).is_some_and(|merged| merged < limit) {
                return false;
            }
            let (inner_left, inner_right) = (self.tokens[left as usize].halves.1, self.tokens[right as usize].halves.0);
            let (left_splits, right_splits) = (inner_left != left, inner_right != right);
            // The later merge is undone first; a merge across it would have had to come before.
            if left_splits && (left > right || !right_splits) {
                limit = left;
                left = inner_left;
            } else if right_splits {
                limit = right + 1;
                right = inner_right;
            } else {
                return true;
            }
        }
    }

    /// The token that a pair is merged into.
    fn merge(&self, left: u32, right: u32) -> Option<u32> {
        let merges = &self.merges[self.merge_range(left)];
        merges.binary_search_by_key(&right, |merge| merge.0).ok().map(|at| merges[at].1)
    }

    fn merge_range(&self, left: u32) -> std::ops::Range<usize> {
        let start = left.checked_sub(1).map_or(0, |before| self.merge_ends[before as usize]);
        start as usize..self.merge_ends[left as usize] as usize
    }

    fn token(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[at] as usize]
    }

    fn token_or_none(&self, at: usize) -> Option<&[u8]> {
        (at < self.ends.len()).then(|| self.token(at))
    }
}

/// The first bytes as a number that has their order. Missing ones count as 0.
fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(eight) => u64::from_be_bytes(*eight),
        None => bytes.iter().enumerate().fold(0, |head, (at, &byte)| head | u64::from(byte) << (56 - 8 * at)),
    }
}

/// The first two bytes as a number.
fn bucket(bytes: &[u8]) -> usize {
    (head(&bytes[..bytes.len().min(2)]) >> 48) as usize
}

/// The columns of a file, with one entry for each token in the order of their bytes.
struct Columns<'a> {
    /// Bytes shared with the token before.
    shared: &'a [u8],
    lengths: &'a [u8],
    /// Lengths of left halves.
    splits: &'a [u8],
    ranks: [&'a [u8]; 3],
    /// The bytes that are not shared, of all tokens.
    rest: &'a [u8],
}

impl<'a> Columns<'a> {
    fn read(data: &'a [u8]) -> Option<Self> {
        let (count, data) = data.split_first_chunk()?;
        let count = u32::from_le_bytes(*count) as usize;
        let mut columns = data.chunks_exact(count.max(1));
        let mut next = || columns.next();
        let (shared, lengths, splits, ranks) = (next()?, next()?, next()?, [next()?, next()?, next()?]);
        Some(Self { shared, lengths, splits, ranks, rest: &data[6 * count..] })
    }

    fn rank(&self, at: usize) -> u32 {
        u32::from_le_bytes([self.ranks[0][at], self.ranks[1][at], self.ranks[2][at], 0])
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn deflated(data: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(data).unwrap();
        packer.finish().unwrap()
    }

    /// A file of all single bytes, then `ab` with a left half of `split` bytes.
    fn file(split: u8) -> Vec<u8> {
        let mut tokens: Vec<(Vec<u8>, u8, u8)> = (0..=u8::MAX).map(|byte| (vec![byte], 0, 0)).collect();
        tokens.insert(usize::from(b'b'), (b"ab".to_vec(), 1, split));
        let mut file = (tokens.len() as u32).to_le_bytes().to_vec();
        file.extend(tokens.iter().map(|token| token.1));
        file.extend(tokens.iter().map(|token| token.0.len() as u8));
        file.extend(tokens.iter().map(|token| token.2));
        let rank = |token: &[u8]| if token.len() == 1 { u32::from(token[0]) } else { 256 };
        for byte in 0..3 {
            file.extend(tokens.iter().map(|token| rank(&token.0).to_le_bytes()[byte]));
        }
        file.extend(tokens.iter().flat_map(|token| &token.0[usize::from(token.1)..]));
        file
    }

    #[test]
    fn a_file_is_read_or_refused() {
        let read = |data: &[u8]| Vocabulary::read(&deflated(data));
        let vocabulary = read(&file(1)).unwrap();
        assert_eq!((vocabulary.find(b"ab"), vocabulary.find(b"abc"), vocabulary.find(b"")), (Some(256), None, None));
        assert_eq!((vocabulary.longest(b"abc"), vocabulary.longest(b"ba")), (Some(256), Some(u32::from(b'b'))));
        assert_eq!((vocabulary.shorter(256), vocabulary.shorter(97)), (Some(97), None));
        assert!(!vocabulary.stay_apart(97, 98) && vocabulary.stay_apart(98, 97));
        let reason = |data: &[u8]| read(data).unwrap_err().0;
        assert_eq!(Vocabulary::read(b"???").unwrap_err().0, "it cannot be inflated");
        assert_eq!(reason(b"abc"), "it is cut short");
        assert_eq!(reason(&file(1)[..1000]), "it is cut short");
        assert_eq!(reason(&file(1)[..file(1).len() - 1]), "its tokens are not in order");
        assert_eq!(reason(&file(2)), "a token has no halves");
        assert_eq!(reason(&[0; 4]), "it is cut short");
    }
}
