//! Metrics pages of engines by version, trimmed to the lines that matter, with the signals that each carries.
//!
//! One file a version in `pages/`; `earlier` stands for pages whose version is not known. It begins with the kind of engine (`# engine vllm`) and the signals (`# signal running 3`);
//! a page whose names have moved fails with the names that the profile looks for and those on the page that nobody reads.

use std::{collections::BTreeSet, fs, path::Path};

use signalbox_engines::{PROFILES, Profile, Signal, Take, read_engine_signals, samples};
use signalbox_types::EngineSignals;

/// The signals that were read, by name.
fn found(signals: &EngineSignals) -> Vec<(&'static str, f64)> {
    let drafting = signals.reported_drafting;
    let all = [
        (Signal::Running, signals.running),
        (Signal::Waiting, signals.waiting),
        (Signal::KvUsage, signals.kv_usage),
        (Signal::KvCapacity, signals.kv_capacity_tokens.map(|tokens| tokens as f64)),
        (Signal::PrefixQueries, signals.prefix_queries),
        (Signal::PrefixHits, signals.prefix_hits),
        (Signal::PrefixHitRatio, signals.reported_hit_ratio),
        (Signal::Preemptions, signals.preemptions),
        (Signal::PromptTokens, signals.prompt_tokens),
        (Signal::GeneratedTokens, signals.generated_tokens),
        (Signal::TtftSum, signals.ttft_sum),
        (Signal::TtftCount, signals.ttft_count),
        (Signal::QueuedTokens, signals.queued_tokens),
        (Signal::Drafts, signals.drafts),
        (Signal::DraftedTokens, signals.drafted_tokens),
        (Signal::AcceptedTokens, signals.accepted_tokens),
        (Signal::AcceptRatio, drafting.map(|drafting| drafting.ratio)),
        (Signal::AcceptLength, drafting.and_then(|drafting| drafting.length)),
        (Signal::Awake, signals.asleep.map(|asleep| f64::from(u8::from(!asleep)))),
    ];
    all.into_iter().filter_map(|(signal, value)| Some((signal.name(), (value? * 1e6).round() / 1e6))).collect()
}

/// Differences between a page and what it promises; empty if it carries what it says.
fn problems(page: &str) -> String {
    let kind = page.lines().find_map(|line| line.strip_prefix("# engine ")).expect("a page names its engine");
    let wanted: Vec<(&str, f64)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# signal ")?.rsplit_once(' '))
        .map(|(name, value)| (name, value.parse().expect("a signal has a number")))
        .collect();
    let Some(signals) = read_engine_signals(page) else { return "no profile has one of its metrics".to_owned() };
    if signals.kind.name() != kind {
        return format!("read as a page of {}", signals.kind.name());
    }
    let (profile, found) = (Profile::of_kind(signals.kind).expect("a kind has a profile"), found(&signals));
    let mut text: Vec<String> = Vec::new();
    for (name, value) in &wanted {
        match found.iter().find(|(other, _)| other == name) {
            Some((_, read)) if (read - value).abs() < 1e-9 => {}
            Some((_, read)) => text.push(format!("'{name}' is {read} instead of {value}")),
            None => text.push(format!("no '{name}': the profile looks for {}", names_of(profile, name))),
        }
    }
    for (name, value) in found.iter().filter(|(name, _)| !wanted.iter().any(|(other, _)| other == name)) {
        text.push(format!("a signal that the page does not promise: '# signal {name} {value}'"));
    }
    if !text.is_empty() {
        text.push(format!("metrics on the page that nobody reads: {}", unread(profile, page)));
    }
    text.join("\n")
}

fn takes(profile: &Profile) -> impl Iterator<Item = (Signal, &'static Take)> {
    let signals = profile.metrics.expect("a page").signals;
    signals.iter().flat_map(|(signal, ways)| ways.iter().map(|way| (*signal, way)))
}

/// The metrics that carry a signal by the profile.
fn names_of(profile: &Profile, signal: &str) -> String {
    let own = takes(profile).filter(|(of, _)| of.name() == signal);
    own.flat_map(|(_, way)| way.picks()).map(|pick| pick.name).collect::<Vec<_>>().join(", ")
}

/// The engine's metrics on a page that its profile does not look for.
fn unread(profile: &Profile, page: &str) -> String {
    let read: BTreeSet<&str> = takes(profile).flat_map(|(_, way)| way.picks()).map(|pick| pick.name).collect();
    let prefixes = profile.metrics.expect("a page").prefixes;
    let rest = |name| prefixes.iter().find_map(|prefix| str::strip_prefix(name, *prefix)?.strip_prefix([':', '_']));
    let own = samples(page).filter_map(|sample| rest(sample.name)).map(|name| name.trim_end_matches("_total"));
    let unread: BTreeSet<&str> = own.filter(|name| !read.contains(name)).collect();
    unread.into_iter().collect::<Vec<_>>().join(", ")
}

/// The pages, by file name.
fn pages() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages");
    let files = fs::read_dir(folder).expect("the folder of the pages").map(|entry| entry.expect("an entry").path());
    let mut pages: Vec<_> = files
        .map(|file| {
            let name = file.file_name().expect("a file has a name").to_string_lossy().into_owned();
            (name, fs::read_to_string(file).expect("a page is text"))
        })
        .collect();
    pages.sort();
    pages
}

#[test]
fn each_page_carries_its_signals() {
    let wrong: Vec<_> = pages().iter().map(|(name, page)| (name.clone(), problems(page))).collect();
    let wrong: Vec<_> =
        wrong.iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| format!("{name}:\n{text}")).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_profile_with_metrics_has_a_page_of_a_version() {
    let pages = pages();
    let missing = PROFILES.iter().filter_map(|profile| profile.metrics).map(|page| page.kind.name());
    let missing: Vec<_> =
        missing.filter(|kind| !pages.iter().any(|(_, page)| page.starts_with(&format!("# engine {kind}\n")))).collect();
    assert!(missing.is_empty(), "no page under tests/pages of {missing:?}");
}

#[test]
fn a_page_whose_names_have_moved_is_reported_with_both_names() {
    let page = "# engine vllm\n# signal running 3\n# signal waiting 2\nvllm:num_requests_running 3\nvllm:num_requests_pending 2\n";
    let report = problems(page);
    assert!(report.contains("no 'waiting': the profile looks for num_requests_waiting"), "{report}");
    assert!(report.contains("nobody reads: num_requests_pending"), "{report}");
    assert_eq!(problems(&page.replace("pending", "waiting")), "");
}

#[test]
fn no_profile_names_a_signal_twice() {
    for profile in PROFILES {
        let signals = profile.metrics.map(|page| page.signals).unwrap_or_default();
        for (place, (signal, ways)) in signals.iter().enumerate() {
            let is_new = signals[..place].iter().all(|(other, _)| other != signal);
            assert!(is_new && !ways.is_empty(), "{}: {signal:?}", profile.name);
        }
    }
}

#[test]
fn other_texts_are_not_an_engine() {
    for text in ["", "up 1", "<html></html>", "process_cpu_seconds_total 1", "vllmx_running 2", "vllm 1"] {
        assert_eq!(read_engine_signals(text), None, "{text}");
    }
}

#[test]
fn invalid_values_are_unknown() {
    let text = "vllm:num_requests_running NaN\nvllm:num_requests_waiting -1\nvllm:kv_cache_usage_perc 1.02\n";
    let read = read_engine_signals(text).unwrap();
    assert_eq!((read.running, read.waiting, read.kv_usage), (None, None, Some(1.0)));
}
