//! `signalbox check --probe`: asks each engine of a policy for its models, with each of its keys, for its endpoints, and for
//! the options that it was started with.

mod options;

use std::{
    io,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use serde_json::{Value, json};

use super::output;
use signalbox_config::nearest;
use signalbox_engines::{ModelEntry, Profile, model_list};
use signalbox_policy::{Backend, Engine, Policy, Secret};
use signalbox_types::{EngineApi, Presence};
use signalbox_upstream::{Client, EngineAccess, SendError, address, outgoing::Outgoing, scrape};

/// Time limit of an answer.
const LIMIT: Duration = Duration::from_secs(5);
/// Most models that are named.
const SHOWN: usize = 8;
/// Largest list of models, in bytes.
const MAX_LIST_BYTES: usize = 4 << 20;

/// The engines' answers.
pub(super) struct Probed(Vec<Row>);

/// The answer of an engine to one of its keys.
struct Row {
    engine: String,
    /// Number of the key, if the engine has several.
    key: Option<usize>,
    address: String,
    latency: Option<Duration>,
    verdict: Verdict,
    /// State of each probed path; empty if the engine is not probed for them.
    apis: Vec<(EngineApi, Presence)>,
    /// Name of the engine's kind, where the answer shows it.
    kind: Option<&'static str>,
    /// Remarks on options of the engine, and on what it could not be asked.
    remarks: Vec<String>,
}

/// The outcome of a probe.
enum Verdict {
    /// Everything is as the policy says. The text adds what is known.
    Good(String),
    /// The engine answers, but its models cannot be checked.
    Unclear(String),
    /// Requests would fail: the problem and its remedy.
    Bad(String, String),
}

/// Probes the engines of `policy`, all at once.
pub(super) fn probe(policy: &Policy) -> io::Result<Probed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = Client::new(policy.timeouts.connect.min(LIMIT)).map_err(io::Error::other)?;
    client.set_engines(policy.engines.iter()).map_err(io::Error::other)?;
    let asked = policy.engines.iter().enumerate().flat_map(|(at, engine)| {
        let keys: Vec<_> = if engine.keys.is_empty() {
            vec![(None, None)]
        } else {
            let several = engine.keys.len() > 1;
            engine.keys.iter().enumerate().map(|(at, key)| (several.then_some(at), Some(key))).collect()
        };
        let client = &client;
        keys.into_iter().map(move |(number, key)| row(client, policy, at, number, key))
    });
    Ok(Probed(runtime.block_on(join_all(asked))))
}

async fn row(client: &Client, policy: &Policy, at: usize, number: Option<usize>, key: Option<&Secret>) -> Row {
    let engine = &policy.engines[at];
    let backends: Vec<_> = policy
        .pools
        .iter()
        .flat_map(|pool| pool.backends.iter().map(move |backend| (backend, pool.context)))
        .filter(|(backend, _)| backend.engine == at)
        .collect();
    let began = Instant::now();
    let answer = tokio::time::timeout(LIMIT, ask(client, engine, key)).await;
    let (mut profile, mut remarks) = (None, Vec::new());
    let (latency, verdict) = match answer {
        Err(_) => {
            let what = format!("no answer within {} s", LIMIT.as_secs());
            let help = "check the address, firewalls, and that the engine is idle enough to answer";
            (None, Verdict::Bad(what, help.to_owned()))
        }
        Ok(Err(error)) => (None, unreachable(&error)),
        Ok(Ok(Listing { status, headers, body })) => {
            let list = model_list(&body);
            profile = recognised(&headers, list.as_deref());
            remarks.extend(list.as_ref().and_then(|list| unchecked(&backends, list)));
            (Some(began.elapsed()), judge(status, list, &backends, key.is_some()))
        }
    };
    // One key is enough to learn what the engine serves.
    let is_asked = latency.is_some() && number.is_none_or(|number| number == 0);
    let access = EngineAccess::of(engine, key);
    let apis = if is_asked && engine.is_probed() { apis(client, engine, &access).await } else { Vec::new() };
    if is_asked {
        remarks.extend(options::remarks(client, engine, &access, profile).await);
    }
    Row {
        engine: engine.name.to_string(),
        key: number.map(|number| number + 1),
        address: engine.url.clone(),
        latency,
        verdict,
        apis,
        kind: profile.map(|profile| profile.name),
        remarks,
    }
}

/// The engine or provider that an answer shows.
fn recognised(headers: &HeaderMap, list: Option<&[ModelEntry]>) -> Option<&'static Profile> {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    let owner = list.into_iter().flatten().find_map(ModelEntry::owner);
    owner.and_then(Profile::of_owner).or_else(|| Profile::of_headers(header))
}

/// The remark on models whose context the engine's list does not tell, though the policy gives one.
fn unchecked(backends: &[(&Backend, Option<u64>)], list: &[ModelEntry]) -> Option<String> {
    let silent = |model: &str| list.iter().any(|listed| is_same(&listed.id, model) && listed.context().is_none());
    let (model, wanted) = backends
        .iter()
        .find_map(|(backend, wanted)| Some((backend.model.as_deref().filter(|it| silent(it))?, (*wanted)?)))?;
    Some(format!("its list does not tell the context of `{model}`: the {wanted} tokens of the policy are not checked"))
}

/// Asks which paths the engine serves. Nothing is generated.
async fn apis(client: &Client, engine: &Engine, access: &EngineAccess) -> Vec<(EngineApi, Presence)> {
    let ask = async |api| {
        let asked = tokio::time::timeout(LIMIT, scrape::probe(client, &engine.url, access, api)).await;
        (api, asked.ok().and_then(Result::ok).unwrap_or_default())
    };
    let mut found = Vec::with_capacity(EngineApi::ALL.len());
    for api in EngineApi::ALL {
        found.push(ask(api).await);
    }
    found
}

/// The answer to a request for the list of models.
struct Listing {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// Asks for the list of models.
async fn ask(client: &Client, engine: &Engine, key: Option<&Secret>) -> Result<Listing, SendError> {
    let mut headers = HeaderMap::new();
    if let Some(key) = key {
        address::authorise(&mut headers, engine, key);
    }
    address::put_engine_headers(&mut headers, engine);
    let url = address::models_url(engine);
    let asked = Outgoing { method: Method::GET, url, headers, body: bytes::Bytes::new() };
    let (head, body) = client.send(asked).await?.into_parts();
    let body = Limited::new(body, MAX_LIST_BYTES).collect().await.map(|body| body.to_bytes().to_vec());
    Ok(Listing { status: head.status, headers: head.headers, body: body.unwrap_or_default() })
}

fn unreachable(error: &SendError) -> Verdict {
    let text = error.to_string();
    let is = |words: &[&str]| words.iter().any(|word| text.to_lowercase().contains(word));
    let help = if is(&["certificate", "tls", "handshake", "corrupt message"]) {
        "check that the port speaks TLS, and that this machine trusts its certificate"
    } else if is(&["dns", "lookup", "resolve", "name or service"]) {
        "check the name, and that this machine resolves it"
    } else if is(&["refused"]) {
        "start the engine, or correct the port"
    } else {
        "check the address, and that this machine may connect to it"
    };
    Verdict::Bad(text, help.to_owned())
}

fn judge(
    status: StatusCode,
    list: Option<Vec<ModelEntry>>,
    backends: &[(&Backend, Option<u64>)],
    has_key: bool,
) -> Verdict {
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        let (what, help) = if has_key {
            ("refuses the key", "replace the key where the policy refers to it")
        } else {
            ("asks for a key", "add `key` to the backend, or an `account` to the engine")
        };
        return Verdict::Bad(format!("{what} ({})", status.as_u16()), help.to_owned());
    }
    if status.is_server_error() {
        return Verdict::Bad(
            format!("answers {}", status.as_u16()),
            "the engine may still be loading: look at its log".to_owned(),
        );
    }
    if !status.is_success() {
        return Verdict::Unclear(format!(
            "reachable, but lists no models (it answers {}): check that the address ends as its API does, often in `/v1`",
            status.as_u16()
        ));
    }
    let Some(data) = list else {
        return Verdict::Unclear("reachable, but its list of models is none of OpenAI's".to_owned());
    };
    if let Some(verdict) = any_name(backends, &data) {
        return verdict;
    }
    let mistaken = backends.iter().find_map(|(backend, context)| mistaken(backend, *context, &data));
    mistaken.unwrap_or_else(|| Verdict::Good(found(backends, &data)))
}

/// The verdict on backends of llama.cpp under a name that it does not list. It lists the path of its only model and answers to
/// any name.
fn any_name(backends: &[(&Backend, Option<u64>)], data: &[ModelEntry]) -> Option<Verdict> {
    let [only] = data else { return None };
    let is_other = |(backend, _): &&(&Backend, _)| backend.model.as_deref().is_some_and(|model| model != only.id);
    let named = backends.iter().find(is_other).and_then(|(backend, _)| backend.model.as_deref())?;
    (only.owner() == Some("llamacpp")).then_some(())?;
    let wanted = backends.iter().filter(is_other).filter_map(|(_, wanted)| *wanted).max();
    if let (Some(wanted), Some(has)) = (wanted, only.context())
        && wanted > has
    {
        return Some(too_short(&only.id, has, wanted));
    }
    Some(Verdict::Unclear(format!(
        "llama.cpp lists `{}` and answers to any name: start it with `--alias {named}` to have that name checked",
        only.id
    )))
}

/// The verdict on a model that holds fewer tokens than the policy says.
fn too_short(model: &str, has: u64, wanted: u64) -> Verdict {
    Verdict::Bad(
        format!("`{model}` holds {has} tokens, not {wanted}"),
        format!("write `context: {has}` for its pool, or `auto`"),
    )
}

/// The problem of a backend on an engine that lists `data`, with its remedy.
fn mistaken(backend: &Backend, wanted: Option<u64>, data: &[ModelEntry]) -> Option<Verdict> {
    let model = backend.model.as_deref()?;
    let names = || data.iter().map(|listed| &*listed.id);
    let listed = data.iter().find(|listed| is_same(&listed.id, model));
    let Some(listed) = listed else {
        let help = match nearest(model, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if data.is_empty() => "load it there".to_owned(),
            None => format!("load it there, or use one it has: {}", names().take(5).collect::<Vec<_>>().join(", ")),
        };
        return Some(Verdict::Bad(format!("does not list `{model}`"), help));
    };
    let (wanted, has) = (wanted?, listed.context()?);
    (wanted > has).then(|| too_short(model, has, wanted))
}

/// True if an engine that lists `id` serves `model`: Ollama adds `:latest`.
fn is_same(id: &str, model: &str) -> bool {
    id == model || id.strip_suffix(":latest") == Some(model)
}

/// A description of the models of `backends` in the list.
fn found(backends: &[(&Backend, Option<u64>)], data: &[ModelEntry]) -> String {
    let mut names: Vec<_> = backends.iter().filter_map(|(backend, _)| backend.model.as_deref()).collect();
    names.dedup();
    if names.is_empty() {
        let globs: Vec<_> = backends.iter().filter_map(|(backend, _)| backend.follows.as_ref()).collect();
        let is_served = |id: &&str| globs.is_empty() || globs.iter().any(|glob| glob.matches(id));
        let served: Vec<_> = data.iter().map(|listed| &*listed.id).filter(is_served).collect();
        let more = if served.len() > SHOWN { ", …" } else { "" };
        let shown = served.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
        return match globs.first() {
            Some(glob) if served.is_empty() => format!("none of its {} models matches `{}`", data.len(), glob.0),
            Some(glob) => format!("{} of {} models match `{}`: {shown}{more}", served.len(), data.len(), glob.0),
            None if served.is_empty() => "no models".to_owned(),
            None => format!("{} models, none is named in the policy: {shown}{more}", data.len()),
        };
    }
    let of = |name: &&str| {
        let context = data.iter().find(|listed| is_same(&listed.id, name)).and_then(ModelEntry::context);
        context.map_or((*name).to_owned(), |context| format!("{name} ({context} tokens)"))
    };
    names.iter().map(of).collect::<Vec<_>>().join(", ")
}

impl Verdict {
    /// The word for it, its details, and the remedy.
    fn parts(&self) -> (&'static str, &str, &str) {
        match self {
            Self::Good(found) => ("good", found, ""),
            Self::Unclear(what) => ("unclear", what, ""),
            Self::Bad(what, help) => ("BAD", what, help),
        }
    }
}

impl Row {
    /// The paths that it serves, and those of which nothing is known.
    fn endpoints(&self) -> String {
        let known = |api: &(EngineApi, Presence)| match api {
            (api, Presence::Present) => Some(api.name().to_owned()),
            (api, Presence::Unknown) => Some(format!("{}?", api.name())),
            (_, Presence::Absent) => None,
        };
        if self.apis.is_empty() {
            return "–".to_owned();
        }
        self.apis.iter().filter_map(known).collect::<Vec<_>>().join(" ")
    }

    /// True, false or null for each probed path; null if none was probed.
    fn apis_json(&self) -> Value {
        if self.apis.is_empty() {
            return Value::Null;
        }
        let state = |(api, presence): &(EngineApi, Presence)| {
            let served = match presence {
                Presence::Present => Some(true),
                Presence::Absent => Some(false),
                Presence::Unknown => None,
            };
            (api.name().to_owned(), json!(served))
        };
        Value::Object(self.apis.iter().map(state).collect())
    }
}

impl Probed {
    /// True if no request would fail for sure.
    pub(super) fn passed(&self) -> bool {
        self.bad().0 == 0
    }

    /// Number of probes that went bad, and of all.
    pub(super) fn bad(&self) -> (usize, usize) {
        let is_bad = |row: &&Row| matches!(row.verdict, Verdict::Bad(..));
        (self.0.iter().filter(is_bad).count(), self.0.len())
    }

    /// The table.
    pub(super) fn text(&self) -> String {
        let rows = self.0.iter().map(|row| {
            let (word, what, help) = row.verdict.parts();
            let engine = row.key.map_or(row.engine.clone(), |key| format!("{}, key {key}", row.engine));
            let latency =
                row.latency.map_or("–".to_owned(), |latency| format!("{:.0} ms", latency.as_secs_f64() * 1e3));
            let what = if help.is_empty() { what.to_owned() } else { format!("{what}: {help}") };
            [engine, row.address.clone(), word.to_owned(), latency, row.endpoints(), what]
        });
        let mut text = output::table(["engine", "address", "probe", "latency", "endpoints", "models"], rows);
        for row in &self.0 {
            text.extend(row.remarks.iter().map(|remark| format!("  {}: {remark}\n", row.engine)));
        }
        text
    }

    /// The table as JSON.
    pub(super) fn json(&self) -> Value {
        let rows = self.0.iter().map(|row| {
            let (word, what, help) = row.verdict.parts();
            json!({
                "engine": row.engine, "key": row.key, "url": row.address, "verdict": word.to_lowercase(),
                "latency_ms": row.latency.map(|latency| latency.as_secs_f64() * 1e3), "found": what,
                "help": (!help.is_empty()).then_some(help), "endpoints": row.apis_json(),
                "kind": row.kind, "remarks": row.remarks,
            })
        });
        json!({ "ok": self.passed(), "engines": rows.collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(model: &str) -> Backend {
        Backend {
            audience: signalbox_policy::Audience::All,
            follows: None,
            strip: None,
            name: "b".into(),
            engine: 0,
            model: Some(model.into()),
            adapter: false,
            serves: None,
            deployment: None,
            same_as: None,
            weight: None,
            drop: Vec::new(),
            defaults: Vec::new(),
        }
    }

    fn verdict(status: u16, body: &str, model: &str, context: Option<u64>) -> String {
        let backend = backend(model);
        let judged =
            judge(StatusCode::from_u16(status).unwrap(), model_list(body.as_bytes()), &[(&backend, context)], true);
        let (word, what, help) = judged.parts();
        format!("{word}: {what}: {help}")
    }

    #[test]
    fn a_context_that_no_list_has_is_remarked_on() {
        let list = model_list(br#"{"data":[{"id":"a"},{"id":"b","max_model_len":9}]}"#).unwrap();
        let remark = |model: &str, context| unchecked(&[(&backend(model), context)], &list);
        assert!(remark("a", Some(8000)).is_some_and(|remark| remark.contains("the 8000 tokens")));
        assert_eq!([remark("a", None), remark("b", Some(8000)), remark("c", Some(8000))], [None, None, None]);
    }

    #[test]
    fn answers_are_judged() {
        let list = r#"{"data":[{"id":"qwen","max_model_len":32768},{"id":"llama:latest"}]}"#;
        assert_eq!(verdict(200, list, "qwen", Some(8000)), "good: qwen (32768 tokens): ");
        assert_eq!(verdict(200, list, "llama", None), "good: llama: ");
        assert!(verdict(200, list, "qwn", None).contains("did you mean `qwen`?"));
        assert!(verdict(200, list, "qwen", Some(128_000)).contains("holds 32768 tokens, not 128000"));
        let llama = r#"{"data":[{"id":"/models/q.gguf","owned_by":"llamacpp","meta":{"n_ctx":4096}}]}"#;
        assert!(verdict(200, llama, "qwen", None).starts_with("unclear: llama.cpp lists `/models/q.gguf`"));
        assert!(verdict(200, llama, "qwen", None).contains("--alias qwen"));
        assert!(verdict(200, llama, "qwen", Some(8000)).contains("`/models/q.gguf` holds 4096 tokens, not 8000"));
        let alias = llama.replace("/models/q.gguf", "qwen");
        assert_eq!(verdict(200, &alias, "qwen", Some(4096)), "good: qwen (4096 tokens): ");
        assert!(verdict(200, &alias.replace("llamacpp", "vllm"), "qwn", None).starts_with("BAD"));
        let glob = |pattern: &str| {
            let follows = Some(signalbox_policy::ModelGlob(pattern.into()));
            let backend = Backend { model: None, follows, ..backend("m") };
            judge(StatusCode::OK, model_list(list.as_bytes()), &[(&backend, None)], true).parts().1.to_owned()
        };
        assert_eq!(glob("q*"), "1 of 2 models match `q*`: qwen");
        assert_eq!(glob("x*"), "none of its 2 models matches `x*`");
        assert!(verdict(401, "", "qwen", None).starts_with("BAD: refuses the key (401)"));
        assert!(verdict(503, "", "qwen", None).starts_with("BAD: answers 503"));
        assert!(verdict(404, "", "qwen", None).starts_with("unclear"));
        assert!(verdict(200, "<html>", "qwen", None).starts_with("unclear"));
    }
}
