//! Requests of a journal: recorded input and recorded outcome.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use super::read::Journal;
use signalbox_journal::recorded::{Line, RoutingFacts, block_hashes};
use signalbox_sim::replay::hash;
use signalbox_types::{Endpoint, Layout, Tokens};

/// Block size for recorded prompts, in tokens.
pub(super) const BLOCK_TOKENS: u32 = 16;

/// A recorded request.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Arrival time after the first request.
    pub at: Duration,
    pub(super) unix_ms: u64,
    pub(super) endpoint: Endpoint,
    pub(super) stream: bool,
    pub(super) model: Option<String>,
    pub(super) key: Option<String>,
    /// Prompt tokens: the estimate at routing, and the engine's count.
    pub(super) estimated: Tokens,
    pub(super) prompt_tokens: u32,
    /// Tokens of the answer; `None` if unknown.
    pub(super) output_tokens: Option<u32>,
    /// Prompt tokens that its engine had cached.
    pub(super) cached_tokens: u32,
    /// Cached tokens that no earlier request in the journal explains: taken to be cached on any engine.
    pub(super) warm_tokens: u32,
    /// Hashes of its blocks of [`BLOCK_TOKENS`] tokens, if the journal has them.
    pub(super) blocks: Option<Arc<[u64]>>,
    /// Time after its arrival at which the client disconnected.
    pub(super) leaves: Option<Duration>,
    pub(super) routing_facts: Option<RoutingFacts>,
    /// Pool that the client named itself.
    pub(super) named_pool: Option<String>,
    /// Kind of cache that answered it.
    pub(super) kept: Option<Kept>,
    /// Recorded outcome.
    pub(super) was: Was,
}

/// Kinds of cache.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Exact,
    Semantic,
    Coalesced,
}

/// Recorded outcome of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Was {
    /// Pool that answered, or whose cached answer was served.
    pub(super) pool: Option<String>,
    pub(super) ttft: Option<f64>,
    pub(super) tpot: Option<f64>,
    pub(super) cost: Option<f64>,
    /// Reason of a refusal before dispatch.
    pub(super) refused: Option<String>,
    /// True if the request was answered completely.
    pub(super) answered: bool,
}

/// Requests that can be replayed, and counts of those left out.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    /// In order of arrival.
    pub all: Vec<Arc<Entry>>,
    /// Lines left out, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
}

impl Entries {
    /// Extracts the requests of `journal`.
    pub fn of(journal: &Journal) -> Self {
        let mut entries = Self::default();
        let bytes_per_token = bytes_per_token(&journal.lines);
        let mut start = None;
        let mut known: HashSet<u64> = HashSet::new();
        for line in &journal.lines {
            match entry(line, bytes_per_token) {
                Ok(mut entry) => {
                    let start = *start.get_or_insert(line.time_ms);
                    entry.at = Duration::from_millis(line.time_ms - start);
                    let blocks = entry.blocks.as_deref().unwrap_or_default();
                    let found = blocks.iter().take_while(|block| known.contains(block)).count() as u32 * BLOCK_TOKENS;
                    // Engines also count partial blocks as cached; that is no sign of earlier traffic.
                    let before = entry.cached_tokens > found + 2 * BLOCK_TOKENS || entry.blocks.is_none();
                    entry.warm_tokens = if before { entry.cached_tokens } else { 0 };
                    known.extend(blocks);
                    entries.all.push(Arc::new(entry));
                }
                Err(reason) => *entries.left_out.entry(reason).or_default() += 1,
            }
        }
        entries
    }

    /// Time from the first request to the last.
    pub fn span(&self) -> Duration {
        self.all.last().map_or(Duration::ZERO, |last| last.at)
    }

    /// Number of requests answered from a cache.
    pub fn kept(&self) -> usize {
        self.all.iter().filter(|entry| entry.kept.is_some()).count()
    }

    /// True if the journal has prompt hashes.
    pub fn has_blocks(&self) -> bool {
        self.all.iter().any(|entry| entry.blocks.is_some())
    }
}

/// Mean bytes per prompt token, over all answers.
fn bytes_per_token(lines: &[Line]) -> f64 {
    let known = lines.iter().filter_map(|line| {
        let tokens = line.usage?.prompt_tokens;
        (tokens > 0 && line.prompt_bytes > 0).then_some((line.prompt_bytes as f64, tokens as f64))
    });
    let (bytes, tokens) = known.fold((0.0, 0.0), |(bytes, tokens), (b, t)| (bytes + b, tokens + t));
    if tokens > 0.0 { bytes / tokens } else { 4.0 }
}

fn entry(line: &Line, bytes_per_token: f64) -> Result<Entry, &'static str> {
    if line.background.is_some() {
        return Err("traffic of the gateway's own making");
    }
    let Some(explained) = &line.explained else {
        return Err("refused before they were routed: bad requests, unknown models and keys, limits of keys");
    };
    let endpoint = Endpoint::ALL.into_iter().find(|endpoint| endpoint.name() == line.endpoint);
    let Some(endpoint) = endpoint.filter(|_| line.model.is_some()) else {
        return Err("without a model: files, batches");
    };
    let [least, expected, most] = explained.prompt_tokens;
    let estimated = Tokens { least, expected, most };
    let kept = line.reused.as_ref().filter(|reused| reused.pool.is_some());
    let kept_by = kept.map(|reused| match &*reused.result {
        "coalesced" => Kept::Coalesced,
        result if result.contains("semantic") => Kept::Semantic,
        _ => Kept::Exact,
    });
    let refused = line.attempts.is_empty().then_some(line.admission.as_ref()).flatten();
    // A client that left while it waited was not refused.
    let refused = refused.map(|admission| admission.result.clone()).filter(|result| result != "waiting");
    if kept_by.is_none() && refused.is_none() && line.attempts.is_empty() {
        return Err("never dispatched: limits of keys, clients that left while they waited");
    }
    let answering = line.answering();
    let counted = answering.filter(|attempt| !attempt.usage_estimated).and_then(|attempt| attempt.usage);
    let usage = line.usage.or(counted);
    let prompt_tokens = usage.map_or(estimated.expected, |usage| usage.prompt_tokens).clamp(1, u32::MAX.into()) as u32;
    let cached = answering
        .and_then(|attempt| attempt.usage.and_then(|usage| usage.cached_tokens).or(attempt.reported_cached_tokens));
    let left = line.outcome == "client_gone";
    let ok = line.outcome == "ok";
    let named = explained.passed_over.iter().any(|rule| rule.because == "override");
    let hashes = line.routing_facts.as_ref().and_then(|it| it.blocks.as_deref()).map(block_hashes);
    let was = Was {
        pool: kept.and_then(|reused| reused.pool.clone()).or_else(|| answering.map(|attempt| attempt.pool.clone())),
        ttft: line.ttft_ms.map(|ms| ms / 1e3),
        tpot: line.tpot_ms.map(|ms| ms / 1e3),
        cost: line.cost_usd,
        refused,
        answered: ok,
    };
    Ok(Entry {
        at: Duration::ZERO,
        unix_ms: line.time_ms,
        endpoint,
        stream: line.stream,
        model: line.model.clone(),
        key: line.key.clone(),
        estimated,
        prompt_tokens,
        output_tokens: usage.filter(|_| ok).map(|usage| usage.completion_tokens.min(u32::MAX.into()) as u32),
        cached_tokens: cached.unwrap_or(0).min(u64::from(prompt_tokens) - 1) as u32,
        warm_tokens: 0,
        blocks: hashes.map(|hashes| blocks(&hashes, prompt_tokens, bytes_per_token)),
        leaves: left.then(|| Duration::try_from_secs_f64(line.e2e_ms / 1e3).unwrap_or_default()),
        routing_facts: line.routing_facts.clone(),
        named_pool: named.then(|| line.attempts.first().map(|attempt| attempt.pool.clone())).flatten(),
        kept: kept_by,
        was,
    })
}

/// Converts hashes of growing blocks to blocks of equal size: each gets the hash of the growing block that contains its end.
fn blocks(hashes: &[u64], prompt_tokens: u32, bytes_per_token: f64) -> Arc<[u64]> {
    let whole = prompt_tokens / BLOCK_TOKENS;
    let block = |number: u32| {
        let end = (f64::from((number + 1) * BLOCK_TOKENS) * bytes_per_token) as u64;
        let before = Layout::Growing.blocks(end);
        let inside = if Layout::Growing.bytes(before) < end { before } else { before.saturating_sub(1) };
        hashes.get(inside).map(|chain| hash(*chain, number.into()))
    };
    (0..whole).map_while(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_that_begin_alike_share_their_first_blocks() {
        let (one, other): (Vec<u64>, Vec<u64>) = ((0..40).collect(), (0..20).chain(100..120).collect());
        let (one, other) = (blocks(&one, 700, 4.0), blocks(&other, 700, 4.0));
        assert_eq!((one.len(), other.len()), (40, 40));
        // 64 bytes are 16 tokens, so here one growing block equals one block.
        assert_eq!(one.iter().zip(&*other).filter(|(one, other)| one == other).count(), 20);
        assert_eq!(blocks(&[1, 2], 700, 4.0).len(), 2, "a block without a hash is not shared");
        assert_eq!(blocks(&[1, 2], 700, 5.0).len(), 1);
    }
}
