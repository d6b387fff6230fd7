//! Vectors of many texts by both built-in embedders.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

use super::stream::Vectors;
use signalbox_cache::{EmbedError, Embedder, normal};
use signalbox_embed::{decider, reads_whole, recall};

/// Vectors of texts, in the order of the texts.
#[derive(Clone, Debug, Default)]
pub struct BuiltInVectors {
    /// By the embedder for recall.
    pub recall: Vectors,
    /// By the embedder that decides.
    pub decide: Vectors,
    /// Texts without a vector: not wanted, longer than the embedders read, or without a word. Their vectors are zero, which is similar to
    /// nothing, as the cache does not look them up.
    pub without: usize,
}

/// Embeds those of `texts` that are `wanted` on `threads` threads and calls `done` after each text.
///
/// # Errors
/// If a built-in embedder is corrupt.
pub fn built_in_vectors(
    texts: &[String],
    threads: usize,
    wanted: impl Fn(&str) -> bool + Sync,
    done: impl Fn() + Sync,
) -> Result<BuiltInVectors, EmbedError> {
    let (recall, decider) = (recall()?, decider()?);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut made: Vec<(usize, Vec<f32>, Vec<f32>)> = Vec::new();
        while let Some((at, text)) = Some(next.fetch_add(1, Relaxed)).and_then(|at| Some((at, texts.get(at)?))) {
            let wanted = wanted(text);
            let text = normal(text);
            if wanted && reads_whole(text) {
                // The cache cannot look up a text that one of them cannot embed.
                let pair = one(&*recall, text).and_then(|recall| Ok((recall, one(&*decider, text)?)));
                made.extend(pair.ok().map(|(recall, decide)| (at, recall, decide)));
            }
            done();
        }
        made
    };
    let made: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let (few, many) = (recall.dimensions(), decider.dimensions());
    let (mut recalled, mut weighed) = (vec![0.0; texts.len() * few], vec![0.0; texts.len() * many]);
    for (at, recall, decide) in &made {
        recalled[at * few..][..few].copy_from_slice(recall);
        weighed[at * many..][..many].copy_from_slice(decide);
    }
    Ok(BuiltInVectors {
        recall: Vectors::new(few, recalled),
        decide: Vectors::new(many, weighed),
        without: texts.len() - made.len(),
    })
}

fn one(embedder: &dyn Embedder, text: &str) -> Result<Vec<f32>, EmbedError> {
    Ok(embedder.embed(&[text])?.swap_remove(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_in_the_order_of_the_texts_however_many_threads_make_them() {
        let long = "word ".repeat(300);
        let texts =
            ["How do I return an item?", "", "not this one", &long, "how can I return an item"].map(str::to_owned);
        let done = AtomicUsize::new(0);
        let made = built_in_vectors(
            &texts,
            3,
            |text| !text.starts_with("not"),
            || {
                done.fetch_add(1, Relaxed);
            },
        )
        .unwrap();
        assert_eq!((made.without, done.into_inner()), (3, 5));
        assert!(made.recall.cosine(0, 4) > 0.9 && made.decide.cosine(0, 4) > 0.9);
        assert!(made.decide.of(2).iter().all(|value| *value == 0.0));
        let alone = built_in_vectors(&texts[4..], 1, |_| true, || ()).unwrap();
        assert_eq!(alone.decide.of(0), made.decide.of(4));
        assert_eq!(built_in_vectors(&[], 2, |_| true, || ()).unwrap().without, 0);
    }
}
