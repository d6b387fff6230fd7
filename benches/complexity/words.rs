//! Fits the weights of words, `crates/prompt/src/complexity/words.txt`, to the hand-written prompts of `prompts.txt`.
//!
//! A question is the mean of its words' vectors in the static embedding table; ridge regression (Hoerl and Kennard, 1970)
//! gives the direction that separates the hard from the easy ones. The weight of a word piece is its product with that
//! direction. Nothing is random but the halves of the families in the printed figure, whose seeds are fixed.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write as _,
};

use super::own::{Prompt, auc};

/// The strength of the ridge, chosen on random halves of the families.
const RIDGE: f64 = 0.02;
/// Units of a weight.
const UNIT: f64 = 50.0;
/// The longest piece, in bytes.
const LONGEST: usize = 24;
/// Words of other languages with the English word whose vector they take.
const FOREIGN: &str = include_str!("foreign.txt");

/// Word pieces with their vectors.
pub(crate) struct Pieces {
    /// By piece; pieces within words begin with `##`.
    vectors: HashMap<String, Vec<f64>>,
}

impl Pieces {
    /// Reads the static table, and gives words of other languages the vector of an English one.
    pub(crate) fn read() -> Self {
        let (table, tokenizer) =
            (signalbox_minilm::data::table().unwrap(), signalbox_minilm::data::tokenizer().unwrap());
        let number = |at: usize| u32::from_le_bytes(table[at..at + 4].try_into().unwrap());
        let (rows, dimensions) = (number(4) as usize, number(8) as usize);
        let row = |row: usize| -> Vec<f64> {
            let (scale, from) = (f64::from(f32::from_bits(number(12 + 4 * row))), 12 + 4 * rows + row * dimensions);
            table[from..from + dimensions].iter().map(|byte| scale * f64::from(byte.cast_signed())).collect()
        };
        let tokenizer: serde_json::Value = serde_json::from_slice(&tokenizer).unwrap();
        let letters = |piece: &str| {
            let piece = piece.strip_prefix("##").unwrap_or(piece);
            !piece.is_empty() && piece.bytes().all(|byte| byte.is_ascii_lowercase())
        };
        let vocabulary = tokenizer["model"]["vocab"].as_object().unwrap().iter().filter(|(piece, _)| letters(piece));
        let of = |number: &serde_json::Value| row(usize::try_from(number.as_u64().unwrap()).unwrap());
        let mut pieces = Self { vectors: vocabulary.map(|(piece, at)| (piece.clone(), of(at))).collect() };
        let lines = FOREIGN.lines().filter(|line| !line.starts_with('#'));
        let foreign: Vec<(&str, Vec<f64>)> = lines
            .flat_map(|line| {
                let (english, others) = line.split_once(": ").unwrap();
                let vector = pieces.sum(english);
                others.split_whitespace().map(move |word| (word, vector.clone()))
            })
            .collect();
        for (word, vector) in foreign {
            pieces.vectors.entry(word.to_owned()).or_insert(vector);
        }
        pieces
    }

    /// The sum of a word's pieces, the longest first, up to what no piece begins with.
    fn sum(&self, word: &str) -> Vec<f64> {
        let (mut sum, mut at) = (vec![0.0; 256], 0);
        while at < word.len() {
            let unspaced = matches!(word.as_bytes()[at], 0xE3..=0xEF);
            let prefix = if at > 0 && !unspaced { "##" } else { "" };
            let ends = (at + 1..=word.len().min(at + LONGEST)).rev().filter(|end| word.is_char_boundary(*end));
            let found =
                ends.into_iter().find_map(|end| Some((end, self.vectors.get(&format!("{prefix}{}", &word[at..end]))?)));
            match found {
                Some((end, vector)) => {
                    sum.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value);
                    at = end;
                }
                None if unspaced => at += 3,
                None => break,
            }
        }
        sum
    }

    /// The vector of a question.
    fn question(&self, question: &str) -> Vec<f64> {
        let question = folded(question);
        let words: BTreeSet<&str> = question
            .split(|letter: char| !letter.is_alphabetic() && letter != '\'')
            .filter(|word| !word.is_empty())
            .collect();
        let count = |word: &&str| {
            if matches!(word.as_bytes()[0], 0xE3..=0xEF) { word.chars().count() as f64 / 2.0 } else { 1.0 }
        };
        let scale = words.iter().map(count).sum::<f64>().max(1.0);
        let mut sum = vec![0.0; 256];
        for word in words {
            sum.iter_mut().zip(self.sum(word)).for_each(|(sum, value)| *sum += value / scale);
        }
        sum
    }

    /// The direction that separates the hard from the easy prompts, for question vectors. Both classes have equal weight.
    fn direction(prompts: &[(&Prompt, &Vec<f64>)]) -> Vec<f64> {
        let hard = prompts.iter().filter(|(prompt, _)| prompt.hard).count() as f64;
        let rows: Vec<(&Vec<f64>, f64, f64)> = prompts
            .iter()
            .map(|(prompt, vector)| {
                let (target, class) = if prompt.hard { (1.0, hard) } else { (-1.0, prompts.len() as f64 - hard) };
                (*vector, target, 0.5 / class)
            })
            .collect();
        ridge(&rows)
    }

    /// The area under the curve of the direction alone on the families that it was not fitted to: mean and least over
    /// random halves.
    pub(crate) fn halves(&self, prompts: &[Prompt]) -> (f64, f64) {
        let vectors: Vec<Vec<f64>> = prompts.iter().map(|prompt| self.question(prompt.question)).collect();
        let both: Vec<(&Prompt, &Vec<f64>)> = prompts.iter().zip(&vectors).collect();
        let families: BTreeSet<&str> = prompts.iter().map(|prompt| prompt.family).collect();
        let mut areas = Vec::new();
        for seed in 0..10 {
            let mut order: Vec<&str> = families.iter().copied().collect();
            fastrand::Rng::with_seed(seed).shuffle(&mut order);
            let first: BTreeSet<&str> = order[..order.len() / 2].iter().copied().collect();
            let (one, other): (Vec<_>, Vec<_>) = both.iter().partition(|(prompt, _)| first.contains(prompt.family));
            for (fitted, tested) in [(&one, &other), (&other, &one)] {
                let direction = Self::direction(fitted);
                let scored: Vec<(bool, f64)> =
                    tested.iter().map(|(prompt, vector)| (prompt.hard, dot(vector, &direction))).collect();
                areas.push(auc(&scored));
            }
        }
        (areas.iter().sum::<f64>() / areas.len() as f64, areas.iter().copied().fold(1.0, f64::min))
    }

    /// The text of `words.txt`, fitted to `prompts`.
    pub(crate) fn fitted(&self, prompts: &[Prompt]) -> String {
        let vectors: Vec<Vec<f64>> = prompts.iter().map(|prompt| self.question(prompt.question)).collect();
        let direction = Self::direction(&prompts.iter().zip(&vectors).collect::<Vec<_>>());
        let mut by_weight: BTreeMap<i32, Vec<&str>> = BTreeMap::new();
        for (piece, vector) in &self.vectors {
            by_weight
                .entry((UNIT * dot(vector, &direction)).round().clamp(-127.0, 127.0) as i32)
                .or_default()
                .push(piece);
        }
        let mut text = "# Weights of word pieces in fiftieths: below 0 speaks of easy work, above of hard.\n\
            # Written by `cargo bench --bench complexity -- --fit`.\n"
            .to_owned();
        for (weight, mut pieces) in by_weight {
            pieces.sort_unstable();
            writeln!(text, "{weight}:{}", pieces.join(" ")).unwrap();
        }
        text
    }
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// Lower case, without accents on Latin letters.
fn folded(text: &str) -> String {
    let fold = |letter: char| match letter {
        'à'..='å' => 'a',
        'ç' => 'c',
        'è'..='ë' => 'e',
        'ì'..='ï' => 'i',
        'ñ' => 'n',
        'ò'..='ö' => 'o',
        'ù'..='ü' => 'u',
        'ý' | 'ÿ' => 'y',
        'ß' => 's',
        other => other,
    };
    text.to_lowercase().chars().map(fold).collect()
}

/// The direction with the least weighted squared error plus [`RIDGE`] times its squared length (Gauss-Jordan
/// elimination of the normal equations).
fn ridge(rows: &[(&Vec<f64>, f64, f64)]) -> Vec<f64> {
    let size = rows[0].0.len();
    let mut system = vec![vec![0.0; size + 1]; size];
    for (vector, target, weight) in rows {
        for (row, value) in system.iter_mut().zip(vector.iter()) {
            row.iter_mut().zip(vector.iter()).for_each(|(cell, other)| *cell += weight * value * other);
            row[size] += weight * value * target;
        }
    }
    for (at, row) in system.iter_mut().enumerate() {
        row[at] += RIDGE;
    }
    for at in 0..size {
        let pivot = system[at][at];
        system[at].iter_mut().for_each(|cell| *cell /= pivot);
        let row = system[at].clone();
        for (_, cells) in system.iter_mut().enumerate().filter(|(other, _)| *other != at) {
            let factor = cells[at];
            cells.iter_mut().zip(&row).for_each(|(cell, value)| *cell -= factor * value);
        }
    }
    system.into_iter().map(|row| row[size]).collect()
}
