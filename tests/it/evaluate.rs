//! `signalbox evaluate` through the real binary.

use std::{fmt::Write as _, path::Path};

use serde_json::Value;

use crate::support::cli::{Ran, run};

/// Runs `signalbox evaluate` inside `dir`, so that paths print the same everywhere.
fn evaluate(dir: &Path, arguments: &[&str]) -> Ran {
    run(dir, ["evaluate"].iter().chain(arguments).copied())
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).expect("a file");
    }
    dir
}

/// Short questions that both models answer, and long tasks that only the large one does.
fn pairs(count: usize) -> String {
    let mut text = String::new();
    for at in 0..count {
        let (prompt, small) = match at % 2 {
            0 => (format!("who sang song {at}"), 1),
            _ => (
                format!(
                    "Write a function that returns the first {at} primes, explain why it works, and compare it with a sieve."
                ),
                0,
            ),
        };
        let task = if at % 4 < 2 { "one" } else { "other" };
        writeln!(text, r#"{{"id":"{at}","task":"{task}","prompt":"{prompt}","small":{small},"large":1}}"#)
            .expect("a line");
    }
    text
}

#[test]
fn rankings_are_compared_with_their_intervals() {
    let dir = folder(&[("pairs.jsonl", &pairs(80))]);
    let ran = evaluate(dir.path(), &["--outcomes", "pairs.jsonl", "--json"]);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    let found: Value = serde_json::from_str(&ran.out).expect("JSON");
    let rankings = found["sets"][0]["rankings"].as_array().expect("rankings");
    let apgr = |name: &str| {
        let row = rankings.iter().find(|row| row["ranking"] == name).expect("a ranking");
        (row["apgr"].as_f64().expect("a figure"), row["apgr_interval"][0].as_f64().expect("a bound"))
    };
    assert!(found["sets"][0]["prompts"] == 80 && (apgr("random").0 - 0.5).abs() < 1e-9);
    assert!((apgr("signalbox").0 - 0.75).abs() < 1e-9 && apgr("signalbox").1 > 0.5, "{rankings:?}");
    assert!(apgr("oracle").0 >= apgr("signalbox").0);
    for row in rankings {
        assert_eq!(row["signalbox_ahead_interval"].is_null(), row["ranking"] == "signalbox", "{row}");
    }
    let text = evaluate(dir.path(), &["--outcomes", "pairs.jsonl"]).out;
    for part in ["all: 80 prompts, small 0.500, large 1.000", "APGR", "CPT50", "length only", "keywords", "oracle"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn unreadable_lines_are_reported_with_their_number() {
    let scores = r#"{"id":"1","task":"t","prompt":"p","scores":{"a":0.5,"b":1}}"#;
    let dir = folder(&[
        ("broken.jsonl", "{\"id\":\"1\",\"task\":\"t\",\"prompt\":\"p\",\"small\":0,\"large\":1}\nnonsense\n"),
        ("range.jsonl", r#"{"id":"1","task":"t","prompt":"p","small":7,"large":1}"#),
        ("neither.jsonl", r#"{"id":"1","task":"t","prompt":"p"}"#),
        ("scores.jsonl", scores),
        ("empty.jsonl", ""),
    ]);
    for (arguments, parts) in [
        (&["absent.jsonl"][..], &["absent.jsonl", "cannot be read"][..]),
        (&["broken.jsonl"], &["line 2: not an outcome", "{id, task, prompt, small, large}"]),
        (&["range.jsonl"], &["line 1: a quality of 7", "from 0 to 1"]),
        (&["neither.jsonl"], &["line 1: it has neither"]),
        (&["empty.jsonl"], &["this file is empty"]),
        (&["scores.jsonl"], &["no `--small` says whose count", "`a`, `b`"]),
        (&["scores.jsonl", "--small", "a", "--large", "c"], &["no score of `c`"]),
        (&["scores.jsonl", "--small", "a", "--large", "b", "--leave-one-out"], &["too few to fit on"]),
    ] {
        let ran = evaluate(dir.path(), &[&["--outcomes"], arguments].concat());
        assert_eq!(ran.code, Some(1), "{arguments:?}");
        for part in parts {
            assert!(ran.err.contains(part), "{part} in {}", ran.err);
        }
    }
}

#[test]
fn a_line_says_why_rankings_cannot_be_compared() {
    let line = |prompt: &str, small: f64, large: f64| {
        format!(r#"{{"id":"1","task":"t","prompt":"{prompt}","small":{small},"large":{large}}}"#) + "\n"
    };
    let worse = (0..2_100).map(|at| line(&format!("prompt {at}"), 1.0, f64::from(at % 2))).collect::<String>();
    let dir = folder(&[
        ("worse.jsonl", &worse),
        ("single.jsonl", &line("alone", 0.0, 1.0)),
        ("alike.jsonl", &line("the same", 0.0, 1.0).repeat(3)),
    ]);
    let nothing = "the larger model is not better here: there is nothing to recover";
    for (arguments, reported, table) in [
        (&["worse.jsonl"][..], &[nothing][..], false),
        (&["worse.jsonl", "--learn"], &[nothing, &format!("worse: {nothing}")], false),
        (&["single.jsonl"], &["there is one prompt only"], false),
        (&["alike.jsonl"], &["signalbox scores all prompts here alike"], true),
        (&["alike.jsonl", "--learn"], &["Nothing was learned: a replay needs 2001 prompts"], true),
    ] {
        let ran = evaluate(dir.path(), &[&["--outcomes"], arguments].concat());
        assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{arguments:?}");
        for part in reported {
            assert!(ran.out.contains(part), "{part} in {}", ran.out);
        }
        assert_eq!(ran.out.contains("length only"), table, "{}", ran.out);
    }
    let ran = evaluate(dir.path(), &["--outcomes", "worse.jsonl", "--json"]);
    let found: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(found["sets"][0]["note"], nothing);
}

#[test]
fn named_models_are_of_the_files_that_name_any() {
    let named = r#"{"id":"1","task":"t","prompt":"p","scores":{"a":0.5,"b":1}}"#;
    let plain = r#"{"id":"1","task":"t","prompt":"p","small":0,"large":1}"#;
    let dir = folder(&[("named.jsonl", named), ("plain.jsonl", plain)]);
    let models = ["--small", "a", "--large", "b"];
    let both = evaluate(dir.path(), &[&["--outcomes", "named.jsonl", "plain.jsonl"], &models[..]].concat());
    assert!(both.out.contains("not in plain, whose `small` and `large` count"), "{}{}", both.out, both.err);
    let ran = evaluate(dir.path(), &[&["--outcomes", "plain.jsonl"], &models[..]].concat());
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("no line has scores by model"), "{}", ran.err);
}
