//! The shipped policies: each is valid and serves every model name that it offers, over simulated engines.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use crate::support::{client, gateway::Start};

/// The files, by name.
fn policies() -> Vec<(String, PathBuf)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("policies");
    let files = fs::read_dir(folder).expect("the folder of policies").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|it| it == "yaml")).collect();
    files.sort();
    files.into_iter().map(|path| (path.file_name().expect("a name").to_string_lossy().into_owned(), path)).collect()
}

#[tokio::test]
async fn each_policy_serves_every_name_that_it_offers() {
    let policies = policies();
    assert!(policies.len() >= 9, "{policies:?}");
    for (name, path) in policies {
        let path = path.to_str().expect("a path in UTF-8");
        let gateway = Start::bare().arg("--simulate").arg("--config").arg(path).start().await;
        // Policies with keys are tried with the keys of the simulation, which the banner names. It may come after the ready file.
        gateway.wait_log("Try it").await;
        let log = gateway.log();
        let key = log.split([' ', ',', '\n']).find(|word| word.starts_with("sb-demo-")).unwrap_or("none");
        let send = |request: reqwest::RequestBuilder| client::answer(request.bearer_auth(key));
        let listed = send(client::http().get(gateway.at("/v1/models"))).await;
        assert_eq!(listed.status, 200, "{name}: {}", listed.text());
        let listed: Value = listed.json();
        for model in listed["data"].as_array().expect("a list") {
            let body =
                json!({ "model": model["id"], "max_tokens": 3, "messages": [{ "role": "user", "content": "Hello!" }] });
            let answer = send(client::json(client::http().post(gateway.at("/v1/chat/completions")), &body)).await;
            // A pool of embeddings does not chat, and says so.
            let served = answer.status == 200 || answer.json()["error"]["code"] == "unsupported_endpoint";
            assert!(served, "{name}, {model}: {}", answer.text());
            assert_eq!(answer.header("x-signalbox-simulated"), if answer.status == 200 { "true" } else { "" });
        }
    }
}
