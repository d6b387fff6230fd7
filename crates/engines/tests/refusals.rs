//! Error bodies of engines and providers, as their servers send them, with the verdict on each.
//!
//! One file an engine in `refusals/`; a line has the verdict, the status (`-` within an answer that began with success) and
//! the body, separated by `|`.

use signalbox_engines::{Verdict, verdict};

const FILES: [(&str, &str); 6] = [
    ("engines", include_str!("refusals/engines.txt")),
    ("providers", include_str!("refusals/providers.txt")),
    ("account", include_str!("refusals/account.txt")),
    ("abilities", include_str!("refusals/abilities.txt")),
    ("state", include_str!("refusals/state.txt")),
    ("request", include_str!("refusals/request.txt")),
];

#[test]
fn each_refusal_has_its_verdict() {
    let mut wrong = Vec::new();
    for (file, lines) in FILES {
        for line in lines.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let mut parts = line.splitn(3, '|').map(str::trim);
            let mut part = || parts.next().unwrap_or_default();
            let (wanted, status, body) = (part(), part().parse().ok(), part());
            assert!(Verdict::ALL.iter().any(|verdict| verdict.name() == wanted), "{file}: unknown verdict in: {line}");
            let found = verdict(status, body.as_bytes());
            if found.name() != wanted {
                wrong.push(format!("{file}: '{}' instead of: {line}", found.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
