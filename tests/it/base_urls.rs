//! Base URLs that clients are given with too little or too much in them, and the probes by which they check one.

use http::{Method, StatusCode};
use serde_json::json;

use crate::support::{
    client,
    gateway::Gateway,
    mock::{Mock, Plan, polite},
};

async fn gateway(mock: &Mock, more: &str) -> Gateway {
    let url = mock.url();
    Gateway::start(&format!(
        "access_log: {{ path: access.log, format: json }}\n\
         pools: {{ p: {{ model: m, speaks: [chat, messages, responses, batches], backends: [{{ url: \"{url}\" }}] }} }}\n{more}"
    ))
    .await
}

#[tokio::test]
async fn spellings_of_the_base_url_reach_the_canonical_path() {
    let mock = Mock::start(polite).await;
    let gateway = gateway(&mock, "").await;
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
    let asked = ["/chat/completions", "//v1/chat/completions", "/v1/v1/chat/completions?x=1", "/v1/chat/completions/"];
    for path in asked {
        let answer = client::post(&gateway.at(path), &body).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text());
    }
    let seen: Vec<_> = mock.seen().into_iter().map(|seen| seen.path).collect();
    let canonical = "/v1/chat/completions".to_owned();
    assert_eq!(seen, [canonical.clone(), canonical.clone(), format!("{canonical}?x=1"), canonical]);
    let log = gateway.dir().join("access.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    crate::support::until("the access log", async || logged().lines().count() == 4).await;
    for path in ["/chat/completions", "//v1/chat/completions", "/v1/v1/chat/completions", "/v1/chat/completions/"] {
        assert!(logged().contains(&format!("\"path\":\"{path}\"")), "{path} as it came: {}", logged());
    }
    for path in ["/v1/models", "/models", "/v1/v1/models", "//v1/models", "/v1/models/", "/anthropic/v1/models"] {
        let answer = client::get(&gateway.at(path)).await;
        assert_eq!((answer.status, &answer.json()["object"]), (StatusCode::OK, &json!("list")), "{path}");
    }
    assert_eq!(client::get(&gateway.at("/models/m")).await.json()["id"], "m");
}

/// `LangChain` sends `"model": null` to a deployment of Azure; Azure itself asks the deployment, whatever the body says.
#[tokio::test]
async fn a_deployment_of_azure_is_the_model() {
    let mock = Mock::start(polite).await;
    let gateway = gateway(&mock, "models: { org/agent: { to: p } }\n").await;
    for model in [json!({}), json!({ "model": null }), json!({ "model": "gpt-4o" }), json!({ "model": "org/agent" })] {
        let mut body = json!({ "messages": [{ "role": "user", "content": "Hi" }] });
        body.as_object_mut().unwrap().extend(model.as_object().unwrap().clone());
        let path = "/openai/deployments/org%2Fagent/chat/completions?api-version=2024-10-21";
        let answer = client::post(&gateway.at(path), &body).await;
        assert_eq!(answer.status, StatusCode::OK, "{body}: {}", answer.text());
        assert_eq!(mock.seen().last().unwrap().json()["model"], "m");
    }
    let absent = client::post(&gateway.at("/openai/deployments/none/chat/completions"), &json!({ "model": "m" })).await;
    assert_eq!(absent.status, StatusCode::BAD_REQUEST, "no messages: {}", absent.text());
}

#[tokio::test]
async fn key_scopes_hold_for_the_canonical_path() {
    let mock = Mock::start(polite).await;
    let hash = blake3::hash(b"sk-chat").to_hex();
    let keys = format!("keys: [{{ id: chat, hash: \"blake3:{hash}\", endpoints: [chat] }}]\n");
    let gateway = gateway(&mock, &keys).await;
    let ask = async |path: &str| {
        let request = client::http().post(gateway.at(path)).bearer_auth("sk-chat");
        client::answer(client::json(
            request,
            &json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] }),
        ))
        .await
        .status
        .as_u16()
    };
    let paths =
        ["/v1/batches", "/batches", "//v1/batches", "/v1/v1/messages/batches", "/anthropic/v1/messages/batches"];
    for path in paths {
        assert_eq!(ask(path).await, 403, "{path}");
    }
    for path in ["/v1//files//x", "/v1/messages//batches", "/chat/completions/../batches", "/v1/%62atches"] {
        assert_eq!(ask(path).await, 404, "{path}");
    }
    assert_eq!(ask("/chat/completions").await, 200);
    assert_eq!(mock.seen().len(), 1);
}

#[tokio::test]
async fn clients_that_check_the_address_are_answered_at_once() {
    let mock = Mock::start(polite).await;
    let gateway = gateway(&mock, "").await;
    let ask = async |method: Method, path: &str| client::answer(client::http().request(method, gateway.at(path))).await;
    for path in ["/", "/v1", "/v1/"] {
        let answer = ask(Method::HEAD, path).await;
        assert_eq!((answer.status, answer.text().len()), (StatusCode::OK, 0), "{path}");
        assert_eq!(ask(Method::GET, path).await.json()["name"], "signalbox");
        assert_eq!(ask(Method::POST, path).await.status, StatusCode::METHOD_NOT_ALLOWED);
    }
    assert_eq!(ask(Method::HEAD, "/v1/models").await.status, StatusCode::OK);
    for path in ["/v1/chat/completions", "/v1/messages", "/v1/responses"] {
        assert_eq!(ask(Method::HEAD, path).await.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
    }
    assert!(mock.seen().is_empty(), "nothing reached an engine");
}

#[tokio::test]
async fn websocket_upgrades_are_refused_in_the_form_that_falls_back_to_http() {
    let mock = Mock::start(polite).await;
    let gateway = gateway(&mock, "").await;
    for path in ["/v1/chat/completions", "/messages"] {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            gateway.listen()
        );
        // The connection ends with the answer.
        let answer = client::raw(gateway.listen(), request.as_bytes()).await.to_lowercase();
        assert!(answer.starts_with("http/1.1 426 "), "{answer}");
        for part in ["\r\nconnection: upgrade, close\r\n", "\r\nupgrade: http/1.1\r\n", "\"websocket_unsupported\""] {
            assert!(answer.contains(part), "{part}: {answer}");
        }
    }
    assert!(mock.seen().is_empty());
}

#[tokio::test]
async fn azure_s_version_stays_here_and_forms_get_the_deployment_too() {
    let mock =
        Mock::start(|_| Plan::json(200, &json!({ "text": "hi", "choices": [{ "message": { "content": "hi" } }] })))
            .await;
    let gateway = Gateway::start(&format!(
        "pools: {{ p: {{ speaks: [chat, audio], backends: [{{ url: \"{}\", model: up }}] }} }}\nmodels: {{ m: {{ to: p }} }}\n",
        mock.url()
    ))
    .await;
    let body = json!({ "messages": [{ "role": "user", "content": "Hi" }] });
    let path = "/openai/deployments/m/chat/completions?api-version=2024-10-21&x=1";
    client::post(&gateway.at(path), &body).await;
    assert_eq!(mock.seen().pop().unwrap().path, "/v1/chat/completions?x=1");
    let form = "--x\r\nContent-Disposition: form-data; name=\"language\"\r\n\r\nen\r\n--x--\r\n";
    let path = "/openai/deployments/m/audio/transcriptions?api-version=2024-10-21";
    let request = client::http().post(gateway.at(path)).header("content-type", "multipart/form-data; boundary=x");
    let answer = client::answer(request.body(form)).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let seen = mock.seen().pop().unwrap();
    let body = String::from_utf8_lossy(&seen.body).into_owned();
    assert!(seen.path == "/v1/audio/transcriptions" && body.contains("name=\"model\"\r\n\r\nup\r\n"), "{body}");
}
