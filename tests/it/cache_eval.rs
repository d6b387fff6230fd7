//! `signalbox cache eval` through the real binary.

use std::{io::Write as _, path::Path};

use serde_json::Value;

use crate::support::cli::{Ran, run};

const PAIRS: &str = r#"{"a":"How do I reset my password?","b":"how do i reset my password","same":true,"family":"spelling"}
{"a":"What is the capital of France?","b":"What's the capital of France?","same":true,"family":"spelling"}
{"a":"How can I bake bread without yeast?","b":"How can I bake bread without any yeast?","same":true,"family":"words"}
{"a":"How do I cancel my subscription?","b":"What has to be done so that I am not billed any more?","same":true,"family":"words"}

{"a":"How long do I boil 2 eggs?","b":"How long do I boil 12 eggs?","same":false,"family":"numbers"}
{"a":"Is 17 a prime number?","b":"Is 18 a prime number?","same":false,"family":"numbers"}
{"a":"Is Python 3.11 still supported?","b":"Is Python 3.7 still supported?","same":false,"family":"numbers"}
{"a":"Who wrote the Iliad?","b":"Who wrote the Aeneid?","same":false,"family":"names"}
{"a":"How far is Rome from Paris?","b":"How far is Rome from Madrid?","same":false,"family":"names"}
{"a":"How do I turn dark mode on?","b":"How do I turn dark mode off?","same":false,"family":"opposites"}
{"a":"What is the weather today in Oslo?","b":"Which of the planets is the largest?","same":false}
{"a":"Why is the sky blue?","b":"How do I mend a bicycle tyre?","same":false}
"#;

/// Runs `signalbox cache eval` inside `dir`, so that paths print the same everywhere.
fn eval(dir: &Path, arguments: &[&str]) -> Ran {
    run(dir, ["cache", "eval", "--pairs"].iter().chain(arguments).copied())
}

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).expect("a file");
    }
    dir
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn a_stream_of_pairs_gives_hits_and_false_hits() {
    let dir = folder(&[("pairs.jsonl", PAIRS.as_bytes()), ("pairs.jsonl.gz", &gzip(PAIRS))]);
    let ran = eval(dir.path(), &["pairs.jsonl.gz", "--json", "--volatile"]);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    let found: Value = serde_json::from_str(&ran.out).expect("JSON");
    let counts = ["pairs", "same", "stored", "asked", "with_partner", "passed_by"].map(|name| found[name].as_u64());
    assert_eq!(counts, [12, 4, 12, 12, 4, 0].map(Some));
    let stream = found["stream"].as_array().expect("a list");
    assert_eq!(stream.len(), 12, "three prevalences by four budgets");
    let number = |point: &Value, name: &str| point[name].as_f64().expect("a number");
    for point in stream {
        assert_eq!(point["false_without_partner"], 0, "numbers, names and opposites are kept apart: {point}");
        for rate in ["hit_rate", "false_per_hit", "false_per_request"] {
            let ends = &point[format!("{rate}_interval")];
            let (low, high) = (ends[0].as_f64().expect("an end"), ends[1].as_f64().expect("an end"));
            let rate = point[rate].as_f64().unwrap_or(low);
            assert!(0.0 <= low && low <= rate && rate <= high && high <= 1.0, "{point}");
        }
    }
    let last = &stream[11];
    assert!(last["prevalence"] == 0.2 && last["budget"] == 0.05 && number(last, "right") >= 1.0, "{last}");
    assert!(number(last, "hit_rate") > 0.0 && number(last, "false_per_hit") < 1e-9);
    let families = found["families"].as_array().expect("a list");
    let numbers = families.iter().find(|row| row["family"] == "numbers" && row["budget"] == 0.05).expect("a row");
    assert!(numbers["different"] == 3 && numbers["served_wrongly"] == 0 && numbers["same"] == 0);
    let spelling = families.iter().find(|row| row["family"] == "spelling" && row["budget"] == 0.01).expect("a row");
    assert!(spelling["same"] == 2 && spelling["paraphrases_served"].as_u64() >= Some(1), "{spelling}");

    let ran = eval(dir.path(), &["pairs.jsonl", "--budget", "3%,0.5%", "--prevalence", "10%"]);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    for part in [
        "12, of which 4 mean the same",
        "12 asked, of which 4 have a partner",
        "0.50 %",
        "Passed by:",
        "numbers",
        "0 of 3",
    ] {
        assert!(ran.out.contains(part), "{part} in {}", ran.out);
    }
}

#[test]
fn unreadable_lines_are_reported_with_their_number() {
    let lines: Vec<&str> = PAIRS.lines().collect();
    let files = [
        ("pairs.jsonl", PAIRS.as_bytes()),
        ("broken.jsonl", &[lines[0], "", "nonsense"].join("\n").into_bytes()[..]),
        ("label.jsonl", br#"{"a":"one","b":"other","same":"perhaps"}"#),
        ("half.jsonl", br#"{"a":"one","same":true}"#),
        ("long.jsonl", &vec![b' '; 2 << 20]),
        ("empty.jsonl", b"\n\n"),
        ("gone.jsonl.gz", &gzip(PAIRS)[..40]),
    ];
    let dir = folder(&files);
    for (arguments, parts) in [
        (&["absent.jsonl"][..], &["absent.jsonl", "cannot be read"][..]),
        (&["broken.jsonl"], &["line 3: not a pair", r#"{"a": "…", "b": "…", "same": true}"#]),
        (&["label.jsonl"], &["line 1: not a pair", "boolean"]),
        (&["half.jsonl"], &["line 1: not a pair", "missing field `b`"]),
        (&["long.jsonl"], &["line 1: longer than 1048576 bytes"]),
        (&["empty.jsonl"], &["this file is empty"]),
        (&["gone.jsonl.gz"], &["cannot be read"]),
        (&["pairs.jsonl", "--limit", "4"], &["every prompt means the same", r#"add pairs with `"same": false`"#]),
    ] {
        let ran = eval(dir.path(), arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}: {}", ran.out);
        for part in parts {
            assert!(ran.err.contains(part), "{part} in {}", ran.err);
        }
    }
    let ran = eval(dir.path(), &["pairs.jsonl", "--budget", "much"]);
    assert!(ran.code == Some(2) && ran.err.contains("--budget"), "{}", ran.err);
}
