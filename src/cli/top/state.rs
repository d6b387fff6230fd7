//! What a gateway says of itself, as far as it is shown. A newer or older gateway may say more or less: what is missing is not shown.

use serde::Deserialize;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct State {
    pub version: String,
    pub hash: String,
    pub loaded_s: f64,
    pub uptime_s: f64,
    pub simulated: bool,
    pub draining: bool,
    pub health: Health,
    pub in_flight: u64,
    pub requests: Requests,
    pub cost: Option<Cost>,
    pub cache: Option<Cache>,
    pub prefix: Option<Prefix>,
    pub pools: Vec<Pool>,
    pub routes: Vec<Route>,
    pub decisions: Vec<Decision>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Health {
    pub level: String,
    pub troubles: Vec<Trouble>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Trouble {
    pub level: String,
    pub words: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Requests {
    pub total: u64,
    pub per_second: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Cost {
    pub usd_per_hour: f64,
    pub usd_per_million_output: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Cache {
    pub tiers: Vec<Tier>,
    pub saved_usd: f64,
    pub false_hits: Option<FalseHits>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tier {
    #[serde(rename = "tier")]
    pub name: String,
    pub lookups: u64,
    pub hit_rate: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FalseHits {
    pub labels: f64,
    pub rate: f64,
    pub lower: f64,
    pub upper: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Prefix {
    pub predicted: f64,
    pub reported: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pool {
    pub name: String,
    pub slo: Vec<Slo>,
    pub recent_share: Option<f64>,
    pub queue: Queue,
    pub ttft: Option<Quantiles>,
    pub tpot: Option<Quantiles>,
    pub foreseen: Option<Foreseen>,
    pub cost: Option<Cost>,
    pub diagnosis: Option<Diagnosis>,
    pub saturation: Option<f64>,
    pub hidden_queue_ms: Option<f64>,
    pub backends: Vec<Backend>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Queue {
    pub depth: u64,
    pub oldest_s: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Diagnosis {
    pub state: String,
    pub words: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Foreseen {
    pub predicted_s: f64,
    pub seen_s: f64,
    pub error: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Route {
    pub name: String,
    pub slo: Vec<Slo>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Slo {
    pub objective: String,
    pub target: f64,
    pub good: u64,
    pub total: u64,
    pub burn: Burn,
    pub budget_left: f64,
    pub state: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Burn {
    #[serde(rename = "5m")]
    pub five_minutes: f64,
    #[serde(rename = "1h")]
    pub hour: f64,
    #[serde(rename = "6h")]
    pub six_hours: f64,
    #[serde(rename = "3d")]
    pub three_days: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Backend {
    pub name: String,
    pub state: String,
    pub breaker: String,
    pub credential: Option<Credential>,
    pub in_flight: u64,
    pub queued_tokens: u64,
    pub share: Option<f64>,
    pub signals: Option<Signals>,
    pub gpus: Option<Gpus>,
    pub ttft: Option<Quantiles>,
    pub tpot: Option<Quantiles>,
    pub errors: u64,
    pub tokens_per_s: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Credential {
    pub refused: u64,
    pub of: u64,
    pub status: u16,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Signals {
    pub waiting: Option<f64>,
    pub kv_usage: Option<f64>,
    pub age_s: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Gpus {
    pub utilisation: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Quantiles {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Decision {
    pub id: String,
    pub age_s: f64,
    pub model: Option<String>,
    pub route: Option<String>,
    pub pool: Option<String>,
    pub backend: Option<String>,
    pub reason: Option<String>,
    pub cache: Option<String>,
    pub status: u16,
    pub outcome: String,
    pub attempts: u64,
    pub ttft_ms: Option<f64>,
    pub predicted_ttft_ms: Option<f64>,
    pub tpot_ms: Option<f64>,
    pub e2e_ms: f64,
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    pub cost_usd: Option<f64>,
}

/// A decision with everything that led to it, as the journal has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line {
    pub id: String,
    pub model: Option<String>,
    pub route: Option<String>,
    pub estimated_prompt_tokens: u64,
    pub status: u16,
    pub outcome: String,
    pub ttft_ms: Option<f64>,
    pub tpot_ms: Option<f64>,
    pub e2e_ms: f64,
    pub cost_usd: Option<f64>,
    pub reused: Option<Reused>,
    pub admission: Option<Admission>,
    pub attempts: Vec<Attempt>,
    pub answered: Option<usize>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Reused {
    pub result: String,
    pub reason: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Admission {
    pub pool: String,
    pub result: String,
    pub waited_ms: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Attempt {
    pub pool: String,
    pub backend: String,
    pub reason: String,
    pub outcome: Option<String>,
    pub ttft_ms: Option<f64>,
    pub predicted: Predicted,
    pub candidates: Vec<Candidate>,
    pub full: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Predicted {
    pub ttft_ms: f64,
    pub ttft_p90_ms: f64,
    pub output_tokens: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Candidate {
    pub backend: String,
    pub cost: Option<f64>,
    pub in_flight: u64,
    pub queued_tokens: u64,
    pub uncached_tokens: u64,
    pub cached_tokens: u64,
    pub decoding: u64,
    pub utilisation: f64,
    pub ttft_ms: f64,
    pub ttft_p90_ms: f64,
    pub attainment: f64,
    pub avoided: bool,
}

impl State {
    /// Every backend with its pool's name.
    pub(super) fn backends(&self) -> impl Iterator<Item = (&str, &Backend)> {
        self.pools.iter().flat_map(|pool| pool.backends.iter().map(|backend| (&*pool.name, backend)))
    }

    /// Every objective with what it is of, the worst first.
    pub(super) fn objectives(&self) -> Vec<(String, &Slo)> {
        let pools = self.pools.iter().map(|pool| ("pool", &pool.name, &pool.slo));
        let routes = self.routes.iter().map(|route| ("route", &route.name, &route.slo));
        let named = |(kind, name, slo)| {
            let slo: &Vec<Slo> = slo;
            slo.iter().map(move |slo| (format!("{kind} {name}"), slo))
        };
        let mut all: Vec<_> = pools.chain(routes).flat_map(named).collect();
        let rank = |slo: &Slo| match &*slo.state {
            "exhausted" => 0,
            "burning" => 1,
            _ => 2,
        };
        all.sort_by(|(_, one), (_, other)| rank(one).cmp(&rank(other)).then(other.burn.hour.total_cmp(&one.burn.hour)));
        all
    }

    /// Whether all is well, in a line.
    pub(super) fn verdict(&self) -> String {
        let backends = self.backends().count();
        match self.health.troubles.len() {
            0 if self.requests.total == 0 => format!("Ready: {backends} backends, no traffic yet"),
            0 => format!("All is well: {backends} backends up, every budget holds"),
            more => {
                let not = if self.health.level == "bad" { "Not well: " } else { "" };
                format!("{not}{more} thing{} to look at", if more == 1 { "" } else { "s" })
            }
        }
    }
}

impl Backend {
    /// How it is, in words: whether it answers, and what its breaker lets through.
    pub(super) fn words(&self) -> String {
        let breaker = match &*self.breaker {
            "open" => ", left out",
            "half_open" => ", tried again",
            _ => "",
        };
        let state = if self.state == "down" { "DOWN" } else { &self.state };
        let key = match &self.credential {
            Some(Credential { refused, of, status }) if refused == of => format!(", KEY REFUSED ({status})"),
            Some(Credential { refused, of, status }) => format!(", {refused} of {of} keys refused ({status})"),
            None => String::new(),
        };
        format!("{state}{breaker}{key}")
    }
}

impl Decision {
    /// Where it went: route, pool and backend, each name once in a row.
    pub(super) fn way(&self) -> String {
        let mut stops: Vec<&str> =
            [&self.route, &self.pool, &self.backend].into_iter().filter_map(Option::as_deref).collect();
        stops.dedup();
        if stops.is_empty() { super::words::NONE.to_owned() } else { stops.join(" > ") }
    }

    /// Why there.
    pub(super) fn why(&self) -> String {
        let why = super::words::plain(self.reason.as_deref().or(self.cache.as_deref()).unwrap_or_default());
        if self.attempts > 1 { format!("{why}, {} attempts", self.attempts) } else { why }
    }

    /// What came of it.
    pub(super) fn result(&self) -> String {
        if self.outcome == "ok" {
            "ok".to_owned()
        } else {
            format!("{} {}", self.status, super::words::plain(&self.outcome))
        }
    }
}
