//! Shortlist of a large pool: the backends that a decision weighs where weighing all would take too long.
//!
//! It has the backends that hold the longest beginnings of the prompt, the one that served the session last, and a uniform
//! sample. With a sample of `d`, the least loaded of it is among the least loaded `1/d` of the pool on average: Mitzenmacher,
//! *The Power of Two Choices in Randomized Load Balancing* (2001), shows that already two come close to weighing all.

use super::{PlacementQuery, Pool, by_holder::ByHolder};
use signalbox_schedule::prefix::HolderId;
use signalbox_types::Moment;

/// Backends in the sample.
const SAMPLED: usize = 40;
/// Most backends taken for the prefixes they hold.
const HOLDING: usize = 16;
/// A shortlist with fewer usable backends is replaced by the whole pool.
const FEWEST_USABLE: usize = 16;

impl Pool {
    /// Writes the indices of the backends to weigh for `ask` into `members`: a shortlist, or all that it may use.
    pub(super) fn to_weigh(
        &self,
        ask: &PlacementQuery<'_>,
        now: Moment,
        holders: &mut Vec<HolderId>,
        members: &mut Vec<usize>,
    ) {
        members.clear();
        let untried = |member: &usize| !ask.tried.contains(member);
        if let Some(by_holder) = &self.by_holder {
            self.shortlist(by_holder, ask, now, holders, members);
            members.retain(|member| untried(member) && self.backends[*member].belongs_to(ask.target));
            let usable = |member: &&usize| {
                let backend = &*self.backends[**member];
                !backend.is_avoided(now) && (!ask.room_only || Self::has_room(backend, ask, now))
            };
            if members.iter().filter(usable).count() >= FEWEST_USABLE {
                return;
            }
            members.clear();
        }
        members.extend(self.members(ask.target).filter(untried));
    }

    fn shortlist(
        &self,
        by_holder: &ByHolder,
        ask: &PlacementQuery<'_>,
        now: Moment,
        holders: &mut Vec<HolderId>,
        members: &mut Vec<usize>,
    ) {
        holders.clear();
        let Some(first) = self.backends.first() else { return };
        let is_here = |holder: HolderId| by_holder.has(holder);
        first.learned.prefixes.nearest(ask.prompt, HOLDING, is_here, holders);
        holders.extend(ask.session.and_then(|session| first.learned.sessions.holder(session)));
        members.extend(holders.iter().flat_map(|holder| by_holder.backends(*holder)));
        let prompt = ask.prompt.blocks.last().copied().unwrap_or(ask.prompt.bytes);
        let mut dice = fastrand::Rng::with_seed(now.nanos() ^ prompt);
        members.extend((0..SAMPLED).map(|_| dice.usize(..self.backends.len())));
        members.sort_unstable();
        members.dedup();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::by_holder::MOST_WEIGHED, *};
    use crate::{Registry, Scratch, Snapshot, Ticket};
    use signalbox_config::Config;
    use signalbox_policy::{Target, compile};
    use signalbox_prompt::BlockHasher;

    /// A pool of `count` backends, and a query for a prompt of `text`.
    fn with_pool(count: usize, prompt: &str, test: impl Fn(&Pool, &PlacementQuery<'_>, &signalbox_prompt::Blocks)) {
        let urls: Vec<_> = (0..count).map(|number| format!("http://engine-{number}:8000/v1")).collect();
        let policy = format!("pools: {{ main: {{ model: m, backends: [{}] }} }}", urls.join(", "));
        let config = Config::parse("test.yaml", &policy, &|_| None, &|_| Ok(String::new())).unwrap();
        let registry = Registry::default();
        let snapshot = Snapshot::new(compile(&config).unwrap(), &registry);
        let pool = &snapshot.pools[0];
        let mut hasher = BlockHasher::new(b"salt");
        hasher.push(prompt.as_bytes());
        let blocks = hasher.finish();
        let target = Target::whole(0);
        let outputs = pool.learned.outputs.of(&target, &"route".into());
        let ask = PlacementQuery {
            target: &target,
            tried: &[],
            prompt: blocks.prompt(),
            session: None,
            room_only: false,
            outputs: &outputs,
            max_tokens: Some(100),
            whole: false,
            bounded: false,
            ttft_limit: None,
            tpot_limit: None,
        };
        test(pool, &ask, &blocks);
    }

    fn at(milliseconds: u64) -> Moment {
        Moment::default().plus(Duration::from_millis(1_000 + milliseconds))
    }

    #[test]
    fn a_small_pool_is_weighed_whole() {
        with_pool(MOST_WEIGHED, "Hi", |pool, ask, _| {
            let mut scratch = Scratch::default();
            pool.place(ask, at(0), 0.5, &mut scratch).unwrap();
            assert_eq!(scratch.candidates.len(), MOST_WEIGHED);
        });
    }

    #[test]
    fn a_large_pool_spreads_over_all_its_backends() {
        with_pool(500, "Hi", |pool, ask, blocks| {
            let mut scratch = Scratch::default();
            let mut load = vec![0_u32; 500];
            let mut tickets = Vec::new();
            for step in 0..2_000 {
                let now = at(step);
                let placed = pool.place(ask, now, 0.5, &mut scratch).unwrap();
                assert!(scratch.candidates.len() <= SAMPLED + HOLDING + 1);
                load[placed.backend] += 1;
                let (learned, backend) = (pool.learned.clone(), pool.backends[placed.backend].clone());
                let outputs = pool.learned.outputs.of(&Target::whole(0), &"route".into());
                tickets.push(Ticket::take(learned, outputs, backend, placed.forecast, blocks.clone(), now));
            }
            // Four a backend on average.
            assert!(load.iter().all(|&load| (2..=6).contains(&load)), "{load:?}");
        });
    }

    #[test]
    fn the_backend_that_holds_the_prompt_is_on_the_list() {
        let text = "A long prompt of many words. ".repeat(2_000);
        with_pool(300, &text, |pool, ask, blocks| {
            for holder in [3, 170, 299] {
                let learned = &pool.backends[holder].learned;
                let reuse = learned.prefixes.insert(learned.holder, blocks.prompt());
                learned.prefixes.confirm(blocks.prompt(), &reuse);
                let mut scratch = Scratch::default();
                for step in 0..20 {
                    pool.place(ask, at(step), 0.5, &mut scratch).unwrap();
                    assert!(scratch.members.contains(&holder));
                }
                learned.prefixes.clear(learned.holder);
            }
        });
    }

    #[test]
    fn what_is_usable_is_found_however_few_there_are() {
        with_pool(200, "Hi", |pool, ask, _| {
            let others: Vec<usize> = (0..200).filter(|&member| member != 77).collect();
            let ask = PlacementQuery { tried: &others, ..*ask };
            assert_eq!(pool.place(&ask, at(0), 0.5, &mut Scratch::default()).unwrap().backend, 77);
        });
    }
}
