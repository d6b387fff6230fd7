//! `signalbox cache eval`: what answers by meaning would have been on prompts of which it is known which mean the same.

mod pairs;
mod report;
mod results;

use std::{
    collections::{BTreeMap, HashMap},
    io::{self, IsTerminal as _},
    num::NonZero,
    path::PathBuf,
    process::ExitCode,
    thread,
};

use clap::value_parser;
use indicatif::{ProgressBar, ProgressStyle};

use self::{
    pairs::{Labelled, problem},
    results::{Family, Point, Results},
};
use crate::{
    cache::{
        confidence::Prior,
        eligible::is_volatile,
        replay::{Corpus, Half, Query, Stream, at_prevalence},
        semantic::RECALL,
    },
    cli::{output, share::share},
    config::Problems,
    embed::{self, BuiltInVectors, built_in_vectors},
};

/// What the command line says.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Pairs of prompts, JSON lines, gzip or not: `{a, b, same}`, and `family` to have families apart
    #[arg(long, value_name = "FILE")]
    pairs: PathBuf,
    /// Shares of hits that may be false
    #[arg(long, value_delimiter = ',', default_values = ["1%", "2%", "3%", "5%"], value_parser = share)]
    budget: Vec<f64>,
    /// Shares of requests that repeat what is stored, in other words
    #[arg(long, value_delimiter = ',', default_values = ["1%", "5%", "20%"], value_parser = share)]
    prevalence: Vec<f64>,
    /// Look at prompts for something of the moment or of their author too, as with `volatile` in a policy
    #[arg(long)]
    volatile: bool,
    /// Read no more than so many pairs
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn eval(args: &Args) -> io::Result<ExitCode> {
    let most = args.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let results = pairs::open(&args.pairs, most).and_then(|pairs| replay(args, &pairs));
    match results {
        Ok(results) if args.json => output::json(&report::json(&results))?,
        Ok(results) => output::print(&report::text(&results))?,
        Err(problems) => {
            output::complain(&output::report(&problems));
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn replay(args: &Args, pairs: &[Labelled]) -> Result<Results, Problems> {
    let plain: Vec<_> = pairs.iter().map(|labelled| labelled.pair.clone()).collect();
    let corpus = Corpus::of(&plain, Half::All, &HashMap::new());
    let failed = |error| problem(&args.pairs, format!("{error}"), "this is a fault of this build");
    let decider = embed::decider().map_err(failed)?.id().to_owned();
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let bar = progress(corpus.texts.len(), "texts embedded");
    let vectors = built_in_vectors(&corpus.texts, threads, |text| args.volatile || !is_volatile(text), || bar.inc(1))
        .map_err(failed)?;
    bar.finish_and_clear();
    let bar = progress(corpus.sides().1.len(), "prompts replayed");
    let stream = Stream::of(&corpus, &vectors.recall, &vectors.decide, RECALL, || bar.inc(1));
    bar.finish_and_clear();
    let partners = stream.queries.iter().filter(|query| query.partner).count();
    if partners == 0 || partners == stream.queries.len() {
        let (message, help) = match partners {
            0 => ("no prompt means the same as one that is stored", "add pairs with `\"same\": true`"),
            _ => ("every prompt means the same as one that is stored", "add pairs with `\"same\": false`"),
        };
        return Err(problem(&args.pairs, format!("{message}: a rate of false hits needs both"), help));
    }
    let prior = Prior::of(&decider);
    let counts = args.budget.iter().map(|budget| (*budget, stream.counts(prior, *budget as f32))).collect::<Vec<_>>();
    let points = args.prevalence.iter().flat_map(|prevalence| {
        counts.iter().map(|(budget, counts)| Point {
            prevalence: *prevalence,
            budget: *budget,
            counts: *counts,
            rates: at_prevalence(counts, *prevalence),
        })
    });
    Ok(Results {
        points: points.collect(),
        families: families(pairs, &corpus, &vectors, prior, &args.budget),
        pairs: pairs.len(),
        same: pairs.iter().filter(|labelled| labelled.pair.same).count(),
        stored: stream.stored,
        queries: stream.queries.len(),
        partners,
        without: vectors.without,
        decider,
    })
}

/// Each pair for itself, as if nothing else were stored, by family and budget.
fn families(
    pairs: &[Labelled],
    corpus: &Corpus,
    vectors: &BuiltInVectors,
    prior: &Prior,
    budgets: &[f64],
) -> Vec<Family> {
    let numbers: HashMap<&str, usize> = corpus.texts.iter().enumerate().map(|(at, text)| (&**text, at)).collect();
    let mut families: BTreeMap<&str, Vec<Family>> = BTreeMap::new();
    for Labelled { pair, family } in pairs {
        let (Some(family), Some(a), Some(b)) = (family, numbers.get(&*pair.a), numbers.get(&*pair.b)) else { continue };
        let recall = vectors.recall.cosine(*a, *b);
        let query = Query::alone(pair, recall, vectors.decide.cosine(*a, *b));
        let empty = || budgets.iter().map(|budget| Family::new(family, *budget)).collect();
        for row in families.entry(family).or_insert_with(empty) {
            let served = recall >= RECALL && query.served(prior, row.budget as f32).is_some();
            row.add(pair.same, served);
        }
    }
    families.into_values().flatten().collect()
}

/// A bar on standard error, where somebody looks at it.
fn progress(count: usize, what: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(&format!("{{bar:30}} {{pos}}/{{len}} {what} (about {{eta}} left)"));
    ProgressBar::new(count as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
