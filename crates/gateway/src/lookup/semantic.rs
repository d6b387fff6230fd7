//! Semantic lookup: returns the answer to a prompt with the same meaning, if the match is certain enough.

use super::{CacheLookup, cache_status::Tier, hit, missing::SemanticOutcome, saved_time, sharing::Sharing};
use crate::{
    Step,
    background::Origin,
    stages::{Missed, Routed},
};
use signalbox_answers::{self as answers, Hit, LookupOutcome, SemanticQuery};
use signalbox_policy::{Caching, Semantic};
use signalbox_telemetry::{Lookup, Purpose};

/// Probability that a hit is verified, where the policy has a background budget. Hits are drawn at random so that the
/// sample represents all of them.
const VERIFIED: f64 = 0.25;

impl<S: Step<Missed>> CacheLookup<S> {
    pub(super) async fn meant(
        &self,
        caching: &Caching,
        semantic: &Semantic,
        routed: &Routed,
        sharing: &Sharing,
    ) -> SemanticOutcome {
        let sought = SemanticQuery {
            endpoint: routed.call.endpoint,
            query: routed.call.query.as_deref(),
            body: &routed.call.body,
            trace: &|step, began| routed.call.record.took(step, began),
            said: &sharing.said,
            caller: sharing.caller.as_ref(),
            acceptable: &sharing.acceptable,
            headers: &sharing.headers,
            form: &sharing.form,
            answer: &|| saved_time::seconds(routed),
        };
        let count = |result, reason| {
            let lookup = Lookup { tier: "semantic", result, reason };
            routed.call.record.metrics().cache().lookup(lookup, &routed.route.name);
        };
        match answers::lookup_semantic(&self.answers, semantic, &sought).await {
            LookupOutcome::Bypassed(reason) => {
                count("bypass", reason.label());
                SemanticOutcome::Not(Some(reason))
            }
            LookupOutcome::Missed(miss, pending) => {
                count("miss", miss.reason);
                SemanticOutcome::Missed(miss, pending)
            }
            LookupOutcome::Hit(hit) => {
                count("hit", "");
                let mut reply = hit::reply(caching, routed, (Tier::Semantic, hit.entry()), &hit.found);
                if sharing.debugs {
                    let (similarity, probability) = hit.certainty();
                    let certainty = format!("similarity={similarity:.3}; probability={probability:.4}");
                    if let Ok(value) = http::HeaderValue::from_str(&certainty) {
                        reply.headers_mut().insert("x-signalbox-cache-certainty", value);
                    }
                }
                let (id, judged) = (routed.call.record.id(), hit.judged.clone());
                self.answers.local.semantic.record_hit(id, sharing.caller.clone(), judged);
                self.verify(routed, *hit);
                SemanticOutcome::Hit(Box::new(reply))
            }
        }
    }

    /// Requests a fresh answer for a random sample of hits, within the background budget, and compares it with the
    /// stored one.
    fn verify(&self, routed: &Routed, hit: Hit) {
        let Some(background) = &routed.call.serving.snapshot.policy.background else { return };
        let Some(target) = routed.route.targets.first().filter(|target| background.allows(target.pool)) else { return };
        if fastrand::f64() >= VERIFIED {
            return;
        }
        let Some(claim) = self.background.try_acquire() else { return };
        let origin = Origin::of(routed);
        let Some(body) = origin.whole(&routed.call.body) else { return };
        let (answers, background_requests, target) =
            (self.answers.clone(), self.background_requests.clone(), target.clone());
        tokio::spawn(async move {
            if let Some(anew) = background_requests.ask(Purpose::Verify, &origin, &target, body).await {
                answers::verify_hit(&answers, &hit, &anew).await;
            }
            drop(claim);
        });
    }
}
