//! Both choices of `overload`, side by side, for policies with an objective on first tokens.

use signalbox_sim::{
    estimate::{Estimate, mean},
    experiment::{Subject, Traffic, play_all},
    figures::Figures,
};
use signalbox_types::Overload;

/// One choice with its results.
pub(super) struct Choice {
    pub(super) overload: Overload,
    /// True if the policy has it.
    pub(super) own: bool,
    /// By rate, by seed.
    pub(super) figures: Vec<Vec<Figures>>,
}

/// Plays both choices for each of `subjects`; what was `played` as it is, is taken over. Without an objective the choices are the same,
/// and there are none.
pub(super) fn choices(
    subjects: &[Subject],
    played: &[Vec<Vec<Figures>>],
    traffic: &Traffic<'_>,
    rates: &[f64],
    done: impl Fn() + Sync,
) -> Vec<Vec<Choice>> {
    let different: Vec<Subject> = subjects.iter().flat_map(others).map(|(_, other)| other).collect();
    let mut others_played = play_all(&different, traffic, rates, done).into_iter();
    let both = |(subject, played): (&Subject, &Vec<Vec<Figures>>)| {
        if !has_objective(subject) {
            return Vec::new();
        }
        let different: Vec<Overload> = others(subject).map(|(overload, _)| overload).collect();
        let choice = |overload| {
            let own = !different.contains(&overload);
            let figures = if own { Some(played.clone()) } else { others_played.next() };
            Choice { overload, own, figures: figures.unwrap_or_default() }
        };
        Overload::ALL.map(choice).into()
    };
    subjects.iter().zip(played).map(both).collect()
}

/// Number of plays with one seed at one rate beside those of the policies as they are.
pub(super) fn more_plays(subjects: &[Subject]) -> u64 {
    subjects.iter().flat_map(others).count() as u64
}

/// The choices that a policy does not have.
fn others(subject: &Subject) -> impl Iterator<Item = (Overload, Subject)> + '_ {
    let with = |overload| {
        let mut other = subject.clone();
        other.policy.pools.iter_mut().for_each(|pool| pool.overload = overload);
        (overload, other)
    };
    let different = |(_, other): &(Overload, Subject)| other.policy.pools != subject.policy.pools;
    Overload::ALL.into_iter().filter(|_| has_objective(subject)).map(with).filter(different)
}

fn has_objective(subject: &Subject) -> bool {
    let mut targets = subject.routing.routes().flat_map(|route| &route.targets);
    targets.any(|target| subject.policy.pools[target.pool].objectives.ttft().is_some())
}

impl Choice {
    /// A figure at one rate, by seed.
    pub(super) fn seeds(&self, rate: usize, of: impl Fn(&Figures) -> f64) -> Vec<f64> {
        self.figures[rate].iter().map(of).collect()
    }

    /// Attainment at one rate, from 0 to 1.
    pub(super) fn share(&self, rate: usize) -> Estimate {
        Estimate::of(&self.seeds(rate, |figures| figures.attainment))
    }

    pub(super) fn ttft_p99(&self, rate: usize) -> f64 {
        mean(&self.seeds(rate, |figures| figures.ttft(0.99)))
    }

    pub(super) fn over_limit(&self, rate: usize) -> f64 {
        mean(&self.seeds(rate, |figures| figures.over_limit))
    }
}
