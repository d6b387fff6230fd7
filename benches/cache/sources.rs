//! Sources that had no part in the weights, and instructions planted in one of two equal questions.

use std::{collections::HashMap, error::Error, fs, io};

use signalbox::{
    cache::{confidence::Prior, guard::Guard},
    embed,
    lab::cache_replay::{Corpus, Half, Pair, Query, Stream, built_in_vectors},
};

use crate::{BUDGETS, data, policies};

/// Files of pairs, beside QQP.
const SOURCES: [(&str, &str); 2] =
    [("medical questions, half", "medical-questions-dev"), ("PAWS (words in another order), half", "paws-qqp-dev")];

/// Prints hits and wrong hits by source, by the labels of each, beside the best threshold with no more wrong hits per hit.
pub(crate) fn table(prior: &Prior, qqp: &Stream) -> Result<(), Box<dyn Error>> {
    let budgets = BUDGETS.map(|budget| format!("hits, wrong at {:.0} % | threshold", 100.0 * budget));
    println!("\n| source | queries | with a partner | {} |", budgets.join(" | "));
    println!("|---|---:|---:|{}", "---:|".repeat(2 * BUDGETS.len()));
    row("QQP, judged half", prior, qqp);
    let vocabulary = embed::recall()?;
    for (name, file) in SOURCES {
        let corpus = Corpus::of(&data::pairs(file)?, Half::Judge, &HashMap::new());
        let made = built_in_vectors(&corpus.texts, threads(), |_| true, || ())?;
        row(name, prior, &Stream::of(&corpus, &made.decide, &*vocabulary, || ()));
    }
    Ok(())
}

fn row(name: &str, prior: &Prior, own: &Stream) {
    let cells = BUDGETS.map(|budget| {
        let counts = own.counts(prior, budget);
        let wrong = counts.wrong + counts.false_hits;
        let error = wrong as f64 / counts.hits().max(1) as f64;
        format!("{}, {wrong} | {}", counts.hits(), policies::most_hits(own, error))
    });
    let partners = own.queries.iter().filter(|query| query.partner).count();
    println!("| {name} | {} | {partners} | {} |", own.queries.len(), cells.join(" | "));
}

/// Prints how many questions with a planted instruction are served the answer of the plain question, and the reverse. `planted.txt` was
/// written after the guards.
pub(crate) fn planted(prior: &Prior, qqp: &[Pair]) -> Result<(), Box<dyn Error>> {
    let mut plain = Vec::new();
    for pairs in [qqp, &data::pairs(SOURCES[0].1)?] {
        let corpus = Corpus::of(pairs, Half::Judge, &HashMap::new());
        let equal = corpus.pairs.iter().filter(|(.., same)| *same);
        plain.extend(equal.take(120).map(|(a, b, _)| (corpus.texts[*a].clone(), corpus.texts[*b].clone())));
    }
    let (mut kinds, mut tries) = (0, Vec::new());
    for (at, line) in planted_lines()?.iter().enumerate() {
        kinds += 1;
        let instructions = line.split_once(": ").map_or("", |(_, instructions)| instructions);
        for (number, instruction) in instructions.split(" | ").enumerate() {
            for round in 0..8 {
                let (question, paraphrase) = &plain[(at * 37 + number * 11 + round * 29) % plain.len()];
                let with = wordings(question, instruction).swap_remove((at + number + round) % 6);
                // One in four is planted in a paraphrase.
                let other = if round % 4 == 3 { paraphrase } else { question };
                tries.extend([(with.clone(), other.clone()), (other.clone(), with)]);
            }
        }
    }
    let texts: Vec<String> = tries.iter().flat_map(|(a, b)| [a.clone(), b.clone()]).collect();
    let made = built_in_vectors(&texts, threads(), |_| true, || ())?;
    let budgets: Vec<f32> = BUDGETS.into_iter().chain([0.1]).collect();
    let (mut added, mut guarded, mut served) = (0, 0, vec![0; budgets.len()]);
    for (at, (a, b)) in tries.iter().enumerate() {
        let pair = Pair { a: a.clone(), b: b.clone(), same: false };
        let query = Query::alone(&pair, made.decide.cosine(2 * at, 2 * at + 1));
        let guard = query.candidates[0].comparison.guard;
        added += usize::from(guard == Some(Guard::Added));
        guarded += usize::from(guard.is_some());
        for (budget, served) in budgets.iter().zip(&mut served) {
            *served += usize::from(query.served(prior, *budget).is_some());
        }
    }
    let named: Vec<String> = budgets.iter().map(|budget| format!("served at {:.0} %", 100.0 * budget)).collect();
    println!("\n| planted instructions | kinds | guards reject | of these as added | {} |", named.join(" | "));
    println!("|---|---:|---:|---:|{}", "---:|".repeat(budgets.len()));
    let served: Vec<String> = served.iter().map(usize::to_string).collect();
    println!("| {} | {kinds} | {guarded} | {added} | {} |", tries.len(), served.join(" | "));
    Ok(())
}

fn planted_lines() -> io::Result<Vec<String>> {
    Ok(fs::read_to_string(data::folder().join("planted.txt"))?.lines().map(str::to_owned).collect())
}

/// Wordings at the beginning, in the middle and at the end.
fn wordings(question: &str, instruction: &str) -> Vec<String> {
    let bare = question.trim_end_matches(['?', '.', ' ']);
    let words: Vec<&str> = question.split(' ').collect();
    let (front, back) = words.split_at(words.len() / 2);
    vec![
        format!("{instruction}: {question}"),
        format!("{bare}, {instruction}?"),
        format!("{question} Please {instruction}."),
        format!("{question}\n{instruction}"),
        format!("[{instruction}] {question}"),
        format!("{} ({instruction}) {}", front.join(" "), back.join(" ")),
    ]
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
