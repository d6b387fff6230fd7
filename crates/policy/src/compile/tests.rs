use std::{io, path::Path, time::Duration};

use super::{super::defaults::ADMIN, *};
use crate::{Allowed, CacheUse, Caching, Cascade, Dialect, Exact, Replay, Route, Scope, Tokenizer};
use signalbox_quota::Amount;
use signalbox_types::{Check, Encoding, Endpoint, Name, Overload, Payer};

fn config(text: &str) -> Config {
    let var = |name: &str| (name == "K").then(|| "s3cret".to_owned());
    Config::parse("test.yaml", text, &var, &|_| Err(io::Error::from(io::ErrorKind::NotFound))).unwrap()
}

fn policy(text: &str) -> Policy {
    compile(&config(text)).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn refused(text: &str) -> Vec<(String, String)> {
    let problems = compile(&config(text)).unwrap_err();
    let text =
        |problem: &Problem| (problem.message.to_string(), problem.help.as_deref().unwrap_or_default().to_owned());
    problems.iter().map(|(_, _, problem)| text(problem)).collect()
}

fn names(policy: &Policy) -> Vec<&str> {
    policy.models.names().map(|name| &**name).collect()
}

/// The first route of `model`.
fn route<'a>(policy: &'a Policy, model: &str) -> &'a Route {
    policy.models.get(model).and_then(|model| model.first()).unwrap()
}

fn pools_of(policy: &Policy, model: &str) -> Vec<usize> {
    route(policy, model).targets.iter().map(|target| target.pool).collect()
}

const TWO: &str = "pools:\n  small: { model: qwen, backends: [http://a:8000/v1, http://b:8000/v1] }\n  large: { model: llama, backends: [{ url: http://a:8000/v1, key: \"${K}\" }] }\n";

#[test]
fn short_forms_share_engines() {
    let text = TWO.replace(", key: \"${K}\"", "");
    let policy = policy(&text);
    let engines: Vec<_> = policy.engines.iter().map(|engine| (&*engine.name, &*engine.url)).collect();
    assert_eq!(engines, [("a:8000", "http://a:8000/v1"), ("b:8000", "http://b:8000/v1")]);
    assert_eq!(policy.engines[0].scrape, Some(Duration::from_secs(1)));
    let backends: Vec<_> =
        policy.pools.iter().flat_map(|pool| &pool.backends).map(|it| (&*it.name, it.engine)).collect();
    assert_eq!(backends, [("a:8000/qwen", 0), ("b:8000", 1), ("a:8000/llama", 0)]);
    assert_eq!(names(&policy), ["auto", "qwen", "llama"]);
    assert_eq!(pools_of(&policy, "auto"), [0, 1]);
    assert_eq!(route(&policy, "llama").targets[0].model.as_deref(), Some("llama"));
    assert_eq!(policy.pools[0].speaks, Endpoint::DEFAULT);
    assert_eq!((policy.listen, policy.admin), (LISTEN, Some(ADMIN)));
}

#[test]
fn hours_are_an_engine_s_own_or_its_pool_s() {
    let policy = policy(
        "engines: { e: { url: http://e/v1, gpu_hour: 2.5, dcgm: \"http://e:9400\" } }\n\
         pools:\n  a: { price: { gpu_hour: 3 }, backends: [{ engine: e }, http://f/v1] }\n\
         \x20 b: { price: { input: 1, output: 2, gpu_hour: 3.0 }, backends: [{ url: http://f/v1, model: m }, { url: http://g/v1, gpu_hour: 0 }] }\n\
         \x20 c: { backends: [http://h/v1] }\n",
    );
    let hours: Vec<_> = policy.engines.iter().map(|engine| engine.gpu_hour).collect();
    assert_eq!(hours, [Some(2.5), Some(3.0), Some(0.0), None]);
    assert_eq!(policy.engines[0].dcgm.as_deref(), Some("http://e:9400/metrics"));
    let tokens: Vec<_> = policy.pools.iter().map(|pool| pool.price.is_some()).collect();
    assert_eq!(tokens, [false, true, false], "an hour is no price of tokens");
}

#[test]
fn one_address_with_two_keys_is_refused() {
    let [(message, _)] = &refused(TWO)[..] else { panic!() };
    assert_eq!(message, "this address is named elsewhere without a key, or with an account that has this key");
}

fn identities(policy: &Policy) -> Vec<(&str, Payer)> {
    policy.engines.iter().map(|engine| (&*engine.name, engine.payer.clone())).collect()
}

#[test]
fn accounts_at_one_address_are_engines_of_their_own() {
    let text = "accounts: { a: { keys: [sk-x] }, b: { keys: [sk-y] } }\n\
        engines:\n  one: { url: https://h/v1, account: a }\n  two: { url: https://h/v1, account: b }\n  bare: { url: http://i/v1 }\n\
        pools: { p: { model: m, backends: [{ engine: one }, { engine: two }, { engine: bare }] } }\n";
    let two = policy(text);
    let account = |name: &str| Payer::Account(name.into());
    assert_eq!(identities(&two), [("one", account("a")), ("two", account("b")), ("bare", Payer::Own)]);
    let same = refused(&text.replace("account: b", "account: a"));
    assert_eq!(same[0].0, "the address of engine `one` once more");
    assert!(same[0].1.contains("another account than `a`"), "{same:?}");
    let bare = refused(&text.replace(", account: b", "").replace(", account: a", ""));
    assert!(bare[0].1.contains("give each of the two engines its `account`"), "{bare:?}");
}

#[test]
fn keys_at_one_address_are_engines_of_their_own() {
    let text = "pools:\n  p: { backends: [{ url: https://h/v1, key: sk-x }, { url: https://h/v1, key: \"${K}\" }] }\n  \
        q: { backends: [{ url: https://h/v1, key: sk-z, model: m }, { url: https://h/v1, key: sk-x, model: m }] }\n";
    let policy = policy(text);
    let key = |name: &str| Payer::Key(name.into());
    assert_eq!(identities(&policy), [("h", Payer::Own), ("h@K", key("h@K")), ("h-2", key("h-2"))]);
    let engines: Vec<_> = policy.pools.iter().flat_map(|pool| &pool.backends).map(|backend| backend.engine).collect();
    assert_eq!(engines, [0, 1, 2, 0]);
    let unclear = refused(&format!("{text}  r: {{ backends: [https://h/v1] }}\n"));
    assert_eq!(unclear[0].0, "this address is called with several keys, and none is given here");
    let known = "accounts: { a: { keys: [sk-x, sk-y] } }\nengines: { e: { url: https://h/v1, account: a } }\n\
        pools: { p: { backends: [{ engine: e }, { url: https://h/v1, key: sk-x, model: m }] } }\n";
    assert!(refused(known)[0].0.contains("an account that has this key"));
}

#[test]
fn a_team_s_account_pays_in_place_of_the_usual_one() {
    let text = "accounts: { a: { keys: [sk-x] }, b: { keys: [sk-y] }, c: { keys: [sk-z] } }\n\
        teams: { s: { accounts: { a: b } }, t: { accounts: { a: c } } }\n\
        engines:\n  hosted: { url: https://h/v1, account: a }\n  own: { url: http://i/v1 }\n\
        pools: { p: { model: m, backends: [{ engine: hosted }, { engine: own }] }, q: { backends: [{ engine: hosted, model: n }] } }\n";
    let teams = policy(text);
    let names: Vec<_> = teams.engines.iter().map(|engine| &*engine.name).collect();
    assert_eq!(names, ["hosted", "own", "hosted@b", "hosted@c"]);
    assert_eq!(teams.paying_teams, ["s", "t"].map(Name::from));
    let admitted = |team: Option<&str>| -> Vec<String> {
        let team = team.map(Name::from);
        let backends = teams.pools.iter().flat_map(|pool| &pool.backends);
        backends.filter(|it| it.audience.admits(team.as_ref())).map(|it| it.name.to_string()).collect()
    };
    assert_eq!(admitted(None), ["hosted/m", "own", "hosted/n"]);
    assert_eq!(admitted(Some("s")), ["own", "hosted@b/m", "hosted@b/n"]);
    assert_eq!(admitted(Some("t")), ["own", "hosted@c/m", "hosted@c/n"]);
    for (change, message) in [
        (("{ a: b }", "{ a: a }"), "would replace the account `a` by itself"),
        (("{ a: b }", "{ x: b }"), "there is no account `x`"),
        (("{ a: b }", "{ a: x }"), "there is no account `x`"),
        (("{ a: b }", "{ c: b }"), "no backend is paid by the account `c`"),
    ] {
        let problems = refused(&text.replacen(change.0, change.1, 1));
        assert!(problems[0].0.contains(message), "{problems:?}");
    }
}

#[test]
fn names_are_distinguished() {
    let policy = policy("pools: { p: { backends: [http://a:1/v1, http://a:1/v2] }, q: { backends: [http://a:1/v1] } }");
    assert_eq!(policy.engines.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["a:1", "a:1-2"]);
    assert_eq!(policy.pools[1].backends[0].name.as_ref(), "a:1-3");
}

#[test]
fn the_long_form_sets_everything() {
    let policy = policy(
        r#"
listen: localhost:80
admin: off
limits: { body: 1Mi, in_flight: 8k, header: 5s, drain: 0s }
timeouts: { connect: 1s, idle: 2s, total: 10m }
journal: { path: j.jsonl, keep: 0 }
keys: [{ id: web, hash: "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262" }]
accounts: { az: { keys: ["${K}"] } }
engines:
  az: { url: "https://x.openai.azure.com/", dialect: azure, api_version: 2024-10-21, account: az }
  g1: { url: http://g1:8000/v1, scrape: false }
pools:
  small:
    balance: p2c
    speaks: [chat, rerank, chat]
    price: { input: 0.1, output: 1 }
    backends:
      - { engine: g1, model: qwen, weight: 5% }
      - { engine: g1, model: lora, adapter: true, as: legal }
      - { url: http://g2/v1, model: qwen }
  large: { backends: [{ engine: az, deployment: d, drop: [top_k], defaults: { max_tokens: 2Ki, user: "${K}", x: [1] } }] }
models:
  auto: { to: small, fallback: [large], timeouts: { first_token: 3s, total: none } }
  gpt-4o: { alias: auto }
  "gpt-*": { alias: gpt-4o }
  law: { alias: legal }
  long: { routes: [{ name: only, to: large }] }
"#,
    );
    assert_eq!(policy.listen.to_string(), "127.0.0.1:80");
    assert_eq!(policy.admin, None);
    assert_eq!((policy.limits.body, policy.limits.in_flight, policy.limits.drain), (1 << 20, 8000, Duration::ZERO));
    let journal = policy.journal.as_ref().unwrap();
    assert_eq!((journal.max_size, journal.keep), (64 << 20, 0));
    assert_eq!(policy.keys[0].hash, *blake3::hash(b"").as_bytes());
    assert_eq!(policy.engines[0].dialect, Dialect::Azure { api_version: "2024-10-21".to_owned() });
    assert_eq!((&*policy.engines[0].keys[0].0, policy.engines[0].scrape), ("s3cret", None));
    let price = policy.pools[0].price.unwrap();
    assert!((price.cached_input - 0.1).abs() < 1e-12);
    assert_eq!(policy.pools[0].speaks, [Endpoint::Chat, Endpoint::Rerank]);
    let backend = &policy.pools[1].backends[0];
    assert_eq!(backend.drop, ["top_k"]);
    let defaults: Vec<_> = backend.defaults.iter().map(|(name, value)| (&**name, &value[..])).collect();
    assert_eq!(defaults, [("max_tokens", &b"2048"[..]), ("user", b"\"s3cret\""), ("x", b"[1]")]);

    assert_eq!(names(&policy), ["auto", "gpt-4o", "law", "long", "qwen", "legal"]);
    assert_eq!(pools_of(&policy, "gpt-3"), [0, 1]);
    let auto = route(&policy, "gpt-4o");
    assert_eq!(&*auto.name, "auto");
    assert_eq!(
        auto.timeouts,
        Timeouts {
            connect: Duration::from_secs(1),
            first_token: Some(Duration::from_secs(3)),
            idle: Duration::from_secs(2),
            content: Duration::from_mins(10),
            total: None,
        }
    );
    let law = &route(&policy, "law").targets[0];
    assert_eq!((law.pool, law.serves.as_deref(), law.model.as_deref()), (0, Some("legal"), None));
    assert!(policy.models.get("lora").is_none());
    assert_eq!(&*route(&policy, "long").name, "only");
    assert!(!format!("{policy:?}").contains("s3cret\")"), "provider keys stay out of dumps");
}

#[test]
fn alias_cycles_are_reported_once() {
    let text = format!(
        "{}models:\n  a: {{ alias: b }}\n  b: {{ alias: c }}\n  c: {{ alias: b }}\n",
        "pools: { p: { backends: [http://h/v1] } }\n"
    );
    let [(message, _)] = &refused(&text)[..] else { panic!() };
    assert_eq!(message, "aliases form a cycle: `b` → `c` → `b`");
}

#[test]
fn confusions_of_pools_and_models_are_explained() {
    let text = "pools: { p: { model: qwen, backends: [http://h/v1] } }\nmodels: { a: { to: qwen }, b: { alias: p } }";
    let helps: Vec<_> = refused(text).into_iter().map(|(_, help)| help).collect();
    assert_eq!(helps, ["`qwen` is a model: write `alias: qwen`", "`p` is a pool: write `to: p`"]);
}

#[test]
fn weights_add_up() {
    let text = |a: &str, b: &str| {
        format!("pools: {{ p: {{ backends: [{{ url: http://a/v1{a} }}, {{ url: http://b/v1{b} }}] }} }}")
    };
    assert!(compile(&config(&text(", weight: 5%", ""))).is_ok());
    assert!(compile(&config(&text(", weight: 5%", ", weight: 95%"))).is_ok());
    assert_eq!(
        refused(&text(", weight: 5%", ", weight: 90%"))[0].0,
        "weights add up to 95 %, and no backend takes the rest"
    );
    assert_eq!(refused(&text(", weight: 60%", ", weight: 60%"))[0].0, "weights add up to 120 %");
    assert_eq!(refused(&text(", weight: 5", ", weight: 90%")).len(), 1);
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = "listen: x\nlimits: { body: 0 }\ntimeouts: { first_token: 0s }\npools: { p: { backends: [] } }\nmodels: { a: { to: q } }\n";
    assert_eq!(refused(text).len(), 5);
}

#[test]
fn the_place_of_metrics_is_the_engine_s_or_the_address_s() {
    let policy = policy(
        r#"
engines: { g1: { url: "https://g1/v1", metrics: { path: /prometheus/metrics } } }
pools: { p: { backends: [{ engine: g1 }, { url: "http://g2:8000/v1", metrics: { port: 8081 } }, "http://g3/v1"] } }
"#,
    );
    let places: Vec<_> = policy.engines.iter().map(|it| (it.metrics.path.as_deref(), it.metrics.port)).collect();
    assert_eq!(places, [(Some("/prometheus/metrics"), None), (None, Some(8081)), (None, None)]);
    assert_eq!(policy.engines[0].scrape, Some(Duration::from_secs(1)), "they are there to be read, over https too");
}

#[test]
fn admission_settings_are_compiled() {
    let policy = policy(
        r#"
limits: { queue: { length: 2k, wait: 0s } }
engines: { g1: { url: "http://g1:8000/v1", max_concurrency: 128, kv_tokens: 400k, scrape: 250ms } }
pools: { small: { model: qwen, objectives: [{ ttft: { p95: 1500ms } }, { tpot: { p95: 50ms } }], overload: tail, backends: [{ engine: g1 }] } }
models:
  fast: { to: small, bound: { ttft: 800ms } }
  slow: { routes: [{ to: small, bound: { ttft: 9s }, queue: 10m }] }
"#,
    );
    assert_eq!((policy.limits.queue_length, policy.limits.queue_wait), (2_000, Duration::ZERO));
    let engine = &policy.engines[0];
    assert_eq!((engine.max_concurrency, engine.kv_tokens), (Some(128), Some(400_000)));
    assert_eq!(engine.scrape, Some(Duration::from_millis(250)));
    let objectives = &policy.pools[0].objectives;
    assert_eq!(objectives.ttft(), Some(Duration::from_millis(1_500)));
    assert_eq!(objectives.tpot(), Some(Duration::from_millis(50)));
    assert_eq!((policy.pools[0].overload, Overload::default()), (Overload::Tail, Overload::Attainment));
    let asked = |model: &str| (route(&policy, model).bound, route(&policy, model).queue);
    assert_eq!(asked("fast"), (Some(Duration::from_millis(800)), None));
    assert_eq!(asked("slow"), (Some(Duration::from_secs(9)), Some(Duration::from_mins(10))));
    assert_eq!(asked("qwen"), (None, None));
}

proptest::proptest! {
    /// For any value at any place, the compiler returns problems or a policy and does not panic.
    #[test]
    fn odd_values_never_panic(value in "[ -~é]{0,12}", place in 0..8_usize) {
        let quoted = serde_json::Value::String(value).to_string();
        let lines = [
            format!("listen: {quoted}"),
            format!("limits: {{ body: {quoted} }}"),
            format!("timeouts: {{ idle: {quoted} }}"),
            format!("keys: [{{ id: a, hash: {quoted} }}]"),
            format!("accounts: {{ a: {{ keys: [{quoted}] }} }}"),
            format!("engines: {{ {quoted}: {{ url: {quoted} }} }}"),
            format!("models: {{ {quoted}: {{ alias: {quoted} }} }}"),
            format!("models: {{ a: {{ to: {quoted} }} }}"),
        ];
        let text = format!("{}\npools: {{ p: {{ model: {quoted}, backends: [{quoted}, {{ url: http://h/v1, weight: {quoted} }}] }} }}\n", lines[place]);
        let file = |_: &std::path::Path| Err(io::Error::from(io::ErrorKind::NotFound));
        if let Ok(config) = Config::parse("test.yaml", &text, &|_| None, &file) {
            let _ = compile(&config);
        }
    }
}

#[test]
fn very_long_names_get_no_suggestion() {
    let policy = policy("pools: { small: { model: qwen, backends: [http://a:8000/v1] } }");
    assert_eq!(policy.models.nearest("qwenn").map(|name| &**name), Some("qwen"));
    // A comparison of this name with every known one would take gigabytes.
    assert_eq!(policy.models.nearest(&"qwen".repeat(10_000_000)), None);
}

#[test]
fn a_pool_has_the_tokenizer_it_names_or_that_of_its_models() {
    let of = |pool: &str| policy(&format!("pools: {{ p: {{ {pool} }} }}")).pools[0].tokenizer.clone();
    let backends = "backends: [http://a/v1]";
    assert_eq!(of(backends), Tokenizer::Learned);
    assert_eq!(of(&format!("model: gpt-4o-mini, {backends}")), Tokenizer::OpenAi(Encoding::O200k));
    assert_eq!(of(&format!("model: gpt-4, {backends}")), Tokenizer::OpenAi(Encoding::Cl100k));
    assert_eq!(of(&format!("model: gpt-4, tokenizer: learned, {backends}")), Tokenizer::Learned);
    assert_eq!(of(&format!("tokenizer: t.json, {backends}")), Tokenizer::File("t.json".into()));
    assert_eq!(of(&format!("tokenizer: a/b, {backends}")), Tokenizer::Hub("a/b".to_owned()));
    let mixed = "backends: [{ url: http://a/v1, model: gpt-4o }, { url: http://b/v1, model: qwen }]";
    assert_eq!(of(mixed), Tokenizer::Learned, "what one of them counts may be wrong for the other");
    let refused = refused("pools: { p: { tokenizer: o20k, backends: [http://a/v1] } }");
    assert_eq!(refused, [("not a tokenizer".to_owned(), "did you mean `o200k`?".to_owned())]);
}

/// The first pools of a model's routes, and whether each route has a cascade.
fn cascades(policy: &Policy, model: &str) -> Vec<(usize, bool)> {
    let routes = policy.models.get(model).unwrap().routes();
    routes.map(|route| (route.targets[0].pool, route.cascade.is_some())).collect()
}

#[test]
fn cascades_lead_from_smaller_pools_to_a_larger_one() {
    let text = "models:\n  a: { to: small, fallback: [large], cascade: { to: large } }\n  \
                b: { length: { short: small, long: large }, cascade: { to: large, hold: 8, within: 3s, min_logprob: -1.5 } }\n  \
                c: { routes: [{ to: small, cascade: { to: large, checks: [empty] } }] }\n  d: { alias: a }\n  e: { to: small }\n";
    let policy = policy(&(TWO.replace(", key: \"${K}\"", "") + text));
    assert_eq!(cascades(&policy, "a"), [(0, true)]);
    assert_eq!(cascades(&policy, "b"), [(0, true), (1, false)], "the larger pool has no larger one");
    assert_eq!((cascades(&policy, "d"), cascades(&policy, "e")), (vec![(0, true)], vec![(0, false)]));
    let of = |model| route(&policy, model).cascade.clone().unwrap();
    let has = |model, check| of(model).checks.has(check);
    assert_eq!((of("a").to.pool, of("a").hold, of("a").within), (1, 32, None));
    assert!(has("a", Check::Schema) && has("a", Check::Length) && !has("a", Check::Logprobs));
    assert_eq!((of("b").hold, of("b").within, of("b").min_logprob), (8, Some(Duration::from_secs(3)), -1.5));
    assert!(has("b", Check::Logprobs) && has("b", Check::Schema));
    assert!(has("c", Check::Empty) && !has("c", Check::Schema));
}

#[test]
fn of_tiers_only_those_below_the_larger_one_cascade() {
    let config = config("models: { m: { to: a, cascade: { to: b } } }\n");
    let raw = config.document().models.as_ref().unwrap().entries[0].1.cascade.as_ref();
    let given = |to: usize, tiers: bool| {
        let target = |pool| crate::Target::whole(pool);
        let route = |pool| Route::new("r".into(), vec![target(pool)], Timeouts::default());
        let mut routes: Vec<_> = (0..3).map(route).collect();
        let checks = Check::ALL.into_iter().collect();
        let cascade = Cascade { to: target(to), checks, hold: 1, within: None, min_logprob: 0.0 };
        let mut reader = Reader { config: &config, problems: Vec::new(), route_names: HashSet::new() };
        reader.attach_cascade(&mut routes, tiers, raw, Some(cascade.into()));
        (routes.iter().map(|route| route.cascade.is_some()).collect::<Vec<_>>(), reader.problems.len())
    };
    assert_eq!(given(2, true), (vec![true, true, false], 0));
    assert_eq!(given(1, true), (vec![true, false, false], 0), "never from a larger one to a smaller");
    assert_eq!(given(0, true), (vec![false, false, false], 1), "nothing is smaller");
    assert_eq!(given(7, true), (vec![true, true, true], 0), "beyond all tiers");
    assert_eq!(given(1, false), (vec![true, false, true], 0), "short and long are no ranks");
}

#[test]
fn half_of_the_deadline_is_left_to_the_larger_pool() {
    let text = "models:\n  a: { to: small, cascade: { to: large } }\n  \
                b: { to: small, bound: { ttft: 2s }, timeouts: { first_token: 30s, total: 20s }, cascade: { to: large } }\n  \
                c: { to: small, bound: { ttft: 2s }, cascade: { to: large, within: 9s } }\n";
    let policy = policy(&(TWO.replace(", key: \"${K}\"", "") + text));
    let last = |model, streamed| {
        let route = route(&policy, model);
        route.last_escalation(route.cascade.as_ref().unwrap(), streamed).as_secs()
    };
    assert_eq!((last("a", true), last("a", false)), (60, 60));
    assert_eq!((last("b", true), last("b", false)), (1, 10));
    assert_eq!((last("c", true), last("c", false)), (9, 9));
}

const THREE: &str = "pools:\n  small: { backends: [http://a:8000/v1] }\n  large: { backends: [http://b:8000/v1] }\n  long: { backends: [http://c:8000/v1] }\n";

#[test]
fn a_cache_has_defaults_and_routes_may_opt_out() {
    let plain = policy(THREE);
    assert_eq!(plain.caching, None, "nothing is kept unless the policy says so");
    let with = |cache: &str| policy(&format!("{THREE}cache: {cache}\n")).caching.unwrap();
    assert_eq!(with("{ exact: {} }"), Caching { exact: Some(Exact::default()), ..Caching::default() });
    assert_eq!(with("{}"), Caching::default());
    let caching = with(
        "{ memory: 1Mi, coalesce: off, exact: { ttl: 10m, scope: user, temperature: any, largest: 1Ki, replay: paced } }",
    );
    assert_eq!((caching.memory, caching.coalesce, caching.any_temperature), (1 << 20, false, true));
    assert_eq!(caching.scope, Scope::User);
    let exact = Exact { ttl: Duration::from_mins(10), largest: 1024, replay: Replay::Paced };
    assert_eq!(caching.exact, Some(exact));
    assert_eq!(with("{ memory: 1Mi, exact: {} }").exact.unwrap().largest, 1 << 16, "a small cache keeps small answers");
    let policy = policy(&format!(
        "{THREE}models: {{ a: {{ to: small, cache: {{ exact: off }} }}, b: {{ routes: [{{ to: large, cache: {{ semantic: off }} }}] }} }}\n"
    ));
    assert_eq!(route(&policy, "a").cache, CacheUse { exact: false, ..CacheUse::default() });
    assert_eq!(route(&policy, "b").cache, CacheUse { semantic: false, ..CacheUse::default() });
}

#[test]
fn responses_are_stored_unless_the_policy_says_otherwise() {
    let with = |responses: &str| policy(&format!("{THREE}responses: {responses}\n")).responses;
    let default = policy(THREE).responses;
    assert_eq!((default.memory, default.ttl), (64 << 20, Duration::from_hours(1)));
    assert_eq!(with("{}"), default);
    let set = with("{ store: 2Mi, ttl: 10m }");
    assert_eq!((set.memory, set.ttl), (2 << 20, Duration::from_mins(10)));
    assert_eq!((with("{ store: off }").memory, with("{ store: 0 }").memory), (0, 0));
    for (responses, problem) in [
        ("{ store: 1k }", "too little memory"),
        ("{ store: off, ttl: 1h }", "nothing is stored"),
        ("{ store: much }", "not a size"),
        ("{ ttl: 0s }", "a deadline of nothing"),
    ] {
        let found = refused(&format!("{THREE}responses: {responses}\n"));
        assert!(found[0].0.contains(problem), "{responses}: {found:?}");
    }
}

#[test]
fn storage_on_disk_has_a_folder_and_keys_may_opt_out() {
    let with = |more: &str| policy(&format!("{THREE}{more}"));
    let kept = with("cache: { exact: {}, persist: { path: kept } }\n").caching.unwrap().persist.unwrap();
    assert_eq!((&*kept.path, kept.max_size, kept.retention), (Path::new("kept"), 1 << 30, Duration::from_hours(168)));
    let hash = "a".repeat(64);
    let policy = with(&format!(
        "cache: {{ semantic: {{}}, persist: {{ path: /k, max_size: 2Mi, retention: 1h }} }}\n\
         models: {{ a: {{ to: small, cache: {{ persist: off }} }} }}\n\
         keys: [{{ id: x, hash: 'blake3:{hash}', cache: {{ persist: off }} }}]\n"
    ));
    let kept = policy.caching.as_ref().unwrap().persist.clone().unwrap();
    assert_eq!((kept.max_size, kept.retention), (2 << 20, Duration::from_hours(1)));
    assert_eq!(route(&policy, "a").cache, CacheUse { persist: false, ..CacheUse::default() });
    assert!(!policy.keys[0].persists);
    for (cache, message) in [
        ("{ persist: { path: a } }", "no cache is on"),
        ("{ exact: {}, persist: { path: a, max_size: 1Ki } }", "too little"),
    ] {
        let found = refused(&format!("{THREE}cache: {cache}\n"));
        assert!(found.len() == 1 && found[0].0.contains(message), "{found:?}");
    }
}

#[test]
fn sharing_between_gateways_needs_a_strong_key() {
    let shared = |shared: &str| format!("{THREE}cache: {{ exact: {{}}, shared: {{ {shared} }} }}\n");
    let key = "key: 0123456789abcdef";
    let shared_by =
        policy(&shared(&format!("url: 'redis://h:1', {key}, timeout: 5ms"))).caching.unwrap().shared.unwrap();
    assert_eq!((shared_by.server.to_string().as_str(), &*shared_by.key.0), ("redis://h:1", "0123456789abcdef"));
    assert_eq!(shared_by.timeout, Duration::from_millis(5));
    assert_eq!(format!("{shared_by:?}").matches("[secret]").count(), 1);
    for (text, message) in [
        (format!("url: 'http://h', {key}"), "not the address of a Redis"),
        ("url: 'redis://h', key: short".to_owned(), "can be guessed"),
    ] {
        let found = refused(&shared(&text));
        assert!(found.len() == 1 && found[0].0.contains(message), "{found:?}");
    }
}

#[test]
fn shared_placement_needs_a_strong_key() {
    let shared = |shared: &str| format!("{THREE}placement: {{ shared: {{ {shared} }} }}\n");
    let found = policy(&shared("url: 'redis://:pass@h:1', key: 0123456789abcdef")).shared_placement.unwrap();
    assert_eq!((found.server.to_string().as_str(), &*found.key.0), ("redis://h:1", "0123456789abcdef"));
    assert!(!format!("{found:?}").contains("pass"));
    assert_eq!(policy(&format!("{THREE}placement: {{}}\n")).shared_placement, None);
    for (text, message) in [
        ("url: 'http://h', key: 0123456789abcdef", "not the address of a Redis"),
        ("url: 'redis://h', key: short", "can be guessed"),
    ] {
        let found = refused(&shared(text));
        assert!(found.len() == 1 && found[0].0.contains(message), "{found:?}");
    }
}

#[test]
fn shared_limits_need_keys() {
    let keys = format!("keys: [{{ id: a, hash: 'blake3:{}', limits: {{ rpm: 1 }} }}]\n", "0".repeat(64));
    let shared = |url: &str| format!("{THREE}limits: {{ shared: {{ url: '{url}' }} }}\n");
    let found = policy(&format!("{keys}{}", shared("redis://:pass@h:1/2"))).shared_limits.unwrap();
    assert_eq!((found.server.to_string().as_str(), found.timeout), ("redis://h:1/2", Duration::from_millis(50)));
    assert!(!format!("{found:?}").contains("pass"));
    for (text, message) in [
        (format!("{keys}{}", shared("redis+ssl://h")), "not the address of a Redis"),
        (shared("redis://h"), "nothing to count together"),
    ] {
        let found = refused(&text);
        assert!(found.len() == 1 && found[0].0.contains(message), "{found:?}");
    }
}

#[test]
fn redis_certificates_and_sentinel_passwords_belong_to_their_addresses() {
    let shared =
        |shared: &str| format!("{THREE}cache: {{ exact: {{}}, shared: {{ key: 0123456789abcdef, {shared} }} }}\n");
    let sentinels =
        "url: 'rediss+sentinel://:pass@h,h2/main', sentinel: { user: me, password: word }, tls: { roots: ca.pem }";
    let found = policy(&shared(sentinels)).caching.unwrap().shared.unwrap();
    assert_eq!(found.server.to_string(), "rediss+sentinel://h,h2/main");
    assert!(!format!("{found:?}").contains("pass") && !format!("{found:?}").contains("word"));
    for (text, message) in [
        ("url: 'redis://h', tls: { roots: ca.pem }", "an address without TLS"),
        ("url: 'rediss://h', tls: { certificate: me.pem }", "a certificate needs its private key"),
        ("url: 'redis+cluster://h,h2', sentinel: { password: word }", "an address without Sentinels"),
        ("url: 'redis+sentinel://h'", "without the name of their master"),
        ("url: 'redis+cluster://h/2'", "no numbered databases"),
    ] {
        let found = refused(&shared(text));
        assert!(found.len() == 1 && found[0].0.contains(message), "{found:?}");
    }
}

#[test]
fn answers_of_the_same_and_of_better_tiers_are_acceptable() {
    let policy = policy(&format!(
        "{THREE}models:\n  plain: {{ to: small, fallback: [large] }}\n  tiers: {{ complexity: {{ tiers: [small, large], shares: [50%, 50%] }}, fallback: [long] }}\n  \
         length: {{ length: {{ short: small, long: long }} }}\n  cascade: {{ to: small, cascade: {{ to: large }} }}\n"
    ));
    let acceptable = |model: &str| -> Vec<Vec<usize>> {
        let routes = policy.models.get(model).unwrap().routes();
        routes.map(|route| route.acceptable().map(|target| target.pool).collect()).collect()
    };
    assert_eq!(acceptable("plain"), [[0]]);
    assert_eq!(acceptable("tiers"), [vec![0, 1], vec![1]]);
    assert_eq!(acceptable("length"), [[0], [2]]);
    assert_eq!(acceptable("cascade"), [[0, 1]]);
    // A small tier that cannot take the prompt is left out; better tiers than the one used are still acceptable.
    let tiers = policy.models.get("tiers").unwrap().first().unwrap();
    let cut = Route { targets: tiers.targets[1..].to_vec(), ..Route::clone(tiers) };
    assert_eq!(cut.acceptable().map(|target| target.pool).collect::<Vec<_>>(), [1]);
}

#[test]
fn keys_and_teams_are_compiled() {
    let hash = blake3::hash(b"x").to_hex();
    let text = format!(
        "teams: {{ search: {{ budget: {{ usd: 500, per: month }} }}, free: {{}} }}\nusage: {{ path: u }}\nkeys:\n  - {{ id: a, hash: 'blake3:{hash}', \
         team: search, models: [qwen, 'c*'], limits: {{ rpm: 600, tpm: 200k }}, priority: 9, allow: [pool, bound-ttft] }}\n\
         pools: {{ p: {{ model: qwen, backends: [http://h/v1] }} }}\nmodels: {{ claude: {{ to: p }} }}\n"
    );
    let policy = policy(&text);
    let key = &policy.keys[0];
    assert_eq!((key.limits.rpm, key.limits.tpm, key.limits.concurrency), (Some(600), Some(200_000), None));
    assert!(key.may_use("qwen") && key.may_use("claude") && !key.may_use("auto"));
    assert_eq!((key.priority, &key.allow), (9, &vec![Allowed::Pool, Allowed::BoundTtft]));
    assert_eq!((policy.teams.len(), policy.teams[0].budget.amount), (1, Amount::Usd(500.0)), "the other has no budget");
    assert_eq!(policy.usage.unwrap().retention, Duration::from_hours(62 * 24));
    let text = text.replace("teams: {", "teams: { tools: {},").replace("team: search", "team: tool");
    assert_eq!(refused(&text), [("there is no team `tool`".to_owned(), "did you mean `tools`?".to_owned())]);
}

#[test]
fn a_model_s_prefix_is_stripped_by_its_pool_s_backends() {
    let text = "pools: { open: { backends: [http://g1:8000/v1, { url: http://g2:8000/v1 }] } }\nmodels: { \"openai/*\": { to: open, strip: openai/ } }\n";
    let policy = policy(text);
    for backend in &policy.pools[0].backends {
        assert_eq!(backend.model_for(Some("openai/gpt-9")), Some("gpt-9"));
        assert_eq!(backend.model_for(Some("other")), None, "as it is");
    }
}
