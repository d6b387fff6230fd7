//! Recorded traffic read from a file: gzip or plain, in any of the known formats.

use std::{path::Path, time::Duration};

use super::{
    gzip,
    trace::{Arrival, MOONCAKE_BLOCK_TOKENS, TraceError, azure, journal, mooncake},
};
use signalbox_config::{Problem, Problems, plain};

/// Block size of engines if the trace has no blocks, in tokens.
const USUAL_BLOCK_TOKENS: u32 = 16;

/// Format of a trace.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Azure's LLM inference traces, CSV.
    Azure,
    /// Mooncake's traces, JSON lines.
    Mooncake,
    /// Journal of this gateway, JSON lines.
    Journal,
}

impl Format {
    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Azure => "azure",
            Self::Mooncake => "mooncake",
            Self::Journal => "journal",
        }
    }

    /// Block size of the trace, in tokens. Engines that replay it need the same.
    pub const fn block_tokens(self) -> u32 {
        match self {
            Self::Mooncake => MOONCAKE_BLOCK_TOKENS,
            Self::Azure | Self::Journal => USUAL_BLOCK_TOKENS,
        }
    }

    /// Detects the format from the first line.
    fn of(line: &[u8]) -> Option<Self> {
        if line.starts_with(b"{") {
            let row: serde_json::Value = serde_json::from_slice(line).ok()?;
            return match () {
                () if row.get("time_ms").is_some() => Some(Self::Journal),
                () if row.get("input_length").is_some() => Some(Self::Mooncake),
                () => None,
            };
        }
        (line.starts_with(b"TIMESTAMP") || line.split(|byte| *byte == b',').count() == 3).then_some(Self::Azure)
    }
}

/// Recorded traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// Its format.
    pub format: Format,
    /// Arrivals in order, the first at zero; never empty.
    pub arrivals: Vec<Arrival>,
    /// Journal lines without the length of an answer, which were left out.
    pub skipped: u64,
}

impl Recording {
    /// Reads the trace at `path`. The format is detected unless given.
    pub fn open(path: &Path, format: Option<Format>) -> Result<Self, Problems> {
        let bytes = gzip::read(path).map_err(|error| {
            let help = "check the path; `excerpt` in place of a file stands for made-up arrivals";
            problem(path, format!("this file cannot be read: {}", plain(&error)), help)
        })?;
        let mut lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let Some(first) = lines.find(|line| !line.is_empty()) else {
            return Err(problem(path, "this trace is empty".to_owned(), "name a file with at least one request"));
        };
        let Some(format) = format.or_else(|| Format::of(first)) else {
            let message = format!("line 1: not of a known format: {}", start(first));
            let help = "name the format with `--trace-format`: `azure` has lines of TIMESTAMP,ContextTokens,GeneratedTokens, \
                `mooncake` JSON with `timestamp`, `input_length` and `output_length`, `journal` JSON with `time_ms` and `usage`";
            return Err(problem(path, message, help));
        };
        let mut skipped = 0;
        let arrivals: Result<Vec<_>, _> = match format {
            Format::Azure => azure(&*bytes).collect(),
            Format::Mooncake => mooncake(&*bytes).collect(),
            Format::Journal => journal(&*bytes, &mut skipped).collect(),
        };
        let mut arrivals = arrivals.map_err(|error| unreadable(path, format, &error))?;
        arrivals.sort_by_key(|arrival| arrival.at);
        let Some(start) = arrivals.first().map(|first| first.at) else {
            let (message, help) = if skipped > 0 {
                let message = format!("none of the {skipped} lines of this journal has `usage`");
                (message, "only requests whose answers' lengths are known can be replayed")
            } else {
                ("this trace has no requests".to_owned(), "name a file with at least one")
            };
            return Err(problem(path, message, help));
        };
        for arrival in &mut arrivals {
            arrival.at = arrival.at.saturating_sub(start);
        }
        Ok(Self { format, arrivals, skipped })
    }

    /// Time from the first request to the last.
    pub fn span(&self) -> Duration {
        self.arrivals.last().map_or(Duration::ZERO, |last| last.at)
    }
}

fn unreadable(path: &Path, format: Format, error: &TraceError) -> Problems {
    let help = format!("this was read as a trace of the format `{}`; `--trace-format` names another", format.name());
    problem(path, error.to_string(), help)
}

fn problem(path: &Path, message: String, help: impl Into<std::borrow::Cow<'static, str>>) -> Problems {
    Problems::new(&path.display().to_string(), "".into(), vec![Problem::whole(message).help(help)])
}

/// Start of a line, for an error message.
fn start(line: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(line).chars().take(60).collect::<String>())
}
