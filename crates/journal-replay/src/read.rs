//! Reads journals from files, with their rotated files; skips damaged lines.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use signalbox_config::{Problem, Problems, plain};
use signalbox_journal::{FORMAT, recorded::Line};
use signalbox_sim::gzip;

/// Contents of journals.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    /// Files that were read.
    pub files: Vec<PathBuf>,
    /// In order of arrival.
    pub(super) lines: Vec<Line>,
    /// Lines that cannot be parsed.
    pub damaged: u64,
    /// Location and error of the first of them.
    pub first_damage: Option<String>,
    /// Lines of a later format version, which are skipped.
    pub later: u64,
}

impl Journal {
    /// Reads the journals at `paths`, each with its rotated files (`.1`, `.2`, …); gzip or plain.
    pub fn open(paths: &[PathBuf]) -> Result<Self, Problems> {
        let mut journal = Self::default();
        for path in paths {
            if !journal.files.contains(path) {
                journal.take(path)?;
            }
            for number in 1.. {
                let mut rotated = OsString::from(path);
                rotated.push(format!(".{number}"));
                let rotated = PathBuf::from(rotated);
                if !rotated.is_file() {
                    break;
                }
                if !journal.files.contains(&rotated) {
                    journal.take(&rotated)?;
                }
            }
        }
        journal.lines.sort_by_key(|line| line.time_ms);
        Ok(journal)
    }

    fn take(&mut self, path: &Path) -> Result<(), Problems> {
        let bytes = gzip::read(path).map_err(|error| {
            let problem = Problem::whole(format!("this file cannot be read: {}", plain(&error)))
                .help("name a journal: where it is, the policy says in `journal: { path: … }`");
            Problems::new(&path.display().to_string(), "".into(), vec![problem])
        })?;
        self.files.push(path.to_owned());
        for (text, number) in bytes.split(|byte| *byte == b'\n').zip(1_u64..) {
            let text = text.trim_ascii();
            if text.is_empty() {
                continue;
            }
            match serde_json::from_slice::<Line>(text) {
                Ok(line) if line.form > FORMAT => self.later += 1,
                Ok(mut line) if line.time_ms > 0 => {
                    // The replay weighs other candidates, and these are most of a line.
                    line.attempts.iter_mut().for_each(|attempt| attempt.candidates = Vec::new());
                    self.lines.push(line);
                }
                read => {
                    self.damaged += 1;
                    let why = read.map_or_else(|error| error.to_string(), |_| "no `time_ms`".to_owned());
                    let why = why.replace(" at line 1 column ", " at column ");
                    self.first_damage.get_or_insert_with(|| format!("{}, line {number}: {why}", path.display()));
                }
            }
        }
        Ok(())
    }

    /// Number of lines that were read.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// True without lines.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_files_are_read_and_damage_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j.jsonl");
        std::fs::write(&path, "{\"time_ms\": 3}\n{\"time_ms\": 4, \"form\": 9}\n{\"time").unwrap();
        std::fs::write(dir.path().join("j.jsonl.1"), "{\"time_ms\": 2}\n\n{\"no\": 1}\n").unwrap();
        std::fs::write(dir.path().join("j.jsonl.2"), "{\"time_ms\": 1, \"new\": {}}\n").unwrap();
        let journal = Journal::open(&[path.clone(), dir.path().join("j.jsonl.1")]).unwrap();
        assert_eq!(journal.lines.iter().map(|line| line.time_ms).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!((journal.files.len(), journal.damaged, journal.later), (3, 2, 1));
        assert!(journal.first_damage.unwrap().contains("j.jsonl, line 3: EOF"));
        assert!(Journal::open(&[dir.path().join("absent")]).is_err());
    }
}
