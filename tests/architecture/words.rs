//! Finds names that the project has retired, in identifiers and in file names of `src`.

use std::collections::BTreeMap;

use super::{
    ratchet::{self, Count},
    source::Source,
};

/// Words that are no part of an identifier or of a file name: `admission_desk`, `HallGuest`.
const RETIRED: &str = "desk desks hall halls usher ushers guest guests errand errands purse purses shelf shelves traveller travellers \
    told tell tells house houses hear hears heard tend tends tended mend mends mended noted rehearsal lifeline \
    inquiry pilot pilots passenger passengers particulars vitals roof door doors lessons habit habits patient \
    outlook";

/// Words that say too little as the name of a file, although they may be part of identifiers.
const RETIRED_FILES: &str = "asked attempted bill board company deal disk drafts early face held joint late line meaning next \
    others patience pump readings rescue roll seat stand_in study tail unread wall watchers way would";

/// The retired names of each room: different identifiers that hold a retired word, and files.
pub(crate) fn counts(sources: &[&Source]) -> Vec<Count> {
    let mut found = BTreeMap::new();
    for source in sources {
        let mut add = |breach: String| {
            found.entry((source.room(), breach)).or_insert(&source.file);
        };
        for identifier in &source.identifiers {
            if let Some(word) = words(identifier).into_iter().find(|word| is_among(word, RETIRED)) {
                add(format!("`{identifier}`: `{word}` is retired: choose a word of the field"));
            }
        }
        for part in source.module.iter().skip(1) {
            if is_among(part, RETIRED_FILES) || words(part).iter().any(|word| is_among(word, RETIRED)) {
                add(format!("`{part}` is retired as the name of a file or folder"));
            }
        }
    }
    let found = found.into_iter().map(|((room, breach), file)| (room, format!("{file}: {breach}")));
    ratchet::count("words", found)
}

fn is_among(word: &str, words: &str) -> bool {
    words.split_whitespace().any(|other| other == word)
}

/// The parts of an identifier in lower case: `HTTPDesk_v2` is `http`, `desk`, `v2`.
fn words(identifier: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let letters: Vec<char> = identifier.chars().collect();
    for (at, letter) in letters.iter().enumerate() {
        let after_small = at > 0 && !letters[at - 1].is_uppercase();
        let before_small = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        if *letter == '_' || letter.is_uppercase() && (after_small || before_small) {
            words.push(std::mem::take(&mut word));
        }
        if *letter != '_' {
            word.extend(letter.to_lowercase());
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn identifiers_fall_into_words() {
    let cases = [
        ("admission_desk", vec!["admission", "desk"]),
        ("AdmissionDesk", vec!["admission", "desk"]),
        ("HTTPDesk", vec!["http", "desk"]),
        ("MAX_GUESTS", vec!["max", "guests"]),
        ("r#tell", vec!["r#tell"]),
        ("_", vec![]),
    ];
    for (identifier, expected) in cases {
        assert_eq!(words(identifier), expected, "{identifier}");
    }
}

#[test]
fn retired_names_are_found() {
    let found = |file: &str, text: &str| {
        let source = Source::read(file, &format!("//! Made up.\n{text}")).unwrap();
        counts(&[&source]).iter().map(|count| count.number).sum::<usize>()
    };
    assert_eq!(found("src/fleet/mod.rs", "struct HallDesk; fn f(_: HallDesk) { let told = 1; told + told; }"), 2);
    assert_eq!(found("src/fleet/mod.rs", "table! { x.tell(), \"desk\" } // desk"), 1);
    assert_eq!(found("src/fleet/mod.rs", "fn reattend(helpdesk: u8, extend: u8, would: u8) {}"), 0);
    assert_eq!(found("src/fleet/hall.rs", ""), 1);
    assert_eq!(found("src/fleet/would.rs", ""), 1);
}
