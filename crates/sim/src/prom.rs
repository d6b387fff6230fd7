//! Metrics of a simulated engine in the Prometheus text format, under vLLM's names.

use std::{fmt::Write, time::Duration};

use super::{job::Gauges, profile::Profile};

/// Upper bounds of vLLM's TTFT buckets, in seconds.
const TTFT: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];

/// Upper bounds of vLLM's inter-token latency buckets, in seconds.
const ITL: [f64; 19] =
    [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];

/// A histogram of durations.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    bounds: &'static [f64],
    /// Count of each bucket, not cumulative. Durations above all bounds are only in `count`.
    buckets: Vec<u64>,
    count: u64,
    sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, buckets: vec![0; bounds.len()], count: 0, sum: 0.0 }
    }

    /// Records a duration.
    pub(super) fn record(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        if let Some(bucket) = self.buckets.get_mut(self.bounds.partition_point(|bound| *bound < seconds)) {
            *bucket += 1;
        }
        self.count += 1;
        self.sum += seconds;
    }
}

/// Counters beside the model's own gauges.
#[derive(Clone, Debug)]
pub(super) struct Meters {
    /// From arrival to first token.
    pub(super) ttft: Histogram,
    /// Between tokens.
    pub(super) itl: Histogram,
    /// Tokens of prompts whose first token was sent.
    pub(super) prompt_tokens: u64,
    /// Tokens of answers.
    pub(super) generation_tokens: u64,
}

impl Default for Meters {
    fn default() -> Self {
        Self { ttft: Histogram::new(&TTFT), itl: Histogram::new(&ITL), prompt_tokens: 0, generation_tokens: 0 }
    }
}

/// Renders `/metrics`.
pub(super) fn page(model: &str, profile: &Profile, gauges: &Gauges, meters: &Meters) -> String {
    let mut page =
        Page { text: String::with_capacity(6_000), labels: format!("engine=\"0\",model_name=\"{}\"", escaped(model)) };
    let count = |count: u64| count.to_string();
    page.one("gauge", "num_requests_running", "Requests in the batch.", &count(gauges.running.into()));
    page.one("gauge", "num_requests_waiting", "Requests waiting for a place in it.", &count(gauges.waiting.into()));
    page.one("gauge", "kv_cache_usage_perc", "KV cache in use, 1 is all of it.", &gauges.kv_usage.to_string());
    page.one(
        "counter",
        "prefix_cache_queries_total",
        "Prompt tokens looked up in the cache.",
        &count(gauges.prefix_queries),
    );
    page.one("counter", "prefix_cache_hits_total", "Prompt tokens found in the cache.", &count(gauges.prefix_hits));
    page.one("counter", "num_preemptions_total", "Requests that lost their memory.", &count(gauges.preemptions));
    page.one("counter", "prompt_tokens_total", "Prompt tokens processed.", &count(meters.prompt_tokens));
    page.one("counter", "generation_tokens_total", "Tokens generated.", &count(meters.generation_tokens));
    page.histogram("time_to_first_token_seconds", "From arrival to the first token.", &meters.ttft);
    page.histogram("inter_token_latency_seconds", "From token to token.", &meters.itl);
    page.head("gauge", "cache_config_info", "The KV cache's size.");
    let (size, blocks) = (profile.block_tokens, profile.kv_blocks());
    page.line(
        "cache_config_info",
        &format!(",block_size=\"{size}\",enable_prefix_caching=\"True\",num_gpu_blocks=\"{blocks}\""),
        "1",
    );
    page.text
}

struct Page {
    text: String,
    labels: String,
}

impl Page {
    fn head(&mut self, kind: &str, name: &str, help: &str) {
        let _ = write!(self.text, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}\n");
    }

    fn line(&mut self, name: &str, more: &str, value: &str) {
        let _ = writeln!(self.text, "vllm:{name}{{{}{more}}} {value}", self.labels);
    }

    fn one(&mut self, kind: &str, name: &str, help: &str, value: &str) {
        self.head(kind, name, help);
        self.line(name, "", value);
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head("histogram", name, help);
        let mut below = 0;
        let bucket = format!("{name}_bucket");
        for (bound, count) in histogram.bounds.iter().zip(&histogram.buckets) {
            below += count;
            self.line(&bucket, &format!(",le=\"{bound:?}\""), &below.to_string());
        }
        self.line(&bucket, ",le=\"+Inf\"", &histogram.count.to_string());
        self.line(&format!("{name}_sum"), "", &histogram.sum.to_string());
        self.line(&format!("{name}_count"), "", &histogram.count.to_string());
    }
}

/// Escapes a label value.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_speaks_the_names_of_vllm() {
        let mut meters = Meters { prompt_tokens: 7, ..Meters::default() };
        for ms in [1, 15, 15, 90_000] {
            meters.itl.record(Duration::from_millis(ms));
        }
        let gauges = Gauges { running: 2, waiting: 1, kv_usage: 0.25, preemptions: 3, ..Gauges::default() };
        let page = page("sim \"x\"", &Profile::small(), &gauges, &meters);
        for line in [
            "# TYPE vllm:num_requests_running gauge",
            r#"vllm:num_requests_running{engine="0",model_name="sim \"x\""} 2"#,
            r#"vllm:kv_cache_usage_perc{engine="0",model_name="sim \"x\""} 0.25"#,
            r#"vllm:num_preemptions_total{engine="0",model_name="sim \"x\""} 3"#,
            r#"vllm:prompt_tokens_total{engine="0",model_name="sim \"x\""} 7"#,
            r#"vllm:inter_token_latency_seconds_bucket{engine="0",model_name="sim \"x\"",le="0.01"} 1"#,
            r#"vllm:inter_token_latency_seconds_bucket{engine="0",model_name="sim \"x\"",le="1.0"} 3"#,
            r#"vllm:inter_token_latency_seconds_bucket{engine="0",model_name="sim \"x\"",le="+Inf"} 4"#,
            r#"vllm:cache_config_info{engine="0",model_name="sim \"x\"",block_size="16",enable_prefix_caching="True",num_gpu_blocks="18750"} 1"#,
        ] {
            assert!(page.lines().any(|given| given == line), "{line} is missing in\n{page}");
        }
    }
}
