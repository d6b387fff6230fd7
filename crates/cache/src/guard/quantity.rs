//! Quantities: numbers in figures and in words, with scales, units, currencies, dates, times and versions, each
//! normalised to one spelling.

/// A quantity in normal form, and the number of words it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quantity {
    pub(super) kind: What,
    pub(super) text: String,
    /// Its unit.
    pub(super) unit: Option<&'static str>,
    /// Number of words it took.
    pub(super) taken: usize,
}

/// Kind of quantity.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Number,
    Date,
    Version,
}

/// Units; the first of each line is the normal form.
const UNITS: &str = include_str!("lists/units.txt");

/// Unit at the beginning of `words` and the number of its words: "degrees celsius" is one unit.
fn unit_of(words: &[String]) -> Option<(&'static str, usize)> {
    let first = unit(words.first()?)?;
    let scale = words.get(1).filter(|_| first == "degree").and_then(|word| match word.as_str() {
        "c" | "celsius" | "centigrade" => Some("celsius"),
        "f" | "fahrenheit" => Some("fahrenheit"),
        _ => None,
    });
    Some(scale.map_or((first, 1), |scale| (scale, 2)))
}

/// Units that may also precede their number.
pub(super) const CURRENCIES: [&str; 5] = ["usd", "eur", "gbp", "jpy", "inr"];

/// Normal form of a unit, if `word` (in lower case) is one.
pub(super) fn unit(word: &str) -> Option<&'static str> {
    use std::{collections::HashMap, sync::LazyLock};
    static TABLE: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| {
        let lines = UNITS.lines().filter_map(|line| Some((line.split(' ').next()?, line)));
        lines
            .flat_map(|(stands, line)| line.split(' ').map(move |word| (word, stands)))
            .filter(|(w, _)| !w.is_empty())
            .collect()
    });
    TABLE.get(word).copied()
}

const SMALL: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 8] = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const ORDINALS: [&str; 12] = [
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth",
];
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// Number of a month's name, from 1.
fn month(word: &str) -> Option<u32> {
    let found =
        MONTHS.iter().position(|name| *name == word || word.len() >= 3 && word.len() <= 4 && name.starts_with(word));
    found.map(|at| at as u32 + 1)
}

fn scale(word: &str) -> Option<u64> {
    Some(match word {
        "hundred" => 100,
        "k" | "thousand" | "thousands" => 1_000,
        "mn" | "million" | "millions" => 1_000_000,
        "b" | "bn" | "billion" | "billions" => 1_000_000_000,
        "trillion" => 1_000_000_000_000,
        "dozen" => 12,
        _ => return None,
    })
}

/// A number in words: its value and the number of words. "one" alone does not count: it is mostly a pronoun.
fn spelled(words: &[String]) -> Option<(u64, usize)> {
    let (mut total, mut current, mut taken) = (0u64, None::<u64>, 0);
    for word in words.iter().take(8) {
        if let Some(value) = SMALL.iter().position(|name| name == word) {
            current = Some(current.unwrap_or(0) + value as u64);
        } else if let Some(tens) = TENS.iter().position(|name| name == word) {
            current = Some(current.unwrap_or(0) + 10 * (tens as u64 + 2));
        } else if let (Some(value), Some(times)) = (current, scale(word).filter(|_| word.len() > 2)) {
            if times == 100 {
                current = Some(value.saturating_mul(100));
            } else {
                (total, current) = (total.saturating_add(value.saturating_mul(times)), Some(0));
            }
        } else {
            break;
        }
        taken += 1;
    }
    let value = total.saturating_add(current?);
    (taken > 0 && !(taken == 1 && words[0] == "one")).then_some((value, taken))
}

/// Quantity at the beginning of `words` (in lower case). `before` is the preceding word.
pub(super) fn read(before: Option<&str>, words: &[String]) -> Option<Quantity> {
    let word = words.first()?;
    let next = words.get(1).map(String::as_str);
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        return Some(figures(before, words));
    }
    if let Some(name) = month(word)
        && let Some(date) = named_date(name, word, words)
    {
        return Some(date);
    }
    if let Some(at) = ORDINALS.iter().position(|ordinal| ordinal == word) {
        // "a second" of time, "the first time": only "second" has another sense, after a number or "per".
        let time = word == "second" && !matches!(before, Some("the" | "my" | "your" | "a" | "his" | "her" | "world"));
        let text = format!("{}", at + 1);
        return (!time).then_some(Quantity { kind: What::Number, text, unit: Some("th"), taken: 1 });
    }
    if word == "half" && next.is_some_and(|next| next == "a" || next == "an" || unit(next).is_some()) {
        return Some(Quantity { kind: What::Number, text: "0.5".into(), unit: None, taken: 1 });
    }
    let (value, taken) = spelled(words)?;
    let unit = unit_of(&words[taken..]);
    let taken = taken + unit.map_or(0, |(_, words)| words);
    Some(Quantity { kind: What::Number, text: value.to_string(), unit: unit.map(|(unit, _)| unit), taken })
}

/// "march 5, 2024", "march 2024".
fn named_date(name: u32, word: &str, words: &[String]) -> Option<Quantity> {
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u32>().ok());
    let day = number(1).filter(|day| (1..=31).contains(day));
    let at = 1 + usize::from(day.is_some());
    let at = at
        + usize::from(
            day.is_some() && words.get(at).is_some_and(|word| matches!(word.as_str(), "st" | "nd" | "rd" | "th")),
        );
    let year = number(at).filter(|year| (1000..=2999).contains(year));
    // "may", "march" and "mar" are also ordinary words.
    let ambiguous = matches!(word, "may" | "march" | "mar" | "jun" | "sep" | "dec");
    if ambiguous && day.is_none() && year.is_none() {
        return None;
    }
    Some(Quantity {
        kind: What::Date,
        text: date(year, name, day),
        unit: None,
        taken: at + usize::from(year.is_some()),
    })
}

fn date(year: Option<u32>, month: u32, day: Option<u32>) -> String {
    format!("{}-{month}-{}", year.unwrap_or(0), day.unwrap_or(0))
}

/// A number that begins with a digit.
fn figures(before: Option<&str>, words: &[String]) -> Quantity {
    let text = words[0].as_str();
    let next = words.get(1).map_or("", String::as_str);
    // A date in figures: with the year first it is unambiguous, otherwise only its spelling counts.
    let parts: Vec<u32> = text.split(['-', '/', '.']).filter_map(|part| part.parse().ok()).collect();
    let numeric = text.split(['-', '/', '.']).count() == parts.len();
    if let [year @ 1000..=2999, month @ 1..=12, day @ 1..=31] = parts[..]
        && numeric
        && !text.contains('.')
    {
        return Quantity { kind: What::Date, text: date(Some(year), month, Some(day)), unit: None, taken: 1 };
    }
    if parts.len() == 3 && numeric && text.contains('/') {
        return Quantity { kind: What::Date, text: text.to_owned(), unit: None, taken: 1 };
    }
    if text.contains('.') && (parts.len() > 2 || matches!(before, Some("v" | "version" | "release"))) {
        return Quantity { kind: What::Version, text: text.to_owned(), unit: None, taken: 1 };
    }
    let ordinal = matches!(next, "st" | "nd" | "rd" | "th");
    // "5 march 2024", "5th of march".
    let at =
        1 + usize::from(ordinal) + usize::from(words.get(1 + usize::from(ordinal)).is_some_and(|word| word == "of"));
    if let (Ok(day @ 1..=31), Some(name)) = (text.parse::<u32>(), words.get(at).and_then(|word| month(word))) {
        let year = words.get(at + 1).and_then(|word| word.parse().ok()).filter(|year| (1000..=2999).contains(year));
        let taken = at + 1 + usize::from(year.is_some());
        return Quantity { kind: What::Date, text: date(year, name, Some(day)), unit: None, taken };
    }
    if ordinal {
        return Quantity { kind: What::Number, text: text.to_owned(), unit: Some("th"), taken: 2 };
    }
    if matches!(next, "am" | "pm" | "a.m" | "p.m") {
        let (hours, minutes) = text.split_once(':').unwrap_or((text, "00"));
        let hours = hours.parse::<u32>().unwrap_or(0) % 12 + if next.starts_with('p') { 12 } else { 0 };
        return Quantity { kind: What::Date, text: format!("{hours}:{minutes}"), unit: None, taken: 2 };
    }
    if text.contains(':') {
        let text = text.strip_prefix('0').unwrap_or(text).to_owned();
        return Quantity { kind: What::Date, text, unit: None, taken: 1 };
    }
    let mut value = text.replace(',', "");
    let mut taken = 1;
    if let Some(times) = scale(next)
        && let Some(scaled) = scaled(&value, times)
    {
        (value, taken) = (scaled, 2);
    }
    let unit = unit_of(&words[taken..]);
    let taken = taken + unit.map_or(0, |(_, words)| words);
    Quantity { kind: What::Number, text: value, unit: unit.map(|(unit, _)| unit), taken }
}

/// Multiplies: "1.5" a thousand times is "1500".
fn scaled(value: &str, times: u64) -> Option<String> {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    if fraction.len() > 6 {
        return None;
    }
    let digits: u64 = format!("{whole}{fraction}").parse().ok()?;
    let product = digits.checked_mul(times)?;
    let divisor = 10u64.pow(fraction.len() as u32);
    product.is_multiple_of(divisor).then(|| (product / divisor).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Quantity {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        read(None, &words).unwrap()
    }

    #[test]
    fn one_quantity_has_one_spelling() {
        for (one, other) in [
            ("1,000", "one thousand"),
            ("2", "two"),
            ("5 k", "5000"),
            ("1.5 million", "1,500,000"),
            ("twenty five", "25"),
            ("two hundred", "200"),
            ("5 km", "five kilometers"),
            ("50 %", "fifty percent"),
            ("3 rd", "third"),
            ("5 pm", "17:00"),
            ("march 5 2024", "5 mar 2024"),
            ("2024-03-05", "5 th of march 2024"),
            ("10 usd", "ten dollars"),
        ] {
            let (one, other) = (of(one), of(other));
            assert_eq!((&one.text, one.unit, one.kind), (&other.text, other.unit, other.kind));
        }
        for (one, other) in
            [("5 km", "5 miles"), ("3.10", "3.1"), ("1.2.3", "1.2.4"), ("march 5", "march 6"), ("5 am", "5 pm")]
        {
            let (one, other) = (of(one), of(other));
            assert!(one.text != other.text || one.unit != other.unit);
        }
        assert_eq!(read(None, &["one".into(), "of".into()]), None);
        assert_eq!(read(None, &["may".into(), "i".into()]), None);
        assert_eq!(of("1.2.3").kind, What::Version);
    }
}
