//! Compiles the objectives of pools and routes.

use std::time::Duration;

use super::reader::Reader;
use crate::objectives::{Measure, Objective, Objectives};
use signalbox_config::{At, Located, Problem, Prompts, Target, objectives::Objective as Raw};

impl Reader<'_> {
    /// The objectives of a pool or a route.
    pub(super) fn objectives(&mut self, raw: Option<&Located<Vec<Located<Raw>>>>) -> Objectives {
        let mut all: Vec<Objective> = Vec::new();
        for Located { value: raw, at } in raw.iter().flat_map(|raw| &raw.value) {
            let prompts = self.or(raw.when.as_ref(), Prompts::default());
            if raw.ttft.is_none() && raw.tpot.is_none() && raw.availability.is_none() {
                self.report(
                    Problem::at(*at, "an objective without a measure")
                        .help("write it like `{ ttft: { p95: 1500ms } }`"),
                );
            }
            let ttft = ("ttft", "1500ms", &raw.ttft, Measure::Ttft as fn(Duration) -> Measure);
            let latencies = [ttft, ("tpot", "50ms", &raw.tpot, Measure::Tpot)];
            for (word, example, percentiles, measure) in latencies {
                let Some(Located { value: percentiles, at }) = percentiles else { continue };
                if percentiles.set().next().is_none() {
                    self.report(Problem::at(*at, "a measure without a percentile").help(format!(
                        "write it like `{word}: {{ p95: {example} }}`; there are p50, p90, p95 and p99"
                    )));
                }
                for (percentile, target, field) in percentiles.set() {
                    // Read before checking for duplicates, so that its own problems are reported too.
                    let within = self.or(Some(field), Duration::MAX);
                    let name = format!("{word}_{percentile}{}", suffix(prompts));
                    self.objective(&mut all, field.at(), name, measure(within), prompts, target);
                }
            }
            if let Some(field) = &raw.availability
                && let Some(Target(target)) = self.read(field)
            {
                let name = format!("availability{}", suffix(prompts));
                self.objective(&mut all, field.at(), name, Measure::Availability, prompts, target);
            }
        }
        all.into_iter().collect()
    }

    fn objective(
        &mut self,
        all: &mut Vec<Objective>,
        at: At,
        name: String,
        measure: Measure,
        prompts: Prompts,
        target: f64,
    ) {
        if all.iter().any(|known| *known.name == *name) {
            self.report(Problem::at(at, "a second objective for the same measure").help("keep one"));
        } else {
            all.push(Objective { name: name.into(), measure, prompts, target });
        }
    }
}

/// The suffix that distinguishes objectives for some prompts from those for all.
fn suffix(Prompts { from, under }: Prompts) -> String {
    match under {
        Some(under) => format!("_under_{under}"),
        None if from > 0 => format!("_from_{from}"),
        None => String::new(),
    }
}
