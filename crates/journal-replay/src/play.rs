//! Plays the requests of a journal by a policy's rules, on engines fitted to those of the journal.

use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc, time::Duration};

use super::{
    entry::{BLOCK_TOKENS, Entries, Entry, Kept},
    replayed_request::{Missing, PolicyRouter},
    tally::{End, Ended, Limits},
};
use signalbox_fleet::Registry;
use signalbox_policy::{Objectives, Policy};
use signalbox_sim::{
    Job, Profile,
    cluster::{Scheduler, Setting, run},
    gateway::Gateway,
    outcome::{self, Outcome},
    traffic::Request,
};
use signalbox_types::Usage;

/// Default limits of answers.
const USUAL: Limits = Limits { ttft: Duration::from_secs(1), tpot: Duration::from_millis(50) };

/// A policy to play.
#[derive(Clone, Debug)]
pub struct Play {
    /// The policy.
    pub policy: Policy,
    /// Profiles of its engines, in the order of the policy.
    pub profiles: Vec<Profile>,
    /// Share of attempts that fail, by engine.
    pub failing: Vec<f64>,
    /// Limit on TTFT that overrides those of pools.
    pub ttft: Option<Duration>,
    /// Limit on TPOT that overrides those of pools.
    pub tpot: Option<Duration>,
}

/// Result of a play.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// By request, in the order of the journal.
    pub ended: Vec<Ended>,
    /// Variables that the policy used and the journal lacks.
    pub missing: Missing,
    /// Most concurrent requests of each engine, in the order of the policy.
    pub busiest: Vec<u32>,
}

impl Play {
    /// Limits for answers of the pool called `name`.
    pub fn limits(&self, name: &str) -> Limits {
        limits(&self.policy, name, self.ttft, self.tpot)
    }

    /// Plays all of `entries` once.
    pub fn run(&self, entries: &Entries, seed: u64) -> Played {
        let lengths = lengths(entries);
        let mut dice = fastrand::Rng::with_seed(seed);
        let sent: Vec<Arc<Entry>> = entries.all.iter().filter(|entry| !self.keeps(entry)).cloned().collect();
        let requests: Vec<Request> = sent.iter().map(|entry| request(entry, &lengths, &mut dice)).collect();
        let profiles: Vec<_> =
            self.profiles.iter().map(|profile| Profile { block_tokens: BLOCK_TOKENS, ..*profile }).collect();
        let setting = Setting {
            engines: profiles.clone(),
            failing: self.failing.clone(),
            scrape: self.policy.engines.iter().filter_map(|engine| engine.scrape).min(),
            // The engines take consecutive seeds from here.
            seed: seed << 8,
            ..Setting::default()
        };
        let missing = Rc::new(RefCell::default());
        let router = PolicyRouter::new(sent, Rc::clone(&missing), seed);
        let mut gateway =
            Gateway::with(self.policy.clone(), Box::new(router), &profiles, &Registry::default(), seed << 8);
        let outcomes = run(&setting, &requests, &mut [&mut gateway as &mut dyn Scheduler]);
        let mut numbers = (0_u32..).zip(&requests).zip(&outcomes);
        let ended = entries.all.iter().map(|entry| {
            if self.keeps(entry) {
                return Ended { pool: entry.was.pool.clone(), end: End::Kept, cost: Some(0.0), ..Ended::default() };
            }
            let Some(((number, request), outcome)) = numbers.next() else { return Ended::default() };
            self.ended(&gateway, number, request, outcome)
        });
        let ended = ended.collect();
        let busiest = gateway.busiest().to_vec();
        drop(gateway);
        let missing = missing.take();
        Played { ended, missing, busiest }
    }

    /// True if the recorded cache hit would be a hit again: the stored answers do not depend on the policy.
    fn keeps(&self, entry: &Entry) -> bool {
        let Some(caching) = &self.policy.caching else { return false };
        entry.kept.is_some_and(|kept| match kept {
            Kept::Exact => caching.exact.is_some(),
            Kept::Semantic => caching.semantic.is_some(),
            Kept::Coalesced => caching.coalesce,
        })
    }

    fn ended(&self, gateway: &Gateway, number: u32, request: &Request, outcome: &Outcome) -> Ended {
        let disposition = gateway.disposition(number);
        let pool = disposition.sent.map(|(pool, _)| &self.policy.pools[pool]);
        let prompt_tokens = u64::from(outcome.prompt_tokens);
        let usage = Usage {
            prompt_tokens,
            cached_tokens: Some(outcome.cached_tokens.into()),
            completion_tokens: outcome.tokens.into(),
            ..Usage::default()
        };
        let begun = outcome.tokens > 0 || outcome.end == outcome::End::Answered;
        Ended {
            pool: pool.map(|pool| pool.name.to_string()),
            ttft: outcome.ttft.filter(|_| !request.whole).map(|ttft| ttft.as_secs_f64()),
            tpot: outcome.tpot().filter(|_| !request.whole).map(|tpot| tpot.as_secs_f64()),
            cost: pool.filter(|_| begun).and_then(|pool| pool.price).map(|price| price.cost(&usage)),
            prompt_tokens,
            cached_tokens: outcome.cached_tokens.into(),
            end: match outcome.end {
                outcome::End::Answered => End::Answered,
                outcome::End::Left => End::Left,
                outcome::End::Refused => End::Refused(disposition.refused.unwrap_or("refused").to_owned()),
                outcome::End::Cut | outcome::End::Open => End::Failed,
            },
            limits: pool.map(|pool| self.limits(&pool.name)),
        }
    }
}

/// Limits for answers of the pool called `name`: from the command line, else the pool's objectives, else the defaults.
fn limits(policy: &Policy, name: &str, ttft: Option<Duration>, tpot: Option<Duration>) -> Limits {
    let objectives = policy.pools.iter().find(|pool| *pool.name == *name).map(|pool| &pool.objectives);
    Limits {
        ttft: ttft.or(objectives.and_then(Objectives::ttft)).unwrap_or(USUAL.ttft),
        tpot: tpot.or(objectives.and_then(Objectives::tpot)).unwrap_or(USUAL.tpot),
    }
}

/// The recorded outcomes of the requests. Limits come from `play`, so that both are measured alike.
pub fn recorded(entries: &Entries, play: &Play) -> Vec<Ended> {
    let ended = |entry: &Arc<Entry>| {
        let was = &entry.was;
        let end = match (&was.refused, entry.kept) {
            (_, Some(_)) => End::Kept,
            (Some(reason), _) => End::Refused(reason.clone()),
            _ if entry.leaves.is_some() => End::Left,
            _ if was.answered => End::Answered,
            _ => End::Failed,
        };
        let enough = entry.output_tokens.is_some_and(|tokens| tokens > 4);
        Ended {
            pool: was.pool.clone(),
            ttft: was.ttft.filter(|_| entry.stream),
            tpot: was.tpot.filter(|_| entry.stream && enough),
            cost: was.cost,
            prompt_tokens: entry.prompt_tokens.into(),
            cached_tokens: entry.cached_tokens.into(),
            end,
            limits: was.pool.as_deref().map(|pool| play.limits(pool)),
        }
    };
    entries.all.iter().map(ended).collect()
}

/// Lengths of answers, by requested model.
fn lengths(entries: &Entries) -> HashMap<&str, Vec<u32>> {
    let mut all: HashMap<&str, Vec<u32>> = HashMap::new();
    for entry in &entries.all {
        if let (Some(model), Some(tokens)) = (&entry.model, entry.output_tokens) {
            all.entry(model).or_default().push(tokens);
        }
    }
    all
}

fn request(entry: &Entry, lengths: &HashMap<&str, Vec<u32>>, dice: &mut fastrand::Rng) -> Request {
    let drawn =
        entry.model.as_deref().and_then(|model| lengths.get(model)).map_or(1, |all| all[dice.usize(..all.len())]);
    let blocks = entry.blocks.clone();
    let session =
        entry.routing_facts.as_ref().and_then(|it| it.session.as_deref()).and_then(signalbox_journal::recorded::hash);
    Request {
        at: entry.at,
        job: Job {
            prompt_tokens: entry.prompt_tokens,
            warm_tokens: entry.warm_tokens,
            blocks: blocks.unwrap_or_default(),
            output_tokens: entry.output_tokens.unwrap_or(drawn),
        },
        leaves: entry.leaves,
        whole: !entry.stream,
        session,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use serde_json::{Value, json};

    use super::*;
    use crate::{Journal, Tally};
    use signalbox_config::Config;
    use signalbox_policy::compile;

    /// A journal of `count` requests, `gap` milliseconds apart, each modified by `more`.
    fn entries(count: u64, gap: u64, more: impl Fn(u64) -> Value) -> Entries {
        let mut text = String::new();
        for at in 0..count {
            let prompt = 100 + at * 37 % 1000;
            let usage = json!({ "prompt_tokens": prompt, "completion_tokens": 20 });
            let mut line = json!({
                "form": 2, "time_ms": 1_700_000_000_000_u64 + at * gap, "endpoint": "chat", "stream": true, "model": "auto",
                "explained": { "prompt_tokens": [prompt / 2, prompt, prompt * 2] }, "answered": 0, "outcome": "ok", "usage": usage,
                "attempts": [{ "pool": "small", "backend": "h1", "outcome": "ok", "usage": usage }],
            });
            let changes = more(at);
            line.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            writeln!(text, "{line}").unwrap();
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j.jsonl");
        std::fs::write(&path, text).unwrap();
        Entries::of(&Journal::open(&[path]).unwrap())
    }

    fn play(routes: &str, more: &str) -> Play {
        let text = format!(
            "engines: {{ h1: {{ url: \"http://h1/v1\"{more} }}, h2: {{ url: \"http://h2/v1\" }} }}\n\
             pools: {{ small: {{ model: m, price: {{ input: 1, output: 2 }}, backends: [{{ engine: h1 }}] }}, large: {{ model: n, price: {{ input: 10, output: 20 }}, backends: [{{ engine: h2 }}] }} }}\n\
             models: {{ auto: {{ routes: [{routes}] }} }}\nlimits: {{ queue: {{ length: 3, wait: 1s }} }}\n"
        );
        let policy = compile(&text.parse::<Config>().unwrap()).unwrap();
        Play { policy, profiles: vec![Profile::small(), Profile::large()], failing: vec![], ttft: None, tpot: None }
    }

    fn tally(play: &Play, entries: &Entries) -> (Tally, Played) {
        let played = play.run(entries, 1);
        (Tally::of(&played.ended), played)
    }

    #[test]
    fn rules_and_their_lengths_decide_and_money_follows() {
        let entries = entries(200, 200, |_| json!({}));
        let by_rule = play("{ when: prompt.tokens > 600, to: large }, { to: small }", "");
        let long = entries.all.iter().filter(|entry| entry.prompt_tokens > 600).count();
        let (of_rule, played) = tally(&by_rule, &entries);
        assert_eq!(of_rule.pools.iter().find(|(pool, _)| pool == "large").unwrap().1, long);
        assert!(played.missing.is_empty());
        let cost: f64 = entries
            .all
            .iter()
            .map(|it| (f64::from(it.prompt_tokens) + 40.0) * if it.prompt_tokens > 600 { 1e-5 } else { 1e-6 })
            .sum();
        assert!((of_rule.cost.unwrap() / cost - 1.0).abs() < 1e-9, "{of_rule:?}");
        let (of_length, _) = tally(&play("{ length: { short: small, long: large, boundary: 600 } }", ""), &entries);
        assert!((of_length.share("large") - of_rule.share("large")).abs() < 0.02, "{of_length:?}");
    }

    #[test]
    fn tiers_hold_their_shares_by_what_the_journal_says_of_prompts() {
        let hard =
            |at: u64| json!({ "score": (at * 29 % 100) as f64 / 100.0, "quality": 0.6, "gap": 0.1, "confidence": 1.0 });
        let known =
            entries(400, 150, |at| json!({ "particulars": { "class": "interactive", "complexity": hard(at) } }));
        let tiers = play("{ complexity: { tiers: [small, large], shares: [70%, 30%] } }", "");
        let (tally, played) = tally(&tiers, &known);
        assert!((tally.share("large") - 0.3).abs() < 0.05, "{tally:?}");
        assert!(played.missing.is_empty());
        let missing = tiers.run(&entries(50, 150, |_| json!({})), 1).missing;
        assert_eq!(missing.get("prompt.complexity"), Some(&50));
    }

    #[test]
    fn limits_hold_and_what_finds_no_room_spills_waits_or_is_refused() {
        let entries = entries(120, 20, |_| json!({}));
        let one = |routes| tally(&play(routes, ", max_concurrency: 2"), &entries).0;
        let alone = one("{ to: small }");
        assert!(alone.refusals() > 20, "{alone:?}");
        assert!(alone.refused.iter().all(|(reason, _)| reason.starts_with("queue_")), "{alone:?}");
        let spilled = one("{ to: small, fallback: [large] }");
        assert_eq!(spilled.refusals(), 0);
        assert!(spilled.share("large") > 0.5, "{spilled:?}");
        assert!(tally(&play("{ to: small }", ", max_concurrency: 2"), &entries).1.busiest[0] <= 2);
    }

    #[test]
    fn kept_answers_clients_that_leave_and_failures_are_played_as_they_were() {
        let entries = entries(100, 100, |at| match at % 4 {
            0 => json!({ "reused": { "result": "hit-exact", "pool": "small" }, "attempts": [], "usage": null }),
            1 => json!({ "outcome": "client_gone", "usage": null, "e2e_ms": 1.0 }),
            _ => json!({}),
        });
        let cached = play("{ to: small }", "");
        let caching = compile(
            &"engines: { h1: { url: \"http://h1/v1\" } }\npools: { small: { model: m, backends: [{ engine: h1 }] } }\ncache: { exact: { ttl: 1h } }\n"
                .parse::<Config>()
                .unwrap(),
        );
        let cached = Play { policy: Policy { caching: caching.unwrap().caching, ..cached.policy }, ..cached };
        let (with, _) = tally(&cached, &entries);
        assert_eq!((with.kept, with.ttfts.len()), (25, 50));
        let (without, _) = tally(&play("{ to: small }", ""), &entries);
        assert_eq!((without.kept, without.ttfts.len()), (0, 75));
        let failing = Play { failing: vec![1.0, 0.0], ..play("{ to: small, fallback: [large] }", "") };
        let (elsewhere, _) = tally(&failing, &entries);
        assert!((elsewhere.share("large") - 1.0).abs() < 1e-9 && elsewhere.failed == 0, "{elsewhere:?}");
    }
}
