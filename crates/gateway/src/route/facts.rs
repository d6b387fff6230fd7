//! Values of routing conditions: facts about the request, its caller and the pools. Each is computed on first use and
//! cached.

use std::{
    cell::{OnceCell, RefCell},
    time::{SystemTime, UNIX_EPOCH},
};

use super::{asking::Asking, language};
use signalbox_journal::ScoredComplexity;
use signalbox_policy::condition::Facts;
use signalbox_prompt::complexity::{Features, Weights, score};
use signalbox_types::{Complexity, Name, Outline};

thread_local! {
    /// Outlines for reuse, because their buffers keep their capacity.
    static OUTLINES: RefCell<Vec<Outline>> = const { RefCell::new(Vec::new()) };
}

/// Facts computed for one request so far.
pub(super) struct Known<'a> {
    pub(super) asking: &'a Asking<'a>,
    outline: OnceCell<Outline>,
    features: OnceCell<Features>,
    /// Score by the built-in weights, which conditions use.
    complexity: OnceCell<Complexity>,
    language: OnceCell<&'static str>,
    /// Score by the weights of a rule with tiers, which may have its own.
    ranked: OnceCell<ScoredComplexity>,
    /// The one model that the embeddings of the requested name come from.
    embeddings: OnceCell<Option<Name>>,
}

impl<'a> Known<'a> {
    pub(super) fn of(asking: &'a Asking<'a>) -> Self {
        Self {
            asking,
            outline: OnceCell::new(),
            features: OnceCell::new(),
            complexity: OnceCell::new(),
            language: OnceCell::new(),
            ranked: OnceCell::new(),
            embeddings: OnceCell::new(),
        }
    }

    /// Records the score that a choice between tiers used.
    pub(super) fn rank(&self, scored: ScoredComplexity) {
        // At most one rule chooses between tiers.
        let _ = self.ranked.set(scored);
    }

    /// Returns the score that a choice between tiers used, if there was one.
    pub(super) fn ranked(&self) -> Option<ScoredComplexity> {
        self.ranked.get().cloned()
    }

    pub(super) fn outline(&self) -> &Outline {
        self.outline.get_or_init(|| {
            let mut outline = OUTLINES.with_borrow_mut(Vec::pop).unwrap_or_default();
            self.asking.body.outline(&mut outline);
            outline
        })
    }

    pub(super) fn features(&self) -> &Features {
        self.features.get_or_init(|| Features::of(self.outline()))
    }

    /// Scores the difficulty of the prompt by the built-in weights.
    pub(super) fn scored(&self) -> &Complexity {
        self.complexity.get_or_init(|| score(self.features(), Weights::built_in()))
    }

    /// Returns the score if it was already computed.
    pub(super) fn scored_already(&self) -> Option<&Complexity> {
        self.complexity.get()
    }

    /// Returns the code of the prompt's language.
    pub(super) fn language_code(&self) -> &'static str {
        self.language.get_or_init(|| language::code(&self.outline().text))
    }

    /// Returns the language if it was already detected.
    pub(super) fn language_already(&self) -> Option<&'static str> {
        self.language.get().copied()
    }

    /// Identity of the only model that a request for embeddings may go to; `None` for other requests.
    pub(super) fn embeddings_model(&self) -> Option<&Name> {
        self.embeddings.get_or_init(|| self.find_embeddings_model()).as_ref()
    }

    fn key(&self) -> Option<&signalbox_policy::Key> {
        self.asking.policy().keys.get(self.asking.key?)
    }
}

impl Drop for Known<'_> {
    fn drop(&mut self) {
        if let Some(outline) = self.outline.take() {
            OUTLINES.with_borrow_mut(|outlines| {
                if outlines.is_empty() {
                    outlines.push(outline);
                }
            });
        }
    }
}

impl Facts for Known<'_> {
    fn tokens(&self) -> u64 {
        self.asking.prompt.tokens().expected
    }

    fn more_tokens_than(&self, n: u64) -> bool {
        self.asking.prompt.exceed(n)
    }

    fn complexity(&self) -> f64 {
        self.scored().score
    }

    fn language(&self) -> &str {
        self.language_code()
    }

    fn model(&self) -> &str {
        self.asking.body.model.as_deref().unwrap_or_default()
    }

    fn class(&self) -> &str {
        if self.asking.is_batch() { "batch" } else { "interactive" }
    }

    fn stream(&self) -> bool {
        self.asking.body.stream
    }

    fn tools(&self) -> u64 {
        self.outline().tools.into()
    }

    fn images(&self) -> u64 {
        self.asking.estimate.attachments.images.into()
    }

    fn audio(&self) -> u64 {
        self.asking.estimate.attachments.audio.into()
    }

    fn video(&self) -> u64 {
        self.asking.estimate.attachments.video.into()
    }

    fn files(&self) -> u64 {
        self.asking.estimate.attachments.files.into()
    }

    fn schema(&self) -> bool {
        self.outline().schema_depth > 1
    }

    fn max_tokens(&self) -> u64 {
        self.asking.body.max_tokens.unwrap_or(0)
    }

    fn turns(&self) -> u64 {
        self.outline().turns.into()
    }

    fn header(&self, name: &str) -> Option<&str> {
        // `to_str` accepts ASCII only, but a condition may compare with `Zürich`.
        std::str::from_utf8(self.asking.headers.get(name)?.as_bytes()).ok()
    }

    fn sent(&self, name: &str) -> bool {
        self.asking.headers.contains_key(name)
    }

    fn key_id(&self) -> &str {
        self.key().map_or("", |key| &key.id)
    }

    fn key_team(&self) -> &str {
        self.key().and_then(|key| key.team.as_deref()).unwrap_or_default()
    }

    fn key_tags(&self) -> &[Name] {
        self.key().map_or(&[], |key| &key.tags)
    }

    fn ttft_p95(&self, pool: usize) -> f64 {
        self.asking.serving.pool_meter(pool).ttft_p95(self.asking.context.clock.now())
    }

    fn queue(&self, pool: usize) -> u64 {
        let name = &self.asking.policy().pools[pool].name;
        self.asking.context.queues.standing(name, self.asking.context.clock.now()).depth as u64
    }

    fn attainment(&self, pool: usize) -> f64 {
        self.asking
            .context
            .accounting
            .error_budgets
            .attainment(&self.asking.policy().pools[pool].name, self.asking.context.clock.now())
    }

    fn burn(&self, pool: usize) -> f64 {
        self.asking
            .context
            .accounting
            .error_budgets
            .pool_burn(&self.asking.policy().pools[pool].name, self.asking.context.clock.now())
    }

    fn slo(&self, pool: usize) -> &str {
        self.asking
            .context
            .accounting
            .error_budgets
            .pool_state(&self.asking.policy().pools[pool].name, self.asking.context.clock.now())
            .label()
    }

    fn route_burn(&self, route: &str) -> f64 {
        self.asking.context.accounting.error_budgets.route_burn(route, self.asking.context.clock.now())
    }

    fn route_slo(&self, route: &str) -> &str {
        self.asking.context.accounting.error_budgets.route_state(route, self.asking.context.clock.now()).label()
    }

    fn unix_time(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    }
}
