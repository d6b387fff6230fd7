//! The public catalogue of faults: each is run once from outside and judged by the conduct it requires.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    caller::{self, Reply, Request},
    judge::{Grade, Judgement, Outcome},
    peer::{Access, Kind, Peer},
    provider::prompt_tokens,
    script::{BACKUP, DOWN, FAULTS, FILTERED, PRIMARY, TOKENS, script},
    site::{Pool, Site, Topology},
};

/// Longest wait of a caller for the end of a response.
const PATIENCE: Duration = Duration::from_mins(3);

/// Addresses of the two models, and the policy's options.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Setup {
    OneUrl,
    TwoUrls,
    /// One address, and the route holds back the first tokens.
    HoldBack,
}

impl Setup {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OneUrl => "one URL",
            Self::TwoUrls => "two URLs",
            Self::HoldBack => "one URL, hold_back",
        }
    }

    pub(crate) fn all(peer: Kind) -> &'static [Self] {
        match peer {
            Kind::Signalbox => &[Self::OneUrl, Self::TwoUrls, Self::HoldBack],
            Kind::Litellm => &[Self::OneUrl, Self::TwoUrls],
        }
    }
}

/// One fault in one set-up, with its engines running.
pub(crate) struct Scene {
    pub(crate) name: String,
    id: &'static str,
    pub(crate) what: &'static str,
    pub(crate) setup: Setup,
    site: Site,
    pub(crate) topology: Topology,
    healed: Arc<AtomicBool>,
    /// Duration of fault 15.
    outage: Duration,
}

/// A judged scene.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) id: &'static str,
    pub(crate) what: &'static str,
    pub(crate) setup: Setup,
    pub(crate) judgement: Judgement,
    /// Attempts at the primary and at the fallback.
    pub(crate) attempts: (usize, usize),
    pub(crate) took: Duration,
}

/// The scenes of a peer whose names contain `only`.
pub(crate) async fn scenes(peer: Kind, only: &str, quick: bool) -> Vec<Scene> {
    let mut scenes = Vec::new();
    for setup in Setup::all(peer) {
        for fault in &FAULTS {
            let name = format!("fault {} {} ({})", fault.id, fault.what, setup.name());
            if !name.contains(only) {
                continue;
            }
            let healed = Arc::new(AtomicBool::new(false));
            let places = if *setup == Setup::TwoUrls { 2 } else { 1 };
            let site = Site::start(places, script(fault.id, healed.clone())).await;
            if fault.id == "14" {
                // Engines with vLLM's metrics may be expected to continue an answer.
                site.mocks.iter().for_each(|mock| mock.set_vllm(0, 0, 0.1));
            }
            let urls = site.urls();
            let pool = |model, url: &String| Pool { model, urls: vec![url.clone()] };
            let pools = vec![pool(PRIMARY, &urls[0]), pool(BACKUP, &urls[places - 1])];
            let id = format!("fault-{}-{}", fault.id, setup.name().replace([' ', ',', '_'], "-"));
            let topology = Topology { hold_back: *setup == Setup::HoldBack, ..Topology::new(&id, pools) };
            let outage = Duration::from_secs(if quick { 20 } else { 60 });
            scenes.push(Scene { name, id: fault.id, what: fault.what, setup: *setup, site, topology, healed, outage });
        }
    }
    scenes
}

/// Runs a scene and judges it.
pub(crate) async fn play(scene: Scene, peer: &Peer) -> io::Result<Row> {
    let access = peer.open(&scene.topology).await?;
    let client = caller::client().map_err(io::Error::other)?;
    // Time for the proxy to probe its engines.
    tokio::time::sleep(Duration::from_secs(if scene.id == "14" { 5 } else { 1 })).await;
    let stage = Stage { scene: &scene, access: &access, client };
    let began = Instant::now();
    let (judgement, took) = stage.judge().await;
    let log = scene.site.log.all();
    let at = |model: &str| log.iter().filter(|attempt| attempt.model == model).count();
    let took = took.unwrap_or_else(|| began.elapsed());
    let attempts = (at(PRIMARY), at(BACKUP));
    Ok(Row { id: scene.id, what: scene.what, setup: scene.setup, judgement, attempts, took })
}

struct Stage<'a> {
    scene: &'a Scene,
    access: &'a Access,
    client: reqwest::Client,
}

/// One request, its response and the attempts made for it.
struct Exchange {
    reply: Reply,
    outcome: Outcome,
    /// The model that gave the whole answer.
    by: String,
    /// Requirements that hold for every fault: complete, right usage and model name, few attempts.
    judgement: Judgement,
    primary: Vec<Instant>,
    backup: Vec<Instant>,
}

impl Stage<'_> {
    async fn ask(&self, case: &str) -> Exchange {
        self.ask_with(case, true, json!({})).await
    }

    async fn ask_with(&self, case: &str, stream: bool, more: Value) -> Exchange {
        let request = Request {
            url: self.access.url.clone(),
            model: self.access.model.clone(),
            key: None,
            case: case.to_owned(),
            tokens: TOKENS,
            stream,
            most: None,
            more,
            patience: PATIENCE,
        };
        let reply = caller::ask(&self.client, &request).await;
        let outcome = reply.outcome(case, TOKENS);
        let at = |model| self.scene.site.log.of(case, Some(model)).iter().map(|attempt| attempt.at).collect::<Vec<_>>();
        let (primary, backup) = (at(PRIMARY), at(BACKUP));
        let mut judgement = Judgement::of(&outcome);
        let mut by = String::new();
        if let Outcome::Whole(models) = &outcome {
            by = models.first().cloned().unwrap_or_default();
            let other = if by == PRIMARY { BACKUP } else { PRIMARY };
            let usage = reply.usage.map(|usage| usage.1);
            judgement = judgement
                .kept(usage == Some(TOKENS as u64), format!("the usage says {usage:?} tokens"))
                .kept(!reply.models.contains(other), format!("`{by}` answers, and `{other}` is named"));
        }
        judgement = judgement.kept(reply.garbled == 0, "events that are no JSON reach the caller");
        let attempts = primary.len() + backup.len();
        judgement = judgement.kept(attempts <= 6, format!("{attempts} attempts"));
        Exchange { reply, outcome, by, judgement, primary, backup }
    }

    /// Sends the scene's requests and judges them; returns the duration of the first.
    async fn judge(&self) -> (Judgement, Option<Duration>) {
        let exchange = match self.scene.id {
            "15" => return (self.outage().await, None),
            "17" => self.ask_with("a", true, json!({ "reasoning_effort": "high" })).await,
            _ => self.ask("a").await,
        };
        let took = Some(exchange.reply.took);
        let (primary, backup) = (exchange.primary.len(), exchange.backup.len());
        let gap = exchange.primary.get(1).map(|second| second.duration_since(exchange.primary[0]));
        let (fine, by) = (exchange.judgement.clone(), exchange.by.as_str());
        let refused = |status: u16, code: &str| {
            let is = exchange.reply.status == Some(status)
                && exchange
                    .reply
                    .error
                    .as_ref()
                    .is_some_and(|error| error.code == code || error.message.contains(code));
            Judgement::pass().must(is, format!("{:?}", exchange.outcome))
        };
        let judgement = match self.scene.id {
            "1" => fine
                .kept(by == PRIMARY || by.is_empty(), "a wait of 2 s is not waited out")
                .kept(primary <= 2 && backup == 0, format!("{primary} + {backup} attempts"))
                .kept(gap.is_none_or(|gap| gap >= Duration::from_millis(1_900)), "asked again before its time"),
            "1b" => fine.kept(primary == 1, format!("asked {primary} times within its 20 s")),
            "2" => {
                let first = exchange.primary.first().copied();
                let soon = |at: &&Instant| first.is_some_and(|first| at.duration_since(first) < Duration::from_secs(3));
                let soon = exchange.primary.iter().chain(&exchange.backup).filter(soon).count();
                fine.kept(soon <= 4, format!("{soon} attempts in 3 s"))
                    .kept(gap.is_none_or(|gap| gap >= Duration::from_millis(100)), "no pause before asking again")
            }
            "3" => fine
                .kept(by == PRIMARY || by.is_empty(), "the fallback is asked at once")
                .kept(primary == 2 || by.is_empty(), format!("{primary} attempts")),
            "4b" => {
                let original = exchange.reply.error.as_ref().is_some_and(|error| error.message.contains(DOWN));
                Judgement::pass()
                    .must(matches!(exchange.outcome, Outcome::Refused(_)), format!("{:?}", exchange.outcome))
                    .kept(exchange.reply.status == Some(503), format!("status {:?}", exchange.reply.status))
                    .kept(original, "the original error does not reach the caller")
                    .kept(primary + backup <= 6, format!("{primary} + {backup} attempts"))
            }
            "5" => fine.kept(primary + backup <= 3, format!("{primary} + {backup} attempts")),
            "6" | "7" => {
                let let_go = self.scene.site.let_go(PRIMARY, Duration::from_secs(3)).await;
                let limit = if self.scene.id == "6" { 30 } else { 15 };
                let first = exchange.reply.first.unwrap_or(exchange.reply.took);
                fine.kept(first < Duration::from_secs(limit), format!("first token after {:.0} s", first.as_secs_f64()))
                    .kept(primary == 1, format!("the late one is asked {primary} times"))
                    .kept(let_go, "the late one is never let go")
            }
            "9" | "9b" => fine.and(self.after_a_stall(&exchange).await),
            "10" => fine.kept(primary == 1 && backup == 0, format!("{primary} + {backup} attempts")),
            "11" => {
                let late = exchange.reply.took.saturating_sub(exchange.reply.last.unwrap_or_default());
                fine.kept(
                    late < Duration::from_secs(5),
                    format!("ends {:.0} s after its last token", late.as_secs_f64()),
                )
                .kept(primary == 1 && backup == 0, format!("{primary} + {backup} attempts"))
            }
            "12" => fine.kept(primary == 1, format!("the refused prompt is sent {primary} times")),
            "12b" => refused(400, "context_length_exceeded")
                .kept(primary == 1 && backup <= 1, format!("{primary} + {backup} attempts")),
            "13" => refused(400, FILTERED)
                .must(backup == 0, "the filter is routed around")
                .kept(primary == 1, format!("{primary} attempts")),
            "14" => {
                let masked = exchange.reply.error.as_ref().is_some_and(|error| error.message.contains("prefill"));
                fine.must(!masked, "the refused prefill hides the cause")
            }
            "16" => fine.and(named(&exchange)).and(named(&self.ask_with("b", false, json!({})).await)),
            "17" => fine.kept(by == PRIMARY || by.is_empty(), "the thinking model is left"),
            _ => fine,
        };
        (judgement, took)
    }

    /// Requires one idle limit in total, and a proxy that still serves afterwards.
    async fn after_a_stall(&self, exchange: &Exchange) -> Judgement {
        let silent = exchange.reply.took.saturating_sub(exchange.reply.last.unwrap_or_default());
        let asked = exchange.primary.len();
        self.scene.healed.store(true, Relaxed);
        let after = self.ask("after").await;
        Judgement::pass()
            .must(silent < Duration::from_secs(65), format!("{:.0} s of silence", silent.as_secs_f64()))
            .kept(asked <= 2, format!("the stalled one is asked {asked} times"))
            .must(matches!(after.outcome, Outcome::Whole(_)), format!("afterwards: {:?}", after.outcome))
            .kept(after.reply.took < Duration::from_secs(15), "slow afterwards")
    }

    /// Fault 15: a request every 4 s while the primary is down, and until its recovery should have been detected.
    async fn outage(&self) -> Judgement {
        let (began, every) = (Instant::now(), Duration::from_secs(4));
        let mut judgement = Judgement::pass();
        let (mut back, mut asked, mut probes, mut slowest) = (None, 0_usize, 0, Duration::ZERO);
        while began.elapsed() < self.scene.outage + Duration::from_secs(42) && back.is_none() {
            let due = every * asked as u32;
            tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
            if began.elapsed() >= self.scene.outage && !self.scene.healed.swap(true, Relaxed) {
                probes = self.scene.site.log.all().iter().filter(|attempt| attempt.model == PRIMARY).count();
            }
            let healed = self.scene.healed.load(Relaxed);
            let exchange = self.ask(&format!("r{asked}")).await;
            asked += 1;
            slowest = slowest.max(exchange.reply.took);
            let served = matches!(exchange.outcome, Outcome::Whole(_));
            let lost = format!("not served beside a healthy fallback: {:?}", exchange.outcome);
            judgement = judgement.and(exchange.judgement).must(served, lost);
            if healed && exchange.by == PRIMARY {
                back = Some(began.elapsed().saturating_sub(self.scene.outage));
            }
        }
        let down = self.scene.outage.as_secs() / 4;
        let back = back.map(|back| back.as_secs());
        let mut judgement = judgement
            .kept(back.is_some_and(|back| back <= 31), format!("back on the primary after {back:?} s"))
            .kept(probes <= down as usize, format!("{probes} attempts at what is down, for {down} requests"))
            .kept(slowest < Duration::from_secs(10), format!("up to {:.0} s a request", slowest.as_secs_f64()));
        let mut seen = std::collections::BTreeSet::new();
        judgement.why.retain(|why| seen.insert(why.clone()));
        judgement
    }
}

/// Requires the fallback's model name and usage on the fallback's answer.
fn named(exchange: &Exchange) -> Judgement {
    let Exchange { reply, by, .. } = exchange;
    if by.is_empty() {
        return Judgement::of(&exchange.outcome);
    }
    let in_body = reply.models.iter().eq([by]);
    let in_head = reply.named.iter().any(|name| name == by || name.ends_with(&format!("/{by}")));
    let wanted = Some((prompt_tokens(by) as u64, TOKENS as u64));
    Judgement::pass()
        .kept(by == BACKUP, format!("{by} answers"))
        .kept(in_body || in_head, format!("called {:?} and not `{by}`", reply.models))
        .kept(reply.usage == wanted, format!("the usage is {:?} and not {wanted:?}", reply.usage))
}

/// Counts the sixteen faults by grade, the best first.
pub(crate) fn count(rows: &[&Row]) -> [usize; 4] {
    [Grade::Pass, Grade::Safe, Grade::Partial, Grade::Fail].map(|grade| {
        let counted = |row: &&&Row| row.id.parse::<u8>().is_ok_and(|id| id <= 16) && row.judgement.grade == grade;
        rows.iter().filter(counted).count()
    })
}
