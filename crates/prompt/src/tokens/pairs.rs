//! Byte-pair encoding of a piece of text, in linear time for any content.
//!
//! After the crate `bpe` (GitHub, "So many tokens, so little time"): an encoding is valid exactly if no merge crosses two
//! neighbours, so that the tokens are found from left to right, the longest first, with steps back at dead ends. Each
//! end of a token is tried once.

use super::vocabulary::Vocabulary;

/// Memory for the pieces of a text.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    tokens: Vec<u32>,
    /// A bit for each position that is not known to be a dead end.
    open: Vec<u64>,
}

impl Scratch {
    /// Tokens of a piece.
    pub(super) fn count(&mut self, vocabulary: &Vocabulary, piece: &[u8]) -> usize {
        if vocabulary.find(piece).is_some() {
            return 1;
        }
        self.encode(vocabulary, piece);
        self.tokens.len()
    }

    fn encode(&mut self, vocabulary: &Vocabulary, piece: &[u8]) {
        let Self { tokens, open } = self;
        tokens.clear();
        open.clear();
        open.resize(piece.len() / 64 + 1, u64::MAX);
        let mut position = 0;
        let mut candidate = vocabulary.longest(piece);
        while let Some(token) = candidate {
            let end = position + vocabulary.length(token);
            let before = tokens.last().copied();
            let is_open = open[end / 64] >> (end % 64) & 1 == 1;
            if is_open && before.is_none_or(|before| vocabulary.stay_apart(before, token)) {
                tokens.push(token);
                position = end;
                candidate = vocabulary.longest(&piece[end..]);
            } else if let Some(shorter) = vocabulary.shorter(token) {
                candidate = Some(shorter);
            } else {
                // No token fits here: the one before is looked at again, and has to be shorter.
                open[position / 64] &= !(1 << (position % 64));
                tokens.pop();
                position -= before.map_or(0, |before| vocabulary.length(before));
                candidate = before;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::openai::OpenAiTokens;
    use signalbox_types::Encoding;

    /// The definition: of all neighbours that can be merged, those of the lowest rank, until none can.
    fn by_definition(piece: &[u8], rank: impl Fn(&[u8]) -> Option<u32>) -> usize {
        let mut parts: Vec<&[u8]> = piece.chunks(1).collect();
        let mut ends: Vec<usize> = (1..=piece.len()).collect();
        loop {
            let start = |at: usize| ends[at] - parts[at].len();
            let merges = (1..parts.len()).filter_map(|at| Some((rank(&piece[start(at - 1)..ends[at]])?, at)));
            let Some((_, at)) = merges.min() else { return parts.len() };
            parts[at] = &piece[start(at - 1)..ends[at]];
            parts.remove(at - 1);
            ends.remove(at - 1);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn pieces_are_counted_as_defined(
            piece in prop_oneof![
                prop::collection::vec(any::<u8>(), 1..60),
                "[ab]{1,80}".prop_map(String::into_bytes),
                "[ \t\n]{1,60}".prop_map(String::into_bytes),
                "[a-zA-Z']{1,60}".prop_map(String::into_bytes),
                "\\PC{1,40}".prop_map(String::into_bytes),
            ],
        ) {
            for encoding in [Encoding::Cl100k, Encoding::O200k] {
                let vocabulary = OpenAiTokens(encoding).vocabulary();
                let counted = super::Scratch::default().count(vocabulary, &piece);
                prop_assert_eq!(counted, by_definition(&piece, |part| vocabulary.find(part)));
            }
        }
    }
}
