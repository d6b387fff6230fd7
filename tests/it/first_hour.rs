//! First contact of newcomers: `check` without secrets and against engines, empty lists, errors with addresses, and a bench
//! that is stopped.

use std::{path::Path, process::Stdio};

use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::{
    cli::{self, Ran},
    client,
    gateway::{Gateway, Start},
    mock::{Mock, Plan, polite},
    within,
};

/// Runs the binary without blocking the mocks.
async fn run(arguments: &[&str]) -> Ran {
    let arguments: Vec<_> = arguments.iter().map(ToString::to_string).collect();
    let running = tokio::task::spawn_blocking(move || cli::run(Path::new("."), arguments.iter().map(String::as_str)));
    within("the command to end", running).await.expect("the command runs")
}

fn file(text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("policy.yaml");
    std::fs::write(&path, text).expect("a file");
    let path = path.to_str().expect("UTF-8").to_owned();
    (dir, path)
}

#[tokio::test]
async fn variables_that_are_not_set_are_a_note_if_allowed() {
    let text = "accounts: { a: { keys: [\"${FIRST_HOUR_KEY}\"], limits: { rpm: 5 } } }\n\
                engines: { e: { url: \"${FIRST_HOUR_URL}\", account: a } }\n\
                pools: { p: { model: m, backends: [{ engine: e }] } }\n";
    let (_dir, path) = file(text);
    let refused = run(&["check", &path]).await;
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("2 problems") && refused.err.contains("`FIRST_HOUR_URL` is not set"),
        "{}",
        refused.err
    );
    let allowed = run(&["check", &path, "--allow-unset"]).await;
    assert_eq!((allowed.code, &*allowed.err), (Some(0), ""), "{}", allowed.out);
    assert!(allowed.out.contains("note: FIRST_HOUR_KEY is not set"), "{}", allowed.out);

    // Everything else is still checked.
    let (_dir, path) = file(&format!("{text}models: {{ auto: {{ to: q }} }}\nlimits: {{ body: 1 KB }}\n"));
    let refused = run(&["check", &path, "--allow-unset"]).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("2 problems") && refused.err.contains("there is no pool `q`"), "{}", refused.err);
}

#[tokio::test]
async fn engines_are_probed_without_generating_anything() {
    let (good, other, locked) = (Mock::start(polite).await, Mock::start(polite).await, Mock::start(polite).await);
    let list = json!({ "object": "list", "data": [{ "id": "qwen", "max_model_len": 4096 }] });
    for mock in [&good, &other] {
        let list = list.clone();
        mock.on_probe(move |seen| seen.path.ends_with("/models").then(|| Plan::json(200, &list)));
    }
    locked.on_probe(|seen| {
        let accepted = seen.header("authorization") == Some("Bearer right");
        let plan =
            if accepted { Plan::json(200, &json!({ "data": [{ "id": "gpt" }] })) } else { Plan::error(401, "no") };
        seen.path.ends_with("/models").then_some(plan)
    });
    let policy = |context: &str, model: &str, keys: &str| {
        format!(
            "accounts: {{ a: {{ keys: [{keys}] }} }}\n\
             engines: {{ hosted: {{ url: \"{}\", account: a }} }}\n\
             pools:\n  one: {{ model: qwen, context: {context}, backends: [\"{}\"] }}\n  \
             two: {{ model: {model}, backends: [\"{}\"] }}\n  three: {{ model: gpt, backends: [{{ engine: hosted }}] }}\n",
            locked.url(),
            good.url(),
            other.url(),
        )
    };
    let (_dir, path) = file(&policy("4k", "qwen", "right"));
    let ran = run(&["check", &path, "--probe", "--json"]).await;
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let found: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(found["probe"]["ok"], true);
    assert_eq!(found["probe"]["engines"].as_array().map(Vec::len), Some(3));

    let (_dir, path) = file(&policy("8k", "qwn", "right, wrong"));
    let ran = run(&["check", &path, "--probe"]).await;
    assert_eq!(ran.code, Some(1), "{}", ran.out);
    for said in ["hosted, key 2", "refuses the key (401)", "holds 4096 tokens, not 8000", "did you mean `qwen`?"] {
        assert!(ran.out.contains(said), "{said}:\n{}", ran.out);
    }
    assert_eq!(
        [good.seen().len(), other.seen().len(), locked.seen().len()],
        [0; 3],
        "only lists of models were asked for"
    );

    let gone = good.stop().await;
    let (_dir, path) = file(&format!("pools: {{ p: {{ model: m, backends: [\"http://{gone}/v1\"] }} }}"));
    let ran = run(&["check", &path, "--probe"]).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("start the engine, or correct the port"), "{}", ran.out);
}

#[tokio::test]
async fn empty_lists_say_why_and_errors_name_the_address() {
    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&crate::keys::pool(&mock, "")).await;
    let admin = gateway.admin("");
    let admin = admin.trim_end_matches('/');
    let usage = run(&["usage", "--admin", admin]).await;
    assert_eq!(usage.code, Some(0));
    assert!(
        usage.err.contains(&format!("there is no usage at {admin}")) && usage.err.contains("counted by key"),
        "{}",
        usage.err
    );
    let listed = run(&["key", "list", "--admin", admin]).await;
    assert_eq!((listed.code, &*listed.out), (Some(0), ""));
    assert!(listed.err.contains("has no keys"), "{}", listed.err);

    // The address may be written as it is in the log, or be that of a policy.
    let bare = admin.trim_start_matches("http://");
    let (_dir, path) = file(&format!("admin: {bare}\npools: {{ p: {{ backends: [\"${{UNSET}}\"] }} }}\n"));
    for arguments in [["--admin", bare], ["--config", &path]] {
        for command in [&["key", "list"][..], &["top", "--once"], &["backend", "list"]] {
            let ran = run(&[command, &arguments].concat()).await;
            assert_eq!(ran.code, Some(0), "{}", ran.err);
        }
    }
    let nobody = "http://127.0.0.1:9";
    for command in [&["usage"][..], &["key", "list"], &["key", "revoke", "web"], &["cache", "purge", "--key", "web"]] {
        let ran = run(&[command, &["--admin", nobody]].concat()).await;
        assert_eq!(ran.code, Some(1));
        assert!(ran.err.contains(&format!("no gateway answers at {nobody}")), "{}", ran.err);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_bench_that_is_stopped_prints_its_figures() {
    let mock = Mock::start(polite).await;
    for signal in ["-TERM", "-INT"] {
        let before = mock.seen().len();
        let url = mock.url();
        let mut command = Command::new(env!("CARGO_BIN_EXE_signalbox"));
        let arguments = ["bench", "--url", &url, "--model", "m", "--concurrency", "1", "--duration", "10m"];
        let child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let child = child.spawn().expect("the binary runs");
        // The first ones are trials, before signals are handled.
        mock.wait_seen(before + 20).await;
        let pid = child.id().expect("a running process").to_string();
        assert!(std::process::Command::new("kill").args([signal, &pid]).status().is_ok_and(|status| status.success()));
        let output = within("the bench to end", child.wait_with_output()).await.expect("its output");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && out.contains("Requests:"), "{out}{err}");
        assert!(err.contains("stopped by a signal"), "{err}");
    }
}

#[tokio::test]
async fn the_built_in_simulation_shows_two_tiers() {
    let gateway = Start::simulated().start().await;
    let pool = async |text: &str| {
        let body = json!({ "model": "auto", "max_tokens": 3, "messages": [{ "role": "user", "content": text }] });
        let answer = crate::support::client::post(&gateway.at("/v1/chat/completions"), &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.header("x-signalbox-pool").to_owned()
    };
    // The banner's second request is the example of a hard prompt. It may reach the test after the ready file.
    gateway.wait_log("A train leaves").await;
    let log = gateway.log();
    let (_, hard) = log.rsplit_once("\"content\": \"").expect("two requests in the banner");
    let (hard, _) = hard.split_once("\"}]").expect("the end of the prompt");
    assert_eq!((&*pool("Hello!").await, &*pool(hard).await), ("small", "large"));
}

#[tokio::test]
async fn a_gateway_does_not_call_itself() {
    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&crate::keys::pool(&mock, "")).await;
    let body = crate::keys::chat("auto", 5);
    assert_eq!(client::post(&gateway.at("/v1/chat/completions"), &body).await.status, 200);
    let seen = mock.seen();
    let passed = seen[0].header("x-signalbox-passed").expect("the mark of the gateway").to_owned();
    let again = client::http().post(gateway.at("/v1/chat/completions")).header("x-signalbox-passed", passed);
    let refused = client::answer(client::json(again, &body)).await;
    assert_eq!((refused.status.as_u16(), refused.json()["error"]["code"].clone()), (508, json!("loop")));
    let other =
        client::http().post(gateway.at("/v1/chat/completions")).header("x-signalbox-passed", "0123456789abcdef");
    assert_eq!(client::answer(client::json(other, &body)).await.status, 200);

    let (_dir, path) = file("pools: { p: { model: m, backends: [\"http://localhost:4100/v1\"] } }\n");
    let checked = run(&["check", &path]).await;
    assert_eq!(checked.code, Some(1), "{}", checked.out);
    assert!(checked.err.contains("the gateway's own address (`listen`)"), "{}", checked.err);
    let observe = ["serve", "--observe", "http://127.0.0.1:4100/v1", "--listen", "127.0.0.1:4100"];
    let served = run(&observe).await;
    assert!(served.code == Some(1) && served.err.contains("own address ('listen')"), "{}", served.err);
}
