//! Which of a route's tiers serves a request, by how hard its prompt seems, so that what the operator asked for comes about
//! whatever the traffic: shares of the tiers, a mean quality, a price of quality, or a limit on what is spent.
//!
//! Between two neighbouring tiers there is a bar. A request is ranked among the last 768, so that a score may arrive on any scale;
//! ties are broken by chance. Where what comes has shifted (a cumulative sum over the ranks of new sessions and of requests by
//! themselves, Page 1954), only what came since counts on; each shift makes it ask for more, so that traffic in runs is not taken for
//! shift after shift. Those of the highest ranks go above:
//!
//! | aim | ranked by | the share that goes above | what is owed |
//! |---|---|---|---|
//! | [`Aim::Shares`](crate::types::Aim::Shares) | score | as asked for | requests: share asked for − went above |
//! | [`Aim::MinQuality`](crate::types::Aim::MinQuality) | gap ÷ price | what went above lately | (least quality − expected quality) ÷ mean gap |
//! | [`Aim::MaxSpendPerHour`](crate::types::Aim::MaxSpendPerHour) | gap ÷ price | how full the purse is | |
//! | [`Aim::ValuePerPoint`](crate::types::Aim::ValuePerPoint) | not at all: up if gap · value > price | | |
//!
//! The price of a step up is what the request costs more there, and, where the operator says what a second is worth, what it
//! waits longer.
//!
//! **Held share.** A quantile follows its traffic but does not hold a share: it strays as coins do, by 1.4 points (one standard
//! deviation) over a thousand requests at a quarter. So the share that is aimed at is moved by what is owed, a little for each
//! request. What is owed has a bound, so that after a shift of traffic little is made up for (anti-windup).
//!
//! **Sessions.** A session stays in its tier while its cache is warm (ten minutes): it rises when a request is beyond the bar by
//! more than a dead band, and falls only after eight requests in a row that are clearly below, and never while its tools are at
//! work. One that fell or rose does not move back, so that between two tiers it moves once. After ten minutes of silence a session
//! begins anew. A session that rises takes its further requests along. With shares a request is therefore ranked among the highest scores
//! that the sessions of others had so far: with any bar that stays, the share of requests above it is the share of such scores above it
//! (but for the dead band, and for what falls), whatever bars there were before. What the share lacks just now leans on that gently. Of a mean quality, only the rest is asked of the
//! others.
//!
//! **Latency.** A queue above takes up to half of the upper tier's share, smoothly, as it gets slower beside the lower tier than
//! it usually is; what it loses is not owed, and differences of less than a tenth of a second hardly count. With a price, it makes
//! the step up dearer by as much, for as long as it lasts: what others were worth is remembered without it. A value for each point
//! of quality looks at the predicted seconds themselves.
//!
//! **Availability and budget.** A tier that cannot take a request is replaced by the next above, or else the next below. Shares
//! and quality are held on where requests belong, not on such spills. Where the hour's budget cannot pay for a tier and for what
//! the cheapest goes on to take, a lower one serves, whatever the session, which stays there; the cheapest tier is always open,
//! so that its own cost may pass the budget.

mod aim;
mod change;
mod control;
mod decision;
mod lru;
mod ranks;
mod route;
mod sessions;
mod slowness;
mod spend;
mod standing;
mod state;
#[cfg(test)]
mod tests;

pub use self::{
    decision::{Context, Decision, Reason, TierView},
    route::Tierings,
    standing::{Standing, TierStanding},
};
