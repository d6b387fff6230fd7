//! A process with few descriptors refuses requests before it runs out of them, and blames no engine for it.

use serde_json::json;
use tokio::sync::mpsc;

use crate::support::{
    client::{answer, http, json as with_json},
    gateway::{Gateway, Start},
    mock::{Mock, Plan},
    until,
};

const DESCRIPTORS: u32 = 256;
const REQUESTS: usize = 200;

#[tokio::test]
async fn requests_are_refused_before_descriptors_run_out() {
    let mock = Mock::start(|_| Plan::chat("hello").behind(1)).await;
    let policy = format!(
        "engines: {{ e: {{ url: \"{}\", scrape: false }} }}\n\
         pools: {{ p: {{ backends: [{{ engine: e }}] }} }}\n\
         models: {{ chat: {{ to: p }} }}\n",
        mock.url()
    );
    let gateway = Start::with(&policy).descriptors(DESCRIPTORS).start().await;
    let (done, mut answers) = mpsc::unbounded_channel();
    for _ in 0..REQUESTS {
        let (url, done) = (gateway.at("/v1/chat/completions"), done.clone());
        tokio::spawn(async move {
            let body = json!({ "model": "chat", "messages": [{ "role": "user", "content": "hi" }] });
            let _ = done.send(answer(with_json(http().post(url), &body)).await);
        });
    }
    let mut refused = Vec::new();
    until("every request is with the engine or refused", async || {
        refused.extend(std::iter::from_fn(|| answers.try_recv().ok()));
        refused.len() + mock.under_way() == REQUESTS
    })
    .await;
    // An eighth is kept for other uses. Each request takes two descriptors, and each caller one that was not refused yet.
    assert!((24..=112).contains(&mock.under_way()), "{} requests are with the engine", mock.under_way());
    for answer in &refused {
        assert_eq!((answer.status.as_u16(), answer.json()["error"]["code"].as_str()), (503, Some("overloaded")));
        assert_eq!(answer.header("retry-after"), "1");
    }
    mock.open(1);
    for _ in refused.len()..REQUESTS {
        assert_eq!(answers.recv().await.expect("an answer").status, 200);
    }
    assert_eq!(ask(&gateway).await, 200);
    assert!(
        !gateway.log().contains("descriptors are exhausted") && !gateway.log().contains("engine:"),
        "{}",
        gateway.log()
    );
}

async fn ask(gateway: &Gateway) -> u16 {
    let body = json!({ "model": "chat", "messages": [{ "role": "user", "content": "hi" }] });
    answer(with_json(http().post(gateway.at("/v1/chat/completions")), &body)).await.status.as_u16()
}
