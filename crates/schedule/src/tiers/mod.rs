//! Tier choice: decides which of a route's tiers serves a request by the estimated difficulty of its prompt, so that
//! the operator's aim is met under any traffic: shares of the tiers, a mean quality, a price of quality, or a spending
//! limit.
//!
//! Between two neighbouring tiers there is a bar. A request is ranked among the last 768, so that scores may have any
//! scale; ties are broken by chance. After a shift of the traffic (detected by a cumulative sum over the ranks of new
//! sessions and of requests without one, Page 1954) only later requests count; each shift raises the required evidence,
//! so that traffic in runs is not taken for shift after shift. The requests of the highest ranks go above:
//!
//! | aim | ranked by | share that goes above | owed |
//! |---|---|---|---|
//! | [`Aim::Shares`](signalbox_types::Aim::Shares) | score | as configured | requests: configured share − went above |
//! | [`Aim::MinQuality`](signalbox_types::Aim::MinQuality) | gap ÷ price | recent share above | (least quality − expected quality) ÷ mean gap |
//! | [`Aim::MaxSpendPerHour`](signalbox_types::Aim::MaxSpendPerHour) | gap ÷ price | fill of the token bucket | |
//! | [`Aim::ValuePerPoint`](signalbox_types::Aim::ValuePerPoint) | not at all: up if gap · value > price | | |
//!
//! The price of a step up is the additional cost of the request there and, where the operator prices a second, of its
//! longer wait.
//!
//! **Held share.** A quantile follows its traffic but does not hold a share: it varies like coin tosses, by 1.4 points
//! (one standard deviation) over a thousand requests at a quarter. So the aimed share is corrected by what is owed, a
//! little with each request. The owed amount is bounded, so that little is compensated after a shift of traffic
//! (anti-windup).
//!
//! **Sessions.** A session stays in its tier while its cache is warm (ten minutes). It rises when a request exceeds the
//! bar by more than a dead band, and falls only after eight requests in a row that are clearly below, and never while
//! its tools are running. A session that fell or rose does not move back, so that between two tiers it moves once.
//! After ten minutes of silence it starts anew. A session that rises takes its later requests along. With shares a
//! request is therefore ranked among the highest scores that other sessions have had so far: with any constant bar, the
//! share of requests above it equals the share of such scores above it (except for the dead band and falls), whatever
//! the bars were before. The current shortfall of the share corrects that gently. With a mean quality, only the rest is
//! asked of the other requests.
//!
//! **Latency.** A queue above takes up to half of the upper tier's share, smoothly, as the upper tier gets slower
//! relative to the lower one than usual. The lost share is not owed, and differences below a tenth of a second hardly
//! count. With a price, it raises the price of the step up by as much while it lasts; the worth of other requests is
//! remembered without it. A value per point of quality uses the predicted seconds themselves.
//!
//! **Availability and budget.** An unavailable tier is replaced by the next above, or else the next below. Shares and
//! quality are held on the intended tiers, not on such replacements. Where the hour's budget cannot pay for a tier and
//! for the cheapest tier's expected cost, a lower tier serves, whatever the session, which stays there. The cheapest
//! tier is always open, so that its own cost may exceed the budget.

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
