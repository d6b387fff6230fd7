//! `signalbox top` on a real gateway, and without one.

use tokio::process::Command;

use crate::support::{
    client::{http, json},
    gateway::{Gateway, Start},
    mock::{Mock, polite},
    until, within,
};

/// Output and errors of `signalbox top`, and whether it succeeded.
async fn top(args: &[&str]) -> (String, String, bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_signalbox"));
    command.arg("top").args(args).env_remove("SIGNALBOX_KEY").kill_on_drop(true);
    let out = within("signalbox top", command.output()).await.expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&out.stdout), text(&out.stderr), out.status.success())
}

#[tokio::test]
async fn once_prints_the_state_of_the_page() {
    let (one, other) = (Mock::start(polite).await, Mock::start(polite).await);
    one.set_vllm(0, 2, 0.25);
    other.set_vllm(0, 0, 0.1);
    let policy = format!(
        "pools:\n  all:\n    model: small\n    objectives: [{{ availability: 99% }}]\n    \
         price: {{ input: 1, output: 2 }}\n    backends: [\"{}\", \"{}\"]\nmodels: {{ auto: {{ to: all }} }}\n",
        one.url(),
        other.url()
    );
    let gateway = Gateway::start(&policy).await;
    let (quiet, _, _) = top(&["--once", "--admin", &gateway.admin("/")]).await;
    assert!(quiet.contains("no traffic yet"), "{quiet}");
    let body = serde_json::json!({ "model": "auto", "messages": [{ "role": "user", "content": "hi" }] });
    let answer = json(http().post(gateway.at("/v1/chat/completions")), &body).send().await.expect("an answer");
    assert!(answer.status().is_success());
    answer.bytes().await.expect("all of it");
    until("engines and the decision", async || {
        let (said, complained, fine) = top(&["--once", "--admin", &gateway.admin("")]).await;
        assert!(fine && complained.is_empty(), "{complained}");
        let line = |wanted: &[&str]| said.lines().any(|line| wanted.iter().all(|word| line.contains(word)));
        line(&["All is well: 2 backends up"])
            && line(&["1.0 requests/s (1)"])
            && line(&["all", "100%"])
            && line(&["up", "25%"])
            && line(&["availability", "pool all", "ok", "100.0%"])
            && line(&["auto", "all >", "least cost", "ok"])
    })
    .await;
}

#[tokio::test]
async fn it_says_plainly_that_there_is_none() {
    let (said, complained, fine) = top(&["--once", "--admin", "http://127.0.0.1:1"]).await;
    assert!(!fine && said.is_empty());
    assert!(complained.contains("no gateway answers at http://127.0.0.1:1: nobody answers there"), "{complained}");
    let gateway = Start::simulated().start().await;
    let (_, complained, fine) = top(&["--once", "--admin", &gateway.at("")]).await;
    assert!(!fine, "callers connect there, not operators");
    assert!(complained.contains("it answers 404"), "{complained}");
    let (said, complained, fine) = top(&["--admin", &gateway.admin("")]).await;
    assert!(!fine && said.is_empty(), "nothing is drawn into a pipe");
    assert!(complained.contains("--once"), "{complained}");
}
