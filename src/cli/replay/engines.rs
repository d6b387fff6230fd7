//! Engines of each policy: fitted to the journal, or from `--engines`.

use std::{collections::BTreeMap, path::Path};

use crate::cli::progress;
use signalbox_config::{Problem, Problems};
use signalbox_journal_replay::{Journal, Learned, MIN_ANSWERS, Watched, learn, watch};
use signalbox_policy::Policy;
use signalbox_sim::{Profile, engines_file::EnginesFile, parallel::parallel_map};

/// Engine models of one policy, in its order.
pub(super) struct Fleet {
    pub(super) engines: Vec<Machine>,
}

/// Model of an engine.
pub(super) struct Machine {
    /// Its name, and the names of its backends.
    pub(super) name: String,
    backends: Vec<String>,
    pub(super) from: From,
    /// True if a route leads to the engine.
    used: bool,
}

/// Source of the profile.
pub(super) enum From {
    /// Fitted to the journal.
    Journal(Box<Learned>),
    /// From `--engines`.
    File(Profile),
    /// Unknown: the journal has only this many answers.
    Unknown(usize),
}

/// Fits every engine of `policies` that the journal covers, each set of backends once.
pub(super) fn learn_all(journal: &Journal, policies: &[&Policy], engines_file: &EnginesFile) -> Vec<Fleet> {
    let watched = watch(journal);
    let mut wanted: Vec<Vec<String>> = Vec::new();
    for policy in policies {
        for engine in 0..policy.engines.len() {
            let backends = backends(policy, engine);
            if engines_file.profile(policy, engine).is_none() && !wanted.contains(&backends) {
                wanted.push(backends);
            }
        }
    }
    let bar = progress::bar(wanted.len() as u64, "engines learned");
    let learned = parallel_map(&wanted, || bar.inc(1), |backends| learn(&together(&watched, backends)));
    bar.finish_and_clear();
    let learned: BTreeMap<Vec<String>, Option<Learned>> = wanted.into_iter().zip(learned).collect();
    let fleet = |policy: &&Policy| {
        let machine = |engine: usize| {
            let backends = backends(policy, engine);
            let from = match (engines_file.profile(policy, engine), learned.get(&backends)) {
                (Some(profile), _) => From::File(profile),
                (None, Some(Some(learned))) => From::Journal(Box::new(limited(policy, engine, learned))),
                _ => From::Unknown(answers(&together(&watched, &backends))),
            };
            Machine { name: policy.engines[engine].name.to_string(), used: is_used(policy, engine), backends, from }
        };
        Fleet { engines: (0..policy.engines.len()).map(machine).collect() }
    };
    policies.iter().map(fleet).collect()
}

/// A fitted engine with the memory and context of the policy.
fn limited(policy: &Policy, engine: usize, learned: &Learned) -> Learned {
    let mut learned = learned.clone();
    if let Some(kv) = policy.engines[engine].kv_tokens {
        learned.profile.kv_tokens = u32::try_from(kv).unwrap_or(u32::MAX);
    }
    let contexts = policy.pools.iter().filter(|pool| pool.backends.iter().any(|backend| backend.engine == engine));
    let context = contexts.filter_map(|pool| pool.context).max();
    learned.profile.context_tokens = context.map_or(1 << 20, |most| u32::try_from(most).unwrap_or(u32::MAX));
    learned.profile.kv_tokens = learned.profile.kv_tokens.max(learned.profile.context_tokens);
    learned
}

/// True if a route leads to the engine.
fn is_used(policy: &Policy, engine: usize) -> bool {
    let mut targets = policy.models.rules().flat_map(|rule| rule.way.routes()).flat_map(|route| &route.targets);
    targets.any(|target| policy.pools[target.pool].backends.iter().any(|backend| backend.engine == engine))
}

/// Names of an engine's backends.
fn backends(policy: &Policy, engine: usize) -> Vec<String> {
    let all = policy.pools.iter().flat_map(|pool| &pool.backends).filter(|backend| backend.engine == engine);
    let mut names: Vec<String> = all.map(|backend| backend.name.to_string()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Observations of backends on one engine, merged.
fn together(watched: &BTreeMap<String, Watched>, backends: &[String]) -> Watched {
    let mut all = Watched::default();
    for one in backends.iter().filter_map(|backend| watched.get(backend)) {
        all.seen.extend(&one.seen);
        all.ended += one.ended;
        all.failed += one.failed;
    }
    all.seen.sort_by(|one, other| one.at.total_cmp(&other.at));
    all
}

fn answers(watched: &Watched) -> usize {
    watched.seen.iter().filter(|seen| seen.output_tokens.is_some()).count()
}

impl Fleet {
    /// Rejects a policy with used engines whose profile is unknown.
    pub(super) fn check(&self, file: &Path) -> Result<(), Problems> {
        let problems: Vec<Problem> =
            self.engines.iter().filter(|machine| machine.used).filter_map(Machine::lacks).collect();
        if problems.is_empty() {
            return Ok(());
        }
        Err(Problems::new(&file.display().to_string(), "".into(), problems))
    }

    /// Profiles, in the order of the policy.
    pub(super) fn profiles(&self) -> Vec<Profile> {
        let profile = |machine: &Machine| match &machine.from {
            From::Journal(learned) => learned.profile,
            From::File(profile) => *profile,
            From::Unknown(_) => Profile::default(),
        };
        self.engines.iter().map(profile).collect()
    }

    /// Failure rates, in the order of the policy.
    pub(super) fn failing(&self) -> Vec<f64> {
        let failing = |machine: &Machine| match &machine.from {
            From::Journal(learned) => learned.failing,
            From::File(_) | From::Unknown(_) => 0.0,
        };
        self.engines.iter().map(failing).collect()
    }
}

impl Machine {
    fn lacks(&self) -> Option<Problem> {
        let From::Unknown(answers) = self.from else { return None };
        let Self { name, backends, .. } = self;
        let backends = backends.iter().map(|backend| format!("`{backend}`")).collect::<Vec<_>>().join(", ");
        let seen = match answers {
            0 => format!("the journal has no answer of it (as {backends})"),
            _ => format!("the journal has {answers} answers of it (as {backends}), and {MIN_ANSWERS} are needed"),
        };
        let help = format!(
            "give it with `--engines FILE`, such as `engines: {{ {name}: {{ step_ms: 15, prefill_ms: 0.3 }} }}`, or the name of a \
             built-in profile: {}",
            Profile::NAMES.join(", ")
        );
        Some(Problem::whole(format!("the profile of the engine `{name}` is unknown: {seen}")).help(help))
    }
}
