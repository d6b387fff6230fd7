//! What was played, and what came of it.

use std::{path::PathBuf, time::Duration};

use crate::sim::{
    estimate::{Estimate, mean},
    experiment::{Carried, Subject},
    figures::Figures,
    recording::Recording,
};

/// Everything that the report and the plot tell.
pub(super) struct Results {
    /// The trace's name; `None` for the made-up excerpt.
    pub(super) trace: Option<PathBuf>,
    pub(super) recording: Recording,
    pub(super) limit: Duration,
    pub(super) seeds: u64,
    pub(super) rates: Vec<f64>,
    pub(super) policies: Vec<Played>,
}

/// A policy and how it did.
pub(super) struct Played {
    /// Its name in tables: its file's, as far as that tells it apart.
    pub(super) name: String,
    pub(super) file: PathBuf,
    pub(super) subject: Subject,
    /// By rate, by seed.
    pub(super) figures: Vec<Vec<Figures>>,
    /// The highest rate it carried, by seed; empty where a single rate was played.
    pub(super) carried: Vec<Carried>,
}

impl Results {
    /// Whether a range of rates was played.
    pub(super) fn swept(&self) -> bool {
        self.rates.len() > 1
    }
}

impl Played {
    /// A figure at one rate, by seed.
    pub(super) fn seeds(&self, rate: usize, of: impl Fn(&Figures) -> f64) -> Vec<f64> {
        self.figures[rate].iter().map(of).collect()
    }

    /// A figure at one rate, as the mean over the seeds.
    pub(super) fn mean(&self, rate: usize, of: impl Fn(&Figures) -> f64) -> f64 {
        mean(&self.seeds(rate, of))
    }

    /// The share within the SLO at one rate, in percent.
    pub(super) fn attainment(&self, rate: usize) -> Estimate {
        Estimate::of(&self.seeds(rate, |figures| figures.attainment * 100.0))
    }

    /// The engines that its route leads to: place, the name of the first backend there that the route has.
    pub(super) fn engines(&self) -> Vec<(usize, &str)> {
        let Subject { policy, .. } = &self.subject;
        self.subject.engines().into_iter().map(|engine| (engine, &*policy.engines[engine].name)).collect()
    }

    /// The share of the answers that each of these engines gave at one rate, 0 to 1.
    pub(super) fn share(&self, rate: usize, engine: usize) -> f64 {
        let of = |figures: &Figures| figures.shares.get(engine).copied().unwrap_or(0.0);
        self.mean(rate, of) / self.mean(rate, |figures| figures.shares.iter().sum::<f64>()).max(f64::MIN_POSITIVE)
    }

    /// The goodput as it is printed.
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
