//! Guards: differences between two texts that no similarity of their vectors outweighs.
//!
//! An embedding captures the topic of a text. One answer serving two texts depends on details that embeddings capture
//! badly: numbers, names, negations, the roles of actor and object. [`Traits`] holds these for a text and is computed
//! once. [`compare()`] compares two and finds either a [`Guard`] that separates them, or [`Soft`] differences for
//! [`confidence`](super::confidence) to weigh.

mod added;
mod compare;
mod contrasts;
mod lemma;
mod letters;
mod lexicon;
mod order;
mod parts;
#[cfg(test)]
mod planted;
mod quantity;
mod question;
mod replaced;
mod scan;
mod spelling;
mod traits;
mod warm;
mod words;

pub use self::{
    compare::compare,
    traits::Traits,
    warm::{is_warm, warm_up},
};

/// Difference that separates two texts.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Guard {
    /// Different numbers, in figures or in words.
    Numbers,
    /// Different dates or times.
    Dates,
    /// Different versions.
    Versions,
    /// The same number with another unit: 5 km and 5 miles.
    Units,
    /// Different web, mail or file addresses.
    Urls,
    /// Different code, or operators.
    Code,
    /// Different command-line options.
    Flags,
    /// Different identifiers: letters with digits, or joined by symbols.
    Identifiers,
    /// Another form of the answer is requested: JSON, a list, short.
    Form,
    /// A quotation that the other text lacks.
    Quotes,
    /// One negates the other.
    Negation,
    /// Mutually exclusive words: on and off, Monday and Friday.
    Antonym,
    /// A name is replaced by another word, or what stands in the only place that differs.
    Names,
    /// Two words are swapped: from A to B, from B to A.
    Order,
    /// Different question words, such as why and how.
    Question,
    /// Different languages, or other words in a language other than English.
    Language,
    /// One text says what the other does, and more, or "all", "only" and the like differ.
    Added,
    /// One text says much more than the other, or is too long to compare.
    Length,
}

impl Guard {
    /// All guards, roughly in the order of evaluation.
    pub const ALL: [Self; 18] = [
        Self::Numbers,
        Self::Dates,
        Self::Versions,
        Self::Units,
        Self::Urls,
        Self::Code,
        Self::Flags,
        Self::Identifiers,
        Self::Form,
        Self::Quotes,
        Self::Negation,
        Self::Antonym,
        Self::Names,
        Self::Order,
        Self::Question,
        Self::Language,
        Self::Added,
        Self::Length,
    ];

    /// Label for metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Numbers => "numbers",
            Self::Dates => "dates",
            Self::Versions => "versions",
            Self::Units => "units",
            Self::Urls => "urls",
            Self::Code => "code",
            Self::Flags => "flags",
            Self::Identifiers => "identifiers",
            Self::Form => "form",
            Self::Quotes => "quotes",
            Self::Negation => "negation",
            Self::Antonym => "antonym",
            Self::Names => "names",
            Self::Order => "order",
            Self::Question => "question",
            Self::Language => "language",
            Self::Added => "added",
            Self::Length => "length",
        }
    }
}

/// Result of comparing two texts.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Guard that separates the two texts whatever their vectors.
    pub guard: Option<Guard>,
    /// True if the two texts are equal except for spaces, punctuation at the ends of words, and case.
    pub alike: bool,
    /// Other differences.
    pub soft: Soft,
}

/// Differences that make it less likely that one answer serves both.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Soft {
    /// Words of the longer text.
    pub words: f32,
    /// 1 if "in", "for", "after" and the like differ.
    pub prepositions: f32,
    /// Words on only one side that narrow the question, up to 3.
    pub restricts: f32,
    /// Common numbers, dates, identifiers and the like, up to 3.
    pub matched: f32,
    /// Names on only one side, up to 3.
    pub names: f32,
    /// True if the texts ask the same with the same words, and differ at most in phrasing.
    pub same_words: bool,
    /// True if neither has a content word that the other lacks, and none is used differently ("zoom out", "forced").
    pub same_content: bool,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn guard(one: &str, other: &str) -> Option<Guard> {
        let (one, other) = (Traits::of(one), Traits::of(other));
        let found = compare(&one, &other).guard;
        assert_eq!(found, compare(&other, &one).guard, "a comparison has no direction");
        found
    }

    #[test]
    fn small_words_that_change_the_sense_are_detected() {
        let soft = |one: &str, other: &str| compare(&Traits::of(one), &Traits::of(other)).soft;
        assert_eq!(guard("What is gen y?", "What is gen z?"), Some(Guard::Names));
        assert!(!soft("How do I zoom the screen?", "How do I zoom out the screen?").same_content);
        assert!(!soft("What is a force?", "What is forced?").same_content);
        assert!(soft("Where can I run?", "Where can I run in the evening?").restricts > 0.5);
        assert!(soft("jobs in ten years", "jobs after ten years").prepositions > 0.5);
        assert!(soft("What does SMTP do?", "What is SMTP?").prepositions > 0.5);
        let same = soft("How do I boil 3 eggs?", "how to boil three eggs");
        assert!(same.same_content && same.matched > 0.5);
    }

    #[test]
    fn each_guard_fires_for_its_difference() {
        for (one, other, expected) in [
            ("Is 7 a prime number?", "Is 9 a prime number?", Guard::Numbers),
            ("What happened on 3 May 1990?", "What happened on 4 May 1990?", Guard::Dates),
            ("What is new in Python version 3.10?", "What is new in Python version 3.1?", Guard::Versions),
            ("How long does it take to run 5 km?", "How long does it take to run 5 miles?", Guard::Units),
            ("Is https://a.org/x down?", "Is https://a.org/y down?", Guard::Urls),
            ("What does `a == b` do?", "What does `a = b` do?", Guard::Code),
            ("What does ls -l do?", "What does ls -a do?", Guard::Flags),
            ("What is max_tokens?", "What is max_retries?", Guard::Identifiers),
            ("Describe the moon as JSON", "Describe the moon as YAML", Guard::Form),
            ("What does \"break a leg\" mean?", "What does \"piece of cake\" mean?", Guard::Quotes),
            ("Why do cats purr?", "Why don't cats purr?", Guard::Negation),
            ("How do I turn on dark mode?", "How do I turn off dark mode?", Guard::Antonym),
            ("How do I subscribe to it?", "How do I unsubscribe from it?", Guard::Antonym),
            ("What speaks for nuclear power?", "What speaks against nuclear power?", Guard::Antonym),
            ("What are the pros of trams?", "What are the pros and cons of trams?", Guard::Antonym),
            ("What is your favourite fact?", "What's your favourite fact and why?", Guard::Question),
            ("Can I earn money by it?", "Can I earn money by it? How?", Guard::Question),
            ("Who is the mayor of Trier?", "Who is the mayor of Mainz?", Guard::Names),
            ("Who is the mayor of trier?", "Who is the mayor of Mainz?", Guard::Names),
            ("flights from Trier to Mainz", "flights from Mainz to Trier", Guard::Order),
            ("Rename field a to d in SQL", "Rename field d to a in SQL", Guard::Order),
            ("Does the shop have an A rating?", "Does the shop have a rating?", Guard::Added),
            ("Did the dog bite the child?", "Did the child bite the dog?", Guard::Order),
            ("Why is the sky blue?", "When is the sky blue?", Guard::Question),
            ("Wie ist das Wetter in Trier?", "What is the weather in Trier?", Guard::Language),
            ("Ist das schon da?", "Ist das schön da?", Guard::Antonym),
            ("¿Cuántos años tiene?", "¿Cuántos anos tiene?", Guard::Antonym),
            ("Is a ≤ b here?", "Is a ≥ b here?", Guard::Code),
            ("Which sign is ↑ there?", "Which sign is ↓ there?", Guard::Code),
            ("Which part is ½ of it?", "Which part is ¼ of it?", Guard::Identifiers),
            ("How much is ٣ here?", "How much is ٥ here?", Guard::Identifiers),
            ("What does 😀 mean?", "What does 😡 mean?", Guard::Code),
            ("ما هي عاصمة فرنسا", "ما هي عاصمة ألمانيا", Guard::Names),
        ] {
            assert_eq!(guard(one, other), Some(expected), "{one} | {other}");
        }
    }

    #[test]
    fn other_languages_are_served_for_the_same_words_alone() {
        for (one, other) in [
            ("Ist Schokolade für Hunde giftig?", "Ist Schokolade für Hunde harmlos?"),
            ("Puis-je conduire après ce médicament ?", "Puis-je dormir après ce médicament ?"),
            ("¿Cómo activo el modo oscuro?", "¿Cómo desactivo el modo oscuro?"),
            ("Posso correre con la febbre?", "Posso correre senza febbre?"),
            ("Kedi süt içer mi?", "Kedi süt içmez mi?"),
            ("Juoko kissa maitoa?", "Eikö kissa juo maitoa?"),
            ("Czy kot pije mleko?", "Czy kot nie pije mleka?"),
            ("A macska iszik tejet?", "A macska nem iszik tejet?"),
            ("Пьёт ли кошка молоко?", "Не пьёт ли кошка молоко?"),
            ("猫は牛乳を飲みますか", "猫は牛乳を飲みませんか"),
            ("猫喝牛奶吗", "猫不喝牛奶吗"),
            ("고양이는 우유를 마시나요", "고양이는 우유를 안 마시나요"),
            ("هل تشرب القطة الحليب", "هل لا تشرب القطة الحليب"),
        ] {
            assert!(guard(one, other).is_some(), "{one} | {other}");
        }
        for (one, other) in [
            ("Wie ändere ich das Passwort?", "wie ändere ich das passwort"),
            ("¿Cómo activo el modo oscuro?", "cómo activo el modo oscuro"),
            ("猫は牛乳を飲みますか", "猫は牛乳を飲みますか？"),
        ] {
            assert_eq!(guard(one, other), None, "{one} | {other}");
        }
    }

    #[test]
    fn paraphrases_pass() {
        for (one, other) in [
            ("How do I turn on dark mode?", "How can I enable dark mode?"),
            ("How do I turn dark mode on?", "What is the best way to switch on dark mode?"),
            ("What is the capital of the U.S.?", "what's the capital of the United States"),
            ("How much is 1,000 USD in euros?", "how much is one thousand dollars in euros?"),
            ("Why don't cats like water?", "why do cats not like water"),
            ("What is \"Darkweb\"?", "What is the dark web?"),
            ("difference between Trier and Mainz", "difference between Mainz and Trier"),
            ("flights to Mainz from Trier", "flights from Trier to Mainz"),
            ("Is it 5 km?", "is it five kilometers"),
            ("What happened on 3 May 1990?", "what happened on May 3, 1990"),
        ] {
            assert_eq!(guard(one, other), None, "{one} | {other}");
        }
    }

    #[test]
    fn soft_differences_are_measured() {
        let of = |one: &str, other: &str| compare(&Traits::of(one), &Traits::of(other)).soft;
        let same = of("How do I cook rice?", "how can I cook rice");
        assert!(same.same_words && same.same_content);
        let other = of("How do I cook rice slowly?", "How do I cook rice?");
        assert!(!other.same_words && !other.same_content && other.words > same.words);
    }

    #[test]
    fn labels_are_distinct() {
        let labels: std::collections::BTreeSet<_> = Guard::ALL.iter().map(|guard| guard.label()).collect();
        assert_eq!(labels.len(), Guard::ALL.len());
    }

    proptest! {
        #[test]
        fn a_text_matches_itself(text in "(\\PC|[a-z]{1,6}| |10|km|not|\"|turn|on){0,60}") {
            let traits = Traits::of(&text);
            prop_assert_eq!(compare(&traits, &traits).guard, None);
        }

        #[test]
        fn a_comparison_is_symmetric(one in "([A-Z]?[a-z]{1,4} |not |10 |\"a\" |from |to ){0,12}", other in "([A-Z]?[a-z]{1,4} |not |10 |\"a\" |from |to ){0,12}") {
            let (one, other) = (Traits::of(&one), Traits::of(&other));
            prop_assert_eq!(compare(&one, &other).guard, compare(&other, &one).guard);
        }
    }
}
