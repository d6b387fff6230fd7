//! Periodic polling of engines: their `/metrics` and models, GPU gauges from an exporter, health checks and network
//! distance.

mod about;
mod apis;
mod dcgm;
mod distance;
mod health;
mod lists;
mod outage;
mod poll;

#[cfg(any(test, feature = "fuzzing"))]
use self::dcgm::read_gpu_signals;
pub use self::{
    apis::probe,
    poll::{Scrapers, Source},
};
#[cfg(any(test, feature = "fuzzing"))]
use signalbox_engines::{read_engine_signals, samples};

/// Reads `bytes` as an engine's answer and drops the result: an entry point for fuzzers, which must never panic.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_scrape(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for sample in samples(&text) {
        let _ = sample.labels.iter().count();
    }
    let _ = read_engine_signals(&text);
    let _ = read_gpu_signals(&text);
    lists::fuzz(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_telemetry as telemetry;
    use signalbox_types::Moment;

    #[test]
    fn our_own_metrics_can_be_read() {
        let metrics = telemetry::Metrics::new();
        let model: signalbox_types::Name = "odd \"name\"\\\n".into();
        metrics.backend(&"p".into(), &"b".into(), &model).cost(0.5, Moment::default());
        let text = metrics.encode(Moment::default(), &telemetry::Live::default());
        let cost = samples(&text).find(|sample| sample.name == "signalbox_cost_usd_total").unwrap();
        assert_eq!(cost.labels.get("model").as_deref(), Some(&*model));
        assert!((cost.value - 0.5).abs() < 1e-12);
    }
}
