//! Compact formatting of figures.

/// Placeholder for unknown figures.
pub(super) const NONE: &str = "–";

/// Formats a figure with `write`, or the placeholder.
pub(super) fn known(value: Option<f64>, write: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), write)
}

/// A time: `8.4ms`, `412ms`, `1.20s`, `3min`.
pub(super) fn seconds(value: f64) -> String {
    match value {
        s if s < 0.009_95 => format!("{:.1}ms", s * 1e3),
        s if s < 0.999_5 => format!("{:.0}ms", s * 1e3),
        s if s < 59.995 => format!("{s:.2}s"),
        s => ago(s),
    }
}

/// A time in milliseconds.
pub(super) fn millis(value: f64) -> String {
    seconds(value / 1e3)
}

/// A duration in whole units.
pub(super) fn ago(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    match whole {
        0..60 => format!("{whole}s"),
        60..3600 => format!("{}min", whole / 60),
        3600..86_400 => format!("{}h {}min", whole / 3600, whole % 3600 / 60),
        _ => format!("{}d {}h", whole / 86_400, whole % 86_400 / 3600),
    }
}

/// A share: `0.4%`, `62%`.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 10.0 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

/// A count: `942`, `12.4k`, `3.1M`.
pub(super) fn count(value: u64) -> String {
    match value {
        0..10_000 => value.to_string(),
        10_000..1_000_000 => format!("{:.1}k", value as f64 / 1e3),
        _ => format!("{:.1}M", value as f64 / 1e6),
    }
}

/// A rate per second.
pub(super) fn rate(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// US dollars.
pub(super) fn dollars(value: f64) -> String {
    match value {
        0.0 => "$0".to_owned(),
        usd if usd < 0.001 => format!("${usd:.6}"),
        usd if usd < 1.0 => format!("${usd:.3}"),
        usd => format!("${usd:.2}"),
    }
}

/// An identifier in words.
pub(super) fn plain(word: &str) -> String {
    word.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_to_few_letters() {
        let times = [0.000_4, 0.009_96, 0.412, 0.999_6, 1.2, 59.999, 200.0, 7_300.0, 200_000.0];
        assert_eq!(
            times.map(seconds),
            ["0.4ms", "10ms", "412ms", "1.00s", "1.20s", "59s", "3min", "2h 1min", "2d 7h"].map(str::to_owned)
        );
        assert_eq!([0.0, 0.004, 0.62, 1.0].map(percent), ["0%", "0.4%", "62%", "100%"].map(str::to_owned));
        assert_eq!([9_999, 12_400, 3_100_000].map(count), ["9999", "12.4k", "3.1M"].map(str::to_owned));
        assert_eq!([0.0, 0.000_05, 0.037, 6.3].map(dollars), ["$0", "$0.000050", "$0.037", "$6.30"].map(str::to_owned));
        assert_eq!(known(None, seconds), NONE);
    }
}
