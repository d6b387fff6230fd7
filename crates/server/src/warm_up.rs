//! Builds everything that is built at first use, before the gateway is ready: no request pays for it.

use std::time::Instant;

use signalbox_cache::{confidence::Prior, guard};
use signalbox_gateway::Parts;
use signalbox_policy::{
    Policy, RouteChoice, Rule, Tokenizer,
    condition::{Condition, Variable},
};
use signalbox_prompt::{complexity, tokens::warm_up_encoding};

/// A text to warm up with; it is stored nowhere.
const TEXT: &str = "Explain how a gateway warms up.";

/// Warms up what requests under `policy` use. Models that are loaded from disk or a hub, and embedders elsewhere, continue to load in the background.
pub(super) async fn warm_up(parts: &Parts, policy: &Policy) {
    let began = Instant::now();
    let (owned, has_semantic) = (policy.clone(), has_semantic(policy));
    // A panic there would come back with the first request, which reports it.
    let _ = tokio::task::spawn_blocking(move || tables(&owned)).await;
    if has_semantic {
        parts.answers.local.semantic.warm_up(TEXT).await;
    }
    tracing::debug!(elapsed_ms = began.elapsed().as_millis() as u64, "server: warmed up");
}

/// Builds the tables that requests under `policy` use. Takes milliseconds, at the first call.
pub(super) fn tables(policy: &Policy) {
    if uses_complexity(policy) {
        complexity::warm_up();
    }
    if policy.background.is_some() || has_semantic(policy) {
        guard::warm_up(TEXT);
        Prior::warm_up();
    }
    for pool in &policy.pools {
        if let Tokenizer::OpenAi(encoding) = pool.tokenizer {
            warm_up_encoding(encoding, TEXT);
        }
    }
}

fn has_semantic(policy: &Policy) -> bool {
    policy.caching.as_ref().is_some_and(|caching| caching.semantic.is_some())
}

/// True if a rule or the journal needs the complexity of prompts.
fn uses_complexity(policy: &Policy) -> bool {
    let asks = |rule: &Rule| {
        let variables = rule.when.as_ref().map_or(&[][..], Condition::variables);
        matches!(rule.way, RouteChoice::Tiers(_)) || variables.contains(&Variable::PromptComplexity)
    };
    policy.journal.as_ref().is_some_and(|journal| journal.facts) || policy.models.rules().any(asks)
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        fs,
        path::{Path, PathBuf},
    };

    use super::*;
    use signalbox_policy as policy;

    /// Lazily built values that are cheap, or are built when a policy is loaded.
    const NOT_WARMED: [(&str, &str); 11] = [
        ("cache/src/guard/compare.rs", "a dozen hashes"),
        ("cache/src/guard/order.rs", "two dozen hashes"),
        ("config/src/proxies.rs", "built where the first client is, before a request"),
        ("gateway/src/route/language.rs", "some hundred short words, once"),
        ("journal/src/routing_facts.rs", "one random key"),
        ("policy/src/condition/hours.rs", "built where a policy with `time` is compiled"),
        ("policy/src/prices.rs", "built where a policy with `prices: builtin` is compiled"),
        ("schedule/src/predict/output.rs", "a hundred powers of two"),
        ("embed/src/built_in.rs", "by the semantic cache, where the policy has one"),
        ("embed/src/wordpiece.rs", "in tests only"),
        ("upstream/src/embeddings.rs", "in tests only"),
    ];
    /// Lazily built values that [`tables`] builds.
    const WARMED: [&str; 12] = [
        "cache/src/confidence/prior.rs",
        "cache/src/guard/contrasts.rs",
        "cache/src/guard/lemma.rs",
        "cache/src/guard/lexicon.rs",
        "cache/src/guard/parts.rs",
        "cache/src/guard/quantity.rs",
        "prompt/src/complexity/follow_up.rs",
        "prompt/src/complexity/lexicon.rs",
        "prompt/src/complexity/routing.rs",
        "prompt/src/complexity/weights.rs",
        "prompt/src/complexity/work.rs",
        "prompt/src/tokens/openai.rs",
    ];

    fn crates() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
    }

    #[test]
    fn everything_lazy_is_warmed_up_or_known_to_be_cheap() {
        fn visit(folder: &Path, found: &mut BTreeSet<String>) {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    visit(&entry, found);
                    continue;
                }
                let text = fs::read_to_string(&entry).unwrap_or_default();
                let is_lazy = |line: &str| {
                    let line = line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(super) ");
                    line.starts_with("static ")
                        && ["LazyLock", "OnceLock", ": Made"].iter().any(|kind| line.contains(kind))
                };
                if text.lines().any(is_lazy) {
                    found.insert(entry.strip_prefix(crates()).unwrap().display().to_string());
                }
            }
        }
        let mut found = BTreeSet::new();
        visit(&crates(), &mut found);
        found.retain(|file| !file.starts_with("minilm"));
        let known = WARMED.into_iter().chain(NOT_WARMED.map(|(file, _)| file)).map(str::to_owned);
        assert_eq!(found, known.collect(), "add it to `tables`, or say why it is cheap");
    }

    #[test]
    fn tables_are_built_after_warming_up() {
        let urls = ["http://127.0.0.1:1/v1".to_owned()];
        tables(&policy::simulated(&urls, &urls, &urls));
        assert!(complexity::is_warm() && guard::is_warm() && Prior::is_warm());
    }
}
