//! Routing of recorded requests by another policy: conditions and tiers use the facts that the journal recorded. A fact that is missing gets a
//! neutral value and is counted by name.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    rc::Rc,
    sync::Arc,
};

use xxhash_rust::xxh3::xxh3_64;

use super::entry::Entry;
use signalbox_fleet::{
    PlacementQuery, PoolForecast, Scratch,
    route_selection::{self, RouteInput},
};
use signalbox_journal::recorded::{Ranked, RoutingFacts, hash};
use signalbox_policy::{PRIORITY, Policy, Route, Target, Tiers, condition::Facts};
use signalbox_schedule::{
    boundary::Boundary,
    tiers::{Context, Decision, TierView, Tierings},
};
use signalbox_sim::{
    router::{Directed, Router, Scene},
    traffic::Request,
};
use signalbox_types::{Complexity, Name, Tokens};

/// Most keys that a route with tiers keeps state for.
const MOST_KEYS: usize = 10_000;

/// Number of uses of each variable that the journal lacks, by name.
pub type Missing = BTreeMap<String, u64>;

/// Routes the requests of a journal by the rules of a policy.
pub(super) struct PolicyRouter {
    /// By number of the request.
    entries: Vec<Arc<Entry>>,
    missing: Rc<RefCell<Missing>>,
    boundaries: RefCell<HashMap<Name, Arc<Boundary>>>,
    tierings: RefCell<HashMap<Name, Arc<Tierings>>>,
    dice: RefCell<fastrand::Rng>,
    scratch: RefCell<Scratch>,
}

impl PolicyRouter {
    pub(super) fn new(entries: Vec<Arc<Entry>>, missing: Rc<RefCell<Missing>>, seed: u64) -> Self {
        Self {
            entries,
            missing,
            boundaries: RefCell::default(),
            tierings: RefCell::default(),
            dice: RefCell::new(fastrand::Rng::with_seed(seed)),
            scratch: RefCell::default(),
        }
    }
}

impl Router for PolicyRouter {
    fn direct(&mut self, number: u32, request: &Request, scene: &Scene<'_>) -> Option<Directed> {
        let entry = &*self.entries[number as usize];
        let policy = &scene.snapshot.policy;
        let key = entry.key.as_deref().and_then(|id| policy.keys.iter().position(|key| *key.id == *id));
        let name = entry.model.as_deref()?;
        if key.is_some_and(|at| !policy.keys[at].may_use(name)) {
            return None;
        }
        let model = policy.models.get(name)?;
        let replayed = ReplayedRequest { router: self, entry, request, scene, policy, key };
        let route = match entry.named_pool.as_deref().map(|named| policy.pools.iter().position(|it| *it.name == *named))
        {
            Some(Some(pool)) => {
                // The client named the pool in a header, which it still may.
                let targets = vec![Target::whole(pool)];
                Arc::new(Route { targets, cascade: None, tiers: Arc::default(), ..Route::clone(model.first()?) })
            }
            Some(None) => return None,
            None => route_selection::select(model, &replayed, &scene.snapshot.pools).ok()?.route,
        };
        Some(Directed {
            route,
            priority: key.map_or(PRIORITY, |at| policy.keys[at].priority),
            max_tokens: entry.routing_facts.as_ref().and_then(|it| it.max_tokens),
        })
    }
}

struct ReplayedRequest<'a> {
    router: &'a PolicyRouter,
    entry: &'a Entry,
    request: &'a Request,
    scene: &'a Scene<'a>,
    policy: &'a Policy,
    key: Option<usize>,
}

impl ReplayedRequest<'_> {
    fn count_missing(&self, what: &str) {
        *self.router.missing.borrow_mut().entry(what.to_owned()).or_default() += 1;
    }

    /// A recorded fact; counts it as missing if there is none.
    fn fact<T>(&self, name: &str, of: impl Fn(&RoutingFacts) -> Option<T>) -> Option<T> {
        let known = self.entry.routing_facts.as_ref().and_then(of);
        if known.is_none() {
            self.count_missing(name);
        }
        known
    }

    fn ranked(&self) -> Complexity {
        // Neutral values; the count of missing facts shows how often they were used.
        let middle = Ranked { score: 0.5, quality: 0.5, gap: 0.0, confidence: 0.0 };
        let Ranked { score, quality, gap, confidence } =
            self.fact("prompt.complexity", |it| it.complexity).unwrap_or(middle);
        Complexity { score, quality, gap, confidence, ..Complexity::default() }
    }
}

impl Facts for ReplayedRequest<'_> {
    fn tokens(&self) -> u64 {
        self.entry.prompt_tokens.into()
    }

    fn more_tokens_than(&self, n: u64) -> bool {
        let Tokens { least, expected, most } = self.entry.estimated;
        // An estimate from the length alone spans half to twice the count. The gateway would then count exactly, and would again.
        let rough = least == expected / 2 && most == expected.saturating_mul(2);
        let known = if rough { self.entry.prompt_tokens.into() } else { expected };
        self.entry.estimated.exceed(n).unwrap_or(known > n)
    }

    fn complexity(&self) -> f64 {
        self.ranked().score
    }

    fn language(&self) -> &str {
        let language = self.entry.routing_facts.as_ref().and_then(|it| it.language.as_deref());
        language.unwrap_or_else(|| {
            self.count_missing("prompt.language");
            ""
        })
    }

    fn model(&self) -> &str {
        self.entry.model.as_deref().unwrap_or_default()
    }

    fn class(&self) -> &str {
        match self.entry.routing_facts.as_ref().map(|it| &*it.class) {
            Some("batch") => "batch",
            Some(_) => "interactive",
            None => {
                self.count_missing("request.class");
                "interactive"
            }
        }
    }

    fn stream(&self) -> bool {
        self.entry.stream
    }

    fn tools(&self) -> u64 {
        self.fact("request.tools", |it| Some(it.tools)).unwrap_or(0)
    }

    fn images(&self) -> u64 {
        self.fact("request.images", |it| Some(it.images)).unwrap_or(0)
    }

    fn audio(&self) -> u64 {
        self.fact("request.audio", |it| it.audio).unwrap_or(0)
    }

    fn video(&self) -> u64 {
        self.fact("request.video", |it| it.video).unwrap_or(0)
    }

    fn files(&self) -> u64 {
        self.fact("request.files", |it| it.files).unwrap_or(0)
    }

    fn schema(&self) -> bool {
        self.fact("request.schema", |it| Some(it.schema)).unwrap_or(false)
    }

    fn max_tokens(&self) -> u64 {
        // Not counted as missing: pools with a limit read it too, and absent means no limit.
        let routing_facts = self.entry.routing_facts.as_ref();
        routing_facts.and_then(|it| it.max_tokens).unwrap_or(0)
    }

    fn turns(&self) -> u64 {
        self.fact("request.turns", |it| Some(it.turns)).unwrap_or(0)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.count_missing(&format!("headers[\"{name}\"]"));
        None
    }

    fn key_id(&self) -> &str {
        self.entry.key.as_deref().unwrap_or_default()
    }

    fn key_team(&self) -> &str {
        self.key.and_then(|at| self.policy.keys[at].team.as_deref()).unwrap_or_default()
    }

    fn key_tags(&self) -> &[Name] {
        self.key.map_or(&[], |at| &self.policy.keys[at].tags)
    }

    fn ttft_p95(&self, pool: usize) -> f64 {
        self.scene.meters[pool].ttft_p95(self.scene.now)
    }

    fn queue(&self, pool: usize) -> u64 {
        self.scene.waiting[pool] as u64
    }

    fn attainment(&self, pool: usize) -> f64 {
        self.scene.meters[pool].attainment(self.scene.now)
    }

    fn burn(&self, _: usize) -> f64 {
        self.count_missing("pool.<name>.burn");
        0.0
    }

    fn slo(&self, _: usize) -> &'static str {
        self.count_missing("pool.<name>.slo");
        "ok"
    }

    fn route_burn(&self, _: &str) -> f64 {
        self.count_missing("route.<name>.burn");
        0.0
    }

    fn route_slo(&self, _: &str) -> &'static str {
        self.count_missing("route.<name>.slo");
        "ok"
    }

    fn unix_time(&self) -> i64 {
        i64::try_from(self.entry.unix_ms / 1000).unwrap_or(i64::MAX)
    }
}

impl RouteInput for ReplayedRequest<'_> {
    fn supports_endpoint(&self, pool: usize) -> bool {
        self.policy.pools[pool].speaks.contains(&self.entry.endpoint)
    }

    fn has_prompt(&self) -> bool {
        use signalbox_types::Endpoint;
        matches!(self.entry.endpoint, Endpoint::Chat | Endpoint::Messages | Endpoint::Responses | Endpoint::Completions)
    }

    fn surely_more_tokens_than(&self, n: u64) -> bool {
        self.entry.estimated.least > n
    }

    fn pool_forecast(&self, route: &Name, target: &Target) -> Option<PoolForecast> {
        let pool = &self.scene.snapshot.pools[target.pool];
        let outputs = pool.learned.outputs.of(target, route);
        let ask = PlacementQuery {
            target,
            tried: &[],
            prompt: self.scene.prompt,
            session: self.request.session,
            room_only: false,
            outputs: &outputs,
            max_tokens: self.entry.routing_facts.as_ref().and_then(|it| it.max_tokens),
            whole: !self.entry.stream,
            bounded: false,
            ttft_limit: None,
            tpot_limit: None,
        };
        let (_, forecast) = pool.peek(&ask, self.scene.now, &mut self.router.scratch.borrow_mut())?;
        Some(forecast).filter(|forecast| !forecast.avoided)
    }

    fn boundary(&self, rule: &Name) -> Arc<Boundary> {
        self.router.boundaries.borrow_mut().entry(rule.clone()).or_default().clone()
    }

    fn allows_learning(&self) -> bool {
        true
    }

    fn tier(&self, rule: &Name, tiers: &Tiers, views: &[TierView]) -> Decision {
        let new = || Arc::new(Tierings::new(&tiers.aim, tiers.routes.len(), MOST_KEYS));
        let tierings = self.router.tierings.borrow_mut().entry(rule.clone()).or_insert_with(new).clone();
        let routing_facts = self.entry.routing_facts.as_ref();
        let known = |of: fn(&RoutingFacts) -> Option<&String>| routing_facts.and_then(of).and_then(|text| hash(text));
        let session = known(|it| it.session.as_ref());
        let tool_loop = routing_facts.is_some_and(|it| it.tool_loop);
        let context = Context {
            key: self.entry.key.as_ref().map_or(0, |key| xxh3_64(key.as_bytes())),
            session: session.or_else(|| known(|it| it.said.as_ref())),
            continues: known(|it| it.said_before.as_ref()).filter(|_| session.is_none() && !tool_loop),
            tool_loop,
            chance: self.router.dice.borrow_mut().f64(),
        };
        tierings.decide(&self.ranked(), &context, views, self.scene.now)
    }
}
