//! Backends' names in answers to callers, and never their addresses.

use serde_json::{Value, json};

use crate::support::{
    client::{self, answer, get, http, post},
    gateway::Gateway,
    mock::{Mock, polite},
};

fn chat(model: &str) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": "hi" }] })
}

#[tokio::test]
async fn callers_see_no_address_of_a_backend_without_a_name() {
    let mock = Mock::start(polite).await;
    let gone = Mock::start(polite).await;
    let named = Mock::start(polite).await;
    let gone_at = gone.stop().await;
    let gateway = Gateway::start(&format!(
        "engines: {{ gpu: {{ url: \"{}\" }} }}\n\
         pools:\n  main: {{ model: m, backends: [\"{}\"] }}\n  dead: {{ model: d, backends: [\"http://{gone_at}/v1\"] }}\n  \
         other: {{ model: o, backends: [{{ engine: gpu }}] }}\n",
        named.url(),
        mock.url()
    ))
    .await;
    let addresses = [mock.addr(), gone_at].map(|address| address.to_string());
    let hidden = |what: &str, text: &str| {
        for address in &addresses {
            let port = address.rsplit_once(':').expect("a port").1;
            assert!(!text.contains(&**address) && !text.contains(&format!(":{port}")), "{what}: {text}");
        }
    };
    let ask = |model: &str| {
        let request = http().post(gateway.at("/v1/chat/completions")).header("x-signalbox-explain", "1");
        answer(client::json(request, &chat(model)))
    };
    let answered = ask("m").await;
    assert_eq!((answered.status.as_u16(), answered.header("x-signalbox-backend")), (200, "main-1"));
    assert!(answered.header("x-signalbox-explain").starts_with("main-1="), "{:?}", answered.headers);
    hidden("headers", &format!("{:?}", answered.headers));
    assert_eq!(ask("o").await.header("x-signalbox-backend"), "gpu", "a name is shown");
    let failed = ask("d").await;
    assert!(failed.status.is_server_error() && failed.text().contains("'dead-1'"), "{}", failed.text());
    hidden("an error", &(failed.text() + &format!("{:?}", failed.headers)));
    let explained = post(&gateway.at("/v1/route/explain"), &chat("m")).await;
    assert_eq!(explained.json()["pools"][0]["backend"], "main-1", "{}", explained.text());
    hidden("an explanation", &explained.text());
    let metrics = get(&gateway.at("/metrics")).await.text();
    assert!(
        metrics.contains("backend=\"main-1\"") && metrics.contains("engine=\"main-1\"") && metrics.contains("\"gpu\"")
    );
    hidden("metrics", &metrics);

    // Operators see where everything is.
    let reported = gateway.decision(answered.header("x-signalbox-id")).await;
    assert_eq!(reported["attempts"][0]["backend"], json!(addresses[0]), "{reported}");
    let metrics = get(&gateway.admin("/metrics")).await.text();
    assert!(addresses.iter().all(|address| metrics.contains(&format!("\"{address}\""))));
}
