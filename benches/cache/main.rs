//! The semantic cache on labelled pairs: guards, hit rate compared with static thresholds and with a threshold per entry, calibration, and
//! the adversarial set.
//!
//! All policies see the same vectors, made by the built-in embedders and stored below `target`. Without the pairs below `SIGNALBOX_DATA`
//! the bench is skipped.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench reports on stdout")]

mod chart;
mod data;
mod policies;
mod sources;

use std::{
    collections::{BTreeMap, HashSet},
    error::Error,
    io,
    process::ExitCode,
    sync::LazyLock,
};

use clap::Parser;
use signalbox::{
    cache::{
        confidence::Prior,
        guard::{Traits, compare},
    },
    embed,
    lab::cache_replay::{Corpus, Counts, Half, Query, Stream, at_prevalence, fingerprint},
};

/// Command-line arguments.
#[derive(clap::Parser)]
#[command(name = "cache", about = "Bench of the semantic cache on labelled pairs")]
struct Args {
    /// Print this many random hits of the judged half at a budget of 5 % that were not read, for reading
    #[arg(long)]
    draw: Option<usize>,
    /// Write an SVG of stated budgets against measured rates to this file
    #[arg(long)]
    plot: Option<std::path::PathBuf>,
    /// Passed by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

const BUDGETS: [f32; 4] = [0.01, 0.02, 0.03, 0.05];
const PREVALENCES: [f64; 3] = [0.01, 0.05, 0.20];
/// Name of the deciding embedder's prior.
const DECIDER: &str = "minilm-l6-w8";

/// The prior last written by `examples/fit_cache`, compiled in or not.
fn prior() -> &'static Prior {
    static READ: LazyLock<Prior> = LazyLock::new(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/cache/src/confidence/priors.json");
        let priors: Vec<Prior> =
            std::fs::read_to_string(path).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        priors.into_iter().find(|prior| prior.embedder == DECIDER).unwrap_or_else(|| Prior::of(DECIDER).clone())
    });
    &READ
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("skipped: {error}; the bench needs the pairs below SIGNALBOX_DATA");
            ExitCode::SUCCESS
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let pairs = data::question_pairs()?;
    if !args.bench {
        // `cargo test --all-targets` only checks that the bench starts.
        return Ok(());
    }
    let store = data::Store::open()?;
    let corpus = Corpus::of(&pairs, Half::Judge, &std::collections::HashMap::new());
    let (_, decider) = store.vectors(&corpus.texts);
    let vocabulary = embed::recall()?;
    let stream = Stream::of(&corpus, &decider, &*vocabulary, || ());
    if let Some(most) = args.draw {
        return Ok(draw(&corpus, &stream, most)?);
    }
    guards(&corpus);
    let partners = stream.queries.iter().filter(|query| query.partner).count();
    println!("\n{} entries, {} queries, {partners} of them with a partner\n", stream.stored, stream.queries.len());
    streams(&stream);
    calibration(&stream);
    adversarial(&store)?;
    let points = adjudicated(&corpus, &stream);
    if let Some(path) = &args.plot {
        std::fs::write(path, chart::draw(&points)?)?;
    }
    // Once more with the labels from reading: all hits have one.
    let labels = data::sheet("adjudicated.tsv")?.into_iter().map(|(pair, label)| (pair, label == "yes")).collect();
    let corpus = Corpus::of(&pairs, Half::Judge, &labels);
    as_read(&Stream::of(&corpus, &decider, &*vocabulary, || ()));
    sources::table(prior(), &stream)?;
    sources::planted(prior(), &pairs)?;
    Ok(())
}

fn guards(corpus: &Corpus) {
    let mut fired: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    let mut all = [0; 2];
    for (a, b, same) in &corpus.pairs {
        all[usize::from(*same)] += 1;
        if let Some(guard) = compare(&Traits::of(&corpus.texts[*b]), &Traits::of(&corpus.texts[*a])).guard {
            fired.entry(guard.label()).or_default()[usize::from(*same)] += 1;
        }
    }
    let share = |count: usize, of: usize| 100.0 * count as f64 / of as f64;
    let sum = fired.values().fold([0; 2], |sum, count| [sum[0] + count[0], sum[1] + count[1]]);
    println!("| guard | of {} pairs that differ | of {} that are the same |\n|---|---:|---:|", all[0], all[1]);
    for (guard, count) in fired.iter().map(|(guard, count)| (*guard, *count)).chain([("all", sum)]) {
        println!("| {guard} | {:.1} % | {:.1} % |", share(count[0], all[0]), share(count[1], all[1]));
    }
}

fn streams(stream: &Stream) {
    println!(
        "| prevalence | budget | hits counted | hit rate | false per hit (95 %) | false per request | static at this error | per entry at this error |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|");
    for prevalence in PREVALENCES {
        for budget in BUDGETS {
            let ours = at_prevalence(&stream.counts(prior(), budget), prevalence);
            let fixed = policies::fixed(stream, prevalence, ours.per_hit.rate);
            let learned = policies::per_entry(stream, prevalence, ours.per_hit.rate);
            println!(
                "| {:.0} % | {:.0} % | {} | {:.3} % | {:.2} % ({:.2} to {:.2}) | {:.4} % | {:.3} % | {:.3} % |",
                100.0 * prevalence,
                100.0 * budget,
                ours.hits,
                100.0 * ours.hit_rate.rate,
                100.0 * ours.per_hit.rate,
                100.0 * ours.per_hit.low,
                100.0 * ours.per_hit.high,
                100.0 * ours.per_request.rate,
                100.0 * fixed,
                100.0 * learned,
            );
        }
    }
    println!();
    println!("| static threshold | prevalence | hit rate | false per hit (95 %) |\n|---:|---:|---:|---:|");
    for threshold in [0.80, 0.90, 0.95, 0.98] {
        for prevalence in PREVALENCES {
            let rates = at_prevalence(&policies::at_threshold(stream, threshold), prevalence);
            let false_hits = rates.per_hit;
            println!(
                "| {threshold:.2} | {:.0} % | {:.3} % | {:.1} % ({:.1} to {:.1}) |",
                100.0 * prevalence,
                100.0 * rates.hit_rate.rate,
                100.0 * false_hits.rate,
                100.0 * false_hits.low,
                100.0 * false_hits.high
            );
        }
    }
}

/// Prints our rates with the labels from reading instead of the collection's.
fn as_read(stream: &Stream) {
    println!(
        "\n| prevalence | budget | hits counted | hit rate | false per hit, as read (95 %) | false per request |\n|---:|---:|---:|---:|---:|---:|"
    );
    for prevalence in PREVALENCES {
        for budget in &BUDGETS {
            let rates = at_prevalence(&stream.counts(prior(), *budget), prevalence);
            println!(
                "| {:.0} % | {:.0} % | {} | {:.3} % | {:.2} % ({:.2} to {:.2}) | {:.4} % |",
                100.0 * prevalence,
                100.0 * budget,
                rates.hits,
                100.0 * rates.hit_rate.rate,
                100.0 * rates.per_hit.rate,
                100.0 * rates.per_hit.low,
                100.0 * rates.per_hit.high,
                100.0 * rates.per_request.rate
            );
        }
    }
}

/// Prints the prior's stated probability against the measured one, at the prior's prevalence, by the collection's labels.
fn calibration(stream: &Stream) {
    let prior = prior();
    let mut bins: Vec<(Counts, f64)> = vec![(Counts::default(), 0.0); 10];
    for query in &stream.queries {
        let open = query.candidates.iter().filter(|candidate| candidate.comparison.guard.is_none());
        let odds = open
            .map(|candidate| (prior.log_odds(&candidate.signals.features(&candidate.comparison.soft)), candidate.same));
        let best = odds.max_by(|one, other| one.0.total_cmp(&other.0));
        for (bin, (counts, stated)) in bins.iter_mut().enumerate() {
            let own = best.filter(|(odds, _)| (odds + 2.0).floor().clamp(0.0, 9.0) as usize == bin && *odds >= -2.0);
            counts.add(query.partner, own.map(|(_, same)| same));
            *stated += own.map_or(0.0, |(odds, _)| f64::from(1.0 / (1.0 + (-odds).exp())));
        }
    }
    println!(
        "\n| log odds from | candidates | stated, mean | found at {:.0} % (95 %) |\n|---:|---:|---:|---:|",
        100.0 * prior.prevalence
    );
    for (bin, (counts, stated)) in bins.iter().enumerate().filter(|(_, (counts, _))| counts.hits() > 0) {
        let found = at_prevalence(counts, f64::from(prior.prevalence)).per_hit;
        println!(
            "| {} | {} | {:.3} | {:.3} ({:.3} to {:.3}) |",
            i64::try_from(bin).unwrap_or(0) - 2,
            counts.hits(),
            stated / counts.hits() as f64,
            1.0 - found.rate,
            1.0 - found.high,
            1.0 - found.low
        );
    }
}

fn adversarial(store: &data::Store) -> io::Result<()> {
    println!(
        "\n| family | {} |",
        BUDGETS.map(|budget| format!("served wrongly at {:.0} % | paraphrases served", 100.0 * budget)).join(" | ")
    );
    println!("|---|{}", "---:|".repeat(2 * BUDGETS.len()));
    let mut families: BTreeMap<String, [[usize; 4]; 4]> = BTreeMap::new();
    let prior = prior();
    for (family, _, pair) in data::adversarial_pairs("judge")? {
        let (_, decider) = store.vectors(&[pair.a.clone(), pair.b.clone()]);
        let query = Query::alone(&pair, decider.cosine(0, 1));
        for (at, budget) in BUDGETS.iter().enumerate() {
            let hit = usize::from(query.served(prior, *budget).is_some());
            for name in [family.as_str(), "~all"] {
                let counts = &mut families.entry(name.to_owned()).or_default()[at];
                let side = usize::from(pair.same) * 2;
                (counts[side], counts[side + 1]) = (counts[side] + hit, counts[side + 1] + 1);
            }
        }
    }
    for (family, budgets) in families {
        let cells =
            budgets.map(|[wrong, different, right, same]| format!("{wrong} of {different} | {right} of {same}"));
        println!("| {family} | {} |", cells.join(" | "));
    }
    Ok(())
}

/// Prints hits at 5 % that were not read, in a fixed random order.
fn draw(corpus: &Corpus, stream: &Stream, most: usize) -> io::Result<()> {
    let read: HashSet<(u64, u64)> = data::sheet("adjudicated.tsv")?.into_iter().map(|(pair, _)| pair).collect();
    let hits = stream.queries.iter().filter_map(|query| Some((query.served(prior(), 0.05)?.entry, query.text)));
    let print = |text: usize| fingerprint(&corpus.texts[text]);
    let mut hits: Vec<_> = hits.filter(|(entry, query)| !read.contains(&(print(*entry), print(*query)))).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut hits);
    for (entry, query) in hits.into_iter().take(most) {
        let (a, b) = (&corpus.texts[entry], &corpus.texts[query]);
        println!("{:016x}\t{:016x}\t{a}\t{b}", fingerprint(a), fingerprint(b));
    }
    Ok(())
}

/// Prints the rate of false hits by reading.
fn adjudicated(corpus: &Corpus, stream: &Stream) -> Vec<chart::Point> {
    let mut points = Vec::new();
    let Ok(sheet) = data::sheet("adjudicated.tsv") else { return points };
    let labels: BTreeMap<(u64, u64), String> = sheet.into_iter().collect();
    println!(
        "\n| budget | hits | of them read | yes | no | unsure | false per hit, read (95 %) |\n|---:|---:|---:|---:|---:|---:|---:|"
    );
    for budget in BUDGETS {
        let (mut hits, mut counts) = (0, [0usize; 3]);
        for query in &stream.queries {
            let Some(hit) = query.served(prior(), budget) else { continue };
            hits += 1;
            let pair = (fingerprint(&corpus.texts[hit.entry]), fingerprint(&corpus.texts[query.text]));
            match labels.get(&pair).map(String::as_str) {
                Some("yes") => counts[0] += 1,
                Some("no") => counts[1] += 1,
                Some(_) => counts[2] += 1,
                None => {}
            }
        }
        let read: usize = counts.iter().sum();
        let wrong = (counts[1] + counts[2]) as f64;
        let (low, high) = signalbox::measure::beta::clopper_pearson(wrong, read as f64, 0.95);
        println!(
            "| {:.0} % | {hits} | {read} | {} | {} | {} | {:.2} % ({:.2} to {:.2}) |",
            100.0 * budget,
            counts[0],
            counts[1],
            counts[2],
            100.0 * wrong / read.max(1) as f64,
            100.0 * low,
            100.0 * high
        );
        points.push(chart::Point { budget: f64::from(budget), measured: wrong / read.max(1) as f64, low, high });
    }
    points
}
