//! Signals of an engine, read from its metrics by the table of names.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use super::{
    names::{Fold, Pick, REPLICAS, Signal, TABLE, Take, own_metric},
    parse::{Labels, Sample, samples},
};
use signalbox_types::{Drafting, EngineKind, EngineSignals};

/// Reads the text of an engine's `/metrics`. `None` for an unknown kind of engine.
pub(crate) fn read_engine_signals(text: &str) -> Option<EngineSignals> {
    let kind = samples(text)
        .find_map(|sample| EngineKind::ALL.into_iter().find(|kind| own_metric(*kind, sample.name).is_some()))?;
    let scrape = Scrape::new(kind, text);
    let share = |signal| scrape.signal(signal).map(|share| share.min(1.0));
    Some(EngineSignals {
        kind,
        running: scrape.signal(Signal::Running),
        waiting: scrape.signal(Signal::Waiting),
        kv_usage: share(Signal::KvUsage),
        kv_capacity_tokens: scrape
            .signal(Signal::KvCapacity)
            .filter(|tokens| *tokens >= 1.0)
            .map(|tokens| tokens as u64),
        prefix_queries: scrape.signal(Signal::PrefixQueries),
        prefix_hits: scrape.signal(Signal::PrefixHits),
        reported_hit_ratio: share(Signal::PrefixHitRatio),
        preemptions: scrape.signal(Signal::Preemptions),
        prompt_tokens: scrape.signal(Signal::PromptTokens),
        generated_tokens: scrape.signal(Signal::GeneratedTokens),
        ttft_sum: scrape.signal(Signal::TtftSum),
        ttft_count: scrape.signal(Signal::TtftCount),
        queued_tokens: scrape.signal(Signal::QueuedTokens),
        drafts: scrape.signal(Signal::Drafts),
        drafted_tokens: scrape.signal(Signal::DraftedTokens),
        accepted_tokens: scrape.signal(Signal::AcceptedTokens),
        reported_drafting: scrape.drafting(),
    })
}

/// Relevant samples of one text.
struct Scrape<'a> {
    kind: EngineKind,
    samples: Vec<Sample<'a>>,
}

impl<'a> Scrape<'a> {
    fn new(kind: EngineKind, text: &'a str) -> Self {
        let own = |sample: Sample<'a>| {
            let name = own_metric(kind, sample.name)?;
            // NaN and negative values are unknown.
            let known = sample.value.is_finite() && sample.value >= 0.0;
            (known && !name.ends_with("_bucket")).then_some(Sample { name, ..sample })
        };
        Self { kind, samples: samples(text).filter_map(own).collect() }
    }

    /// Acceptance of drafts, by gauges. Those of an engine without drafts are 0, while any step that yields a token has
    /// a length of at least 1.
    fn drafting(&self) -> Option<Drafting> {
        let length = self.signal(Signal::AcceptLength).filter(|length| *length >= 1.0)? - 1.0;
        Some(Drafting { ratio: self.signal(Signal::AcceptRatio)?.min(1.0), length: Some(length) })
    }

    /// The signal, by the first derivation that the engine supports.
    fn signal(&self, signal: Signal) -> Option<f64> {
        let ways = TABLE.iter().find(|(kind, of, _)| (*kind, *of) == (self.kind, signal))?.2;
        ways.iter().find_map(|way| match way {
            Take::Value(pick) => self.folded(pick),
            Take::Sum(picks) => {
                let (first, others) = picks.split_first()?;
                Some(self.folded(first)? + others.iter().filter_map(|pick| self.folded(pick)).sum::<f64>())
            }
            Take::Ratio(part, whole) => {
                let (part, whole) = (self.folded(part)?, self.folded(whole)?);
                (whole > 0.0).then(|| part / whole)
            }
            Take::Product(a, b) if a.label.is_some() && a.name == b.name => {
                let product = |sample: &Sample<'_>| Some(value(a, sample)? * value(b, sample)?);
                self.fold(a, product)
            }
            Take::Product(a, b) => Some(self.folded(a)? * self.folded(b)?),
        })
    }

    fn folded(&self, pick: &Pick) -> Option<f64> {
        self.fold(pick, |sample| value(pick, sample))
    }

    /// All series of a metric as one number; `None` without any.
    fn fold(&self, pick: &Pick, value: impl Fn(&Sample<'_>) -> Option<f64>) -> Option<f64> {
        let mut groups = BTreeMap::new();
        for sample in self.samples.iter().filter(|sample| sample.name == pick.name) {
            let Some(value) = value(sample) else { continue };
            let seen = groups.entry(group_of(sample.labels)).or_insert(value);
            *seen = value.max(*seen);
        }
        if groups.is_empty() {
            return None;
        }
        let sum: f64 = groups.values().sum();
        Some(match pick.fold {
            Fold::Sum => sum,
            Fold::Mean => sum / groups.len() as f64,
        })
    }
}

/// Value that `pick` reads from a sample of its metric.
fn value(pick: &Pick, sample: &Sample<'_>) -> Option<f64> {
    if let Some((label, wanted)) = pick.only {
        sample.labels.get(label).unwrap_or_default().eq(wanted).then_some(())?;
    }
    match pick.label {
        Some(label) => sample.labels.get(label)?.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0),
        None => Some(sample.value),
    }
}

/// Group of a series: equal for series that differ only in which of several processes on the same work reports them.
fn group_of(labels: Labels<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for label in labels.iter().filter(|(name, _)| !REPLICAS.contains(name)) {
        label.hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_types::Drafted;

    const VLLM: &str = r#"# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="llama"} 3.0
vllm:num_requests_running{engine="1",model_name="llama"} 5.0
vllm:num_requests_waiting{engine="0",model_name="llama"} 0.0
vllm:num_requests_waiting{engine="1",model_name="llama"} 2.0
vllm:num_requests_waiting_by_reason{engine="1",model_name="llama",reason="capacity"} 2.0
vllm:gpu_cache_usage_perc{engine="0",model_name="llama"} 0.9
vllm:kv_cache_usage_perc{engine="0",model_name="llama"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="llama"} 0.75
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="1000"} 1.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="1",num_gpu_blocks="2000"} 1.0
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="llama"} 4000.0
vllm:prefix_cache_queries_created{engine="0",model_name="llama"} 1.7e+09
vllm:prefix_cache_hits_total{engine="0",model_name="llama"} 1000.0
vllm:num_preemptions_total{engine="0",model_name="llama"} 4.0
vllm:prompt_tokens_total{engine="0",model_name="llama"} 4200.0
vllm:generation_tokens_total{engine="0",model_name="llama"} 900.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="llama"} 0.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="llama"} 20.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="llama"} 20.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="llama"} 5.0
vllm:num_queue_tokens{engine="0",model_name="llama"} 700.0
vllm:num_queue_tokens{engine="1",model_name="llama"} 50.0
vllm:spec_decode_num_drafts_total{engine="0",model_name="llama"} 10.0
vllm:spec_decode_num_drafts_created{engine="0",model_name="llama"} 1.7e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="llama"} 30.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="llama"} 12.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="llama",position="0"} 9.0
"#;

    const VLLM_OLD: &str = r#"process_cpu_seconds_total 12.5
vllm:num_requests_running{model_name="llama"} 1.0
vllm:num_requests_waiting_by_reason{model_name="llama",reason="capacity"} 2.0
vllm:num_requests_waiting_by_reason{model_name="llama",reason="lora"} 1.0
vllm:gpu_cache_usage_perc{model_name="llama"} 0.5
vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1.0
vllm:gpu_prefix_cache_hit_rate{model_name="llama"} 0.4
vllm:num_preemptions{model_name="llama"} 7.0
# EOF
"#;

    const SGLANG: &str = r#"sglang:num_running_reqs{dp_rank="0",engine_type="unified",model_name="m",pp_rank="0",priority="",tp_rank="0"} 4.0
sglang:num_running_reqs{dp_rank="0",engine_type="unified",model_name="m",pp_rank="0",priority="1",tp_rank="0"} 4.0
sglang:num_running_reqs{dp_rank="1",engine_type="unified",model_name="m",pp_rank="0",priority="",tp_rank="1"} 6.0
sglang:num_running_reqs{dp_rank="1",engine_type="unified",model_name="m",pp_rank="0",priority="",tp_rank="2"} 6.0
sglang:num_queue_reqs{dp_rank="0",engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 1.0
sglang:num_queue_reqs{dp_rank="1",engine_type="unified",model_name="m",pp_rank="0",tp_rank="1"} 2.0
sglang:num_grammar_queue_reqs{dp_rank="0",engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 3.0
sglang:token_usage{dp_rank="0",model_name="m",tp_rank="0"} 0.2
sglang:token_usage{dp_rank="1",model_name="m",tp_rank="1"} 0.4
sglang:max_total_num_tokens{dp_rank="0",model_name="m",tp_rank="0"} 50000.0
sglang:max_total_num_tokens{dp_rank="1",model_name="m",tp_rank="1"} 50000.0
sglang:cache_hit_rate{dp_rank="0",model_name="m",tp_rank="0"} 0.1
sglang:cached_tokens_total{cache_source="device",model_name="m"} 100.0
sglang:cached_tokens_total{cache_source="host",model_name="m"} 20.0
sglang:prompt_tokens_total{model_name="m",priority="1"} 300.0
sglang:prompt_tokens_total{model_name="m",priority="2"} 100.0
sglang:num_retracted_reqs{dp_rank="0",model_name="m",tp_rank="0"} 2.0
sglang:spec_accept_rate{dp_rank="0",model_name="m",tp_rank="0"} 0.5
sglang:spec_accept_length{dp_rank="0",model_name="m",tp_rank="0"} 2.5
"#;

    const TGI: &str = r#"# TYPE tgi_batch_current_size gauge
tgi_batch_current_size 8
tgi_queue_size 5
tgi_batch_current_max_tokens 4096
tgi_batch_max_total_tokens 16384
tgi_request_skipped_tokens_count 3
tgi_request_duration_bucket{le="0.1"} 2
"#;

    const LLAMA_CPP: &str = "# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 1200
llamacpp:tokens_predicted_total 340
llamacpp:prompt_tokens_seconds 512.5
llamacpp:requests_processing 2
llamacpp:requests_deferred 1
llamacpp:n_busy_slots_per_decode 1.5
";

    const TRTLLM: &str = r#"trtllm_num_requests_running{model_name="m",engine_type="trtllm"} 3.0
trtllm_num_requests_waiting{model_name="m",engine_type="trtllm"} 1.0
trtllm_kv_cache_utilization{model_name="m",engine_type="trtllm"} 0.6
trtllm_kv_cache_hit_rate{model_name="m",engine_type="trtllm"} 0.3
trtllm_kv_cache_tokens_per_block{model_name="m",engine_type="trtllm"} 32
trtllm_kv_cache_max_blocks{model_name="m",engine_type="trtllm"} 100
trtllm_spec_decode_num_draft_tokens_total{model_name="m",engine_type="trtllm"} 8
trtllm_spec_decode_num_accepted_tokens_total{model_name="m",engine_type="trtllm"} 2
"#;

    const TRITON: &str = r#"nv_inference_count{model="tensorrt_llm",version="1"} 10
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 1
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 3
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.5
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",version="1"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 50
"#;

    const LMDEPLOY: &str = r#"lmdeploy_num_requests_running{engine="0",model_name="m"} 2.0
lmdeploy_num_requests_waiting{engine="0",model_name="m"} 1.0
lmdeploy_num_api_requests_waiting{engine="0",model_name="m"} 4.0
lmdeploy_gpu_cache_usage_perc{engine="0",model_name="m"} 0.8
lmdeploy_prompt_tokens_total{engine="0",model_name="m"} 50.0
lmdeploy_prefix_cache_hit_rate{engine="0",model_name="m"} 0.25
"#;

    fn silent(kind: EngineKind) -> EngineSignals {
        EngineSignals::unknown(kind)
    }

    fn load(kind: EngineKind, running: f64, waiting: f64, kv_usage: Option<f64>) -> EngineSignals {
        EngineSignals { running: Some(running), waiting: Some(waiting), kv_usage, ..silent(kind) }
    }

    #[test]
    fn every_engine_yields_exactly_its_signals() {
        for (text, want) in [
            (
                VLLM,
                EngineSignals {
                    kv_capacity_tokens: Some(48_000),
                    prefix_queries: Some(4000.0),
                    prefix_hits: Some(1000.0),
                    preemptions: Some(4.0),
                    prompt_tokens: Some(4200.0),
                    generated_tokens: Some(900.0),
                    ttft_sum: Some(5.0),
                    ttft_count: Some(20.0),
                    queued_tokens: Some(750.0),
                    drafts: Some(10.0),
                    drafted_tokens: Some(30.0),
                    accepted_tokens: Some(12.0),
                    ..load(EngineKind::Vllm, 8.0, 2.0, Some(0.5))
                },
            ),
            (
                VLLM_OLD,
                EngineSignals {
                    reported_hit_ratio: Some(0.4),
                    preemptions: Some(7.0),
                    ..load(EngineKind::Vllm, 1.0, 3.0, Some(0.5))
                },
            ),
            (
                SGLANG,
                EngineSignals {
                    kv_capacity_tokens: Some(100_000),
                    prefix_queries: Some(400.0),
                    prefix_hits: Some(120.0),
                    reported_hit_ratio: Some(0.1),
                    preemptions: Some(2.0),
                    prompt_tokens: Some(400.0),
                    reported_drafting: Some(Drafting { ratio: 0.5, length: Some(1.5) }),
                    ..load(EngineKind::Sglang, 10.0, 6.0, Some(0.3))
                },
            ),
            (TGI, EngineSignals { kv_capacity_tokens: Some(16_384), ..load(EngineKind::Tgi, 8.0, 5.0, Some(0.25)) }),
            (
                LLAMA_CPP,
                EngineSignals {
                    prompt_tokens: Some(1200.0),
                    generated_tokens: Some(340.0),
                    ..load(EngineKind::LlamaCpp, 2.0, 1.0, None)
                },
            ),
            (
                TRTLLM,
                EngineSignals {
                    kv_capacity_tokens: Some(3200),
                    reported_hit_ratio: Some(0.3),
                    drafted_tokens: Some(8.0),
                    accepted_tokens: Some(2.0),
                    ..load(EngineKind::TensorRtLlm, 3.0, 1.0, Some(0.6))
                },
            ),
            (
                TRITON,
                EngineSignals { kv_capacity_tokens: Some(3200), ..load(EngineKind::TensorRtLlm, 3.0, 1.0, Some(0.5)) },
            ),
            (
                LMDEPLOY,
                EngineSignals {
                    prefix_queries: Some(50.0),
                    reported_hit_ratio: Some(0.25),
                    prompt_tokens: Some(50.0),
                    ..load(EngineKind::LmDeploy, 2.0, 5.0, Some(0.8))
                },
            ),
        ] {
            let read = read_engine_signals(text).unwrap();
            let rounded = read.kv_usage.map(|usage| (usage * 1e9).round() / 1e9);
            assert_eq!(EngineSignals { kv_usage: rounded, ..read }, want, "{text}");
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

    #[test]
    fn ratios_are_taken_between_scrapes() {
        let scrape = |queries: f64, hits: f64, ttft: (f64, f64)| EngineSignals {
            prefix_queries: Some(queries),
            prefix_hits: Some(hits),
            ttft_sum: Some(ttft.0),
            ttft_count: Some(ttft.1),
            ..silent(EngineKind::Vllm)
        };
        let (first, second) = (scrape(100.0, 10.0, (1.0, 10.0)), scrape(300.0, 160.0, (3.0, 15.0)));
        assert_eq!(second.prefix_hit_ratio(&first), Some(0.75));
        assert_eq!(second.first_tokens(&first), Some((5.0, 2.0)));
        assert_eq!(second.prefix_hit_ratio(&second), None, "nothing was looked up");
        assert_eq!(first.prefix_hit_ratio(&second), None, "the engine started anew");
        assert_eq!(first.first_tokens(&second), None);
        let drafted = |drafts, tokens, accepted| EngineSignals {
            drafts,
            drafted_tokens: Some(tokens),
            accepted_tokens: Some(accepted),
            ..silent(EngineKind::Vllm)
        };
        let (first, second) = (drafted(Some(10.0), 30.0, 12.0), drafted(Some(20.0), 60.0, 16.0));
        assert_eq!(second.drafted(&first), Some(Drafted { drafts: Some(10.0), tokens: 30.0, accepted: 4.0 }));
        assert_eq!(second.drafted(&second), None);
        assert_eq!(first.drafted(&second), None);
        assert!(first.restarted_since(&second));
        let gauge = EngineSignals { reported_hit_ratio: Some(0.3), ..silent(EngineKind::TensorRtLlm) };
        assert_eq!(gauge.prefix_hit_ratio(&gauge), Some(0.3));
    }

    #[test]
    fn the_table_names_each_signal_once() {
        for (place, (kind, signal, ways)) in TABLE.iter().enumerate() {
            assert!(!ways.is_empty());
            assert!(
                TABLE[..place].iter().all(|(k, s, _)| (k, s) != (kind, signal)),
                "{} has {signal:?} twice",
                kind.name()
            );
        }
    }
}
