//! Reader for files of labelled pairs.

use std::{
    io::{self, BufRead, Read},
    path::Path,
};

use serde::Deserialize;

use crate::cache_replay::Pair;
use signalbox_config::{Problem, Problems, plain};
use signalbox_sim::gzip;

/// Longest line that is read, in bytes.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// Format of a line.
const FORM: &str = "a line is `{\"a\": \"…\", \"b\": \"…\", \"same\": true}`, and may have a `family`";

/// A pair with its family.
#[derive(Debug)]
pub(super) struct Labelled {
    pub(super) pair: Pair,
    pub(super) family: Option<String>,
}

/// A line of the file.
#[derive(Deserialize)]
struct Line {
    a: String,
    b: String,
    same: bool,
    family: Option<String>,
}

/// Reads the first `most` pairs of a file.
pub(super) fn open(path: &Path, most: usize) -> Result<Vec<Labelled>, Problems> {
    let unread =
        |error: io::Error| problem(path, format!("this file cannot be read: {}", plain(&error)), "check the path");
    let mut file = gzip::open(path).map_err(unread)?;
    let mut pairs = Vec::new();
    let mut bytes = Vec::new();
    let mut number = 0;
    while pairs.len() < most {
        bytes.clear();
        let read = file.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes).map_err(unread)?;
        if read == 0 {
            break;
        }
        number += 1;
        if read as u64 == MAX_LINE_BYTES && !bytes.ends_with(b"\n") {
            return Err(problem(path, format!("line {number}: longer than {MAX_LINE_BYTES} bytes"), FORM));
        }
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        let line: Line = serde_json::from_slice(&bytes)
            .map_err(|error| problem(path, format!("line {number}: not a pair: {error}"), FORM))?;
        pairs.push(Labelled { pair: Pair { a: line.a, b: line.b, same: line.same }, family: line.family });
    }
    if pairs.is_empty() {
        return Err(problem(path, "this file is empty".to_owned(), "name one with pairs"));
    }
    Ok(pairs)
}

/// A problem of the file as a whole.
pub(super) fn problem(path: &Path, message: String, help: &'static str) -> Problems {
    Problems::new(&path.display().to_string(), "".into(), vec![Problem::whole(message).help(help)])
}
