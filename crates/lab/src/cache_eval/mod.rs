//! Evaluation of the semantic cache on labelled pairs of prompts: hit rates and false hits, before any evidence from the operator's traffic.

mod pairs;
mod results;

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZero,
    path::Path,
    thread,
};

use indicatif::ProgressBar;

use self::pairs::{Labelled, problem};
pub use self::results::{Family, Point, Results};
use super::cache_replay::{BuiltInVectors, Corpus, Half, Query, Stream, at_prevalence, built_in_vectors};
use signalbox_cache::{confidence::Prior, eligible::is_volatile};
use signalbox_config::Problems;
use signalbox_embed as embed;

/// Input of an evaluation.
pub struct Options<'a> {
    /// The file of labelled pairs.
    pub pairs: &'a Path,
    /// Most pairs that are read.
    pub most: usize,
    /// Shares of hits that may be false.
    pub budgets: &'a [f64],
    /// Shares of requests that repeat a stored prompt in other words.
    pub prevalences: &'a [f64],
    /// Look up volatile prompts too.
    pub volatile: bool,
}

/// Reads the pairs, embeds their texts and replays them. `progress` makes a bar for a number of steps with a label.
pub fn evaluate(options: &Options<'_>, progress: impl Fn(u64, &str) -> ProgressBar) -> Result<Results, Problems> {
    replay(options, &pairs::open(options.pairs, options.most)?, progress)
}

fn replay(
    options: &Options<'_>,
    pairs: &[Labelled],
    progress: impl Fn(u64, &str) -> ProgressBar,
) -> Result<Results, Problems> {
    let plain: Vec<_> = pairs.iter().map(|labelled| labelled.pair.clone()).collect();
    let corpus = Corpus::of(&plain, Half::All, &HashMap::new());
    let failed = |error| problem(options.pairs, format!("{error}"), "this is a fault of this build");
    let decider = embed::decider().map_err(failed)?.id().to_owned();
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let bar = progress(corpus.texts.len() as u64, "texts embedded");
    let vectors =
        built_in_vectors(&corpus.texts, threads, |text| options.volatile || !is_volatile(text), || bar.inc(1))
            .map_err(failed)?;
    bar.finish_and_clear();
    let bar = progress(corpus.sides().1.len() as u64, "prompts replayed");
    let vocabulary = embed::recall().map_err(failed)?;
    let stream = Stream::of(&corpus, &vectors.decide, &*vocabulary, || bar.inc(1));
    bar.finish_and_clear();
    let partners = stream.queries.iter().filter(|query| query.partner).count();
    if partners == 0 || partners == stream.queries.len() {
        let (message, help) = match partners {
            0 => ("no prompt means the same as one that is stored", "add pairs with `\"same\": true`"),
            _ => ("every prompt means the same as one that is stored", "add pairs with `\"same\": false`"),
        };
        return Err(problem(options.pairs, format!("{message}: a rate of false hits needs both"), help));
    }
    let prior = Prior::of(&decider);
    let counts =
        options.budgets.iter().map(|budget| (*budget, stream.counts(prior, *budget as f32))).collect::<Vec<_>>();
    let points = options.prevalences.iter().flat_map(|prevalence| {
        counts.iter().map(|(budget, counts)| Point {
            prevalence: *prevalence,
            budget: *budget,
            counts: *counts,
            rates: at_prevalence(counts, *prevalence),
        })
    });
    Ok(Results {
        points: points.collect(),
        families: families(pairs, &corpus, &vectors, prior, options.budgets),
        pairs: pairs.len(),
        same: pairs.iter().filter(|labelled| labelled.pair.same).count(),
        stored: stream.stored,
        queries: stream.queries.len(),
        partners,
        without: vectors.without,
        decider,
    })
}

/// Decides each pair alone, as if nothing else were stored; counts by family and budget.
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
        let query = Query::alone(pair, vectors.decide.cosine(*a, *b));
        let empty = || budgets.iter().map(|budget| Family::new(family, *budget)).collect();
        for row in families.entry(family).or_insert_with(empty) {
            let served = query.served(prior, row.budget as f32).is_some();
            row.add(pair.same, served);
        }
    }
    families.into_values().flatten().collect()
}
