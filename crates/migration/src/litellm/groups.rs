//! Deployments by the name that clients request, as engines and pools.

use super::{
    context::Context,
    deployment::{Deployment, Engine},
};
use crate::Kind;
use signalbox_types::Endpoint;

/// The strategy of LiteLLM that reads weights, and its default.
pub(super) const SHUFFLE: &str = "simple-shuffle";

/// An engine of the policy, with the account of its key.
#[derive(Clone, Debug)]
pub(super) struct PlannedEngine {
    pub(super) name: String,
    pub(super) engine: Engine,
    pub(super) rpm: Option<u64>,
    pub(super) tpm: Option<u64>,
    pub(super) concurrency: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct PlannedBackend {
    pub(super) engine: String,
    pub(super) deployment: Deployment,
    /// Percent of the pool's traffic.
    pub(super) share: Option<f64>,
}

#[derive(Clone, Debug)]
pub(super) struct PlannedPool {
    pub(super) name: String,
    pub(super) backends: Vec<PlannedBackend>,
    /// Empty for the default.
    pub(super) speaks: Vec<Endpoint>,
    pub(super) price: Option<(f64, Option<f64>, f64)>,
    pub(super) context: Option<u64>,
}

/// A name that clients request, with its pools in the order in which LiteLLM would use them.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) pools: Vec<String>,
    pub(super) timeout: Option<f64>,
    pub(super) stream_timeout: Option<f64>,
}

#[derive(Debug, Default)]
pub(super) struct Fleet {
    pub(super) engines: Vec<PlannedEngine>,
    pub(super) pools: Vec<PlannedPool>,
    pub(super) groups: Vec<Group>,
}

/// Arranges the deployments.
pub(super) fn arrange(cx: &mut Context, deployments: &[Deployment], strategy: &str) -> Fleet {
    let mut fleet = Fleet { engines: engines(cx, deployments), ..Fleet::default() };
    let mut names: Vec<String> = Vec::new();
    for deployment in deployments {
        if !names.contains(&deployment.group) {
            names.push(deployment.group.clone());
        }
    }
    for name in names {
        let own: Vec<_> = deployments.iter().filter(|deployment| deployment.group == name).cloned().collect();
        let longest = |of: fn(&Deployment) -> Option<f64>| own.iter().filter_map(of).reduce(f64::max);
        let (timeout, stream_timeout) = (longest(|it| it.with.timeout), longest(|it| it.with.stream_timeout));
        let mut pools = Vec::new();
        let own = unweighted(cx, own, strategy);
        for tier in tiers(cx, own) {
            let pool = pool(cx, &name, tier, &fleet);
            pools.push(pool.name.clone());
            fleet.pools.push(pool);
        }
        fleet.groups.push(Group { name, pools, timeout, stream_timeout });
    }
    fleet
}

/// One engine for each address and key. The limits of deployments at one account are added up.
fn engines(cx: &mut Context, deployments: &[Deployment]) -> Vec<PlannedEngine> {
    let mut engines: Vec<PlannedEngine> = Vec::new();
    for deployment in deployments {
        let engine = &deployment.engine;
        if let Some(known) = engines.iter().find(|known| is_same(&known.engine, engine)) {
            if known.engine.azure != engine.azure {
                let text = "one resource is called with one `api_version`: the first one is used";
                cx.differs(deployment.line, format!("model_list `{}` api_version", deployment.group), text);
            }
            continue;
        }
        let name = free(&engine.label, |name| engines.iter().any(|other| other.name == name));
        let own: Vec<_> = deployments.iter().filter(|other| is_same(&other.engine, engine)).collect();
        let sum = |of: fn(&Deployment) -> Option<u64>| own.iter().map(|it| of(it)).sum::<Option<u64>>();
        let (rpm, tpm) = (sum(|it| it.with.rpm), sum(|it| it.with.tpm));
        let some = own.iter().any(|it| it.with.rpm.is_some() || it.with.tpm.is_some());
        let place = format!("model_list `{}` rpm, tpm", deployment.group);
        if some && engine.key.is_none() {
            cx.gap(
                deployment.line,
                place,
                "limits belong to accounts, and this engine has no key: use `max_concurrency` of the engine",
            );
        } else if some && own.len() > 1 {
            let lost = |of: fn(&Deployment) -> Option<u64>| {
                own.iter().any(|it| of(it).is_some()) && !own.iter().all(|it| of(it).is_some())
            };
            let lost = [("rpm", lost(|it| it.with.rpm)), ("tpm", lost(|it| it.with.tpm))];
            let lost: Vec<_> = lost.into_iter().filter_map(|(name, lost)| lost.then_some(name)).collect();
            let text = "limits belong to the account, not to each of its deployments: their sum is its limit";
            cx.differs(deployment.line, &place, text);
            if !lost.is_empty() {
                let text = format!(
                    "not imported because other deployments of the account have no {0}: set the account's own `limits`",
                    lost.join(" and no ")
                );
                cx.gap(deployment.line, place, text);
            }
        }
        let concurrency = sum(|it| it.with.concurrency);
        let keyed = |limit: Option<u64>| limit.filter(|_| engine.key.is_some());
        engines.push(PlannedEngine { name, engine: engine.clone(), rpm: keyed(rpm), tpm: keyed(tpm), concurrency });
    }
    engines
}

fn is_same(a: &Engine, b: &Engine) -> bool {
    a.url == b.url && a.key == b.key && a.azure.is_some() == b.azure.is_some()
}

/// The deployments without the weights that LiteLLM does not read under its `strategy`.
fn unweighted(cx: &mut Context, mut own: Vec<Deployment>, strategy: &str) -> Vec<Deployment> {
    if strategy == SHUFFLE {
        return own;
    }
    for deployment in own.iter_mut().filter(|deployment| deployment.with.weight.is_some()) {
        let place = format!("model_list `{}` weight", deployment.group);
        let text =
            format!("not imported because LiteLLM reads weights under `{SHUFFLE}` alone, not under `{strategy}`");
        cx.differs(deployment.line, place, text);
        deployment.with.weight = None;
    }
    own
}

/// Deployments by `order`; those that have no weight beside others that do take over only when these are down.
fn tiers(cx: &mut Context, mut own: Vec<Deployment>) -> Vec<Vec<Deployment>> {
    own.sort_by_key(|deployment| deployment.with.order);
    let first = own.first().map(|deployment| deployment.with.order);
    for later in own.iter().filter(|deployment| Some(deployment.with.order) != first) {
        let place = format!("model_list `{}` order", later.group);
        let text =
            "a standby, in a pool of its own: it gets requests when deployments of lower `order` cannot take them";
        cx.note(Kind::BuiltIn, later.line, place, text);
    }
    let mut tiers = Vec::new();
    for tier in own.chunk_by(|a, b| a.with.order == b.with.order) {
        let (weighted, rest): (Vec<_>, Vec<_>) =
            tier.iter().cloned().partition(|deployment| deployment.with.weight.is_some_and(|weight| weight > 0.0));
        for standby in rest.iter().filter(|_| !weighted.is_empty()) {
            let place = format!("model_list `{}` weight", standby.group);
            let text = "a standby: LiteLLM sends nothing to a deployment without `weight` beside others that have one; it gets requests \
                        when these cannot take them";
            cx.differs(standby.line, place, text);
        }
        tiers.extend([weighted, rest].into_iter().filter(|tier| !tier.is_empty()));
    }
    tiers
}

fn pool(cx: &mut Context, group: &str, tier: Vec<Deployment>, fleet: &Fleet) -> PlannedPool {
    let name = match group.trim_end_matches('*').trim_end_matches(['/', '-']) {
        "" => "any",
        name => name,
    };
    let name = free(name, |name| fleet.pools.iter().any(|pool| pool.name == name));
    let (price, context) = (price(cx, group, &tier), tier.iter().filter_map(|it| it.with.context).min());
    let speaks = speaks(&tier);
    let mut backends: Vec<PlannedBackend> = Vec::new();
    for deployment in tier {
        let engine = fleet.engines.iter().find(|engine| is_same(&engine.engine, &deployment.engine));
        let engine = engine.map(|engine| engine.name.clone()).unwrap_or_default();
        let same = |it: &&mut PlannedBackend| {
            (&it.engine, &it.deployment.model, &it.deployment.azure) == (&engine, &deployment.model, &deployment.azure)
        };
        match backends.iter_mut().find(same) {
            Some(known) => {
                let both = [known.deployment.with.weight, deployment.with.weight].into_iter().flatten();
                known.deployment.with.weight = both.reduce(|a, b| a + b);
            }
            None => backends.push(PlannedBackend { engine, deployment, share: None }),
        }
    }
    share(&mut backends);
    PlannedPool { name, backends, speaks, price, context }
}

/// Weights as percentages. The last backend takes what is left.
fn share(backends: &mut [PlannedBackend]) {
    let weight = |backend: &PlannedBackend| backend.deployment.with.weight.unwrap_or(0.0);
    let sum: f64 = backends.iter().map(weight).sum();
    let Some((_, first)) = backends.split_last_mut() else { return };
    let mut left = 100.0;
    for backend in first.iter_mut().filter(|_| sum > 0.0 && sum.is_finite()) {
        let percent = (weight(backend) / sum * 1e4).round() / 1e2;
        let percent = percent.min(left);
        left = ((left - percent) * 1e2).round() / 1e2;
        backend.share = Some(percent);
    }
}

/// Input, cached input and output.
type Prices = (f64, Option<f64>, f64);

fn price(cx: &mut Context, group: &str, tier: &[Deployment]) -> Option<Prices> {
    let given: Vec<_> = tier.iter().filter_map(|it| Some((it.line, it.with.price?))).collect();
    let &(line, first) = given.first()?;
    if given.len() < tier.len() || given.iter().any(|(_, price)| *price != first) {
        let text = "a pool has one price for all its backends: the highest one is used";
        cx.differs(line, format!("model_list `{group}` prices"), text);
    }
    let highest = |of: fn(&Prices) -> Option<f64>| given.iter().filter_map(|(_, it)| of(it)).reduce(f64::max);
    Some((highest(|it| Some(it.0))?, highest(|it| it.1), highest(|it| Some(it.2))?))
}

/// The endpoints of all deployments together.
fn speaks(tier: &[Deployment]) -> Vec<Endpoint> {
    if tier.iter().all(|deployment| deployment.speaks.is_empty()) {
        return Vec::new();
    }
    let mut all = Vec::new();
    for deployment in tier {
        let own: &[Endpoint] = if deployment.speaks.is_empty() { &Endpoint::DEFAULT } else { &deployment.speaks };
        all.extend(own.iter().filter(|endpoint| !all.contains(*endpoint)).copied().collect::<Vec<_>>());
    }
    all
}

/// `wanted`, or `wanted-2` and so on if it is taken.
fn free(wanted: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut name = wanted.to_owned();
    let mut number = 2;
    while taken(&name) {
        name = format!("{wanted}-{number}");
        number += 1;
    }
    name
}
