//! The table of all metrics: name, type, unit, labels and help. `/metrics` and `docs/reference/metrics.md` are generated from it.

use super::definition::table;
pub use super::definition::{Def, Kind};

#[rustfmt::skip]
table! {
    // The gateway as a whole.
    BUILD: Gauge "" "signalbox_build_info" ["version"]
        "Always 1; the label says which version is running.";
    CONFIG: Gauge "" "signalbox_config_info" ["hash"]
        "Always 1; the label is the start of the hash of the policy in force.";
    RELOADS: Counter "" "signalbox_config_reloads_total" ["result"]
        "Attempts to load a changed policy, by result: ok, or error (the old policy stays in force).";
    RELOADED: Gauge "" "signalbox_config_last_reload_successful" []
        "Whether the last load of the policy succeeded: 0 from a load that failed until one succeeds; the policy in its file is not in force, and a restart would fail.";
    NOTIFICATIONS: Counter "" "signalbox_notifications_total" ["result"]
        "Notifications by result: sent, failed (given up) and dropped (too many were waiting).";
    IN_FLIGHT: Gauge "" "signalbox_in_flight" []
        "Requests under way, from the first byte of the request to the last of the answer.";
    REQUESTS: Counter "" "signalbox_requests_total" ["endpoint", "route", "status", "outcome"]
        "Requests that ended, by the status sent and the outcome: ok, client_gone or the kind of fault.";
    FAULTS: Counter "" "signalbox_faults_total" ["kind", "blame"]
        "Requests that ended in a fault, by who caused it: client, upstream or gateway.";
    CLIENT_GONE: Counter "" "signalbox_client_gone_total" ["stage"]
        "Requests whose client left, by what it was waiting for: queued, prefill or answer.";
    CALLER_TTFT: Histogram "seconds" "signalbox_caller_ttft_seconds" ["route", "source"]
        "Time to first token of streams as their callers see it, queue and caches of the gateway included, by route and source: engine, exact or semantic (kept answers) or coalesced (an equal request under way).";
    CALLER_E2E: Histogram "seconds" "signalbox_caller_e2e_seconds" ["route", "source"]
        "Time from a request to the end of its complete answer, the same way, also of answers that come as a whole.";
    STORE_UP: Gauge "" "signalbox_store_up" ["store"]
        "Whether the last write to a store worked: usage (with budgets and revocations), keys, backends, learning, cache, journal, access_log, audit and history. 0: a restart loses what was not written.";
    STORE_ERRORS: Counter "" "signalbox_store_write_errors_total" ["store"]
        "Failed writes to a store.";
    JOURNAL_DROPPED: Counter "" "signalbox_journal_dropped_total" []
        "Journal lines that were not written, because the queue was full or the file could not be written.";
    JOURNAL_ERRORS: Counter "" "signalbox_journal_errors_total" []
        "Failures to write or to rotate the journal.";
    ACCESS_LOG_DROPPED: Counter "" "signalbox_access_log_dropped_total" []
        "Lines of the access log that were not written, because the queue was full or they could not be written.";
    SPANS_DROPPED: Counter "" "signalbox_otel_spans_dropped_total" ["reason"]
        "Spans that the collector did not get, by reason: queue (too many waited), rejected (it refused them for good) or unreachable (none accepted them in two minutes). Only with otel.";

    // Backends.
    BACKEND_REQUESTS: Counter "" "signalbox_backend_requests_total" ["pool", "backend", "model", "outcome"]
        "Requests whose answer this backend began, by outcome; earlier failures are among the attempts.";
    BACKEND_ATTEMPTS: Counter "" "signalbox_backend_attempts_total" ["pool", "backend", "model", "outcome"]
        "Attempts at this backend, retries and hedges included, by outcome.";
    FRESH_RETRIES: Counter "" "signalbox_fresh_connection_retries_total" ["pool", "backend", "model"]
        "Attempts repeated at once on a new connection, because a pooled one was closed.";
    BAD_EVENTS: Counter "" "signalbox_invalid_events_total" ["pool", "backend", "model"]
        "Events dropped from a stream because they were not JSON.";
    TTFT: Histogram "seconds" "signalbox_ttft_seconds" ["pool", "backend", "model"]
        "Time to first token on the client side: from its request until the first delta was handed to the HTTP layer.";
    UPSTREAM_TTFT: Histogram "seconds" "signalbox_upstream_ttft_seconds" ["pool", "backend", "model"]
        "Time to first token of one attempt: from its dispatch to the first delta received.";
    TPOT: Histogram "seconds" "signalbox_tpot_seconds" ["pool", "backend", "model"]
        "Time per output token after the first, averaged over each answer.";
    GAP: Histogram "seconds" "signalbox_inter_token_gap_seconds" ["pool", "backend", "model"]
        "Time between two deltas of an answer.";
    E2E: Histogram "seconds" "signalbox_e2e_seconds" ["pool", "backend", "model"]
        "Time from the request to the end of its complete answer.";
    OVERHEAD: Histogram "seconds" "signalbox_overhead_seconds" ["pool", "backend", "model"]
        "The gateway's own share of the time to first token: all of it except queueing and waiting for the backend.";
    SETTLE: Histogram "seconds" "signalbox_settle_seconds" ["pool", "backend", "model"]
        "Time to settle an ended answer: learning, metrics, error budgets, the journal's line.";
    TOKENS: Counter "tokens" "signalbox_tokens_total" ["pool", "backend", "model", "kind"]
        "Tokens as reported by backends: prompt (of which cached) and completion (of which reasoning).";
    COST: Counter "usd" "signalbox_cost_usd_total" ["pool", "backend", "model"]
        "Cost of answers at the pool's prices, including those discarded for a larger model's, in US dollars.";
    GPU_COST: Counter "usd" "signalbox_gpu_cost_usd_total" ["pool"]
        "Cost of the pool's engines by the hour, busy or not, at their gpu_hour, in US dollars; an engine in several pools is split by the output tokens for each.";
    POOL_HOUR: Gauge "" "signalbox_pool_usd_per_hour" ["pool"]
        "Current cost of the pool in US dollars per hour: its engines' gpu_hour where they have one, else the tokens of the last minute.";
    POOL_MILLION: Gauge "" "signalbox_pool_usd_per_million_output_tokens" ["pool"]
        "The same per million output tokens of the last minute; absent without any.";
    FLEET_HOUR: Gauge "" "signalbox_fleet_usd_per_hour" []
        "Current cost of all pools with a price, in US dollars per hour.";
    FLEET_MILLION: Gauge "" "signalbox_fleet_usd_per_million_output_tokens" []
        "The same per million output tokens of the last minute.";

    PREFIX_TOKENS: Counter "tokens" "signalbox_prefix_tokens_total" ["pool", "backend", "model", "kind"]
        "Prompt tokens of the answers that report how many were cached: all (prompt), predicted to be cached at the placement (predicted), and reported as cached (reported).";
    PREFIX_HITS: Gauge "ratio" "signalbox_prefix_hit_ratio" ["kind"]
        "Shares of these prompt tokens that were predicted to be cached, and that were reported as cached, over all backends since the start.";

    // Admission: queues and refused requests of each pool.
    QUEUE_DEPTH: Gauge "" "signalbox_queue_depth" ["pool"]
        "Requests that wait for room in this pool, or are held back while an engine has enough queued work.";
    QUEUE_OLDEST: Gauge "seconds" "signalbox_queue_oldest_seconds" ["pool"]
        "Wait of the oldest of these requests.";
    SATURATION: Gauge "ratio" "signalbox_pool_saturation_ratio" ["pool"]
        "Used share of its engines' capacity, for autoscaling: time on prompts, KV cache or concurrency, whichever is highest; 1 while a request waits (here, or five and a tenth of those running in an engine's own queue), and while requests come for a pool without a usable backend, also one without any.";
    PREFILL_SHARE: Gauge "ratio" "signalbox_prefill_share_ratio" ["pool"]
        "Share of an answer's time that passes before its first token, over the last minute.";
    POOL_STATE: Gauge "" "signalbox_pool_state" ["pool", "state"]
        "1 for the current bottleneck of the pool: idle, balanced, decode-bound, prefill-bound, network-bound, kv-bound, capacity-bound or unserved (requests come, and no backend is usable); else 0.";
    QUEUE_WAIT: Histogram "seconds" "signalbox_queue_wait_seconds" ["pool"]
        "Time in the queue of admitted requests.";
    QUEUE_ADMITTED: Counter "" "signalbox_queue_admitted_total" ["pool"]
        "Requests admitted after a wait.";
    SHED: Counter "" "signalbox_shed_total" ["pool", "reason"]
        "Requests refused before dispatch, by reason: slo_unattainable, queue_full or queue_timeout.";
    SPILLED: Counter "" "signalbox_spilled_total" ["pool"]
        "Requests for this pool that another pool of their route took, because this one had no room or would probably have missed their limits.";

    FURTHER: Counter "" "signalbox_further_attempts_total" ["pool", "why"]
        "Attempts in this pool beyond a request's first, by reason: elsewhere or again (an attempt failed), late (an attempt had no first token in time) or hedge.";
    RESUMES: Counter "" "signalbox_stream_resumes_total" ["pool", "result"]
        "Answers of this pool that broke off, by the result for the rest: continued, repeated or lost.";
    FORMER_RESUMES: Counter "" "signalbox_rescues_total" ["pool", "result"]
        "Former name of signalbox_stream_resumes_total, to be removed in the next version.";

    // Cascades: results of smaller models' answers.
    CASCADES: Counter "" "signalbox_cascade_total" ["route", "result"]
        "Answers on routes with a cascade, by result: kept, escalated, unchecked, too_late or failed.";
    CASCADE_TOKENS: Counter "tokens" "signalbox_cascade_tokens_total" ["route", "kind"]
        "Tokens of answers discarded for a larger model's, prompt and completion; estimated where the engine had not reported them yet.";
    CASCADE_COST: Counter "usd" "signalbox_cascade_cost_usd_total" ["route"]
        "Cost of these answers at their pool's prices, in US dollars.";

    // Useful work of engines.
    WORK: Counter "tokens" "signalbox_work_tokens_total" ["pool", "kind", "use"]
        "Tokens that engines processed for callers, read (prompt, without cached ones) and generated (completion), by use: good (in a complete answer that met all objectives of its pool and route), late (in one that missed an objective), failed (in an answer that failed through its engine), wasted (client gone, lost to a hedge or discarded for a larger model's). Our estimate where an engine did not report them.";
    STALLED: Counter "" "signalbox_stalled_answers_total" ["pool"]
        "Streamed answers that stalled: one of their gaps between chunks was over 250 ms, and most were below 150 ms.";
    GOODPUT: Gauge "ratio" "signalbox_goodput_ratio" ["pool"]
        "Share of these tokens that were good, over the last minute; absent without any.";

    // Background requests.
    BACKGROUND: Counter "" "signalbox_background_requests_total" ["purpose", "outcome"]
        "Background requests of the gateway itself: pair (another tier's answer to the same prompt), judge (comparing two answers) or verify (regenerating the answer of a semantic hit). No other metric counts them.";
    BACKGROUND_TOKENS: Counter "tokens" "signalbox_background_tokens_total" ["purpose"]
        "Their tokens, prompt and answer.";
    BACKGROUND_COST: Counter "usd" "signalbox_background_cost_usd_total" ["purpose"]
        "Their cost at the pools' prices, in US dollars.";
    PAIRS: Counter "" "signalbox_pairs_total" ["result"]
        "Comparisons of two tiers' answers: agreed or disagreed by their words; same, smaller or larger by the judge; undecided, unread or failed without a result.";

    // Objectives: requests that met them, and burn rates of their error budgets. Either pool or route is empty.
    SLO_GOOD: Counter "" "signalbox_slo_good_total" ["pool", "route", "objective"]
        "Requests that met an objective of their pool or of their route (the other label is empty); for stutter, gaps between chunks.";
    SLO_REQUESTS: Counter "" "signalbox_slo_requests_total" ["pool", "route", "objective"]
        "All requests that the objective applied to; requests that failed because of their clients are in neither.";
    SLO_TARGET: Gauge "ratio" "signalbox_slo_target_ratio" ["pool", "route", "objective"]
        "Share of requests that should meet it; the rest is its error budget.";
    SLO_BURN: Gauge "" "signalbox_slo_burn_rate" ["pool", "route", "objective", "window"]
        "Share of requests that missed it over the last 5m, 1h, 6h and 3d, relative to its budget: 1 uses it up in exactly three days, or the window of error_budgets in the policy, which then takes the place of 3d.";
    SLO_LEFT: Gauge "ratio" "signalbox_slo_budget_left_ratio" ["pool", "route", "objective"]
        "Rest of its budget for three days: 1 for all of it, below 0 when overspent. A gateway younger than three days counts the time before its start as good.";
    SLO_STATE: Gauge "" "signalbox_slo_state" ["pool", "route", "objective", "state"]
        "1 for its state (ok, missing, burning or exhausted), 0 for the others.";

    // Usage of callers and teams.
    PLACEMENT_SHARED_UP: Gauge "" "signalbox_placement_shared_up" []
        "Whether the server for shared placement is reachable: 0 while it is not, and each gateway knows only what it has sent itself.";
    PLACEMENT_SHARED: Counter "" "signalbox_placement_shared_total" ["what", "result"]
        "Computed prompts sent to other gateways (publish: ok, or dropped because too many were waiting) and received from them (receive: ok, or unknown for a backend that this gateway does not have), and messages that no gateway of the group had sealed (receive: refused).";
    LIMITS_SHARED_UP: Gauge "" "signalbox_limits_shared_up" []
        "Whether the server for shared limits is reachable: 0 while it is not, and each gateway counts for itself.";
    LIMITS_SHARED: Counter "" "signalbox_limits_shared_total" ["what", "result"]
        "Operations on that server: enter (requests per minute and concurrency), reserve (tokens and budgets) and settle (ended requests): ok, or refused; down, late and failed if it was unreachable, and queue if too many operations were pending.";
    KEY_LIMITED: Counter "" "signalbox_key_limited_total" ["key", "limit"]
        "Requests rejected by a limit of their key (requests, tokens, concurrency) or a budget of the key or its team (budget).";
    KEY_EXPIRES: Gauge "seconds" "signalbox_key_expires_timestamp_seconds" ["key"]
        "The time from which a key is rejected, in seconds since 1970; only for keys that expire.";
    KEY_SPENT_USD: Gauge "usd" "signalbox_key_spent_usd" ["key", "per"]
        "Spending of a key with a budget of its own in the current day or month, at the pools' prices, in US dollars; on all gateways, if limits are shared.";
    KEY_BUDGET_USD: Gauge "usd" "signalbox_key_budget_usd" ["key", "per"]
        "Its budget for that period, if it is in US dollars.";
    KEY_SPENT_TOKENS: Gauge "tokens" "signalbox_key_spent_tokens" ["key", "per"]
        "Spending of a key with a budget of its own in the current day or month, in tokens of prompts and answers; on all gateways, if limits are shared.";
    KEY_BUDGET_TOKENS: Gauge "tokens" "signalbox_key_budget_tokens" ["key", "per"]
        "Its budget for that period, if it is in tokens.";
    KEY_REQUESTS: Counter "" "signalbox_key_requests_total" ["key", "outcome"]
        "Requests that ended, by the id of their caller's key and the outcome: ok, client_gone or the kind of fault. The key is none for callers without one.";
    KEY_TOKENS: Counter "tokens" "signalbox_key_tokens_total" ["key", "kind"]
        "Tokens of a key's answers as engines reported them: prompt (of which cached) and completion (of which reasoning).";
    KEY_PREFIX_TOKENS: Counter "tokens" "signalbox_key_prefix_tokens_total" ["key", "kind"]
        "Prompt tokens of a key's answers that report how many were cached: prompt (all), predicted (predicted to be cached) and reported (cached).";
    PREFIX_CHANGES: Counter "" "signalbox_prompt_prefix_changes_total" ["key", "where"]
        "Prompts that diverged early from all similar recent prompts of the same key (at most sixteen), by the part that changed: tools, system, message or prompt. /admin/prompt-cache has details.";
    KEY_COST: Counter "usd" "signalbox_key_cost_usd_total" ["key"]
        "Cost of a key's requests at the pools' prices, in US dollars; estimated where an engine did not report tokens.";
    TEAM_SPENT_USD: Gauge "usd" "signalbox_team_spent_usd" ["team", "per"]
        "Spending of a team in the current day or month, at the pools' prices, in US dollars; on all gateways, if limits are shared.";
    TEAM_BUDGET_USD: Gauge "usd" "signalbox_team_budget_usd" ["team", "per"]
        "Its budget for that period, if it is in US dollars.";
    TEAM_SPENT_TOKENS: Gauge "tokens" "signalbox_team_spent_tokens" ["team", "per"]
        "Spending of a team in the current day or month, in tokens of prompts and answers; on all gateways, if limits are shared.";
    TEAM_BUDGET_TOKENS: Gauge "tokens" "signalbox_team_budget_tokens" ["team", "per"]
        "Its budget for that period, if it is in tokens.";

    // Provider accounts.
    ACCOUNT_KEYS: Gauge "" "signalbox_account_keys" ["account", "state"]
        "Keys of an account: ready, or ejected because the provider refused them (401); ejected keys are tried again later.";
    ACCOUNT_EJECTED: Counter "" "signalbox_account_keys_ejected_total" ["account"]
        "Times that a key of an account was ejected because the provider refused it.";
    ACCOUNT_LEFT: Gauge "" "signalbox_account_remaining" ["account", "limit"]
        "Rest of the account's limits in the policy, in requests and tokens per minute.";

    // Cache: lookups, contents, and savings.
    CACHE_LOOKUPS: Counter "" "signalbox_cache_lookups_total" ["tier", "result", "reason", "route"]
        "Cache lookups: hit, coalesced (shared a request under way), miss, or bypass (the request is not eligible), with the reason of a miss or bypass.";
    CACHE_LOOKUP: Histogram "seconds" "signalbox_cache_lookup_seconds" ["stage"]
        "Time of a lookup by stage: computing the key (key), finding the answer to an identical request (exact), asking other gateways (shared), and for semantic lookups the embedder (decide) and the search (search).";
    CACHE_EMBEDDINGS: Counter "" "signalbox_cache_embeddings_total" ["embedder", "result"]
        "Texts for the deciding embedder, by embedder (built-in, backend, fastembed or onnx) and result: done, full (queue full), late, failed, or resting (not called, because it failed recently).";
    CACHE_GUARDS: Counter "" "signalbox_cache_guarded_total" ["guard"]
        "Semantic lookups whose nearest candidate a guard rejected, by the difference: numbers, names, negation and others.";
    CACHE_LABELS: Counter "" "signalbox_cache_labels_total" ["of", "verdict", "source"]
        "Semantic answers that were compared with a regenerated one, or judged by their callers: of hits (served, or evaluated in shadow mode) and of near candidates that were not served; right or false.";
    CACHE_FALSE_HITS: Gauge "ratio" "signalbox_cache_false_hit_ratio" ["bound"]
        "Share of false semantic hits, as far as hits were verified: the estimate, and 95 % bounds on both sides. Without verified hits: 0 between 0 and 1.";
    CACHE_VERIFIED: Gauge "" "signalbox_cache_verified_labels" []
        "Number of labels behind that estimate, with older ones counting less. 0: unverified.";
    CACHE_SHADOW: Gauge "" "signalbox_cache_shadow_scopes" []
        "Scopes that currently get no semantic answers, because theirs were false more often than the policy allows.";
    CACHE_STORED: Counter "" "signalbox_cache_stored_total" ["result"]
        "Answers considered for storage, by result: kept, no_room, or the reason why not (unfinished, finish_reason, refused, too_large, unreadable).";
    CACHE_ENTRIES: Gauge "" "signalbox_cache_entries" ["tier"]
        "Stored answers.";
    CACHE_BYTES: Gauge "bytes" "signalbox_cache_bytes" ["tier"]
        "Memory used by stored answers.";
    CACHE_EVICTIONS: Counter "" "signalbox_cache_evictions_total" ["tier", "reason"]
        "Evicted answers, by reason: space, share (of one scope), expired, replaced or purged.";
    RESPONSES_ENTRIES: Gauge "" "signalbox_stored_responses" []
        "Responses and conversations stored for callers of the Responses API.";
    RESPONSES_BYTES: Gauge "bytes" "signalbox_stored_responses_bytes" []
        "Memory used by stored responses and conversations.";
    RESPONSES_EVICTIONS: Counter "" "signalbox_stored_responses_evictions_total" ["reason"]
        "Stored responses and conversations that were removed, by reason: space, expired or deleted.";
    CACHE_LOG_UP: Gauge "" "signalbox_cache_log_up" []
        "Whether answers are written to disk: 0 while another gateway uses the folder, and after a disk failure.";
    CACHE_LOG_RECORDS: Gauge "" "signalbox_cache_log_records" []
        "Answers on disk.";
    CACHE_LOG_BYTES: Gauge "bytes" "signalbox_cache_log_bytes" []
        "Length of the log on disk.";
    CACHE_LOG_LOST: Counter "" "signalbox_cache_log_lost_total" ["reason"]
        "Answers that were not written to disk or were lost from it, by reason: queue (full, or no disk to write to), space, doubtful (a damaged part of the file may have revoked them) or unreadable (of another release or embedder).";
    CACHE_LOG_DAMAGED: Gauge "bytes" "signalbox_cache_log_damaged_bytes" []
        "Bytes of the log that were damaged or torn when it was opened.";
    CACHE_LOG_COMPACTIONS: Counter "" "signalbox_cache_log_compactions_total" []
        "Compactions of the log.";
    CACHE_LOADED: Counter "" "signalbox_cache_loaded_total" ["tier"]
        "Answers read back from disk.";
    CACHE_LOAD: Gauge "seconds" "signalbox_cache_load_seconds" []
        "Time that reading them took in the background, or has taken so far.";
    CACHE_SHARED_UP: Gauge "" "signalbox_cache_shared_up" []
        "Whether the server shared by gateways is reachable: 0 while it is not, and no request waits for it.";
    CACHE_SHARED: Counter "" "signalbox_cache_shared_total" ["what", "result"]
        "Operations on that server: get (lookups: hit, miss, old, or refused, because an answer did not verify or was purged), set and tell (answers published: ok, queue, too_large), hear (semantic entries received: kept, known, old, embedder, refused), purge (ok, heard from other gateways, or refused: not sealed by one of them); down, late and failed if it was unreachable.";
    CACHE_COALESCED: Counter "" "signalbox_cache_coalesced_total" ["route"]
        "Requests answered by an identical request that was under way.";
    CACHE_SAVED_TOKENS: Counter "tokens" "signalbox_cache_saved_tokens_total" ["tier", "kind"]
        "Tokens of repeated answers, prompt and completion, as their engines had reported them.";
    CACHE_SAVED_COST: Counter "usd" "signalbox_cache_saved_cost_usd_total" ["tier"]
        "Original cost of these answers at their pools' prices, in US dollars; without a price, at what an output token of the pool's engines costs by the hour at the time.";
    CACHE_SAVED_SECONDS: Counter "seconds" "signalbox_cache_saved_seconds_total" ["tier"]
        "Original time of these answers, from request to end.";

    // Placement: accuracy of predictions (about the last five hundred of each pool), and cost of decisions.
    DECISION: Histogram "seconds" "signalbox_decision_seconds" ["pool"]
        "Time to choose a backend.";
    TTFT_COVERAGE: Gauge "ratio" "signalbox_ttft_prediction_coverage_ratio" ["pool"]
        "Share of times to first token at or below their predicted 90th percentile; 0.9 is ideal.";
    TTFT_ERROR: Gauge "ratio" "signalbox_ttft_prediction_error_ratio" ["pool"]
        "Mean relative error of the predicted medians of times to first token.";
    TTFT_PINBALL: Gauge "seconds" "signalbox_ttft_prediction_pinball_seconds" ["pool"]
        "Mean pinball loss of the predicted 90th percentiles of times to first token.";
    TTFT_BASELINE: Gauge "seconds" "signalbox_ttft_baseline_pinball_seconds" ["pool"]
        "The same loss for a moving average of each backend: the baseline of the prediction.";
    TPOT_COVERAGE: Gauge "ratio" "signalbox_tpot_prediction_coverage_ratio" ["pool"]
        "Share of times per output token at or below their predicted 90th percentile; 0.9 is ideal.";
    TPOT_ERROR: Gauge "ratio" "signalbox_tpot_prediction_error_ratio" ["pool"]
        "Mean relative error of the predicted medians of times per output token.";
    TPOT_PINBALL: Gauge "seconds" "signalbox_tpot_prediction_pinball_seconds" ["pool"]
        "Mean pinball loss of the predicted 90th percentiles of times per output token.";
    TPOT_BASELINE: Gauge "seconds" "signalbox_tpot_baseline_pinball_seconds" ["pool"]
        "The same loss for a moving average of each backend.";
    OUTPUT_COVERAGE: Gauge "ratio" "signalbox_output_prediction_coverage_ratio" ["pool"]
        "Share of answers no longer than their predicted 90th percentile, of those that could be longer; 0.9 is ideal.";
    OUTPUT_ERROR: Gauge "ratio" "signalbox_output_prediction_error_ratio" ["pool"]
        "Median relative error of the predicted medians of answer lengths.";
    TIER_REQUESTS: Counter "" "signalbox_tier_requests_total" ["route", "tier", "kind"]
        "Requests by tier (0 is the cheapest): by their prompts alone (intended), with their sessions (settled), and as sent (served).";
    TIER_SHARE: Gauge "ratio" "signalbox_tier_share_ratio" ["route", "tier", "kind"]
        "The same as shares of about the last thousand decisions of the route.";
    TIER_BAR: Gauge "" "signalbox_tier_bar" ["route", "tier"]
        "Bar to the next tier: a score where shares are held, else the quality that a dollar has to buy.";
    TIER_QUALITY: Gauge "ratio" "signalbox_tier_expected_quality_ratio" ["route"]
        "Mean expected quality of the route's recent answers.";
    TIER_FLIPS: Counter "" "signalbox_tier_session_flips_total" ["route"]
        "Times that a session changed its tier while it was warm.";
    LENGTH_BOUNDARY: Gauge "tokens" "signalbox_length_boundary_tokens" ["route"]
        "Learned length from which on the route treats a prompt as long.";
    PREFIX_BYTES: Gauge "bytes" "signalbox_prefix_index_bytes" []
        "Memory of the index of cached prompt prefixes.";
    PREFIX_BLOCKS: Gauge "" "signalbox_prefix_index_blocks" []
        "Blocks in it, counted once for each backend that is assumed to hold them.";
    SESSIONS: Gauge "" "signalbox_sessions" []
        "Sessions whose last backend is known.";

    // Precomputed quantiles.
    TTFT_QUANTILE: Gauge "seconds" "signalbox_ttft_quantile_seconds" ["pool", "backend", "q", "window"]
        "Quantiles of signalbox_ttft_seconds over the last 1m, 5m and 1h, within 2 %; absent without observations.";
    TPOT_QUANTILE: Gauge "seconds" "signalbox_tpot_quantile_seconds" ["pool", "backend", "q", "window"]
        "Quantiles of signalbox_tpot_seconds over the last 1m, 5m and 1h, within 2 %; absent without observations.";
    E2E_QUANTILE: Gauge "seconds" "signalbox_e2e_quantile_seconds" ["pool", "backend", "q", "window"]
        "Quantiles of signalbox_e2e_seconds over the last 1m, 5m and 1h, within 2 %; absent without observations.";

    // Current load of backends, by our own count.
    BACKEND_IN_FLIGHT: Gauge "" "signalbox_backend_in_flight" ["pool", "backend"]
        "Attempts under way at this backend; an engine's load is the sum over its backends.";
    QUEUED_PROMPT: Gauge "tokens" "signalbox_backend_queued_prompt_tokens" ["pool", "backend"]
        "Estimated prompt tokens sent to this backend whose first token has not come yet (or whose answer, if it is not streamed).";
    DECODING: Gauge "" "signalbox_backend_decoding" ["pool", "backend"]
        "Streamed attempts at this backend that are past their first token.";
    CONTEXT: Gauge "tokens" "signalbox_backend_context_tokens" ["pool", "backend"]
        "Estimated prompt tokens of the streamed attempts at this backend that are past their first token.";

    BACKEND_BREAKER: Gauge "" "signalbox_backend_breaker" ["pool", "backend", "state"]
        "1 for the state of the breaker of this model on its engine through its account (closed, open or half_open), 0 for the others.";

    // Sources of backends.
    DISCOVERY_ENDPOINTS: Gauge "" "signalbox_discovery_endpoints" ["source"]
        "Addresses in force from this DNS name or file.";
    DISCOVERY_ANSWERED: Gauge "seconds" "signalbox_discovery_last_success_timestamp_seconds" ["source"]
        "Unix time of the last answer from this source; absent before the first.";
    DISCOVERY_ERRORS: Counter "" "signalbox_discovery_errors_total" ["source"]
        "Failed resolutions of a name, and unusable versions of a file; the last addresses stay in force.";
    BACKENDS_LEAVING: Gauge "" "signalbox_backends_leaving" ["pool", "state"]
        "Backends that get no new requests: draining, while requests run there, and drained by an operator.";

    // Gauges of each engine; absent where it does not report them.
    ENGINE_UP: Gauge "" "signalbox_engine_up" ["engine"]
        "Whether the engine answered its last scrape or request, and its breaker is closed.";
    ENGINE_BREAKER: Gauge "" "signalbox_engine_breaker" ["engine", "state"]
        "1 for the most open state of the engine's breakers, for its connections and for each of its models (closed, open or half_open), 0 for the others.";
    ENGINE_OPENED: Counter "" "signalbox_engine_breaker_opened_total" ["engine"]
        "Times that the engine's breakers opened.";
    ENGINE_SCRAPE_AGE: Gauge "seconds" "signalbox_engine_scrape_age_seconds" ["engine"]
        "Time since the engine's metrics were last read.";
    ENGINE_RUNNING: Gauge "" "signalbox_engine_running" ["engine"]
        "Requests the engine is computing, from all its clients.";
    ENGINE_WAITING: Gauge "" "signalbox_engine_waiting" ["engine"]
        "Requests in the engine's own queue, from all its clients.";
    ENGINE_KV_USAGE: Gauge "ratio" "signalbox_engine_kv_usage_ratio" ["engine"]
        "Share of the engine's KV cache in use, 0 to 1.";
    ENGINE_PREFIX_HITS: Gauge "ratio" "signalbox_engine_prefix_hit_ratio" ["engine"]
        "Recent share of prompt tokens found in the engine's prefix cache, 0 to 1.";
    ENGINE_HIDDEN_QUEUE: Gauge "seconds" "signalbox_engine_hidden_queue_seconds" ["engine"]
        "Difference between the mean time to first token, from dispatch, and the engine's own: the wait before the engine counts requests, over the last minute.";
    ENGINE_QUEUED_TOKENS: Gauge "tokens" "signalbox_engine_queued_tokens" ["engine"]
        "Prompt tokens in the engine's own queue, if it reports them; few engines do.";
    ENGINE_ACCEPT_RATIO: Gauge "ratio" "signalbox_engine_spec_accept_ratio" ["engine"]
        "Share of drafted tokens (speculative decoding) that were accepted over the last minute, 0 to 1.";
    ENGINE_ACCEPT_LENGTH: Gauge "tokens" "signalbox_engine_spec_accept_length_tokens" ["engine"]
        "Mean accepted tokens per draft over the last minute, without the token that every step yields; below 0.5 drafts hardly pay.";
    ENGINE_GPU_UTILISATION: Gauge "ratio" "signalbox_engine_gpu_utilisation_ratio" ["engine"]
        "Mean busy share of the GPUs of the engine's DCGM exporter, 0 to 1.";
    ENGINE_GPU_MEMORY: Gauge "ratio" "signalbox_engine_gpu_memory_ratio" ["engine"]
        "Memory usage of the fullest of these GPUs, 0 to 1.";
    ENGINE_ROUND_TRIP: Gauge "seconds" "signalbox_engine_round_trip_seconds" ["engine"]
        "Network round trip to the engine: the fastest connection of the last minute, with one every ten seconds.";
    ENGINE_PREEMPTIONS: Counter "" "signalbox_engine_preemptions_total" ["engine"]
        "Requests that the engine interrupted for lack of KV cache.";
    ENGINE_RESTARTS: Counter "" "signalbox_engine_restarts_total" ["engine"]
        "Times that the engine is known to have restarted, or could not be reached; its cached prefixes are dropped then.";
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

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
}
