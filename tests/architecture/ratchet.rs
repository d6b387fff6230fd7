//! Compares what the rules count in the sources with the numbers in `ratchet.txt`, which may only go down.

use std::{collections::BTreeMap, fmt::Write as _};

/// A number of breaches of one rule at one place.
#[derive(Debug)]
pub(crate) struct Count {
    /// The rule's name in `ratchet.txt`.
    pub(crate) rule: &'static str,
    /// A room, a folder, a file or a function, without spaces.
    pub(crate) place: String,
    pub(crate) number: usize,
    /// The breaches, each with its file and line.
    pub(crate) breaches: Vec<String>,
}

/// Counts breaches by place.
pub(crate) fn count(rule: &'static str, breaches: impl IntoIterator<Item = (String, String)>) -> Vec<Count> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (place, breach) in breaches {
        places.entry(place).or_default().push(breach);
    }
    let counts = places.into_iter();
    counts.map(|(place, breaches)| Count { rule, place, number: breaches.len(), breaches }).collect()
}

/// The rows of `ratchet.txt`: `rule place number`, the numbers by rule and place.
fn rows(table: &str) -> BTreeMap<(&str, &str), usize> {
    let lines = table.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line| parse(line).unwrap_or_else(|| panic!("ratchet.txt: `{line}` is not `rule place number`"));
    lines.map(row).collect()
}

fn parse(line: &str) -> Option<((&str, &str), usize)> {
    let mut words = line.split_whitespace();
    let row = ((words.next()?, words.next()?), words.next()?.parse().ok()?);
    words.next().is_none().then_some(row)
}

/// Every number that differs from its row, with what to do about it.
pub(crate) fn differences(table: &str, counts: &[Count]) -> Vec<String> {
    let rows = rows(table);
    let mut found = Vec::new();
    for count in counts {
        let allowed = rows.get(&(count.rule, count.place.as_str())).copied().unwrap_or(0);
        if count.number > allowed {
            let mut text =
                format!("{} {}: {} found, {allowed} allowed (ratchet.txt):", count.rule, count.place, count.number);
            for breach in &count.breaches {
                write!(text, "\n      {breach}").expect("text grows");
            }
            found.push(text);
        }
    }
    for ((rule, place), allowed) in rows {
        let number = number(counts, rule, place);
        if number < allowed {
            found.push(format!(
                "{rule} {place}: {number} found, ratchet.txt says {allowed}: write {number} there (remove the row at 0), \
                 or run `SIGNALBOX_UPDATE=1 cargo test --test architecture`"
            ));
        }
    }
    found
}

/// The table with every number lowered that can be, and rows at zero removed. No number is raised, no row is added.
pub(crate) fn lowered(table: &str, counts: &[Count]) -> String {
    let mut lowered = String::new();
    for line in table.lines() {
        match parse(line).filter(|_| !line.starts_with('#')) {
            Some(((rule, place), allowed)) => match number(counts, rule, place) {
                0 => {}
                number if number < allowed => writeln!(lowered, "{rule} {place} {number}").expect("text grows"),
                _ => writeln!(lowered, "{line}").expect("text grows"),
            },
            None => writeln!(lowered, "{line}").expect("text grows"),
        }
    }
    lowered
}

fn number(counts: &[Count], rule: &str, place: &str) -> usize {
    counts.iter().find(|count| count.rule == rule && count.place == place).map_or(0, |count| count.number)
}

#[test]
fn numbers_may_only_go_down() {
    let table = "# A comment stays.\nwords src/cache 2\nwords src/sim 1\nlong src/sim::run 90\n";
    let counts = |cache: usize, run: usize| {
        let mut counts = count("words", (0..cache).map(|at| ("src/cache".to_owned(), format!("breach {at}"))));
        counts.push(Count { rule: "long", place: "src/sim::run".into(), number: run, breaches: vec!["run".into()] });
        counts.push(Count { rule: "words", place: "src/sim".into(), number: 1, breaches: vec!["word".into()] });
        counts
    };
    assert_eq!(differences(table, &counts(2, 90)), [""; 0]);
    let more = differences(table, &counts(3, 90));
    assert!(more.len() == 1 && more[0].contains("3 found, 2 allowed") && more[0].contains("breach 2"), "{more:?}");
    let fewer = differences(table, &counts(0, 88));
    assert!(fewer.len() == 2 && fewer[0].contains("write 88"), "{fewer:?}");
    assert_eq!(lowered(table, &counts(0, 95)), "# A comment stays.\nwords src/sim 1\nlong src/sim::run 90\n");
    assert_eq!(
        lowered(table, &counts(1, 88)),
        "# A comment stays.\nwords src/cache 1\nwords src/sim 1\nlong src/sim::run 88\n"
    );
    assert!(differences("", &counts(1, 0))[0].contains("1 found, 0 allowed"));
}
