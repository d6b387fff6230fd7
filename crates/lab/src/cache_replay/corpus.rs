//! Labelled pairs as a graph: texts with one meaning form a group, texts linked by pairs form a component.

use std::collections::{HashMap, HashSet};

use xxhash_rust::xxh3::xxh3_64;

/// Two texts with a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The stored text.
    pub a: String,
    /// The query.
    pub b: String,
    /// True if the answer to `a` is correct for `b`.
    pub same: bool,
}

/// Part of a corpus.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Half {
    /// Half for fitting.
    Fit,
    /// Half for evaluation.
    Judge,
    /// Both.
    All,
}

/// Texts of labelled pairs.
#[derive(Clone, Debug, Default)]
pub struct Corpus {
    /// Each text once, in the order of the pairs.
    pub texts: Vec<String>,
    /// Pairs as indexes of texts.
    pub pairs: Vec<(usize, usize, bool)>,
    /// Group of each text.
    groups: Vec<usize>,
    /// Corrected labels of pairs of texts.
    corrected: HashMap<(usize, usize), bool>,
}

/// Hash that identifies a text in files of labels.
pub fn fingerprint(text: &str) -> u64 {
    xxh3_64(text.as_bytes())
}

impl Corpus {
    /// Builds the graph of `pairs`, or of one half. Halves are split by component, so that no text and no paraphrase is in both; a component is
    /// assigned by the hash of its smallest text, independent of the order of the pairs.
    ///
    /// `corrections` are revised labels by the fingerprints of both texts; they apply to these two texts alone.
    pub fn of(pairs: &[Pair], half: Half, corrections: &HashMap<(u64, u64), bool>) -> Self {
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut texts: Vec<&str> = Vec::new();
        let mut number = |text| {
            *numbers.entry(text).or_insert_with(|| {
                texts.push(text);
                texts.len() - 1
            })
        };
        let edges: Vec<(usize, usize, bool)> =
            pairs.iter().map(|pair| (number(&pair.a), number(&pair.b), pair.same)).collect();
        let components = unite(texts.len(), edges.iter().map(|(a, b, _)| (*a, *b)));
        let mut smallest: Vec<&str> = texts.clone();
        for (text, root) in components.iter().enumerate() {
            smallest[*root] = smallest[*root].min(texts[text]);
        }
        let taken = |text: usize| match half {
            Half::All => true,
            Half::Fit => fingerprint(smallest[components[text]]) % 10 < 5,
            Half::Judge => fingerprint(smallest[components[text]]) % 10 >= 5,
        };
        let kept: Vec<usize> = (0..texts.len()).filter(|text| taken(*text)).collect();
        let place: HashMap<usize, usize> = kept.iter().enumerate().map(|(at, text)| (*text, at)).collect();
        let pairs: Vec<(usize, usize, bool)> = edges
            .iter()
            .filter_map(|(a, b, same)| Some((*place.get(a)?, *place.get(b)?, *same)))
            .filter(|(a, b, _)| a != b)
            .collect();
        let groups = unite(kept.len(), pairs.iter().filter(|(.., same)| *same).map(|(a, b, _)| (*a, *b)));
        let texts: Vec<String> = kept.iter().map(|text| texts[*text].to_owned()).collect();
        let by_print: HashMap<u64, usize> =
            texts.iter().enumerate().map(|(at, text)| (fingerprint(text), at)).collect();
        let corrected = corrections
            .iter()
            .filter_map(|((a, b), same)| Some(((*by_print.get(a)?, *by_print.get(b)?), *same)))
            .collect();
        Self { texts, pairs, groups, corrected }
    }

    /// True if one answer serves both by the labels. Texts that no label joins count as different.
    pub fn same(&self, entry: usize, query: usize) -> bool {
        let corrected = self.corrected.get(&(entry, query)).or_else(|| self.corrected.get(&(query, entry)));
        corrected.copied().unwrap_or(self.groups[entry] == self.groups[query])
    }

    /// Groups of `texts`.
    pub(super) fn groups_of(&self, texts: &[usize]) -> HashSet<usize> {
        texts.iter().map(|text| self.groups[*text]).collect()
    }

    /// True if the group of `text` is one of `groups`.
    pub(super) fn has_partner(&self, text: usize, groups: &HashSet<usize>) -> bool {
        groups.contains(&self.groups[text])
    }

    /// Splits the texts of a stream: the first of each pair is stored; the second is a query, unless it is stored.
    pub fn sides(&self) -> (Vec<usize>, Vec<usize>) {
        let (mut stored, mut store) = (HashSet::new(), Vec::new());
        for (a, ..) in &self.pairs {
            if stored.insert(*a) {
                store.push(*a);
            }
        }
        let (mut asked, mut queries) = (HashSet::new(), Vec::new());
        for (_, b, _) in &self.pairs {
            if !stored.contains(b) && asked.insert(*b) {
                queries.push(*b);
            }
        }
        (store, queries)
    }
}

/// Root of an element; halves the path to it (union-find).
fn root(parents: &mut [usize], mut at: usize) -> usize {
    while parents[at] != at {
        parents[at] = parents[parents[at]];
        at = parents[at];
    }
    at
}

/// Root of each of `count` elements after joining `edges`.
fn unite(count: usize, edges: impl Iterator<Item = (usize, usize)>) -> Vec<usize> {
    let mut parents: Vec<usize> = (0..count).collect();
    for (one, other) in edges {
        let (one, other) = (root(&mut parents, one), root(&mut parents, other));
        parents[one.max(other)] = one.min(other);
    }
    (0..count).map(|at| root(&mut parents, at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(a: &str, b: &str, same: bool) -> Pair {
        Pair { a: a.into(), b: b.into(), same }
    }

    #[test]
    fn texts_with_one_meaning_form_a_group() {
        let pairs = [pair("a", "b", true), pair("b", "c", true), pair("c", "d", false), pair("x", "y", true)];
        let corpus = Corpus::of(&pairs, Half::All, &HashMap::new());
        let at = |text: &str| corpus.texts.iter().position(|each| each == text).unwrap();
        assert!(corpus.same(at("a"), at("c")) && !corpus.same(at("a"), at("d")) && !corpus.same(at("a"), at("x")));
        let corrections = HashMap::from([((fingerprint("c"), fingerprint("d")), true)]);
        let corpus = Corpus::of(&pairs, Half::All, &corrections);
        assert!(corpus.same(at("d"), at("c")) && !corpus.same(at("a"), at("d")));
    }

    #[test]
    fn halves_share_no_component() {
        let names: Vec<String> = (0..60).map(|at| format!("t{at}")).collect();
        let pairs: Vec<Pair> =
            (0..59).filter(|at| at % 3 > 0).map(|at| pair(&names[at], &names[at + 1], at % 2 == 0)).collect();
        let [fit, judge, all] =
            [Half::Fit, Half::Judge, Half::All].map(|half| Corpus::of(&pairs, half, &HashMap::new()));
        assert!(fit.texts.iter().all(|text| !judge.texts.contains(text)));
        assert_eq!(
            (fit.pairs.len() + judge.pairs.len(), fit.texts.len() + judge.texts.len()),
            (all.pairs.len(), all.texts.len())
        );
        let reversed: Vec<Pair> = pairs.iter().rev().cloned().collect();
        let again = Corpus::of(&reversed, Half::Fit, &HashMap::new());
        assert!(again.texts.iter().all(|text| fit.texts.contains(text)));
    }
}
