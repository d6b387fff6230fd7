//! Results of a simulation.

use std::{path::PathBuf, time::Duration};

use super::overload::Choice;
use signalbox_sim::{
    estimate::{Estimate, mean},
    experiment::{Carried, Subject},
    figures::Figures,
    recording::Recording,
};

/// Everything in the report and the chart.
pub(super) struct Results {
    /// Name of the trace; `None` for the synthetic excerpt.
    pub(super) trace: Option<PathBuf>,
    pub(super) recording: Recording,
    pub(super) limit: Duration,
    pub(super) seeds: u64,
    pub(super) rates: Vec<f64>,
    pub(super) policies: Vec<Played>,
}

/// A policy with its results.
pub(super) struct Played {
    /// Name in tables: the file's, as far as it is unique.
    pub(super) name: String,
    pub(super) file: PathBuf,
    pub(super) subject: Subject,
    /// By rate, by seed.
    pub(super) figures: Vec<Vec<Figures>>,
    /// Per seed, the highest request rate that the policy sustained; empty if one rate was played.
    pub(super) carried: Vec<Carried>,
    /// Both choices of `overload`; empty if it has no objective on first tokens.
    pub(super) choices: Vec<Choice>,
}

impl Results {
    /// True if a range of rates was played.
    pub(super) fn swept(&self) -> bool {
        self.rates.len() > 1
    }
}

impl Played {
    /// A figure at one rate, by seed.
    pub(super) fn seeds(&self, rate: usize, of: impl Fn(&Figures) -> f64) -> Vec<f64> {
        self.figures[rate].iter().map(of).collect()
    }

    /// Mean of a figure over the seeds, at one rate.
    pub(super) fn mean(&self, rate: usize, of: impl Fn(&Figures) -> f64) -> f64 {
        mean(&self.seeds(rate, of))
    }

    /// SLO attainment at one rate, in percent.
    pub(super) fn attainment(&self, rate: usize) -> Estimate {
        Estimate::of(&self.seeds(rate, |figures| figures.attainment * 100.0))
    }

    /// Engines of its route: index, and name of the first backend there.
    pub(super) fn engines(&self) -> Vec<(usize, &str)> {
        let Subject { policy, .. } = &self.subject;
        self.subject.engines().into_iter().map(|engine| (engine, &*policy.engines[engine].name)).collect()
    }

    /// Share of the answers of each of these engines at one rate, 0 to 1.
    pub(super) fn share(&self, rate: usize, engine: usize) -> f64 {
        let of = |figures: &Figures| figures.shares.get(engine).copied().unwrap_or(0.0);
        self.mean(rate, of) / self.mean(rate, |figures| figures.shares.iter().sum::<f64>()).max(f64::MIN_POSITIVE)
    }

    /// Goodput for the table.
    pub(super) fn goodput(&self) -> String {
        let rates: Vec<f64> = self.carried.iter().map(|carried| carried.rate()).collect();
        let estimate = Estimate::of(&rates);
        let all = |is: fn(&Carried) -> bool| self.carried.iter().all(is);
        match () {
            () if all(|carried| matches!(carried, Carried::Less(_))) => format!("< {:.2}", estimate.mean),
            () if all(|carried| matches!(carried, Carried::AtLeast(_))) => format!("≥ {:.2}", estimate.mean),
            () => estimate.text(2, false),
        }
    }
}
