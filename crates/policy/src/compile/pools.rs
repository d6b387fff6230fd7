//! Compiles pools and their backends.

use bytes::Bytes;
use serde_json::Value;

use super::{engines::Engines, reader::Reader};
use crate::{Audience, Backend, BackendSource, Dialect, ModelGlob, Objectives, Pool, Tokenizer, prices};
use signalbox_config::{self as config, At, Context, Either, Field, Open, Prices, Problem, Share, Word, raw, size};
use signalbox_types::{Encoding, Endpoint, Name, Overload};

/// Request fields with token counts, whose defaults may be written as `2Ki`.
const COUNTS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

impl Reader<'_> {
    pub(super) fn pools(&mut self, document: &raw::Document, engines: &mut Engines) -> Vec<Pool> {
        let help = "add one: `pools: { main: { backends: [http://127.0.0.1:8000/v1] } }`";
        match &document.pools {
            None => {
                self.report(Problem::at(At::default(), "there are no pools, so there is nothing to serve").help(help));
            }
            Some(named) if named.entries.is_empty() => {
                self.report(Problem::at(named.at, "there are no pools, so there is nothing to serve").help(help));
            }
            Some(_) => {}
        }
        let builtin = self.optional(document.prices.as_ref()) == Some(Prices::Builtin);
        let named = document.pools.iter().flat_map(|named| &named.entries);
        let mut pools: Vec<_> = named.clone().map(|(key, raw)| self.pool(key, raw, engines)).collect();
        self.hours(named.clone().map(|(_, raw)| raw).zip(&pools), engines);
        for ((_, raw), pool) in named.clone().zip(&mut pools) {
            self.source_hours(raw, &mut pool.sources);
        }
        if builtin {
            prices::fill(named.map(|(_, raw)| (raw.price.is_some(), raw.context.is_some())), &mut pools, &engines.list);
        }
        pools
    }

    fn pool(&mut self, key: &Field<String>, raw: &raw::Pool, engines: &mut Engines) -> Pool {
        let name = self.name(key);
        let model = self.word(raw.model.as_ref());
        if raw.backends.value.is_empty() {
            self.report(
                Problem::at(raw.backends.at, format!("pool `{}` has no backends", key.text()))
                    .help("name at least one: `backends: [http://host:8000/v1]`"),
            );
        }
        let mut backends: Vec<Backend> = Vec::with_capacity(raw.backends.value.len());
        for raw in raw.backends.value.iter().filter(|raw| !Self::is_source(raw)) {
            let Some(backend) = self.backend(raw, model.as_ref(), engines) else { continue };
            if backends.iter().any(|other| same(other, &backend)) {
                self.report(Problem::at(raw.at(), "this backend is in the pool already").help("remove one of the two"));
            }
            backends.push(backend);
        }
        self.follow(raw, &mut backends);
        let sources = self.sources(raw, model.as_ref(), engines);
        self.weights(raw, &backends, &sources);
        let kinds: Vec<_> = backends.iter().chain(sources.iter().map(|source| &source.backend)).cloned().collect();
        let objectives = self.objectives(raw.objectives.as_ref());
        let overload = self.overload(raw.overload.as_ref(), &objectives);
        Pool {
            name,
            speaks: self.speaks(raw, &kinds, engines),
            learns_endpoints: raw.speaks.is_none(),
            tokenizer: self.tokenizer(raw, &kinds),
            balance: self.optional(raw.balance.as_ref()).unwrap_or_default(),
            price: raw.price.as_ref().and_then(|raw| self.token_price(raw)),
            objectives,
            overload,
            context: self.optional(raw.context.as_ref()).and_then(|Context(tokens)| tokens),
            model,
            backends,
            drained: Vec::new(),
            sources,
        }
    }

    fn overload(&mut self, raw: Option<&Field<Overload>>, objectives: &Objectives) -> Overload {
        if let Some(field) = raw
            && objectives.ttft().is_none()
        {
            self.report(
                Problem::at(field.at(), "an order for requests that are late, but nothing that they are late for")
                    .help(
                        "set an objective for all prompts: `objectives: [{ ttft: { p95: 1500ms } }]` (p90, p95 or p99)",
                    ),
            );
        }
        self.optional(raw).unwrap_or_default()
    }

    fn tokenizer(&mut self, raw: &raw::Pool, backends: &[Backend]) -> Tokenizer {
        let Some(field) = &raw.tokenizer else { return Tokenizer::of(backends) };
        match self.config.tokenizer(field) {
            Ok(config::Tokenizer::Learned) => Tokenizer::Learned,
            Ok(config::Tokenizer::O200k) => Tokenizer::OpenAi(Encoding::O200k),
            Ok(config::Tokenizer::Cl100k) => Tokenizer::OpenAi(Encoding::Cl100k),
            Ok(config::Tokenizer::File(path)) => Tokenizer::File(path),
            Ok(config::Tokenizer::Hub(name)) => Tokenizer::Hub(name),
            Err(problem) => {
                self.report(problem);
                Tokenizer::Learned
            }
        }
    }

    fn speaks(&mut self, raw: &raw::Pool, backends: &[Backend], engines: &Engines) -> Vec<Endpoint> {
        let Some(raw) = &raw.speaks else { return spoken(backends, engines) };
        if raw.value.is_empty() {
            self.report(
                Problem::at(raw.at, "a pool without endpoints")
                    .help("remove `speaks` for chat, completions, embeddings"),
            );
        }
        let mut speaks = Vec::new();
        for field in &raw.value {
            if let Some(endpoint) = self.read(field)
                && !speaks.contains(&endpoint)
            {
                speaks.push(endpoint);
            }
        }
        speaks
    }

    fn backend(&mut self, raw: &raw::Backend, model: Option<&Name>, engines: &mut Engines) -> Option<Backend> {
        let (long, at) = match raw {
            Either::Short(url) => {
                let long = raw::LongBackend::default();
                let engine = engines.at_url(self, url, &long)?;
                return Some(self.on_engine(&long, url.at(), engine, model, engines));
            }
            Either::Long(long, at) => (long, *at),
        };
        self.only_discovered(long);
        let engine = match (&long.url, &long.engine) {
            (Some(url), None) => {
                let known = engines.list.len();
                let engine = engines.at_url(self, url, long);
                if let Some(at) = engine {
                    self.capacity(long, &mut engines.list[at], at >= known);
                }
                engine
            }
            (None, Some(engine)) => {
                if let Some(key) = &long.key {
                    self.report(
                        Problem::at(key.at(), "`key` goes with `url`; a named engine has its own")
                            .help("give the engine an `account`, and remove `key` here"),
                    );
                }
                let own =
                    [(long.gpu_hour.as_ref().map(Field::at), "gpu_hour"), (long.dcgm.as_ref().map(Field::at), "dcgm")];
                for (at, what) in own.into_iter().filter_map(|(at, what)| Some((at?, what))) {
                    self.report(
                        Problem::at(at, format!("`{what}` goes with `url`; a named engine has its own"))
                            .help(format!("move `{what}` to the engine, under `engines`")),
                    );
                }
                engines.named(self, engine)
            }
            (Some(_), Some(engine)) => {
                self.report(
                    Problem::at(engine.at(), "a backend with both `url` and `engine`").help("keep one of the two"),
                );
                None
            }
            (None, None) => {
                self.report(
                    Problem::at(at, "a backend without an engine")
                        .help("name its address: `url: http://host:8000/v1`, or `engine: name`"),
                );
                None
            }
        };
        // Without an engine the rest is still read, to report its problems.
        let backend = self.on_engine(long, at, engine.unwrap_or(usize::MAX), model, engines);
        engine.map(|_| backend)
    }

    pub(super) fn on_engine(
        &mut self,
        raw: &raw::LongBackend,
        at: At,
        engine: usize,
        model: Option<&Name>,
        engines: &Engines,
    ) -> Backend {
        let azure = engines.list.get(engine).map(|engine| matches!(engine.dialect, Dialect::Azure { .. }));
        match (&raw.deployment, azure) {
            (None, Some(true)) => self.report(
                Problem::at(at, "a backend on an Azure engine without `deployment`")
                    .help("add the deployment's name: `deployment: gpt4o-prod`"),
            ),
            (Some(field), Some(false)) => self.report(
                Problem::at(field.at(), "`deployment` is for Azure engines only")
                    .help("name the model with `model`, or give the engine `dialect: azure`"),
            ),
            _ => {}
        }
        let strip = self.word(raw.strip.as_ref());
        if let (Some(field), Some(own)) = (&raw.strip, &raw.model) {
            self.report(
                Problem::at(field.at(), "`strip` is for backends that are asked for any name")
                    .help(format!("remove `strip`, or `model: {}`", own.text())),
            );
        }
        // A backend with a prefix to strip takes any name, whatever the pool's model.
        let model = self.word(raw.model.as_ref()).or_else(|| model.filter(|_| strip.is_none()).cloned());
        let adapter = self.or(raw.adapter.as_ref(), false);
        if let Some(field) = raw.adapter.as_ref().filter(|_| adapter && model.is_none()) {
            self.report(
                Problem::at(field.at(), "an adapter without a name").help("name it upstream: `model: legal-lora`"),
            );
        }
        Backend {
            // Set once all backends are known.
            name: "".into(),
            engine,
            model,
            strip,
            adapter,
            serves: self.word(raw.serves.as_ref()),
            deployment: self.word(raw.deployment.as_ref()),
            same_as: self.word(raw.same_as.as_ref()),
            weight: self.optional(raw.weight.as_ref()).map(|Share(share)| share),
            drop: raw.drop.iter().flatten().filter_map(|field| self.read(field)).map(|Word(word)| word).collect(),
            defaults: raw.defaults.iter().flat_map(|named| &named.entries).filter_map(|it| self.default(it)).collect(),
            audience: Audience::All,
            follows: self.follows(raw, azure == Some(true)),
        }
    }

    /// The models that a backend follows.
    fn follows(&mut self, raw: &raw::LongBackend, azure: bool) -> Option<ModelGlob> {
        let field = raw.follows.as_ref()?;
        let other = [
            (raw.model.as_ref().map(Field::at), "model"),
            (raw.adapter.as_ref().map(Field::at), "adapter"),
            (raw.same_as.as_ref().map(Field::at), "same_as"),
            (raw.weight.as_ref().map(Field::at), "weight"),
        ];
        for (at, what) in other.into_iter().filter_map(|(at, what)| Some((at?, what))) {
            self.report(Problem::at(at, format!("a backend with both `serves` and `{what}`")).help(format!(
                "keep one of the two: `{what}` is about one model, `serves` about those that the engine lists"
            )));
        }
        if azure {
            self.report(
                Problem::at(field.at(), "Azure lists models, not deployments")
                    .help("name the `deployment` in place of `serves`"),
            );
        }
        self.word(Some(field)).map(ModelGlob)
    }

    /// Lets the backends that name no model follow the models that the pool serves.
    fn follow(&mut self, raw: &raw::Pool, backends: &mut [Backend]) {
        let Some(field) = &raw.serves else { return };
        if let Some(model) = &raw.model {
            self.report(Problem::at(model.at(), "a pool with both `serves` and `model`").help(
                "keep `model` for one model, or `serves` for those that the engines list; a backend may have its own",
            ));
        }
        let Some(glob) = self.word(Some(field)).map(ModelGlob) else { return };
        let open = |backend: &&mut Backend| backend.model.is_none() && backend.follows.is_none();
        for backend in backends.iter_mut().filter(open) {
            if backend.weight.is_some() {
                self.report(
                    Problem::at(field.at(), "a pool with `serves` and a backend with a fixed `weight`")
                        .help("remove the `weight`: the number of models changes"),
                );
            }
            backend.follows = Some(glob.clone());
        }
    }

    /// A request field to add, with its variables substituted.
    fn default(&mut self, (key, raw): &(Field<String>, Open)) -> Option<(String, Bytes)> {
        let mut value = raw.value.clone();
        if let Err(problem) = self.fill(&mut value, raw.at) {
            self.report(problem);
            return None;
        }
        if let Value::String(text) = &value
            && COUNTS.contains(&key.text())
        {
            let Ok(count) = size(text) else {
                self.report(Problem::at(raw.at, "not a count of tokens").help("write it like `2048` or `2Ki`"));
                return None;
            };
            value = count.into();
        }
        Some((key.text().to_owned(), value.to_string().into()))
    }

    fn fill(&self, value: &mut Value, at: At) -> Result<(), Problem> {
        match value {
            Value::String(text) => *text = self.config.fill(text, at)?.into_owned(),
            Value::Array(values) => values.iter_mut().try_for_each(|value| self.fill(value, at))?,
            Value::Object(values) => values.values_mut().try_for_each(|value| self.fill(value, at))?,
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        Ok(())
    }

    /// Checks the weights: shares are of the traffic of one name, the pool's or that of one `as`.
    fn weights(&mut self, raw: &raw::Pool, backends: &[Backend], sources: &[BackendSource]) {
        let mut names: Vec<_> = backends.iter().map(|backend| &backend.serves).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let group = || backends.iter().filter(|backend| backend.serves == *name);
            let sum: f64 = group().filter_map(|backend| backend.weight).sum();
            let percent = (sum * 1e4).round() / 1e2;
            let at = weights(raw).last().unwrap_or(raw.backends.at);
            let problem = if percent > 100.0 {
                Problem::at(at, format!("weights add up to {percent} %"))
                    .help("keep them at 100 % together; a backend without `weight` takes what is left")
            } else if percent < 100.0
                && group().all(|backend| backend.weight.is_some())
                && sources.iter().all(|source| source.backend.serves != *name)
            {
                Problem::at(at, format!("weights add up to {percent} %, and no backend takes the rest"))
                    .help("make them 100 % together, or remove one backend's `weight`: it takes what is left")
            } else {
                continue;
            };
            // Unreadable values would make this sum wrong.
            let guess = self.problems.iter().any(|problem| weights(raw).any(|at| problem.at == Some(at)));
            if !guess && backends.len() + sources.len() == raw.backends.value.len() {
                self.report(problem);
            }
        }
    }
}

/// The positions of the pool's weights.
fn weights(raw: &raw::Pool) -> impl Iterator<Item = At> {
    raw.backends.value.iter().filter_map(|backend| match backend {
        Either::Short(_) => None,
        Either::Long(long, _) => long.weight.as_ref().map(Field::at),
    })
}

fn same(a: &Backend, b: &Backend) -> bool {
    (a.engine, &a.model, &a.serves, &a.deployment) == (b.engine, &b.model, &b.serves, &b.deployment)
        && a.follows == b.follows
}

/// The endpoints of a pool that names none: those that engines of each dialect have in common.
fn spoken(backends: &[Backend], engines: &Engines) -> Vec<Endpoint> {
    let is_anthropic = |backend: &Backend| engines.list.get(backend.engine).map(|it| it.dialect == Dialect::Anthropic);
    let (mut all, mut any) = (!backends.is_empty(), false);
    for is_anthropic in backends.iter().filter_map(is_anthropic) {
        all &= is_anthropic;
        any |= is_anthropic;
    }
    match (all, any) {
        (true, _) => vec![Endpoint::Chat, Endpoint::Messages],
        (false, true) => vec![Endpoint::Chat],
        (false, false) => Endpoint::DEFAULT.to_vec(),
    }
}
