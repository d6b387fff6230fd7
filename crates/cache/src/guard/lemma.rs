//! Base forms of English words: plurals, past tense and participles are reduced to one spelling, which need not be a
//! word.
//!
//! Lighter than Porter's stemmer (1980) on purpose: "invest" and "investor" stay separate, since questions about them
//! differ.

use std::borrow::Cow;

/// Irregular forms: the base form first.
const IRREGULAR: &str = include_str!("lists/irregular_forms.txt");

/// Base form of a word in lower case.
pub(super) fn lemma(word: &str) -> Cow<'_, str> {
    if !word.is_ascii() || word.len() < 3 {
        return Cow::Borrowed(word);
    }
    if let Some(base) = irregular(word) {
        return Cow::Borrowed(base);
    }
    if word.len() <= 3 {
        return Cow::Borrowed(word);
    }
    let stem = singular(word);
    let stem = participle(&stem).map_or(stem, Cow::Owned);
    spelling(stem)
}

fn irregular(word: &str) -> Option<&'static str> {
    use std::{collections::HashMap, sync::LazyLock};
    static FORMS: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| {
        let forms = IRREGULAR.lines().filter_map(|line| Some((line.split(' ').next()?, line)));
        forms.flat_map(|(base, line)| line.split(' ').map(move |form| (form, base))).collect()
    });
    FORMS.get(word).copied()
}

/// Removes the ending of a plural, or of the third person.
fn singular(word: &str) -> Cow<'_, str> {
    let strip = |ending: &str| word.strip_suffix(ending);
    if let Some(stem) = strip("ies").filter(|stem| stem.len() > 1) {
        return Cow::Owned(format!("{stem}y"));
    }
    for ending in ["sses", "shes", "ches", "xes", "zzes", "oes"] {
        if word.ends_with(ending) {
            return Cow::Borrowed(&word[..word.len() - 2]);
        }
    }
    match strip("s") {
        Some(stem) if !stem.ends_with(['s', 'u', 'i']) => Cow::Borrowed(stem),
        _ => Cow::Borrowed(word),
    }
}

/// Removes `-ing` or `-ed` and restores the preceding `e`.
fn participle(word: &str) -> Option<String> {
    if let Some(stem) = word.strip_suffix("ied").filter(|stem| stem.len() > 1) {
        return Some(format!("{stem}y"));
    }
    let stem = match word.strip_suffix("ing").or_else(|| word.strip_suffix("ed").filter(|stem| !stem.ends_with('e'))) {
        Some(stem) if stem.len() >= 2 && stem.bytes().any(vowel) => stem,
        _ => return None,
    };
    let [.., before, last] = stem.as_bytes() else { return None };
    let doubled = before == last && !vowel(*last) && !matches!(last, b'l' | b's' | b'z');
    if doubled {
        return Some(stem[..stem.len() - 1].to_owned());
    }
    // `mak(ing)`, `us(ing)`: short and open. A longer word loses its `e` in `spelling` anyway.
    let open = !vowel(*last) && !matches!(last, b'w' | b'x' | b'y') && vowel(*before);
    let short = stem.len() == 2 || stem.len() == 3 && !vowel(stem.as_bytes()[0]);
    Some(if open && short || stem.len() == 2 && *last == b'u' { format!("{stem}e") } else { stem.to_owned() })
}

/// Unifies British and American spelling and drops a silent `e`, which participles have lost.
fn spelling(stem: Cow<'_, str>) -> Cow<'_, str> {
    let mut stem = stem;
    for (one, other) in [("isation", "ization"), ("our", "or"), ("yse", "yze"), ("ise", "ize"), ("ll", "l")] {
        if stem.len() >= one.len() + 3
            && let Some(front) = stem.strip_suffix(one)
        {
            stem = Cow::Owned(format!("{front}{other}"));
        }
    }
    match stem.strip_suffix('e') {
        Some(front) if front.len() >= 4 => Cow::Owned(front.to_owned()),
        _ => stem,
    }
}

fn vowel(byte: u8) -> bool {
    matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u' | b'y')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_have_one_base() {
        for forms in [
            "make makes making made",
            "create creates creating created",
            "stop stops stopping stopped",
            "study studies studying studied",
            "buy buys buying bought",
            "hope hopes hoping hoped",
            "watch watches watching watched",
            "use using used uses",
            "organise organize organizing",
            "colour color colors",
            "cancel cancelled canceled cancelling",
            "child children",
            "invest invests investing invested",
            "lose losing lost",
            "box boxes",
            "run running ran",
            "eat eating ate",
        ] {
            let stems: Vec<_> = forms.split(' ').map(|form| lemma(form).into_owned()).collect();
            assert!(stems.windows(2).all(|pair| pair[0] == pair[1]), "{forms}: {stems:?}");
        }
        for (one, other) in [("investor", "invest"), ("hop", "hope"), ("plan", "plane"), ("need", "ned"), ("bus", "bu")]
        {
            assert_ne!(lemma(one), lemma(other));
        }
    }
}
