//! Figures over time as rows of blocks: `▁▂▃▅▇`, from `GET /admin/history`.

use serde_json::Value;

use super::{
    sheet::{TextLine, Tone},
    words::{count, known, millis, percent, rate},
};

/// Blocks from the lowest value to the highest.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Width of names, and of the figures behind a row.
const NAME: usize = 14;
const FIGURES: usize = 24;
/// Most events below the charts.
const EVENTS: usize = 6;

/// Ranges of time, by the admin API's names.
pub(super) const RANGES: [&str; 4] = ["15m", "1h", "6h", "3d"];

/// Writes a value with its unit.
type Write = fn(f64) -> String;

/// Charts of pools: title, column, factor from its unit, and unit.
const POOLS: [(&str, &[&str], Write); 4] = [
    ("TTFT p95", &["ttft_ms", "p95"], millis),
    ("Requests/s", &["requests_per_s"], rate),
    ("Waiting", &["queue"], |waiting| count(waiting.round() as u64)),
    ("Prefix hits", &["prefix_hit_ratio"], percent),
];

/// All charts of `history`, `width` wide; those without any value are left out.
pub(super) fn charts(history: &Value, range: &str, search: &[String], width: usize) -> Vec<TextLine> {
    let room = width.saturating_sub(NAME + FIGURES).max(8);
    let mut lines = Vec::new();
    let mut chart = |title: &str, rows: Vec<(&str, &Value)>, write: Write| {
        let drawn: Vec<_> =
            rows.into_iter().filter_map(|(name, column)| row(name, &values(column), room, write)).collect();
        if !drawn.is_empty() {
            lines.push(TextLine::new(format!("{title}, {range}"), Tone::Head));
            lines.extend(drawn);
            lines.push(TextLine::default());
        }
    };
    let named = |section: &'static str, path: &[&str]| -> Vec<(&str, &Value)> {
        let all = history[section].as_object().into_iter().flatten();
        let all = all.filter(|(name, _)| search.iter().all(|word| name.to_lowercase().contains(word)));
        all.map(|(name, of)| (&**name, path.iter().fold(of, |of, key| &of[*key]))).collect()
    };
    for (title, path, write) in POOLS {
        chart(title, named("pools", path), write);
    }
    chart("Answered by caches", named("cache", &["hit_ratio"]), percent);
    chart("Error budget left", named("budgets", &["left"]), percent);
    let events: Vec<_> = history["events"].as_array().into_iter().flatten().rev().take(EVENTS).collect();
    if let (Some(end), false) =
        (history["times"].as_array().and_then(|times| times.last()?.as_i64()), events.is_empty())
    {
        lines.push(TextLine::new("Events", Tone::Head));
        lines.extend(events.iter().map(|event| {
            let ago = (end - event["time_s"].as_i64().unwrap_or(end)).max(0);
            let bad = matches!(event["kind"].as_str(), Some("backend_down" | "breaker_opened" | "reload_failed"));
            let text =
                format!("{:>6} ago  {}", super::words::ago(ago as f64), event["text"].as_str().unwrap_or_default());
            TextLine::new(text.replace(char::is_control, " "), if bad { Tone::Bad } else { Tone::Soft })
        }));
    }
    if lines.is_empty() {
        lines.push(TextLine::new("Nothing yet: the gateway adds a point every five seconds.", Tone::Soft));
    }
    lines
}

fn values(column: &Value) -> Vec<Option<f64>> {
    column.as_array().into_iter().flatten().map(Value::as_f64).collect()
}

/// One row; `None` without any value.
fn row(name: &str, values: &[Option<f64>], width: usize, write: Write) -> Option<TextLine> {
    let cells = spread(values, width);
    let most = cells.iter().flatten().copied().reduce(f64::max)?;
    let block = |value: Option<f64>| match value {
        None => ' ',
        // From zero, so that rows can be compared.
        Some(value) if most > 0.0 => BLOCKS[((value / most * 7.0).round().max(0.0) as usize).min(7)],
        Some(_) => BLOCKS[0],
    };
    let drawn: String = cells.into_iter().map(block).collect();
    let name: String = name.replace(char::is_control, " ").chars().take(NAME - 1).collect();
    let last = values.iter().rev().flatten().next().copied();
    Some(TextLine::new(format!("{name:<NAME$}{drawn}  {} (most {})", known(last, write), write(most)), Tone::Plain))
}

/// The largest value of each of `width` equal parts of the time.
fn spread(values: &[Option<f64>], width: usize) -> Vec<Option<f64>> {
    let part = |at: usize| {
        let (from, to) = (at * values.len() / width, (at + 1) * values.len() / width);
        values[from..to.max(from + 1).min(values.len())].iter().flatten().copied().reduce(f64::max)
    };
    if values.len() <= width { values.to_vec() } else { (0..width).map(part).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_peaks_and_gaps() {
        let many: Vec<_> =
            (0..100).map(|at| if (50..60).contains(&at) { None } else { Some(f64::from(at == 23)) }).collect();
        let cells = spread(&many, 10);
        assert_eq!((cells[2], cells[5], cells[9]), (Some(1.0), None, Some(0.0)));
        let line = row("a-very-long-name-of-a-pool", &[Some(0.0), None, Some(7.0)], 10, |it| format!("{it:.0}"));
        assert_eq!(line.unwrap().text, "a-very-long-n ▁ █  7 (most 7)");
        assert!(row("none", &[None, None], 10, |it| it.to_string()).is_none());
    }
}
