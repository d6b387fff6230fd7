//! The `--engines` file: profiles of simulated engines, and events during a run.

use std::{path::Path, time::Duration};

use serde::Deserialize;

use super::{Profile, cluster::Change};
use signalbox_config::{
    At, Either, Field, Located, Named, Pause, Problem, Problems, Scalar, Shapes, Word, nearest, plain, yaml,
};
use signalbox_policy::Policy;
use signalbox_types::Name;

/// The file as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    /// By name of an engine or a pool, or `default`: name of a built-in profile, or the fields of one.
    engines: Option<Named<Either<Word, Profile>>>,
    events: Option<Vec<Located<RawEvent>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEvent {
    at: Field<Pause>,
    engine: Field<Word>,
    slow: Option<Field<f64>>,
    die: Option<Field<bool>>,
    #[serde(rename = "return")]
    back: Option<Field<bool>>,
}

impl Shapes for Profile {
    const EXPECTED: &'static str = "a built-in profile such as `small`, or a mapping of a profile's fields";
}

/// Profiles by name, and events.
#[derive(Clone, Debug, Default)]
pub struct EnginesFile {
    profiles: Vec<(String, Profile)>,
    events: Vec<(Duration, String, Change)>,
}

/// Name of the entry for all other engines.
const DEFAULT: &str = "default";

impl EnginesFile {
    /// Reads the file at `path` for `policies`. A name that occurs in none of them is an error.
    pub fn load(path: &Path, policies: &[&Policy]) -> Result<Self, Problems> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            let message = format!("this file cannot be read: {}", plain(&error));
            let problem = Problem::whole(message).help("check the path; `examples/simulate/` has one to start from");
            Problems::new(&name, "".into(), vec![problem])
        })?;
        Self::read(&text, policies).map_err(|problems| Problems::new(&name, text.as_str().into(), problems))
    }

    fn read(text: &str, policies: &[&Policy]) -> Result<Self, Vec<Problem>> {
        let document: Document = yaml(text).map_err(|problem| vec![*problem])?;
        let engines = || policies.iter().flat_map(|policy| &policy.engines).map(|engine| &*engine.name);
        let pools = || policies.iter().flat_map(|policy| &policy.pools).map(|pool| &*pool.name);
        let (mut machines, mut problems) = (Self::default(), Vec::new());
        for (name, machine) in document.engines.iter().flat_map(|named| &named.entries) {
            if name.text() != DEFAULT && !engines().chain(pools()).any(|known| known == name.text()) {
                problems.push(unknown(name.text(), name.at(), "engine or pool", engines().chain(pools())));
            }
            match profile(machine) {
                Ok(profile) => machines.profiles.push((name.text().to_owned(), profile)),
                Err(problem) => problems.push(problem),
            }
        }
        for Located { value, at } in document.events.iter().flatten() {
            if !engines().any(|known| known == value.engine.text()) {
                problems.push(unknown(value.engine.text(), value.engine.at(), "engine", engines()));
            }
            match event(value, *at) {
                Ok(event) => machines.events.push(event),
                Err(problem) => problems.push(problem),
            }
        }
        machines.events.sort_by_key(|event| event.0);
        if problems.is_empty() { Ok(machines) } else { Err(problems) }
    }

    /// Profile of an engine in the file: by its own name, else by its first pool, else `default`.
    pub fn profile(&self, policy: &Policy, engine: usize) -> Option<Profile> {
        let named = |name: &str| self.profiles.iter().find(|(own, _)| own == name).map(|(_, profile)| *profile);
        let own = named(&policy.engines[engine].name);
        own.or_else(|| named(first_pool(policy, engine)?)).or_else(|| named(DEFAULT))
    }

    /// Profile of each engine of `policy`, with blocks of `block_tokens`: as in the file, else the built-in profile named like its first pool, else
    /// `small`.
    pub fn profiles(&self, policy: &Policy, block_tokens: u32) -> Vec<Profile> {
        let engines = policy.engines.iter().enumerate().map(|(at, engine)| {
            let built_in = || Profile::named(first_pool(policy, at)?);
            let profile = self.profile(policy, at).or_else(built_in).unwrap_or_default();
            // A cache size in the policy takes precedence over the profile's.
            let kv_tokens = engine.kv_tokens.map_or(profile.kv_tokens, |kv| u32::try_from(kv).unwrap_or(u32::MAX));
            Profile { kv_tokens, block_tokens, ..profile }
        });
        engines.collect()
    }

    /// Events of the engines of `policy`, by index.
    pub fn changes(&self, policy: &Policy) -> Vec<(Duration, usize, Change)> {
        let place = |name: &str| policy.engines.iter().position(|engine| *engine.name == *name);
        self.events.iter().filter_map(|(at, engine, change)| Some((*at, place(engine)?, *change))).collect()
    }
}

/// First pool of an engine.
fn first_pool(policy: &Policy, engine: usize) -> Option<&Name> {
    let mut pools = policy.pools.iter();
    pools.find(|pool| pool.backends.iter().any(|backend| backend.engine == engine)).map(|pool| &pool.name)
}

fn unknown<'a>(name: &str, at: At, what: &str, known: impl Iterator<Item = &'a str> + Clone) -> Problem {
    let problem = Problem::at(at, format!("no policy has an {what} `{name}`"));
    if let Some(near) = nearest(name, known.clone()) {
        return problem.help(format!("did you mean `{near}`?"));
    }
    let mut names: Vec<String> = known.map(|name| format!("`{name}`")).collect();
    names.sort_unstable();
    names.dedup();
    problem.help(format!("there are: {}", names.join(", ")))
}

fn profile(machine: &Either<Word, Profile>) -> Result<Profile, Problem> {
    match machine {
        Either::Short(name) => Profile::named(name.text()).ok_or_else(|| {
            let help = match nearest(name.text(), Profile::NAMES) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("built in are: {}; or write the fields of one", Profile::NAMES.join(", ")),
            };
            Problem::at(name.at(), "no built-in profile has this name").help(help)
        }),
        Either::Long(profile, at) => match profile.nonsense() {
            None => Ok(*profile),
            Some(field) => {
                Err(Problem::at(*at, format!("`{field}` of this profile is not a number that a machine has"))
                    .help("times are 0 ms or more, sizes and limits 1 or more; what is left out is as in `small`"))
            }
        },
    }
}

fn event(raw: &RawEvent, at: At) -> Result<(Duration, String, Change), Problem> {
    let slow = raw.slow.as_ref().map(read).transpose()?.map(Change::Slow);
    let die = raw.die.as_ref().map(read).transpose()?.and_then(|die| die.then_some(Change::Die));
    let back = raw.back.as_ref().map(read).transpose()?.and_then(|back| back.then_some(Change::Return));
    let changes: Vec<Change> = [slow, die, back].into_iter().flatten().collect();
    let [change] = changes[..] else {
        return Err(Problem::at(at, "an event is one of `slow`, `die` and `return`")
            .help("write `slow: 4` (times as long, 1 for as before), `die: true` or `return: true`"));
    };
    if let (Change::Slow(factor), Some(field)) = (change, &raw.slow)
        && factor <= 0.0
    {
        return Err(Problem::at(field.at(), "a step cannot take no time")
            .help("write how many times as long it takes; 1 is as before"));
    }
    Ok((read(&raw.at)?.0, raw.engine.text().to_owned(), change))
}

fn read<T: Scalar>(field: &Field<T>) -> Result<T, Problem> {
    T::read(field.text()).map_err(|mistake| Problem::mistake(field.at(), mistake))
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_config::Config;
    use signalbox_policy::compile;

    fn policy() -> Policy {
        let text = "engines: { e1: { url: \"http://h1/v1\" }, e2: { url: \"http://h2/v1\", kv_tokens: 9k } }\n\
            pools: { long: { model: m, backends: [{ engine: e1 }, { engine: e2 }] }, b: { model: n, backends: [http://h3/v1] } }";
        compile(&text.parse::<Config>().unwrap()).unwrap()
    }

    fn read(text: &str) -> Result<EnginesFile, Vec<(String, String)>> {
        let texts = |problem: Problem| (problem.message.into_owned(), problem.help.unwrap_or_default().into_owned());
        EnginesFile::read(text, &[&policy()]).map_err(|problems| problems.into_iter().map(texts).collect())
    }

    #[test]
    fn profiles_are_found_by_engine_pool_or_default() {
        let machines = read("engines: { e1: { prefill_ms: 9 }, long: h100-8b, default: large }").unwrap();
        let own = Profile { prefill_ms: 9.0, ..Profile::small() };
        let pool = Profile { kv_tokens: 9_000, ..Profile::h100_8b() };
        assert_eq!(machines.profiles(&policy(), 16), [own, pool, Profile::large()]);
        let usual = [Profile::long(), Profile { kv_tokens: 9_000, ..Profile::long() }, Profile::small()];
        assert_eq!(read("").unwrap().profiles(&policy(), 16), usual);
        assert_eq!(read("").unwrap().profiles(&policy(), 512)[0].block_tokens, 512);
    }

    #[test]
    fn events_are_in_order() {
        let text = "events: [{ at: 2m, engine: e2, die: true }, { at: 0s, engine: e1, slow: 4 }, { at: 3m, engine: e2, return: true }]";
        let seconds = Duration::from_secs;
        let want =
            [(seconds(0), 0, Change::Slow(4.0)), (seconds(120), 1, Change::Die), (seconds(180), 1, Change::Return)];
        assert_eq!(read(text).unwrap().changes(&policy()), want);
    }

    #[test]
    fn errors_have_a_help() {
        let problem = |text| read(text).unwrap_err().remove(0);
        assert_eq!(problem("engines: { lon: small }").1, "did you mean `long`?");
        assert_eq!(problem("engines: { e1: smal }").1, "did you mean `small`?");
        assert_eq!(problem("engines: { e1: { prefil_ms: 1 } }").1, "did you mean `prefill_ms`?");
        assert!(problem("engines: { e1: { chunk_tokens: 0 } }").0.contains("`chunk_tokens`"));
        assert!(problem("engines: { e1: { step_ms: .nan } }").0.contains("`step_ms`"));
        assert!(problem("events: [{ at: 1s, engine: long, die: true }]").0.contains("no policy has an engine `long`"));
        assert!(problem("events: [{ at: 1s, engine: e1 }]").0.contains("one of"));
        assert!(problem("events: [{ at: 1s, engine: e1, slow: 0 }]").0.contains("no time"));
        assert!(problem("events: [{ at: 1, engine: e1, die: true }]").1.contains("did you mean `1s`?"));
    }
}
