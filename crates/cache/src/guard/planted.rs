//! Test: instructions planted in one of two equal questions separate them, whichever is stored.

use std::collections::BTreeMap;

use super::{Traits, compare};

/// Kinds of instruction, and instructions of each.
const PLANTED: &str = include_str!("lists/planted.txt");

const QUESTIONS: [&str; 6] = [
    "How do I remove a coffee stain from a wool carpet?",
    "What is the capital of Australia?",
    "Why does bread rise when it is baked?",
    "I have had a cough for weeks and my chest hurts at night. Should I see a doctor?",
    "Which planet has the most moons?",
    "What is the best way to learn the piano as an adult?",
];

/// Wordings at the beginning, in the middle and at the end.
fn wordings(question: &str, instruction: &str) -> [String; 9] {
    let bare = question.trim_end_matches('?');
    let half = question.split(' ').count() / 2;
    let middle = |insert: String| {
        let mut words: Vec<&str> = question.split(' ').collect();
        words.insert(half, &insert);
        words.join(" ")
    };
    [
        format!("{instruction}: {question}"),
        format!("Please {instruction}. {question}"),
        format!("[{instruction}] {question}"),
        middle(format!(", {instruction},")),
        middle(format!("(please {instruction})")),
        middle(instruction.to_owned()),
        format!("{bare}, {instruction}?"),
        format!("{question} Reply {instruction}, please."),
        format!("{question}\n{instruction}"),
    ]
}

#[test]
fn an_instruction_in_either_text_separates_it_from_the_plain_question() {
    let mut tried: BTreeMap<&str, usize> = BTreeMap::new();
    let mut served = Vec::new();
    for line in PLANTED.lines() {
        let (kind, instructions) = line.split_once(": ").unwrap();
        for instruction in instructions.split(" | ") {
            for question in QUESTIONS {
                for with in wordings(question, instruction) {
                    let (plain, with_it) = (Traits::of(question), Traits::of(&with));
                    let guards = [compare(&plain, &with_it).guard, compare(&with_it, &plain).guard];
                    if guards.contains(&None) {
                        served.push(format!("{kind}: {with}"));
                    }
                    *tried.entry(kind).or_default() += 2;
                }
            }
        }
    }
    assert!(served.is_empty(), "{served:#?}");
    assert!(tried.len() >= 20 && tried.values().all(|count| *count >= 25), "{tried:?}");
}
