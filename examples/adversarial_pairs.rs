//! Writes the adversarial set, `benches/cache/adversarial.jsonl`, from the templates beside it: pairs of texts that lie close together
//! and have different meanings, and paraphrases of the same texts.
//!
//! ```sh
//! cargo run --example adversarial_pairs
//! ```
//!
//! Nothing is random. Each line has `a`, `b`, `same`, the `family`, the `template`, and the `half`: coefficients and guards may be made with
//! `fit` and are measured on `judge`. All pairs of a template are in one half. In the family `context` the texts are equal and their context
//! differs; cache keys separate them. In the family `either_order` the values next to each other are the same two parts, exchanged, and ask
//! the same.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program reports on stdout")]

use std::{collections::HashSet, fmt::Write as _, fs, path::PathBuf, process::ExitCode};

use serde_json::json;

/// One template: phrasings of a question, and the values to fill in.
struct Template<'a> {
    family: &'a str,
    name: &'a str,
    phrasings: Vec<&'a str>,
    values: Vec<&'a str>,
}

/// Contexts that give the same question another meaning.
const CONTEXTS: [(&str, &str); 3] = [
    ("system: You are a bank's assistant.", "system: You are a library's assistant."),
    ("user: I bought a phone.", "user: I bought a boat."),
    ("system: Answer in one word.", "system: Answer at length."),
];

fn main() -> ExitCode {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/cache");
    let templates = match fs::read_to_string(folder.join("templates.txt")) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("the templates cannot be read: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut lines = String::new();
    let mut count = 0;
    for (number, template) in read(&templates).iter().enumerate() {
        let half = if number % 2 == 0 { "fit" } else { "judge" };
        for (a, b, same, contexts) in pairs(template) {
            let Template { family, name, .. } = template;
            let row = match contexts {
                None => json!({ "a": a, "b": b, "family": family, "half": half, "same": same, "template": name }),
                Some((one, other)) => json!({
                    "a": a, "b": b, "context_a": one, "context_b": other, "family": family, "half": half, "same": same, "template": name
                }),
            };
            let _ = writeln!(lines, "{row}");
            count += 1;
        }
    }
    let path = folder.join("adversarial.jsonl");
    if let Err(error) = fs::write(&path, lines) {
        eprintln!("{} cannot be written: {error}", path.display());
        return ExitCode::FAILURE;
    }
    println!("{count} pairs in {}", path.display());
    ExitCode::SUCCESS
}

fn read(text: &str) -> Vec<Template<'_>> {
    let (mut templates, mut family): (Vec<Template<'_>>, &str) = (Vec::new(), "");
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix("## ") {
            family = name;
        } else if let Some(name) = line.strip_prefix("# ") {
            if !family.is_empty() {
                templates.push(Template { family, name, phrasings: Vec::new(), values: Vec::new() });
            }
        } else if let Some(template) = templates.last_mut() {
            match line.strip_prefix("= ") {
                Some(value) => template.values.push(value),
                None => template.phrasings.push(line),
            }
        }
    }
    templates
}

type Pair<'a> = (String, String, bool, Option<(&'a str, &'a str)>);

/// Pairs paraphrases of each value, and each value with similar values.
fn pairs(template: &Template<'_>) -> Vec<Pair<'static>> {
    let mut seen = HashSet::new();
    let mut pairs = Vec::new();
    let phrasings = template.phrasings.len();
    let values = template.values.len();
    let mut add = |a: String, b: String, same: bool, contexts: Option<(&'static str, &'static str)>| {
        if (a != b || contexts.is_some()) && seen.insert((a.clone(), b.clone(), contexts)) {
            pairs.push((a, b, same, contexts));
        }
    };
    for value in 0..values {
        let text = |phrasing: usize, value: usize| {
            fill(template.phrasings[phrasing % phrasings], template.values[value % values], phrasing)
        };
        if template.family == "context" {
            for contexts in CONTEXTS {
                add(text(0, value), text(0, value), false, Some(contexts));
            }
            continue;
        }
        let twin = value ^ 1;
        add(text(value, value), text(value + 1, value), true, None);
        add(text(value, value), text(value + 2, value), true, None);
        // The same words except for the value, and other words.
        let exchanged = template.family == "either_order";
        add(text(value, value), text(value, twin), exchanged, None);
        add(text(value, value), text(value + 1, twin), exchanged, None);
        if matches!(template.family, "negation" | "antonym") {
            add(text(value, value), text(value + 2, twin), false, None);
        } else {
            add(text(value, value), text(value + phrasings, value + 2), false, None);
        }
    }
    pairs
}

/// Fills a value into a phrasing, using its spellings in turn.
fn fill(phrasing: &str, value: &str, turn: usize) -> String {
    let spellings: Vec<&str> = value.split('~').collect();
    let spelling = spellings[turn % spellings.len()];
    let (x, y) = spelling.split_once(" | ").unwrap_or((spelling, ""));
    let text = phrasing.replace("{x}", x).replace("{y}", y);
    let mut letters = text.chars();
    // A value at the beginning of a sentence starts with a capital letter.
    match letters.next() {
        Some(first) if phrasing.starts_with("{x} ") && !phrasing.ends_with("{x}") => {
            first.to_uppercase().chain(letters).collect()
        }
        _ => text,
    }
}
