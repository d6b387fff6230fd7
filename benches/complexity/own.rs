//! The hand-written prompts (`prompts.txt`, with the material of `pasted.txt`), and how well a score tells the hard ones
//! from the easy ones.

use std::collections::{BTreeMap, BTreeSet};

/// A hand-written prompt.
pub(crate) struct Prompt {
    /// The kind of work it belongs to.
    pub(crate) family: &'static str,
    pub(crate) hard: bool,
    /// The question with the material.
    pub(crate) text: String,
    /// The question alone.
    pub(crate) question: &'static str,
}

/// The prompts that choices were made on, and those of unseen kinds of work.
pub(crate) const CHOSEN: &str = include_str!("prompts.txt");
pub(crate) const UNSEEN: &str = include_str!("unseen.txt");
/// Pairs of prompts that ask for the same.
const VARIANTS: &str = include_str!("variants.txt");

/// Conversations, by the kinds that choices were made on and the others.
const CONVERSATIONS: &str = include_str!("conversations.txt");

/// Reads the prompts of a file.
pub(crate) fn prompts(file: &'static str) -> Vec<Prompt> {
    let pasted = pasted();
    let (mut family, mut prompts) = ("", Vec::new());
    for line in file.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            family = name;
        } else if let Some((label, text)) = line.split_once(' ').filter(|(label, _)| *label != "#") {
            let (question, text) =
                match (text.strip_prefix('^').and_then(|text| text.split_once(' ')), text.rsplit_once(" @")) {
                    (Some((name, question)), _) => (question, format!("{}\n{question}", pasted[name])),
                    (None, Some((question, name))) => (question, format!("{question}\n\n{}", pasted[name])),
                    (None, None) => (text, text.to_owned()),
                };
            prompts.push(Prompt { family, hard: label == "H", text, question });
        }
    }
    prompts
}

/// The materials by name: the part before `--` once, the rest repeated with other numbers in place of its variables.
fn pasted() -> BTreeMap<&'static str, String> {
    let sections = include_str!("pasted.txt").split("== ").skip(1);
    let read = |section: &'static str| {
        let (head, body) = section.split_once('\n').unwrap();
        let (name, times) = head.split_once(' ').unwrap();
        let (once, body) = body.split_once("\n--\n").unwrap_or(("", body));
        let mut text = once.to_owned() + if once.is_empty() { "" } else { "\n" };
        for time in 0..times.parse().unwrap() {
            let with = |text: &str, name: &str, from: usize, step: usize, most: usize| {
                text.replace(name, &(from + time * step % most).to_string())
            };
            let body = with(&with(&with(body, "{n}", 1000, 7919, 8999), "{m}", 10, 37, 50), "{s}", 10, 13, 50);
            text += &with(&with(&body, "{d}", 10, 1, 19), "{k}", 1, 1, 9);
        }
        (name, text)
    };
    sections.map(read).collect()
}

/// The probability that a hard prompt scores higher than an easy one (area under the ROC curve).
pub(crate) fn auc(scored: &[(bool, f64)]) -> f64 {
    let of = |hard: bool| scored.iter().filter(move |(label, _)| *label == hard).map(|(_, score)| *score);
    let wins = of(true).flat_map(|hard| {
        of(false).map(move |easy| match hard.total_cmp(&easy) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Greater => 1.0,
        })
    });
    wins.sum::<f64>() / (of(true).count() * of(false).count()).max(1) as f64
}

/// The conversations of a part, with their labels.
fn conversations(part: &str) -> impl Iterator<Item = (bool, Vec<&str>)> {
    part.lines().filter_map(|line| {
        let (label, turns) = line.split_once(' ').filter(|(label, _)| matches!(*label, "E" | "H"))?;
        Some((label == "H", turns.split(" || ").collect()))
    })
}

/// Prints how well hard conversations are told from easy ones by `score` of all their turns, and by the last alone.
pub(crate) fn print_conversations(score: impl Fn(&[&str]) -> f64) {
    println!(
        "| conversations | number | AUC | by the last turn alone | right at a bar of 0.4 | 0.5 |\n|---|---:|---:|---:|---:|---:|"
    );
    let (chosen, other) = CONVERSATIONS.split_once("\n---\n").unwrap();
    for (name, part) in [("kinds that choices were made on", chosen), ("other kinds", other)] {
        let whole: Vec<(bool, f64)> = conversations(part).map(|(hard, turns)| (hard, score(&turns))).collect();
        let alone: Vec<(bool, f64)> =
            conversations(part).map(|(hard, turns)| (hard, score(&turns[turns.len() - 1..]))).collect();
        let right = |bar: f64| whole.iter().filter(|(hard, score)| (*score > bar) == *hard).count();
        let (areas, bars) = ([&whole, &alone].map(|scored| auc(scored)), [right(0.4), right(0.5)]);
        println!("| {name} | {} | {:.3} | {:.3} | {} | {} |", whole.len(), areas[0], areas[1], bars[0], bars[1]);
    }
    println!();
}

/// Prints the tables for `score`.
pub(crate) fn print(score: impl Fn(&str) -> f64) {
    let (chosen, unseen) = (prompts(CHOSEN), prompts(UNSEEN));
    println!("| hand-written prompts | number | AUC | AUC of length |\n|---|---:|---:|---:|");
    let table = |name: &str, prompts: &[Prompt], of: &dyn Fn(&str) -> bool| {
        let chosen = || prompts.iter().filter(|prompt| of(prompt.family));
        let ours: Vec<(bool, f64)> = chosen().map(|prompt| (prompt.hard, score(&prompt.text))).collect();
        let length: Vec<(bool, f64)> = chosen().map(|prompt| (prompt.hard, prompt.text.len() as f64)).collect();
        println!("| {name} | {} | {:.3} | {:.3} |", ours.len(), auc(&ours), auc(&length));
    };
    table("unseen kinds of work", &unseen, &|family| !family.starts_with("short_or_long"));
    table("unseen: short and hard, long and easy", &unseen, &|family| family.starts_with("short_or_long"));
    table("the prompts that words were fitted to", &chosen, &|_| true);
    table("of these, with pasted material", &chosen, &|family| family.starts_with("pasted"));
    println!("\n| family | mean score, easy | hard | hard above 0.5 | easy above |\n|---|---:|---:|---:|---:|");
    for (file, mark) in [(&unseen, " (unseen)"), (&chosen, "")] {
        for family in file.iter().map(|prompt| prompt.family).collect::<BTreeSet<_>>() {
            let scores = |hard: bool| {
                let own = file.iter().filter(move |prompt| prompt.family == family && prompt.hard == hard);
                own.map(|prompt| score(&prompt.text)).collect::<Vec<f64>>()
            };
            let mean = |scores: &[f64]| match scores.len() {
                0 => String::new(),
                count => format!("{:.2}", scores.iter().sum::<f64>() / count as f64),
            };
            let above = |scores: &[f64]| {
                let count = scores.iter().filter(|score| **score > 0.5).count();
                if scores.is_empty() { String::new() } else { format!("{count} of {}", scores.len()) }
            };
            let (easy, hard) = (scores(false), scores(true));
            let name = family.replace('_', " ");
            println!("| {name}{mark} | {} | {} | {} | {} |", mean(&easy), mean(&hard), above(&hard), above(&easy));
        }
    }
    println!("\n| pairs that ask for the same | number | same tier, bar at 0.4 | 0.5 | 0.6 | mean difference |");
    println!("|---|---:|---:|---:|---:|---:|");
    for (kind, name) in [("P", "paraphrased"), ("M", "misspelt"), ("T", "translated")] {
        let pairs: Vec<(f64, f64)> = VARIANTS
            .lines()
            .filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' ')?.split_once(" => "))
            .map(|(one, other)| (score(one), score(other)))
            .collect();
        let same = |bar: f64| {
            let same = pairs.iter().filter(|(one, other)| (*one > bar) == (*other > bar)).count();
            format!("{:.1} %", 100.0 * same as f64 / pairs.len() as f64)
        };
        let apart = pairs.iter().map(|(one, other)| (one - other).abs()).sum::<f64>() / pairs.len() as f64;
        println!("| {name} | {} | {} | {} | {} | {apart:.3} |", pairs.len(), same(0.4), same(0.5), same(0.6));
    }
    println!();
}
