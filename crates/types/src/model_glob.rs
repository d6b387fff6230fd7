//! Patterns of model names.

use std::fmt;

use super::Name;

/// A model's name, or a pattern of names in which `*` stands for any characters: `claude-*`, `*/llama-*-instruct`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelGlob(pub Name);

impl ModelGlob {
    /// True if it stands for several names.
    pub fn is_pattern(&self) -> bool {
        self.0.contains('*')
    }

    /// Number of characters that are given. Of two patterns that match a name the one with more of them goes first.
    pub fn precision(&self) -> usize {
        self.0.bytes().filter(|byte| *byte != b'*').count()
    }

    /// True if the whole of `model` matches. Linear in its length for each star.
    pub fn matches(&self, model: &str) -> bool {
        let Some((start, rest)) = self.0.split_once('*') else { return *self.0 == *model };
        let Some(mut left) = model.strip_prefix(start) else { return false };
        let mut pieces = rest.split('*').peekable();
        while let Some(piece) = pieces.next() {
            if pieces.peek().is_none() {
                return left.ends_with(piece);
            }
            let Some(at) = left.find(piece) else { return false };
            left = &left[at + piece.len()..];
        }
        true
    }
}

impl fmt::Display for ModelGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_glob_matches_what_its_pieces_make(pieces in prop::collection::vec("[ab.]{0,3}", 1..5), fill in prop::collection::vec("[abc]{0,3}", 4)) {
            let glob = ModelGlob(pieces.join("*").into());
            let made: String = pieces.iter().zip(fill.iter().map(String::as_str).chain([""])).enumerate()
                .map(|(at, (piece, fill))| if at + 1 < pieces.len() { format!("{piece}{fill}") } else { piece.clone() })
                .collect();
            prop_assert!(glob.matches(&made), "{glob:?} {made}");
            prop_assert_eq!(glob.matches("xyz"), pieces.concat().is_empty() && pieces.len() > 1);
        }
    }

    #[test]
    fn a_glob_covers_the_whole_name() {
        let matches = |glob: &str, model: &str| ModelGlob(glob.into()).matches(model);
        assert!(matches("qwen-*", "qwen-7b") && matches("*-instruct", "a-instruct") && matches("*", "any"));
        assert!(!matches("qwen-*", "my-qwen-7b") && !matches("qwen", "qwen-7b") && !matches("ab*ba", "aba"));
        assert!(matches("a*b*c", "a-b-b-c") && !matches("a*b*c", "a-c-b"));
        assert!(matches("auto", "auto") && !matches("auto", "Auto") && matches("claude-*", "claude-"));
    }

    #[test]
    fn the_pattern_with_more_of_a_name_is_more_precise() {
        let precision = |glob: &str| ModelGlob(glob.into()).precision();
        assert!(precision("*-instruct") > precision("llama-*") && precision("a*b*") < precision("abc*"));
        assert_eq!((precision("*"), precision("**"), precision("m")), (0, 0, 1));
    }
}
