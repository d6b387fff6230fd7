//! Readers for the Azure and Mooncake traces and for journals, and a synthetic excerpt for use without a trace.

use std::{
    io::{self, BufRead},
    sync::Arc,
    time::Duration,
};

use serde::Deserialize;

/// Tokens of a Mooncake prefix block. A profile that replays them needs `block_tokens` of this size.
pub(super) const MOONCAKE_BLOCK_TOKENS: u32 = 512;

/// One request of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival time from the start of the trace.
    pub at: Duration,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Tokens of its answer.
    pub output_tokens: u32,
    /// True if the answer is not streamed. The Azure and Mooncake traces do not record it; their requests have false.
    pub whole: bool,
    /// Line number in the trace, from 1; 0 if there is none.
    pub line: u64,
    /// Ids of the prompt's blocks: equal ids from the start mean an equal prefix. Empty if not recorded.
    pub blocks: Arc<[u64]>,
}

/// Errors of reading a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The source failed.
    #[error("line {line}: cannot be read")]
    Read {
        /// Line number, from 1.
        line: u64,
        /// The cause.
        source: io::Error,
    },
    /// A line does not match the format.
    #[error("line {line}: {problem}")]
    Row {
        /// Line number, from 1.
        line: u64,
        /// The problem.
        problem: String,
    },
}

/// Reads an Azure LLM inference trace: `TIMESTAMP,ContextTokens,GeneratedTokens`. Times count from the first row.
pub fn azure(source: impl BufRead) -> impl Iterator<Item = Result<Arrival, TraceError>> {
    let mut start = None;
    rows(source, move |line, row| {
        if line == 1 && row.starts_with("TIMESTAMP") {
            return Ok(None);
        }
        let mut fields = row.split(',');
        let (Some(when), Some(prompt), Some(output), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(format!("three fields are expected, separated by commas: {row:?}"));
        };
        let when = timestamp(when).ok_or_else(|| format!("not a time like 2023-11-16 18:15:46.68: {when:?}"))?;
        let count = |text: &str| text.trim().parse().map_err(|_| format!("not a number of tokens: {text:?}"));
        Ok(Some(Arrival {
            at: when.saturating_sub(*start.get_or_insert(when)),
            prompt_tokens: count(prompt)?,
            output_tokens: count(output)?,
            whole: false,
            line,
            blocks: Arc::default(),
        }))
    })
}

/// Reads a Mooncake trace: one JSON object per line with `timestamp` (ms), `input_length`, `output_length` and `hash_ids`, one id for every
/// `MOONCAKE_BLOCK_TOKENS` of the prompt.
pub fn mooncake(source: impl BufRead) -> impl Iterator<Item = Result<Arrival, TraceError>> {
    #[derive(Deserialize)]
    struct Row {
        timestamp: u64,
        input_length: u32,
        output_length: u32,
        #[serde(default)]
        hash_ids: Vec<u64>,
    }
    rows(source, |line, row| {
        let row: Row = read(row)?;
        Ok(Some(Arrival {
            at: Duration::from_millis(row.timestamp),
            prompt_tokens: row.input_length,
            output_tokens: row.output_length,
            whole: false,
            line,
            blocks: row.hash_ids.into(),
        }))
    })
}

/// Reads a journal of this gateway: `time_ms` (since 1970), `stream` and `usage` of every line, in the order of the file, which is that of the
/// requests' ends. Lines without `usage` are left out and counted in `skipped`, since the lengths of their answers are unknown.
pub fn journal(source: impl BufRead, skipped: &mut u64) -> impl Iterator<Item = Result<Arrival, TraceError>> {
    #[derive(Deserialize)]
    struct Row {
        time_ms: u64,
        #[serde(default)]
        stream: bool,
        usage: Option<Tokens>,
    }
    #[derive(Deserialize)]
    struct Tokens {
        prompt_tokens: u32,
        completion_tokens: u32,
    }
    rows(source, |line, row| {
        let Row { time_ms, stream, usage } = read(row)?;
        let Some(Tokens { prompt_tokens, completion_tokens }) = usage else {
            *skipped += 1;
            return Ok(None);
        };
        Ok(Some(Arrival {
            at: Duration::from_millis(time_ms),
            prompt_tokens,
            output_tokens: completion_tokens,
            whole: !stream,
            line,
            blocks: Arc::default(),
        }))
    })
}

/// Parses a row that is a JSON object. Errors name the column; the caller adds the line.
fn read<T: serde::de::DeserializeOwned>(row: &str) -> Result<T, String> {
    serde_json::from_str(row).map_err(|problem| problem.to_string().replace(" at line 1 column ", " at column "))
}

/// `count` synthetic arrivals similar to Azure's conversation trace: a Poisson process with `per_second` arrivals on average and log-normal
/// lengths (median prompt 1020, answer 129 tokens). Deterministic by seed.
pub fn excerpt(seed: u64, count: usize, per_second: f64) -> impl Iterator<Item = Arrival> {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut seconds = 0.0;
    (0..count).map(move |_| {
        let at = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        seconds -= (1.0 - dice.f64()).ln() / per_second;
        Arrival {
            at,
            prompt_tokens: (log_normal(&mut dice, 1020.0, 0.9) as u32).clamp(2, 14_000),
            output_tokens: (log_normal(&mut dice, 129.0, 0.86) as u32).clamp(7, 1_000),
            whole: false,
            line: 0,
            blocks: Arc::default(),
        }
    })
}

/// A log-normal sample with this median and standard deviation of the logarithm.
pub(super) fn log_normal(dice: &mut fastrand::Rng, median: f64, sigma: f64) -> f64 {
    let radius = (-2.0 * (1.0 - dice.f64()).ln()).sqrt();
    median * (sigma * radius * (std::f64::consts::TAU * dice.f64()).cos()).exp()
}

/// Parses the lines of `source` that are not blank, numbered from 1. Ends at the first failed read.
fn rows(
    source: impl BufRead,
    mut parse: impl FnMut(u64, &str) -> Result<Option<Arrival>, String>,
) -> impl Iterator<Item = Result<Arrival, TraceError>> {
    let mut failed = false;
    let lines = source.lines().zip(1..).take_while(move |(text, _)| !std::mem::replace(&mut failed, text.is_err()));
    lines.filter_map(move |(text, line)| match text {
        Err(source) => Some(Err(TraceError::Read { line, source })),
        Ok(text) if text.trim().is_empty() => None,
        Ok(text) => parse(line, text.trim()).map_err(|problem| TraceError::Row { line, problem }).transpose(),
    })
}

/// Parses `2023-11-16 18:15:46.6805900`, with or without `T`, fraction and a UTC offset of zero, as the time since year 0.
fn timestamp(text: &str) -> Option<Duration> {
    let text = text.trim();
    let text = text.strip_suffix("+00:00").or_else(|| text.strip_suffix('Z')).unwrap_or(text);
    let (date, time) = text.split_once([' ', 'T'])?;
    let [year, month, day] = three(date, '-')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let [hour, minute, second] = three(time, ':')?;
    if !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || hour > 23
        || minute > 59
        || second > 60
        || fraction.len() > 9
    {
        return None;
    }
    let nanos: u32 = if fraction.is_empty() { 0 } else { format!("{fraction:0<9}").parse().ok()? };
    // Years begin in March here, so that the leap day is the last day.
    let (year, month) = if month < 3 { (year.checked_sub(1)?, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    Some(Duration::new(((days * 24 + hour) * 60 + minute) * 60 + second, nanos))
}

/// Parses three small numbers.
fn three(text: &str, separator: char) -> Option<[u64; 3]> {
    let mut numbers = text.split(separator).map(|number| number.parse::<u16>().map(u64::from));
    let three = [numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?];
    numbers.next().is_none().then_some(three)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn azure_rows_become_arrivals_after_the_first() {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2024-02-28 23:59:58.5000000,374,44\r\n\r\n2024-03-01 00:00:00.2500001,396,109\r\n";
        let arrivals: Result<Vec<_>, _> = azure(text.as_bytes()).collect();
        let arrivals = arrivals.unwrap();
        assert_eq!(arrivals.len(), 2);
        assert_eq!((arrivals[0].at, arrivals[0].prompt_tokens, arrivals[0].output_tokens), (Duration::ZERO, 374, 44));
        assert_eq!(arrivals[1].at, Duration::new(86_400 + 1, 750_000_100), "2024 has a 29th of February");
    }

    #[test]
    fn times_may_end_in_an_offset_of_zero() {
        let plain = timestamp("2024-05-10 00:00:00.009930");
        assert!(plain.is_some());
        assert_eq!(timestamp("2024-05-10T00:00:00.009930+00:00"), plain);
        assert_eq!(timestamp("2024-05-10T00:00:00.009930Z"), plain);
        for wrong in [
            "",
            "2024-05-10",
            "2024-13-10 00:00:00",
            "2024-05-10 00:00",
            "2024-05-10 00:00:00.é",
            "0000-01-01 00:00:00",
        ] {
            assert_eq!(timestamp(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn mooncake_rows_become_arrivals_with_blocks() {
        let text = r#"{"timestamp": 27000, "input_length": 1000, "output_length": 4, "hash_ids": [0, 9]}"#;
        let arrivals: Result<Vec<_>, _> = mooncake(text.as_bytes()).collect();
        let want = Arrival {
            at: Duration::from_secs(27),
            prompt_tokens: 1000,
            output_tokens: 4,
            whole: false,
            line: 1,
            blocks: [0, 9].into(),
        };
        assert_eq!(arrivals.unwrap(), [want]);
    }

    #[test]
    fn errors_name_the_line() {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374\n2023-11-16 18:15:46.68,374,x\n2023-11-16 18:15:46,1,2";
        let problems: Vec<_> =
            azure(text.as_bytes()).filter_map(|row| row.err().map(|error| error.to_string())).collect();
        assert_eq!(
            problems,
            [
                "line 2: three fields are expected, separated by commas: \"2023-11-16 18:15:46.68,374\"",
                "line 3: not a number of tokens: \"x\"",
            ]
        );
        let problem = mooncake("\n{\"timestamp\": 1}".as_bytes()).next().unwrap().unwrap_err();
        assert!(problem.to_string().starts_with("line 2: missing field `input_length`"), "{problem}");
    }

    #[test]
    fn a_source_that_fails_ends_the_trace() {
        let results: Vec<_> = mooncake([0xFF, b'\n', b'{', b'\n'].as_slice()).collect();
        assert!(matches!(results[..], [Err(TraceError::Read { line: 1, .. })]), "{results:?}");
    }

    #[test]
    fn an_excerpt_looks_like_azure_and_repeats_itself() {
        let arrivals: Vec<_> = excerpt(1, 4_000, 5.0).collect();
        assert_eq!(arrivals, excerpt(1, 4_000, 5.0).collect::<Vec<_>>());
        assert!(arrivals.windows(2).all(|pair| pair[0].at <= pair[1].at));
        assert!((600..1_000).contains(&arrivals.last().unwrap().at.as_secs()));
        let mut prompts: Vec<_> = arrivals.iter().map(|arrival| arrival.prompt_tokens).collect();
        prompts.sort_unstable();
        assert!((900..1_150).contains(&prompts[2_000]), "{}", prompts[2_000]);
    }
}
