//! Reads pairs, vectors and labels from files.

use std::{
    collections::{BTreeSet, HashMap},
    env,
    error::Error,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use flate2::read::MultiGzDecoder;
use indicatif::ProgressBar;
use serde_json::Value;
use signalbox::{
    embed,
    lab::cache_replay::{Pair, Vectors, built_in_vectors, fingerprint},
};

/// Reads the question pairs of QQP below `SIGNALBOX_DATA`.
pub(crate) fn question_pairs() -> io::Result<Vec<Pair>> {
    pairs("qqp-dev")
}

/// Reads the pairs of a source below `SIGNALBOX_DATA`.
pub(crate) fn pairs(source: &str) -> io::Result<Vec<Pair>> {
    let data = env::var_os("SIGNALBOX_DATA").map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    let lines = lines(&data.join(format!("pairs/{source}.jsonl.gz")))?;
    Ok(lines.iter().map(pair).collect())
}

/// Reads the adversarial pairs of a half, with their family and template. Pairs that differ only in context are left out: cache keys
/// separate them.
pub(crate) fn adversarial_pairs(half: &str) -> io::Result<Vec<(String, String, Pair)>> {
    let lines = lines(&folder().join("adversarial.jsonl"))?;
    let own = lines.iter().filter(|line| line["half"] == half && line["context_a"].is_null());
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let made = |line| (text(line, "family"), text(line, "template"), pair(line));
    Ok(own.map(made).collect())
}

/// Folder of the bench.
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

/// Vectors of all texts of the bench, by both built-in embedders.
pub(crate) struct Store {
    places: HashMap<u64, usize>,
    recall: Numbers,
    decide: Numbers,
}

/// Consecutive vectors.
struct Numbers {
    dimensions: usize,
    values: Vec<f32>,
}

impl Store {
    /// Reads the vectors from `target/cache-vectors` if they match these texts and embedders; else computes them, which takes minutes, and
    /// writes them there.
    pub(crate) fn open() -> Result<Self, Box<dyn Error>> {
        let mut texts: BTreeSet<String> = question_pairs()?.into_iter().flat_map(|pair| [pair.a, pair.b]).collect();
        for half in ["fit", "judge"] {
            texts.extend(adversarial_pairs(half)?.into_iter().flat_map(|(.., pair)| [pair.a, pair.b]));
        }
        let texts: Vec<String> = texts.into_iter().collect();
        let (recall, decide) = (embed::recall()?, embed::decider()?);
        let mut name = fingerprint(&format!("{} {}", recall.id(), decide.id()));
        for text in &texts {
            name = name.rotate_left(7) ^ fingerprint(text);
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/cache-vectors");
        let paths = ["recall", "decide"].map(|kind| folder.join(format!("{name:016x}.{kind}")));
        if !paths.iter().all(|path| path.exists()) {
            eprintln!("embedding {} texts: takes minutes, once", texts.len());
            let bar = ProgressBar::new(texts.len() as u64);
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            let made = built_in_vectors(&texts, threads, |_| true, || bar.inc(1))?;
            bar.finish_and_clear();
            fs::create_dir_all(&folder)?;
            for (vectors, path) in [made.recall, made.decide].iter().zip(&paths) {
                let values = (0..texts.len()).flat_map(|text| vectors.of(text));
                fs::write(path, values.flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())?;
            }
        }
        let read = |path: &Path, dimensions: usize| -> io::Result<Numbers> {
            let bytes = fs::read(path)?;
            let values = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            Ok(Numbers { dimensions, values })
        };
        Ok(Self {
            places: texts.iter().enumerate().map(|(at, text)| (fingerprint(text), at)).collect(),
            recall: read(&paths[0], recall.dimensions())?,
            decide: read(&paths[1], decide.dimensions())?,
        })
    }

    /// Returns the vectors of known texts, by the recalling and by the deciding embedder.
    pub(crate) fn vectors(&self, texts: &[String]) -> (Vectors, Vectors) {
        let pick = |from: &Numbers| {
            let rows = texts.iter().map(|text| self.places[&fingerprint(text)] * from.dimensions);
            let flat = rows.flat_map(|start| &from.values[start..start + from.dimensions]).copied().collect();
            Vectors::new(from.dimensions, flat)
        };
        (pick(&self.recall), pick(&self.decide))
    }
}

/// Reads a file of judged pairs: fingerprints of both texts, and yes, no or unsure; lines that begin with `#` are comments.
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
