//! Compiles the objectives of pools and routes, and the rules by which their error budgets are judged.

use std::time::Duration;

use super::reader::Reader;
use crate::objectives::{Measure, Objective, Objectives};
use signalbox_config::{
    Allowance, At, Field, Located, Multiple, Preset, Problem, Prompts, Target,
    objectives::{BurnRate, ErrorBudgets, Objective as Raw, Percentiles},
};
use signalbox_measure::{BurnRule, BurnRules};

/// The shortest and the longest window of a budget, and of a rate.
const DAY: Duration = Duration::from_hours(24);
const BUDGET: [Duration; 2] = [DAY, Duration::from_hours(90 * 24)];
const RATE: [Duration; 2] = [Duration::from_mins(1), DAY];

/// A latency as written: its name, an example, its percentiles and its measure.
type Latency<'a> = (&'static str, &'static str, Option<&'a Located<Percentiles>>, fn(Duration) -> Measure);

impl Reader<'_> {
    /// The objectives of a pool or a route.
    pub(super) fn objectives(&mut self, raw: Option<&Located<Vec<Located<Raw>>>>) -> Objectives {
        let mut all: Vec<Objective> = Vec::new();
        for Located { value: raw, at } in raw.iter().flat_map(|raw| &raw.value) {
            let prompts = self.or(raw.when.as_ref(), Prompts::default());
            let mut written: Vec<&str> = Vec::new();
            for (word, example, percentiles, measure) in latencies(raw) {
                let Some(Located { value: percentiles, at }) = percentiles else { continue };
                written.push(word);
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
            for (word, at, measure, target) in self.shares(raw) {
                written.push(word);
                if let Some(target) = target {
                    let name = format!("{word}{}", suffix(prompts));
                    self.objective(&mut all, at, name, measure, prompts, target);
                }
            }
            if raw.preset.is_none() && written.is_empty() {
                self.report(
                    Problem::at(*at, "an objective without a measure")
                        .help("write it like `{ ttft: { p95: 1500ms } }`, or take published values: `{ for: chat }`"),
                );
            }
            let Some(field) = &raw.preset else { continue };
            let Some(preset) = self.read(field) else { continue };
            for (word, name, measure, target) in published(preset).iter().filter(|(word, ..)| !written.contains(word)) {
                let name = format!("{word}{name}{}", suffix(prompts));
                self.objective(&mut all, field.at(), name, *measure, prompts, *target);
            }
        }
        all.into_iter().collect()
    }

    /// The shares of requests that are written: name, position, measure and target, where that could be read.
    fn shares(&mut self, raw: &Raw) -> Vec<(&'static str, At, Measure, Option<f64>)> {
        let mut all = Vec::new();
        if let Some(field) = &raw.availability {
            let target = self.read(field).map(|Target(share)| share);
            all.push(("availability", field.at(), Measure::Availability, target));
        }
        let rests =
            [("error_rate", &raw.error_rate, Measure::Availability), ("stutter", &raw.stutter, Measure::Stutter)];
        for (word, field, measure) in rests {
            let Some(field) = field else { continue };
            let target = self.read(field).map(|Allowance(share)| 1.0 - share);
            all.push((word, field.at(), measure, target));
        }
        all
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

    /// The rules by which error budgets are judged.
    pub(super) fn error_budgets(&mut self, raw: Option<&ErrorBudgets>) -> BurnRules {
        let default = BurnRules::default();
        let Some(raw) = raw else { return default };
        BurnRules {
            window: self.window(raw.window.as_ref(), default.window, BUDGET, "from `1d` to `90d`"),
            fast: self.burn_rule(raw.fast.as_ref(), default.fast),
            slow: self.burn_rule(raw.slow.as_ref(), default.slow),
            missing: self.burn_rule(raw.missing.as_ref(), default.missing),
        }
    }

    fn burn_rule(&mut self, raw: Option<&BurnRate>, default: BurnRule) -> BurnRule {
        let Some(raw) = raw else { return default };
        let Multiple(rate) = self.or(raw.rate.as_ref(), Multiple(default.rate));
        BurnRule { over: self.window(raw.over.as_ref(), default.over, RATE, "from `1m` to `1d`"), rate }
    }

    fn window(
        &mut self,
        field: Option<&Field<Duration>>,
        default: Duration,
        [least, most]: [Duration; 2],
        range: &str,
    ) -> Duration {
        let Some((field, window)) = field.and_then(|field| Some((field, self.read(field)?))) else { return default };
        // Rates are counted in slots of whole seconds, and rules name windows in them.
        if window < least || window > most || window.subsec_nanos() > 0 {
            self.report(
                Problem::at(field.at(), "a window that error budgets cannot have")
                    .help(format!("write whole seconds {range}")),
            );
            return default;
        }
        window
    }
}

fn latencies(raw: &Raw) -> [Latency<'_>; 4] {
    [
        ("e2e", "10s", raw.e2e.as_ref(), Measure::E2e),
        ("ttft", "1500ms", raw.ttft.as_ref(), Measure::Ttft),
        ("tpot", "50ms", raw.tpot.as_ref(), Measure::Tpot),
        ("gap", "500ms", raw.gap.as_ref(), Measure::Gap),
    ]
}

/// The published objectives for a use: measure, rest of the name, limit and share of requests.
///
/// First tokens: 500 ms for chats, 200 ms for completions of code and for voice, 30 s for batches, 50 ms per further token,
/// and 99.5 % of answers are what operators of inference services publish as the usual classes. Documents: the limits for
/// summaries of `DistServe` (Zhong et al., OSDI 2024, table 1): 15 s and 150 ms.
fn published(preset: Preset) -> Vec<(&'static str, &'static str, Measure, f64)> {
    let ms = Duration::from_millis;
    let within = |first: u64, further: u64| {
        vec![("ttft", "_p95", Measure::Ttft(ms(first)), 0.95), ("tpot", "_p95", Measure::Tpot(ms(further)), 0.95)]
    };
    let mut all = match preset {
        Preset::Chat => within(500, 50),
        Preset::Code | Preset::Voice => within(200, 50),
        Preset::Document => within(15_000, 150),
        // Mostly whole answers, which have no first token.
        Preset::Batch => vec![("e2e", "_p95", Measure::E2e(ms(30_000)), 0.95)],
    };
    all.push(("availability", "", Measure::Availability, 0.995));
    all
}

/// The suffix that distinguishes objectives for some prompts from those for all.
fn suffix(Prompts { from, under }: Prompts) -> String {
    match under {
        Some(under) => format!("_under_{under}"),
        None if from > 0 => format!("_from_{from}"),
        None => String::new(),
    }
}
