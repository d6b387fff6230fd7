//! Pairs, vectors and labels from files.

use std::{
    collections::HashMap,
    env,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use flate2::read::MultiGzDecoder;
use serde_json::Value;
use signalbox::cache::replay::{Pair, Vectors, fingerprint};

/// Dimensions of the embedder that decides, and of the one that recalls.
const DIMENSIONS: (usize, usize) = (384, 256);

/// The question pairs below `SIGNALBOX_DATA`.
pub(crate) fn question_pairs() -> io::Result<Vec<Pair>> {
    let data = env::var_os("SIGNALBOX_DATA").map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    let lines = lines(&data.join("pairs/qqp-dev.jsonl.gz"))?;
    Ok(lines.iter().map(pair).collect())
}

/// The adversarial pairs of a half: their family and the pair. Those that only their context tells apart are left to keys.
pub(crate) fn adversarial_pairs(half: &str) -> io::Result<Vec<(String, Pair)>> {
    let lines = lines(&folder().join("adversarial.jsonl"))?;
    let own = lines.iter().filter(|line| line["half"] == half && line["context_a"].is_null());
    Ok(own.map(|line| (line["family"].as_str().unwrap_or_default().to_owned(), pair(line))).collect())
}

/// The folder of the bench.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/cache")
}

fn pair(line: &Value) -> Pair {
    let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
    Pair { a: text("a"), b: text("b"), same: line["same"] == true }
}

fn lines(path: &Path) -> io::Result<Vec<Value>> {
    let file = File::open(path)?;
    let gzip = path.extension().is_some_and(|extension| extension == "gz");
    let reader: Box<dyn Read> = if gzip { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    BufReader::new(reader).lines().map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}

/// Vectors made beforehand: for each prefix `PREFIX.hash` (fingerprints of the texts), `PREFIX.minilm` and `PREFIX.static` (f32, little
/// endian), as `benches/cache/embed.py` writes them.
#[derive(Default)]
pub(crate) struct Store {
    places: HashMap<u64, usize>,
    decide: Vec<f32>,
    recall: Vec<f32>,
}

impl Store {
    pub(crate) fn open(prefixes: &[String]) -> io::Result<Self> {
        let mut store = Self::default();
        for prefix in prefixes {
            let numbers = |name: &str| -> io::Result<Vec<f32>> {
                let bytes = fs::read(format!("{prefix}.{name}"))?;
                Ok(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
            };
            let hashes = fs::read(format!("{prefix}.hash"))?;
            // A text that stands in two files has a row in each.
            let first = store.recall.len() / DIMENSIONS.1;
            for (row, bytes) in hashes.as_chunks::<8>().0.iter().enumerate() {
                store.places.entry(u64::from_le_bytes(*bytes)).or_insert(first + row);
            }
            store.decide.extend(numbers("minilm")?);
            store.recall.extend(numbers("static")?);
        }
        Ok(store)
    }

    pub(crate) fn has(&self, text: &str) -> bool {
        self.places.contains_key(&fingerprint(text))
    }

    /// Vectors of texts that are all here, of the embedder that recalls and of the one that decides.
    pub(crate) fn vectors(&self, texts: &[String]) -> (Vectors, Vectors) {
        let pick = |values: &[f32], dimensions: usize| {
            let rows = texts.iter().filter_map(|text| self.places.get(&fingerprint(text)));
            let flat = rows.flat_map(|row| &values[row * dimensions..(row + 1) * dimensions]).copied().collect();
            Vectors::new(dimensions, flat)
        };
        (pick(&self.recall, DIMENSIONS.1), pick(&self.decide, DIMENSIONS.0))
    }
}

/// A sheet of pairs that were read: fingerprints of both, and yes, no or unsure; lines that begin with `#` say more.
pub(crate) fn sheet(name: &str) -> io::Result<Vec<((u64, u64), String)>> {
    let text = fs::read_to_string(folder().join(name))?;
    Ok(text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut parts = line.split('\t');
            let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
            let pair = (number()?, number()?);
            Some((pair, parts.next()?.to_owned()))
        })
        .collect())
}
