//! Entries and queries: questions embedded by the static table, or synthetic clusters if the data is missing.

use std::{env, fs, io::Read, path::PathBuf};

use tokenizers::Tokenizer;

/// One question in this many is a query and not in the index; its partner is.
const QUERY_EVERY: usize = 16;

/// Vectors of length 1.
pub(crate) struct Vectors {
    pub(crate) entries: Vec<Vec<f32>>,
    pub(crate) queries: Vec<Vec<f32>>,
    /// Source of the vectors.
    pub(crate) description: String,
}

impl Vectors {
    /// Reads or makes at least `most` entries.
    pub(crate) fn read(most: usize) -> Self {
        let data = PathBuf::from(env::var("SIGNALBOX_DATA").unwrap_or_else(|_| "../shared/data".into()));
        let mut dice = fastrand::Rng::with_seed(1);
        let (mut entries, queries, description) = questions(&data).unwrap_or_else(|| clusters(&mut dice));
        dice.shuffle(&mut entries);
        let real = entries.len();
        while entries.len() < most {
            let mut copy = entries[dice.usize(0..real)].clone();
            for value in &mut copy {
                *value += (dice.f32() - 0.5) * 0.06;
            }
            entries.push(unit(copy));
        }
        Self {
            entries,
            queries,
            description: format!("{description}; beyond {real}, copies of them with noise (cosine about .96)."),
        }
    }
}

type Read3 = (Vec<Vec<f32>>, Vec<Vec<f32>>, String);

/// Embeds pairs of questions by the mean of their tokens' vectors.
fn questions(data: &std::path::Path) -> Option<Read3> {
    let models = data.parent()?.join("models");
    let packed = fs::File::open(data.join("pairs/qqp-dev.jsonl.gz")).ok()?;
    let table = fs::read(models.join("static-256.bin")).ok()?;
    let mut tokenizer = Tokenizer::from_file(models.join("tokenizer.json")).ok()?;
    tokenizer.with_truncation(None).ok()?;
    tokenizer.with_padding(None);
    let number = |at: usize| u32::from_le_bytes(table[at..at + 4].try_into().unwrap()) as usize;
    let (rows, dimensions) = (number(4), number(8));
    let codes = &table[12 + 4 * rows..];
    let embed = |text: &str| {
        let tokens = tokenizer.encode(text, false).unwrap();
        let mut sum = vec![0.0; dimensions];
        for token in tokens.get_ids() {
            let row = *token as usize;
            let scale = f32::from_le_bytes(table[12 + 4 * row..16 + 4 * row].try_into().unwrap());
            let codes = &codes[row * dimensions..(row + 1) * dimensions];
            sum.iter_mut().zip(codes).for_each(|(sum, code)| *sum += f32::from(code.cast_signed()) * scale);
        }
        unit(sum)
    };
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).ok()?;
    let (mut entries, mut queries) = (Vec::new(), Vec::new());
    for (row, line) in text.lines().enumerate() {
        let pair: serde_json::Value = serde_json::from_str(line).ok()?;
        entries.push(embed(pair["a"].as_str()?));
        let partner = embed(pair["b"].as_str()?);
        if row % QUERY_EVERY == 0 { queries.push(partner) } else { entries.push(partner) }
    }
    Some((entries, queries, format!("Questions of QQP under the static table, {dimensions} dimensions")))
}

/// Makes synthetic clusters, and a query near an entry of each.
fn clusters(dice: &mut fastrand::Rng) -> Read3 {
    println!("No questions or no table (`SIGNALBOX_DATA`, `../shared/data`): using synthetic vectors.\n");
    let (mut entries, mut queries) = (Vec::new(), Vec::new());
    for _ in 0..2500 {
        let centre = unit((0..256).map(|_| dice.f32() - 0.5).collect());
        for _ in 0..30 {
            entries.push(unit(centre.iter().map(|value| value + (dice.f32() - 0.5) * 0.15).collect()));
        }
        let near = &entries[entries.len() - 1];
        queries.push(unit(near.iter().map(|value| value + (dice.f32() - 0.5) * 0.08).collect()));
    }
    (entries, queries, "Synthetic clusters of 30, 256 dimensions".into())
}

fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    for value in &mut vector {
        *value /= length;
    }
    vector
}
