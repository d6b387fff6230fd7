//! `signalbox import litellm` and `key hash`: configurations in the style of real deployments become policies that pass
//! `check`, their gaps are listed, and requests reach the upstream that LiteLLM itself reached.
//!
//! `litellm/expected.json` holds what LiteLLM 1.108.7 sent for the same configurations, recorded by a proxy: host, path,
//! model and key of each request.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{
    cli::{self, Ran},
    client,
    gateway::Start,
    mock::{Mock, Plan, Seen},
    package_dir,
};

const FOLDER: &str = "tests/it/litellm";
const INCLUDED: &str = "10-included.yaml";

fn folder() -> PathBuf {
    package_dir().join(FOLDER)
}

/// The configurations, without the one that another includes.
fn configurations() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let names = entries.map(|name| name.into_string().expect("UTF-8"));
    let mut names: Vec<_> = names.filter(|name| name.strip_suffix(".yaml").is_some() && name != INCLUDED).collect();
    names.sort_unstable();
    names
}

fn import(name: &str, more: &[&str]) -> Ran {
    cli::run(&folder(), ["import", "litellm", name].into_iter().chain(more.iter().copied()))
}

/// The variables of a policy with the values that the recording had.
fn variables(policy: &str) -> Vec<(String, String)> {
    let names: BTreeSet<_> = policy
        .split("${")
        .skip(1)
        .filter_map(|rest| rest.split('}').next())
        .filter(|name| !name.contains(":-"))
        .collect();
    let value = |name: &str| match name {
        "LITELLM_MASTER_KEY_HASH" => format!("blake3:{}", blake3::hash(b"sk-master-key").to_hex()),
        "AZURE_API_BASE" => "https://acme-main.openai.azure.com".to_owned(),
        "AZURE_API_BASE_EASTUS" => "https://acme-eastus.openai.azure.com".to_owned(),
        "REDIS_HOST" => "127.0.0.1".to_owned(),
        "REDIS_PORT" => "1".to_owned(),
        "OPENAI_API_KEY" if policy.contains("OPENAI_API_KEY    the value in line") => {
            "sk-proj-0123456789abcdef".to_owned()
        }
        _ => format!("key-of-{name}"),
    };
    names.into_iter().map(|name| (name.to_owned(), value(name))).collect()
}

fn check(policy: &str) -> Ran {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("policy.yaml");
    std::fs::write(&path, policy).expect("the policy is written");
    let output = Command::new(env!("CARGO_BIN_EXE_signalbox"))
        .args(["check", "--json"])
        .arg(&path)
        .env_clear()
        .envs(variables(policy))
        .output()
        .expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn every_import_passes_check_and_lists_its_gaps() {
    let all = configurations();
    assert!(all.len() >= 10, "{all:?}");
    for name in all {
        let ran = import(&name, &[]);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.err);
        let label = name.trim_end_matches(".yaml");
        insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "snapshots/litellm", omit_expression => true }, {
            insta::assert_snapshot!(format!("{label}_gaps"), ran.err);
            insta::assert_snapshot!(format!("{label}_policy"), ran.out);
        });
        let checked = check(&ran.out);
        assert_eq!(checked.code, Some(0), "{name}:\n{}\n{}", checked.out, ran.out);
        let strict = import(&name, &["--strict"]);
        let expected = if ran.err.contains("without a counterpart") { 3 } else { 0 };
        assert_eq!(strict.code, Some(expected), "{name}");
    }
}

/// An upstream: host, name of the model or of Azure's deployment, and key.
type Upstream = (String, String, String);

/// The upstream that was called, whatever the API: natively, a model may stand in the path.
fn upstream(host: &str, path: &str, model: &str, key: &str) -> Upstream {
    let part = |marker: &str| path.split_once(marker).and_then(|(_, rest)| rest.split(['/', ':']).next());
    let model = part("/deployments/").or_else(|| part("/models/").filter(|_| model.is_empty())).unwrap_or(model);
    // LiteLLM's client sends a key in any case; an engine without keys reads none.
    let key = if matches!(key, "EMPTY" | "none" | "fake-api-key") { "" } else { key };
    // Cohere has two names for one host. Hugging Face's router takes the provider natively in the path, otherwise in the
    // model's name.
    let host = if host == "api.cohere.ai" { "api.cohere.com" } else { host };
    let via =
        path.trim_start_matches('/').split('/').next().filter(|via| host == "router.huggingface.co" && *via != "v1");
    let model = via.map_or_else(|| model.to_owned(), |via| format!("{model}:{via}"));
    (host.to_owned(), model, key.to_owned())
}

fn expected() -> Value {
    let text = std::fs::read_to_string(folder().join("expected.json")).expect("the recording");
    serde_json::from_str(&text).expect("JSON")
}

/// The mock's address stands before every host: `http://mock/api.openai.com/v1`.
fn through(policy: &str, mock: &str) -> String {
    let line = |line: &str| {
        if !line.contains("{ url: \"http") {
            return line.to_owned();
        }
        line.replace("https://", mock)
            .replace("\"http://", &format!("\"{mock}"))
            .replace(&format!("{mock}127.0.0.1"), "http://127.0.0.1")
    };
    // Neither the collector nor the cache chooses an upstream.
    let kept = policy.lines().filter(|line| !line.starts_with("otel:") && !line.starts_with("  shared:"));
    kept.map(line).collect::<Vec<_>>().join("\n")
}

fn answer(seen: &Seen) -> Plan {
    if seen.path.contains("/embeddings") {
        return Plan::json(
            200,
            &json!({ "object": "list", "data": [{ "object": "embedding", "index": 0, "embedding": [0.5] }], "usage": { "prompt_tokens": 1, "total_tokens": 1 } }),
        );
    }
    Plan::chat("hi")
}

fn seen_upstream(seen: &Seen) -> Upstream {
    let path = seen.path.split('?').next().unwrap_or_default();
    let (host, rest) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
    let form = String::from_utf8_lossy(&seen.body);
    let in_form = form.split("name=\"model\"\r\n\r\n").nth(1).and_then(|rest| rest.split("\r\n").next());
    let model = if seen.model().is_empty() { in_form.unwrap_or_default() } else { seen.model() };
    let bearer = seen.header("authorization").map(|key| key.trim_start_matches("Bearer "));
    upstream(host, &format!("/{rest}"), model, bearer.or_else(|| seen.header("api-key")).unwrap_or_default())
}

async fn ask(gateway: &str, key: &str, row: &Value, number: usize) -> client::Answer {
    let (model, endpoint) = (&row["ask"], row["endpoint"].as_str().expect("an endpoint"));
    let request = client::http().post(format!("{gateway}/{endpoint}")).bearer_auth(key);
    let text = format!("Hello, number {number}!");
    let request = match endpoint {
        "audio/transcriptions" => {
            let form = format!(
                "--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\n{}\r\n--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\ncontent-type: audio/wav\r\n\r\nRIFF\r\n--b--\r\n",
                model.as_str().expect("a name")
            );
            request.header("content-type", "multipart/form-data; boundary=b").body(form)
        }
        "images/generations" => client::json(request, &json!({ "model": model, "prompt": text })),
        "embeddings" | "moderations" => client::json(request, &json!({ "model": model, "input": text })),
        _ => client::json(request, &json!({ "model": model, "messages": [{ "role": "user", "content": text }] })),
    };
    client::answer(request).await
}

#[tokio::test]
async fn requests_reach_the_upstream_that_litellm_reached() {
    let expected = expected();
    for name in configurations() {
        let mock = Mock::start(answer).await;
        let policy = import(&name, &[]).out;
        let base = format!("http://{}/", mock.addr());
        let mut start = Start::with(&through(&policy, &base));
        for (variable, value) in variables(&policy) {
            start = start.env(&variable, &value.replace("https://", &base));
        }
        let gateway = start.start().await;
        let key = match &*name {
            "02-two-vllm-and-openai.yaml" => "sk-4f1d0f0d0b5a4a3f9f0c",
            "06-open-webui.yaml" => "sk-open-webui-1234",
            _ => "sk-master-key",
        };
        let rows = expected[&name].as_array().unwrap_or_else(|| panic!("{name} was recorded"));
        assert!(!rows.is_empty(), "{name}");
        for (number, row) in rows.iter().enumerate() {
            let posted = |seen: &Seen| seen.method == "POST";
            let before = mock.seen().into_iter().filter(posted).count();
            let answer = ask(&gateway.url(), key, row, number).await;
            assert_eq!(answer.status, 200, "{name} {row}: {}\n{}", answer.text(), gateway.log());
            let reached = mock.seen().into_iter().filter(posted).nth(before).expect("a request upstream");
            let litellm: BTreeSet<_> = row["upstream"].as_array().expect("a list").iter().map(of_recording).collect();
            let here = seen_upstream(&reached);
            assert!(litellm.contains(&here), "{name} {}: {here:?} is none of {litellm:?}", row["ask"]);
        }
    }
}

fn of_recording(recorded: &Value) -> Upstream {
    let text = |key: &str| recorded[key].as_str().unwrap_or_default();
    upstream(text("host"), text("path"), text("model"), text("key"))
}

#[test]
fn a_pool_has_all_upstreams_that_litellm_balances() {
    let expected = expected();
    for name in configurations() {
        let policy = import(&name, &[]).out;
        let checked = check(&policy);
        let checked: Value = serde_json::from_str(&checked.out).expect("JSON");
        for row in expected[&name]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|row| row["upstream"].as_array().is_some_and(|all| all.len() > 1))
        {
            let pool = checked["pools"]
                .as_array()
                .expect("pools")
                .iter()
                .find(|pool| pool["name"] == row["ask"])
                .expect("a pool");
            assert_eq!(
                pool["backends"].as_array().map(Vec::len),
                row["upstream"].as_array().map(Vec::len),
                "{name} {row}"
            );
        }
    }
}

#[test]
fn errors_name_the_place_and_no_key() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |text: &str| std::fs::write(dir.path().join("config.yaml"), text).expect("a file");
    let import = |more: &[&str]| {
        cli::run(dir.path(), ["import", "litellm", "config.yaml"].into_iter().chain(more.iter().copied()))
    };
    assert!(import(&[]).err.contains("config.yaml: no such file"), "{}", import(&[]).err);
    write("model_list:\n- model_name: a\n  litellm_params: { api_key: sk-secret, model: [ }\n");
    let ran = import(&[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("config.yaml:3:") && !ran.err.contains("sk-secret"), "{}", ran.err);
    write("pools: {}\n");
    assert!(import(&[]).err.contains("not a configuration of LiteLLM's proxy"), "{}", import(&[]).err);
    write("model_list: [{ model_name: a, litellm_params: { model: gpt-4o, api_key: sk-secret } }]\n");
    assert_eq!(import(&["-o", "policy.yaml"]).code, Some(0));
    let again = import(&["-o", "policy.yaml"]);
    assert!(again.code == Some(1) && again.err.contains("--force"), "{}", again.err);
    assert_eq!(import(&["-o", "policy.yaml", "--force"]).code, Some(0));
    let policy = std::fs::read_to_string(dir.path().join("policy.yaml")).expect("the policy");
    assert!(!policy.contains("sk-secret"), "{policy}");
}

/// Runs `key hash` with `input` at standard input.
fn key_hash(arguments: &[&str], input: &str) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_signalbox"))
        .args(["key", "hash"])
        .args(arguments)
        .current_dir(Path::new(package_dir()))
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), input.as_bytes()).expect("the keys are read");
    let output = child.wait_with_output().expect("its output");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

#[tokio::test]
async fn clients_keep_the_keys_that_they_have() {
    // As in the column `token` of LiteLLM's database: the SHA-256 hash of `sk-from-litellm`.
    let token = "f1e0b0a30cd3fd06dfbfd1ca0c9e6aed989806df17ca29914f8d6d07d9d91535";
    let ran = key_hash(&["-"], &format!("web sk-old-secret\n\n# from the database\nbatch {token}\n"));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(!ran.out.contains("sk-old-secret"), "{}", ran.out);
    let mock = Mock::start(|_| Plan::chat("hi")).await;
    let gateway =
        Start::with(&format!("{}pools: {{ p: {{ model: m, backends: [{}] }} }}\n", ran.out, mock.url())).start().await;
    for (key, status) in [("sk-old-secret", 200), ("sk-from-litellm", 200), (token, 401), ("sk-other", 401)] {
        let request = client::http().post(gateway.at("/v1/chat/completions")).bearer_auth(key);
        let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hello!" }] });
        assert_eq!(client::answer(client::json(request, &body)).await.status, status, "{key}");
    }
    let ran = key_hash(&["sk-on-the-command-line"], "");
    assert!(ran.code == Some(1) && ran.err.contains("shell's history"), "{}", ran.err);
    assert_eq!(key_hash(&[], "\n").code, Some(1));
}

#[test]
fn the_price_table_shows_its_date_and_source() {
    let ran = cli::run(package_dir(), ["prices"]);
    assert!(ran.code == Some(0) && ran.out.contains("as of 20") && ran.out.contains("Source: "), "{}", ran.out);
    let ran = cli::run(package_dir(), ["prices", "--json"]);
    let table: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert!(table["models"].as_array().is_some_and(|models| models.len() >= 60), "{table}");
}
