//! The table of all metrics: name, type, unit, labels and help. `/metrics` and the README are generated from it.

use std::fmt::Write;

use prometheus_client::metrics::MetricType;

/// Type of a metric.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only increases, and starts at 0 with the process (or with the engine, for re-exported values).
    Counter,
    /// Increases and decreases.
    Gauge,
    /// A distribution in buckets.
    Histogram,
}

impl Kind {
    pub(super) const fn metric_type(self) -> MetricType {
        match self {
            Self::Counter => MetricType::Counter,
            Self::Gauge => MetricType::Gauge,
            Self::Histogram => MetricType::Histogram,
        }
    }
}

/// One metric.
#[derive(Copy, Clone, Debug)]
pub struct Def {
    /// Name as used in queries.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Unit, which is also part of the name; empty for plain counts.
    pub unit: &'static str,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// Help text.
    pub help: &'static str,
}

impl Def {
    /// The name without the suffixes that the encoder adds: the unit's and the counter's.
    pub(super) fn stem(&self) -> &'static str {
        let stem = self.name.strip_suffix("_total").unwrap_or(self.name);
        match stem.strip_suffix(self.unit) {
            Some(stem) if !self.unit.is_empty() => stem.trim_end_matches('_'),
            _ => stem,
        }
    }
}

macro_rules! table {
    ($($id:ident: $kind:ident $unit:literal $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            pub(super) const $id: Def =
                Def { name: $name, kind: Kind::$kind, unit: $unit, labels: &[$($label),*], help: $help };
        )*
        /// All metrics, in the order of `/metrics`.
        pub const ALL: &[&Def] = &[$(&$id),*];
    };
}

#[rustfmt::skip]
table! {
    // The gateway as a whole.
    BUILD: Gauge "" "signalbox_build_info" ["version"]
        "Always 1; the label says which version is running.";
    CONFIG: Gauge "" "signalbox_config_info" ["hash"]
        "Always 1; the label is the start of the hash of the policy in force.";
    RELOADS: Counter "" "signalbox_config_reloads_total" ["result"]
        "Attempts to load a changed policy, by result: ok, or error (the old policy stays in force).";
    IN_FLIGHT: Gauge "" "signalbox_in_flight" []
        "Requests under way, from the first byte of the request to the last of the answer.";
    REQUESTS: Counter "" "signalbox_requests_total" ["endpoint", "route", "status", "outcome"]
        "Requests that ended, by the status sent and how they ended: ok, client_gone or the kind of fault.";
    FAULTS: Counter "" "signalbox_faults_total" ["kind", "blame"]
        "Requests that ended in a fault, by whose fault it was: client, upstream or gateway.";
    CLIENT_GONE: Counter "" "signalbox_client_gone_total" ["stage"]
        "Requests whose client went away, by what it was waiting for: queued, prefill or answer.";
    JOURNAL_DROPPED: Counter "" "signalbox_journal_dropped_total" []
        "Journal lines that were not written, because the queue was full or the file could not be written.";
    JOURNAL_ERRORS: Counter "" "signalbox_journal_errors_total" []
        "Failures to write or to rotate the journal.";
    ACCESS_LOG_DROPPED: Counter "" "signalbox_access_log_dropped_total" []
        "Lines of the access log that were not written, because the queue was full or they could not be written.";

    // Backends.
    BACKEND_REQUESTS: Counter "" "signalbox_backend_requests_total" ["pool", "backend", "model", "outcome"]
        "Requests that this backend began to answer, by how they ended; what failed before is among the attempts.";
    BACKEND_ATTEMPTS: Counter "" "signalbox_backend_attempts_total" ["pool", "backend", "model", "outcome"]
        "Attempts at this backend, retries and hedges included, by how they ended.";
    FRESH_RETRIES: Counter "" "signalbox_fresh_connection_retries_total" ["pool", "backend", "model"]
        "Attempts repeated at once on a new connection, because a pooled one had been closed under them.";
    BAD_EVENTS: Counter "" "signalbox_invalid_events_total" ["pool", "backend", "model"]
        "Events that were left out of a stream, because they were no JSON.";
    TTFT: Histogram "seconds" "signalbox_ttft_seconds" ["pool", "backend", "model"]
        "Time to first token as the client saw it: from its request to the first delta handed to its connection.";
    UPSTREAM_TTFT: Histogram "seconds" "signalbox_upstream_ttft_seconds" ["pool", "backend", "model"]
        "Time to first token of one attempt: from sending it to the first delta received.";
    TPOT: Histogram "seconds" "signalbox_tpot_seconds" ["pool", "backend", "model"]
        "Time per output token after the first, averaged over each answer.";
    GAP: Histogram "seconds" "signalbox_inter_token_gap_seconds" ["pool", "backend", "model"]
        "Time between two deltas of an answer.";
    E2E: Histogram "seconds" "signalbox_e2e_seconds" ["pool", "backend", "model"]
        "Time from the request to the end of its answer, where it was complete.";
    OVERHEAD: Histogram "seconds" "signalbox_overhead_seconds" ["pool", "backend", "model"]
        "The gateway's own share of the time to first token: all of it but queueing and waiting for the backend.";
    SETTLE: Histogram "seconds" "signalbox_settle_seconds" ["pool", "backend", "model"]
        "Time that noting an answer took once it was over: learning from it, metrics, error budgets, the journal's line.";
    TOKENS: Counter "tokens" "signalbox_tokens_total" ["pool", "backend", "model", "kind"]
        "Tokens as reported by backends: prompt (of which cached) and completion (of which reasoning).";
    COST: Counter "usd" "signalbox_cost_usd_total" ["pool", "backend", "model"]
        "Cost of answers at the pool's prices, those given up for a larger model's included, in US dollars.";
    GPU_COST: Counter "usd" "signalbox_gpu_cost_usd_total" ["pool"]
        "What the hours of the pool's engines cost, busy or not, at their gpu_hour, in US dollars; an engine in several pools is split by the output tokens it gave for each.";
    POOL_HOUR: Gauge "" "signalbox_pool_usd_per_hour" ["pool"]
        "US dollars an hour that the pool costs now: its engines' gpu_hour where they have one, else the tokens of the last minute.";
    POOL_MILLION: Gauge "" "signalbox_pool_usd_per_million_output_tokens" ["pool"]
        "The same by the output tokens of the last minute, for a million of them; absent where there were none.";
    FLEET_HOUR: Gauge "" "signalbox_fleet_usd_per_hour" []
        "US dollars an hour that all pools with a price cost now.";
    FLEET_MILLION: Gauge "" "signalbox_fleet_usd_per_million_output_tokens" []
        "The same by their output tokens of the last minute, for a million of them.";

    PREFIX_TOKENS: Counter "tokens" "signalbox_prefix_tokens_total" ["pool", "backend", "model", "kind"]
        "Prompt tokens of the answers that report how many were cached: all (prompt), those predicted to be cached at the placement, and those reported.";
    PREFIX_HITS: Gauge "ratio" "signalbox_prefix_hit_ratio" ["kind"]
        "Shares of the prompt tokens of these answers that were predicted to be cached, and that were reported as cached, over all backends since the start.";

    // Admission: queues and refused requests of each pool.
    QUEUE_DEPTH: Gauge "" "signalbox_queue_depth" ["pool"]
        "Requests that wait for room in this pool, or are kept while an engine has enough to do.";
    QUEUE_OLDEST: Gauge "seconds" "signalbox_queue_oldest_seconds" ["pool"]
        "How long the one who came first of these has waited.";
    SATURATION: Gauge "ratio" "signalbox_pool_saturation_ratio" ["pool"]
        "How much of what its engines can do is used, to scale by: time on prompts, KV cache or places, whichever is most; 1 while anybody waits.";
    PREFILL_SHARE: Gauge "ratio" "signalbox_prefill_share_ratio" ["pool"]
        "Share of an answer's time that passes before its first token, over the last minute.";
    POOL_STATE: Gauge "" "signalbox_pool_state" ["pool", "state"]
        "1 for what bounds the pool now: idle, balanced, decode-bound, prefill-bound, network-bound, kv-bound or capacity-bound; else 0.";
    QUEUE_WAIT: Histogram "seconds" "signalbox_queue_wait_seconds" ["pool"]
        "Time in the queue of the requests that got a place after it.";
    QUEUE_ADMITTED: Counter "" "signalbox_queue_admitted_total" ["pool"]
        "Requests that got a place after a wait.";
    SHED: Counter "" "signalbox_shed_total" ["pool", "reason"]
        "Requests refused before they were dispatched, by reason: slo_unattainable, queue_full or queue_timeout.";
    SPILLED: Counter "" "signalbox_spilled_total" ["pool"]
        "Requests for this pool that another pool of their route took, because it had no room or would hardly have kept their limits.";

    FURTHER: Counter "" "signalbox_further_attempts_total" ["pool", "why"]
        "Attempts in this pool beyond a request's first, by why: elsewhere or again (one failed), late (one gave no first token) or hedge.";
    RESCUES: Counter "" "signalbox_rescues_total" ["pool", "result"]
        "Answers of this pool that broke off in the middle, by what became of the rest: continued, repeated or lost.";

    // Cascades: results of smaller models' answers.
    CASCADES: Counter "" "signalbox_cascade_total" ["route", "result"]
        "Answers on routes with a cascade, by what became of them: kept, escalated, unchecked, too_late or failed.";
    CASCADE_TOKENS: Counter "tokens" "signalbox_cascade_tokens_total" ["route", "kind"]
        "Tokens of the answers given up for a larger model's, prompt and completion; estimated where the engine had not counted them yet.";
    CASCADE_COST: Counter "usd" "signalbox_cascade_cost_usd_total" ["route"]
        "Cost of these answers at their pool's prices, in US dollars.";

    // Useful work of engines.
    WORK: Counter "tokens" "signalbox_work_tokens_total" ["pool", "kind", "use"]
        "Tokens that engines read (prompt, but for what was cached) and made (completion) for callers, by use: good (in a complete answer that kept all objectives of its pool and route, if they have any), late (in one that did not), wasted (client gone, failed, hedged away or given up for a larger model's). By our estimate where an engine did not count.";
    GOODPUT: Gauge "ratio" "signalbox_goodput_ratio" ["pool"]
        "Share of these tokens that were good, over the last minute; absent where there were none.";

    // Background requests.
    BACKGROUND: Counter "" "signalbox_background_requests_total" ["purpose", "outcome"]
        "Requests of the gateway's own making: pair (another tier's answer to the same prompt), judge (which answer is better) or verify (a hit by meaning, made anew). They are in no other count of requests.";
    BACKGROUND_TOKENS: Counter "tokens" "signalbox_background_tokens_total" ["purpose"]
        "Their tokens, prompt and answer.";
    BACKGROUND_COST: Counter "usd" "signalbox_background_cost_usd_total" ["purpose"]
        "Their cost at the pools' prices, in US dollars.";
    PAIRS: Counter "" "signalbox_pairs_total" ["result"]
        "Comparisons of two tiers' answers: agreed or disagreed by their words; same, smaller or larger by the judge; undecided, unread or failed without a lesson.";

    // Objectives: requests that met them, and burn rates of their error budgets. Either pool or route is empty.
    SLO_GOOD: Counter "" "signalbox_slo_good_total" ["pool", "route", "objective"]
        "Requests that kept an objective of their pool or of their route (the other label is empty).";
    SLO_REQUESTS: Counter "" "signalbox_slo_requests_total" ["pool", "route", "objective"]
        "All requests that it was asked of; those that came to nothing by their clients' own doing are in neither.";
    SLO_TARGET: Gauge "ratio" "signalbox_slo_target_ratio" ["pool", "route", "objective"]
        "The share of requests that are to keep it; what is missing to 1 is its error budget.";
    SLO_BURN: Gauge "" "signalbox_slo_burn_rate" ["pool", "route", "objective", "window"]
        "Share of requests that missed it over the last 5m, 1h, 6h and 3d, by what its budget allows: 1 uses it up in just three days.";
    SLO_LEFT: Gauge "ratio" "signalbox_slo_budget_left_ratio" ["pool", "route", "objective"]
        "What is left of its budget for three days: 1 for all of it, below 0 where more was used. A gateway that runs for less than three days takes the time before for good.";
    SLO_STATE: Gauge "" "signalbox_slo_state" ["pool", "route", "objective", "state"]
        "1 for its state (ok, burning or exhausted), 0 for the others.";

    // Usage of callers and teams.
    LIMITS_SHARED_UP: Gauge "" "signalbox_limits_shared_up" []
        "Whether the server that limits are shared through is there: 0 while it is away, and each gateway counts for itself.";
    LIMITS_SHARED: Counter "" "signalbox_limits_shared_total" ["what", "result"]
        "Dealings with it: enter (requests, a minute and at once), reserve (tokens and budgets) and settle (what has ended): ok, or refused; down, late and failed where it was not there, and queue where too much was on its way.";
    KEY_LIMITED: Counter "" "signalbox_key_limited_total" ["key", "limit"]
        "Requests refused because of a limit of their key (requests, tokens, concurrency) or of its team (budget).";
    KEY_REQUESTS: Counter "" "signalbox_key_requests_total" ["key", "outcome"]
        "Requests that ended, by the id of their caller's key and how they ended: ok, client_gone or the kind of fault. The key is none where there is none.";
    KEY_TOKENS: Counter "tokens" "signalbox_key_tokens_total" ["key", "kind"]
        "Tokens of a key's answers as engines counted them: prompt (of which cached) and completion (of which reasoning).";
    KEY_PREFIX_TOKENS: Counter "tokens" "signalbox_key_prefix_tokens_total" ["key", "kind"]
        "Prompt tokens of a key's answers that report how many were cached: prompt (all), predicted (expected to be cached) and reported (cached).";
    PREFIX_CHANGES: Counter "" "signalbox_prompt_prefix_changes_total" ["key", "where"]
        "Prompts that departed early from all of the same key that are remembered (sixteen at most) and begin much the same, by the part that changed: tools, system, message or prompt. /admin/prompt-cache tells more.";
    KEY_COST: Counter "usd" "signalbox_key_cost_usd_total" ["key"]
        "Cost of a key's requests at the pools' prices, in US dollars, by our estimate where an engine did not count.";
    TEAM_SPENT_USD: Gauge "usd" "signalbox_team_spent_usd" ["team", "per"]
        "What a team has spent in the present day or month, at the pools' prices, in US dollars; on all gateways, where limits are shared.";
    TEAM_BUDGET_USD: Gauge "usd" "signalbox_team_budget_usd" ["team", "per"]
        "What it may spend in it, where its budget is in US dollars.";
    TEAM_SPENT_TOKENS: Gauge "tokens" "signalbox_team_spent_tokens" ["team", "per"]
        "What a team has spent in the present day or month, in tokens of prompts and answers; on all gateways, where limits are shared.";
    TEAM_BUDGET_TOKENS: Gauge "tokens" "signalbox_team_budget_tokens" ["team", "per"]
        "What it may spend in it, where its budget is in tokens.";

    // Provider accounts.
    ACCOUNT_KEYS: Gauge "" "signalbox_account_keys" ["account", "state"]
        "Keys of an account: ready, or ejected because its provider refused them (401); those are tried again after a while.";
    ACCOUNT_EJECTED: Counter "" "signalbox_account_keys_ejected_total" ["account"]
        "How often a key of an account was left out because its provider refused it.";
    ACCOUNT_LEFT: Gauge "" "signalbox_account_remaining" ["account", "limit"]
        "What is left of the limits that the policy gives an account, in requests and tokens per minute.";

    // Cache: lookups, contents, and savings.
    CACHE_LOOKUPS: Counter "" "signalbox_cache_lookups_total" ["tier", "result", "reason", "route"]
        "Requests that a cache was asked about: hit, coalesced (shared another's request under way), miss, or bypass (it may not share), and why no answer was given.";
    CACHE_LOOKUP: Histogram "seconds" "signalbox_cache_lookup_seconds" ["stage"]
        "Time that a lookup took: making the key, finding the answer to an equal request (exact), asking other gateways for it (shared), and by meaning the vector that recalls, the search, and the vector that decides.";
    CACHE_EMBEDDINGS: Counter "" "signalbox_cache_embeddings_total" ["embedder", "result"]
        "Texts whose vector was to decide, by the embedder (built-in, backend, fastembed or onnx) and what became of them: done, full (too many waited), late, failed, or resting (not asked for, because it failed lately).";
    CACHE_GUARDS: Counter "" "signalbox_cache_guarded_total" ["guard"]
        "Lookups by meaning whose nearest candidate was kept apart, by what differs: numbers, names, negation and others.";
    CACHE_LABELS: Counter "" "signalbox_cache_labels_total" ["of", "verdict", "source"]
        "Answers by meaning that were compared with one made anew, or judged by their callers: of hits (given, or looked at in shadow) and of near ones that were not given; right or false.";
    CACHE_FALSE_HITS: Gauge "ratio" "signalbox_cache_false_hit_ratio" ["bound"]
        "Share of hits by meaning that were false, as far as hits were verified: the estimate, and bounds of 95 % to both sides. Nothing verified: 0 between 0 and 1.";
    CACHE_VERIFIED: Gauge "" "signalbox_cache_verified_labels" []
        "How many labels stand behind that, older ones counting less. 0: unverified.";
    CACHE_SHADOW: Gauge "" "signalbox_cache_shadow_scopes" []
        "Scopes that are given no answers by meaning at present, because theirs were false more often than the policy allows.";
    CACHE_STORED: Counter "" "signalbox_cache_stored_total" ["result"]
        "Answers that might be kept, by what became of them: kept, no_room, or why not (unfinished, finish_reason, refused, too_large, unreadable).";
    CACHE_ENTRIES: Gauge "" "signalbox_cache_entries" ["tier"]
        "Answers kept.";
    CACHE_BYTES: Gauge "bytes" "signalbox_cache_bytes" ["tier"]
        "Memory that they take.";
    CACHE_EVICTIONS: Counter "" "signalbox_cache_evictions_total" ["tier", "reason"]
        "Answers that had to go, by reason: space, share (of one scope), expired, replaced or purged.";
    CACHE_LOG_UP: Gauge "" "signalbox_cache_log_up" []
        "Whether kept answers are written to disk: 0 while another gateway has the folder, and once the disk has failed.";
    CACHE_LOG_RECORDS: Gauge "" "signalbox_cache_log_records" []
        "Answers on disk.";
    CACHE_LOG_BYTES: Gauge "bytes" "signalbox_cache_log_bytes" []
        "Length of their file.";
    CACHE_LOG_LOST: Counter "" "signalbox_cache_log_lost_total" ["reason"]
        "Answers that did not come to the disk or are gone from it, by reason: queue (full, or no disk to write to), space, doubtful (a damaged part of the file may have taken them back) or unreadable (of another release or embedder).";
    CACHE_LOG_DAMAGED: Gauge "bytes" "signalbox_cache_log_damaged_bytes" []
        "Bytes of the file that were damaged or torn when it was opened.";
    CACHE_LOG_COMPACTIONS: Counter "" "signalbox_cache_log_compactions_total" []
        "How often the file was written anew without what counts no more.";
    CACHE_LOADED: Counter "" "signalbox_cache_loaded_total" ["tier"]
        "Answers that were read back from disk.";
    CACHE_LOAD: Gauge "seconds" "signalbox_cache_load_seconds" []
        "How long that took, in the background, or has taken so far.";
    CACHE_SHARED_UP: Gauge "" "signalbox_cache_shared_up" []
        "Whether the server that gateways share is there: 0 while it is away, and no request waits for it.";
    CACHE_SHARED: Counter "" "signalbox_cache_shared_total" ["what", "result"]
        "Dealings with it: get (answers looked for: hit, miss, old, or refused, since they did not verify or were purged), set and tell (given: ok, queue, too_large), hear (entries by meaning that others told: kept, known, old, embedder, refused), purge (ok, heard of others, or refused: not sealed by one of them); down, late and failed where it was not there.";
    CACHE_COALESCED: Counter "" "signalbox_cache_coalesced_total" ["route"]
        "Requests that were answered by another's, equal and under way.";
    CACHE_SAVED_TOKENS: Counter "tokens" "signalbox_cache_saved_tokens_total" ["tier", "kind"]
        "Tokens of answers given again, prompt and completion, as their engines had counted them.";
    CACHE_SAVED_COST: Counter "usd" "signalbox_cache_saved_cost_usd_total" ["tier"]
        "What these answers had cost at their pools' prices, in US dollars.";
    CACHE_SAVED_SECONDS: Counter "seconds" "signalbox_cache_saved_seconds_total" ["tier"]
        "Time that making these answers had taken, from their requests to their ends.";

    // Placement: accuracy of predictions (about the last five hundred of each pool), and cost of decisions.
    DECISION: Histogram "seconds" "signalbox_decision_seconds" ["pool"]
        "Time that the choice of a backend took.";
    TTFT_COVERAGE: Gauge "ratio" "signalbox_ttft_prediction_coverage_ratio" ["pool"]
        "Share of times to first token at or below the 90th percentile predicted for them; 0.9 is right.";
    TTFT_ERROR: Gauge "ratio" "signalbox_ttft_prediction_error_ratio" ["pool"]
        "Mean relative error of the predicted medians of times to first token.";
    TTFT_PINBALL: Gauge "seconds" "signalbox_ttft_prediction_pinball_seconds" ["pool"]
        "Mean pinball loss of the predicted 90th percentiles of times to first token.";
    TTFT_BASELINE: Gauge "seconds" "signalbox_ttft_baseline_pinball_seconds" ["pool"]
        "The same loss for a moving average of each backend: what the prediction has to beat.";
    TPOT_COVERAGE: Gauge "ratio" "signalbox_tpot_prediction_coverage_ratio" ["pool"]
        "Share of times per output token at or below the 90th percentile predicted for them; 0.9 is right.";
    TPOT_ERROR: Gauge "ratio" "signalbox_tpot_prediction_error_ratio" ["pool"]
        "Mean relative error of the predicted medians of times per output token.";
    TPOT_PINBALL: Gauge "seconds" "signalbox_tpot_prediction_pinball_seconds" ["pool"]
        "Mean pinball loss of the predicted 90th percentiles of times per output token.";
    TPOT_BASELINE: Gauge "seconds" "signalbox_tpot_baseline_pinball_seconds" ["pool"]
        "The same loss for a moving average of each backend.";
    OUTPUT_COVERAGE: Gauge "ratio" "signalbox_output_prediction_coverage_ratio" ["pool"]
        "Share of answers no longer than the 90th percentile predicted for them, of those that could be longer; 0.9 is right.";
    OUTPUT_ERROR: Gauge "ratio" "signalbox_output_prediction_error_ratio" ["pool"]
        "Median relative error of the predicted medians of the lengths of answers.";
    TIER_REQUESTS: Counter "" "signalbox_tier_requests_total" ["route", "tier", "kind"]
        "Requests by tier (0 is the cheapest): where their prompts belong (intended), with their sessions (settled), and where they were sent (served).";
    TIER_SHARE: Gauge "ratio" "signalbox_tier_share_ratio" ["route", "tier", "kind"]
        "The same as shares of about the last thousand requests that the route decided.";
    TIER_BAR: Gauge "" "signalbox_tier_bar" ["route", "tier"]
        "What the tier above this one asks for: a score where shares are held, else the quality that a dollar has to buy.";
    TIER_QUALITY: Gauge "ratio" "signalbox_tier_expected_quality_ratio" ["route"]
        "Mean quality to expect of the answers that the route decided lately.";
    TIER_FLIPS: Counter "" "signalbox_tier_session_flips_total" ["route"]
        "Times that a conversation changed its tier while it was warm.";
    LENGTH_BOUNDARY: Gauge "tokens" "signalbox_length_boundary_tokens" ["route"]
        "From how many tokens on the route takes a prompt for long, where that is learned.";
    PREFIX_BYTES: Gauge "bytes" "signalbox_prefix_index_bytes" []
        "Memory of the index of cached prompt prefixes.";
    PREFIX_BLOCKS: Gauge "" "signalbox_prefix_index_blocks" []
        "Blocks in it, each counted once for each backend that is believed to hold it.";
    SESSIONS: Gauge "" "signalbox_sessions" []
        "Conversations whose last backend is remembered.";

    // Precomputed quantiles.
    TTFT_QUANTILE: Gauge "seconds" "signalbox_ttft_quantile_seconds" ["pool", "backend", "q", "window"]
        "Quantiles of signalbox_ttft_seconds over the last 1m, 5m and 1h, within 2 %; absent when nothing was seen.";
    TPOT_QUANTILE: Gauge "seconds" "signalbox_tpot_quantile_seconds" ["pool", "backend", "q", "window"]
        "Quantiles of signalbox_tpot_seconds over the last 1m, 5m and 1h, within 2 %; absent when nothing was seen.";
    E2E_QUANTILE: Gauge "seconds" "signalbox_e2e_quantile_seconds" ["pool", "backend", "q", "window"]
        "Quantiles of signalbox_e2e_seconds over the last 1m, 5m and 1h, within 2 %; absent when nothing was seen.";

    // Current load of backends, by our own count.
    BACKEND_IN_FLIGHT: Gauge "" "signalbox_backend_in_flight" ["pool", "backend"]
        "Attempts under way at this backend; an engine's load is the sum over its backends.";
    QUEUED_PROMPT: Gauge "tokens" "signalbox_backend_queued_prompt_tokens" ["pool", "backend"]
        "Estimated prompt tokens sent to this backend whose first token has not come yet (or whose answer, where it comes whole).";
    DECODING: Gauge "" "signalbox_backend_decoding" ["pool", "backend"]
        "Streamed attempts at this backend that are past their first token.";
    CONTEXT: Gauge "tokens" "signalbox_backend_context_tokens" ["pool", "backend"]
        "Estimated prompt tokens of the streamed attempts at this backend that are past their first token.";

    BACKEND_BREAKER: Gauge "" "signalbox_backend_breaker" ["pool", "backend", "state"]
        "1 for the state of the breaker of this model on its engine through its account (closed, open or half_open), 0 for the others.";

    // Gauges of each engine; absent where it does not report them.
    ENGINE_UP: Gauge "" "signalbox_engine_up" ["engine"]
        "Whether anybody answered there when last asked, by a scrape or a request, and it did not fail lately.";
    ENGINE_BREAKER: Gauge "" "signalbox_engine_breaker" ["engine", "state"]
        "1 for the most open state of the engine's breakers, for its connections and for each of its models (closed, open or half_open), 0 for the others.";
    ENGINE_OPENED: Counter "" "signalbox_engine_breaker_opened_total" ["engine"]
        "How often the engine's breakers were opened.";
    ENGINE_SCRAPE_AGE: Gauge "seconds" "signalbox_engine_scrape_age_seconds" ["engine"]
        "Time since the engine's metrics were last read.";
    ENGINE_RUNNING: Gauge "" "signalbox_engine_running" ["engine"]
        "Requests the engine is computing, from all its clients.";
    ENGINE_WAITING: Gauge "" "signalbox_engine_waiting" ["engine"]
        "Requests in the engine's own queue, from all its clients.";
    ENGINE_KV_USAGE: Gauge "ratio" "signalbox_engine_kv_usage_ratio" ["engine"]
        "Share of the engine's KV cache in use, 0 to 1.";
    ENGINE_PREFIX_HITS: Gauge "ratio" "signalbox_engine_prefix_hit_ratio" ["engine"]
        "Share of prompt tokens that the engine lately found in its prefix cache, 0 to 1.";
    ENGINE_HIDDEN_QUEUE: Gauge "seconds" "signalbox_engine_hidden_queue_seconds" ["engine"]
        "By how much the mean time to first token, from dispatch, exceeds the engine's own: what requests wait before it counts them, over the last minute.";
    ENGINE_QUEUED_TOKENS: Gauge "tokens" "signalbox_engine_queued_tokens" ["engine"]
        "Prompt tokens in the engine's own queue, where it counts them; few engines do.";
    ENGINE_ACCEPT_RATIO: Gauge "ratio" "signalbox_engine_spec_accept_ratio" ["engine"]
        "Share of the tokens drafted ahead of the model (speculative decoding) that were accepted over the last minute, 0 to 1.";
    ENGINE_ACCEPT_LENGTH: Gauge "tokens" "signalbox_engine_spec_accept_length_tokens" ["engine"]
        "Tokens of a draft that were accepted, a mean over the last minute, without the one that a step gives in any case; below 0.5 drafts hardly pay.";
    ENGINE_GPU_UTILISATION: Gauge "ratio" "signalbox_engine_gpu_utilisation_ratio" ["engine"]
        "Share of their time that the GPUs of the engine's DCGM exporter are busy, a mean over them, 0 to 1.";
    ENGINE_GPU_MEMORY: Gauge "ratio" "signalbox_engine_gpu_memory_ratio" ["engine"]
        "Share of its memory in use at the fullest of these GPUs, 0 to 1.";
    ENGINE_ROUND_TRIP: Gauge "seconds" "signalbox_engine_round_trip_seconds" ["engine"]
        "Time to the engine's machine and back: that of the quickest connection of the last minute, of one every ten seconds.";
    ENGINE_PREEMPTIONS: Counter "" "signalbox_engine_preemptions_total" ["engine"]
        "Requests the engine had to interrupt for want of KV cache.";
    ENGINE_RESTARTS: Counter "" "signalbox_engine_restarts_total" ["engine"]
        "How often the engine is known to have started anew, or could not be reached; what it had cached is forgotten then.";
}

/// Renders the table as Markdown, for the README.
pub fn reference() -> String {
    let mut text = String::from("| Metric | Type | Unit | Labels | Meaning |\n|---|---|---|---|---|\n");
    for def in ALL {
        let kind = match def.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let labels = def.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "| `{}` | {kind} | {} | {labels} | {} |", def.name, def.unit, def.help);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, path::Path};

    use super::*;

    #[test]
    fn names_follow_the_conventions() {
        let mut seen = HashSet::new();
        for def in ALL {
            let name = def.name;
            assert!(name.starts_with("signalbox_"), "{name}");
            assert!(seen.insert(name), "{name} is there twice");
            assert_eq!(name.ends_with("_total"), def.kind == Kind::Counter, "{name}");
            assert!(name.trim_end_matches("_total").ends_with(def.unit), "{name} has its unit in its name");
            assert!(def.help.ends_with('.') && !def.help.contains(['|', '\n']), "{name}: {}", def.help);
        }
    }

    #[test]
    fn stems_omit_the_suffixes_that_the_encoder_adds() {
        assert_eq!(TTFT.stem(), "signalbox_ttft");
        assert_eq!(COST.stem(), "signalbox_cost");
        assert_eq!(TOKENS.stem(), "signalbox");
        assert_eq!(IN_FLIGHT.stem(), "signalbox_in_flight");
    }

    /// `SIGNALBOX_UPDATE=1 cargo test` writes the table into the README instead.
    #[test]
    fn the_readme_lists_every_metric() {
        const BEGIN: &str = "<!-- metrics:begin -->\n";
        const END: &str = "<!-- metrics:end -->";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        let readme = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = readme.split_once(BEGIN).expect("README.md has no metrics:begin");
        let (block, after) = rest.split_once(END).expect("README.md has no metrics:end");
        let want = format!("\n{}\n", reference());
        if std::env::var_os("SIGNALBOX_UPDATE").is_some() {
            std::fs::write(&path, format!("{before}{BEGIN}{want}{END}{after}")).unwrap();
        } else {
            assert!(block == want, "README.md is behind; run SIGNALBOX_UPDATE=1 cargo test the_readme_lists");
        }
    }
}
