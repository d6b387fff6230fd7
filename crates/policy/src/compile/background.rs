//! Compiles the budget and the pools of background requests.

use super::reader::Reader;
use crate::{Background, Pool, Target};
use signalbox_config::{Problem, Share, background as raw};
use signalbox_types::Endpoint;

impl Reader<'_> {
    /// The background settings; `None` if the budget is zero.
    pub(super) fn background(&mut self, raw: &raw::Background, pools: &[Pool]) -> Option<Background> {
        let budget = self.read(&raw.budget);
        let allowed = raw.pools.as_ref().map(|list| {
            if list.value.is_empty() {
                self.report(
                    Problem::at(list.at, "an empty list of pools for background requests")
                        .help("name the pools that may receive them, leave `pools` out, or set `budget: 0%`"),
                );
            }
            list.value.iter().filter_map(|field| self.pool_called(field, pools)).collect::<Vec<_>>()
        });
        let judge = raw.judge.as_ref().and_then(|field| {
            let pool = self.pool_called(field, pools)?;
            if !pools[pool].speaks.contains(&Endpoint::Chat) {
                let message = format!("pool `{}` does not speak chat", field.text());
                self.report(Problem::at(field.at(), message).help("answers are compared by asking a chat model"));
            }
            if pools[pool].kinds().any(|backend| backend.model.is_none()) {
                let message = format!("pool `{}` names no model of its own", field.text());
                self.report(Problem::at(field.at(), message).help("name the judging model: give that pool a `model`"));
            }
            Some(Target::whole(pool))
        });
        let Share(budget) = budget?;
        let in_dollars = pools.iter().all(|pool| pool.price.is_some());
        (budget > 0.0).then_some(Background { budget, in_dollars, pools: allowed, judge })
    }
}
