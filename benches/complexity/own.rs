//! The hand-written prompts (`prompts.txt`, with the material of `pasted.txt`), and how well a score tells the hard ones
//! from the easy ones.

use std::collections::{BTreeMap, BTreeSet};

/// A hand-written prompt.
pub(crate) struct Prompt {
    /// The kind of work it belongs to.
    pub(crate) family: &'static str,
    pub(crate) hard: bool,
    pub(crate) text: String,
}

/// Reads the prompts.
pub(crate) fn prompts() -> Vec<Prompt> {
    let pasted = pasted();
    let (mut family, mut prompts) = ("", Vec::new());
    for line in include_str!("prompts.txt").lines() {
        if let Some(name) = line.strip_prefix("== ") {
            family = name;
        } else if let Some((label, text)) = line.split_once(' ').filter(|(label, _)| *label != "#") {
            let text = match (text.strip_prefix('^').and_then(|text| text.split_once(' ')), text.rsplit_once(" @")) {
                (Some((name, question)), _) => format!("{}\n{question}", pasted[name]),
                (None, Some((question, name))) => format!("{question}\n\n{}", pasted[name]),
                (None, None) => text.to_owned(),
            };
            prompts.push(Prompt { family, hard: label == "H", text });
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
fn auc(scored: &[(bool, f64)]) -> f64 {
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

/// Prints the tables for `score`. Choices are made on the families at even places of the alphabet; the odd ones report.
pub(crate) fn print(score: impl Fn(&str) -> f64) {
    let prompts = prompts();
    let families: BTreeSet<&str> = prompts.iter().map(|prompt| prompt.family).collect();
    let place = |family: &str| families.iter().position(|name| *name == family).unwrap();
    let scores: Vec<f64> = prompts.iter().map(|prompt| score(&prompt.text)).collect();
    let table = |name: &str, of: &dyn Fn(&str) -> bool| {
        let chosen: Vec<(&Prompt, f64)> =
            prompts.iter().zip(scores.iter().copied()).filter(|(prompt, _)| of(prompt.family)).collect();
        let ours: Vec<(bool, f64)> = chosen.iter().map(|(prompt, score)| (prompt.hard, *score)).collect();
        let length: Vec<(bool, f64)> =
            chosen.iter().map(|(prompt, _)| (prompt.hard, prompt.text.len() as f64)).collect();
        println!("| {name} | {} | {:.3} | {:.3} |", chosen.len(), auc(&ours), auc(&length));
    };
    println!("| hand-written prompts | number | AUC | AUC of length |\n|---|---:|---:|---:|");
    table("families to choose on", &|family| place(family) % 2 == 0);
    table("families to report on", &|family| place(family) % 2 == 1);
    table("with pasted material", &|family| family.starts_with("pasted"));
    table("all", &|_| true);
    println!("\n| family | mean score, easy | hard |\n|---|---:|---:|");
    for family in &families {
        let mean = |hard: bool| {
            let own = prompts.iter().zip(&scores).filter(|(prompt, _)| prompt.family == *family && prompt.hard == hard);
            let (sum, count) = own.fold((0.0, 0), |(sum, count), (_, score)| (sum + score, count + 1));
            if count == 0 { String::new() } else { format!("{:.2}", sum / f64::from(count)) }
        };
        println!("| {} | {} | {} |", family.replace('_', " "), mean(false), mean(true));
    }
    println!();
}
