//! Values with units: `500ms`, `8k`, `2Ki`, `25%`.

use std::time::Duration;

use super::mistake::Mistake;

/// Reads a duration: a number and one of `us`, `ms`, `s`, `m`, `h`, `d`.
pub fn duration(text: &str) -> Result<Duration, Mistake> {
    let mistake = || Mistake::new("not a duration").help("write a number and a unit: `500ms`, `10s`, `5m`, `1h`, `1d`");
    let (number, unit) = split(text);
    let number = decimal(number).ok_or_else(mistake)?;
    let seconds = match unit {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        "d" => number * 86_400.0,
        "" => {
            return Err(Mistake::new("a duration without a unit").help(format!("did you mean `{number}s`?")));
        }
        _ => return Err(mistake()),
    };
    // A century is beyond any deadline and well within the range of timers.
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| *duration <= Duration::from_hours(100 * 366 * 24))
        .ok_or_else(|| Mistake::new("a duration of more than a century").help("write a shorter one"))
}

/// Reads a duration above zero.
pub(super) fn deadline(text: &str) -> Result<Duration, Mistake> {
    let duration = duration(text)?;
    if duration.is_zero() {
        return Err(Mistake::new("a deadline of nothing would fail every request")
            .help("give it time, such as `30s`, or leave the key out to keep the default"));
    }
    Ok(duration)
}

/// Reads a whole number above zero with an optional `k`, `M`, `G` (thousands) or `Ki`, `Mi`, `Gi` (times 1024).
pub fn size(text: &str) -> Result<u64, Mistake> {
    let mistake = || {
        Mistake::new("not a size")
            .help("write a whole number, or one with `k`, `M`, `G` (× 1000) or `Ki`, `Mi`, `Gi` (× 1024)")
    };
    let (number, unit) = split(text);
    let number = decimal(number).ok_or_else(mistake)?;
    let factor = match unit {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        other => {
            let meant = match other.trim_end_matches(['B', 'b']) {
                "K" => "k",
                "m" => "M",
                "g" => "G",
                "ki" => "Ki",
                "mi" => "Mi",
                "gi" => "Gi",
                known @ ("k" | "M" | "G" | "Ki" | "Mi" | "Gi") => known,
                _ => return Err(mistake()),
            };
            return Err(Mistake::new("not a size").help(format!("did you mean `{number}{meant}`?")));
        }
    };
    let size = number * factor;
    if size < 1.0 {
        return Err(Mistake::new("a size of nothing").help("leave the key out to keep the default"));
    }
    // Above 2^53 an `f64` cannot represent every integer.
    if size.fract() != 0.0 || size > 9_007_199_254_740_992.0 {
        return Err(mistake());
    }
    Ok(size as u64)
}

/// Reads a percentage as a share in `0..=1`.
pub(super) fn share(text: &str) -> Result<f64, Mistake> {
    let mistake = || Mistake::new("not a percentage from `0%` to `100%`");
    let (number, unit) = split(text);
    let number = decimal(number).ok_or_else(|| mistake().help("write it like `5%`"))?;
    match unit {
        "%" if number <= 100.0 => Ok(number / 100.0),
        "%" => Err(mistake().help("a share of the whole is 100 % at most")),
        // A fraction is a share written as in `0.75`; nobody means three quarters of a percent.
        "" if number <= 1.0 && text.contains('.') => {
            Err(mistake().help(format!("did you mean `{}%`?", (number * 1e8).round() / 1e6)))
        }
        "" => Err(mistake().help(format!("did you mean `{number}%`?"))),
        _ => Err(mistake().help("write it like `5%`")),
    }
}

/// Reads a number of zero or more.
pub(super) fn amount(text: &str) -> Result<f64, Mistake> {
    if text.strip_prefix('-').and_then(decimal).is_some() {
        return Err(Mistake::new("a price below zero").help("write 0 for what costs nothing"));
    }
    decimal(text)
        .ok_or_else(|| Mistake::new("not a number").help("write US dollars per million tokens, such as `0.15`"))
}

/// The number at the start of `text`, and the rest.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// Digits with at most one point, which YAML and people read alike. No signs, exponents, `inf` or `nan`.
fn decimal(text: &str) -> Option<f64> {
    let plain = text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    plain.then(|| text.parse::<f64>().ok()).flatten().filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("500ms").unwrap(), Duration::from_millis(500));
        assert_eq!(duration("1.5s").unwrap(), Duration::from_millis(1500));
        assert_eq!(duration("1h").unwrap(), Duration::from_hours(1));
        assert_eq!(duration("10 m").unwrap(), Duration::from_mins(10));
        assert_eq!(duration("30").unwrap_err().help.unwrap(), "did you mean `30s`?");
        for bad in ["", "s", "-1s", "1w", "1e3s", "inf", "nans", "1.2.3s", "99999999999d"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert!(deadline("0s").is_err());
    }

    #[test]
    fn sizes_are_decimal_or_binary() {
        assert_eq!(size("8k").unwrap(), 8000);
        assert_eq!(size("2Ki").unwrap(), 2048);
        assert_eq!(size("1.5k").unwrap(), 1500);
        assert_eq!(size("1M").unwrap(), 1_000_000);
        assert_eq!(size("42").unwrap(), 42);
        assert_eq!(size("32MiB").unwrap_err().help.unwrap(), "did you mean `32Mi`?");
        assert_eq!(size("8K").unwrap_err().help.unwrap(), "did you mean `8k`?");
        for bad in ["", "k", "0", "1.5", "-1", "8q", "99999999999Gi"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares_are_percentages() {
        assert!((share("25%").unwrap() - 0.25).abs() < 1e-12);
        assert!((share("0%").unwrap()).abs() < 1e-12);
        assert_eq!(share("5").unwrap_err().help.unwrap(), "did you mean `5%`?");
        for (text, meant) in [("0.75", "75%"), ("0.07", "7%"), ("0.001", "0.1%"), ("1.0", "100%"), ("2.5", "2.5%")] {
            assert_eq!(share(text).unwrap_err().help.unwrap(), format!("did you mean `{meant}`?"));
        }
        for bad in ["101%", "-1%", "%", "a"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn prices_are_never_negative() {
        assert!((amount("0.10").unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(amount("-0.1").unwrap_err().message, "a price below zero");
        assert!(amount(".5").is_err());
        assert!(amount("1e3").is_err());
    }
}
