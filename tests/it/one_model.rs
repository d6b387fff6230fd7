//! Requests that mean something to one model, or to the API of one pool: they wait or fail rather than become something else
//! elsewhere. Answers with embeddings are compared with their inputs.

use serde_json::{Value, json};

use crate::support::{
    client::{self, Answer, post},
    gateway::Gateway,
    mock::{Mock, Plan, Seen, polite},
    until,
};

async fn embed(gateway: &Gateway, model: &str, input: Value) -> Answer {
    post(&gateway.at("/v1/embeddings"), &json!({ "model": model, "input": input })).await
}

async fn chat(gateway: &Gateway, model: &str, more: Value) -> Answer {
    let mut body = json!({ "model": model, "messages": [{ "role": "user", "content": "Hi" }] });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    post(&gateway.at("/v1/chat/completions"), &body).await
}

/// An engine whose vectors have this width.
async fn embedder(width: usize) -> Mock {
    Mock::start(move |seen| {
        let body = seen.json();
        let count = body["input"].as_array().map_or(1, Vec::len);
        let item = |index| json!({ "object": "embedding", "index": index, "embedding": vec![0.5; width] });
        let data: Vec<Value> = (0..count).map(item).collect();
        Plan::json(
            200,
            &json!({ "object": "list", "model": seen.model(), "data": data, "usage": { "prompt_tokens": 1 } }),
        )
    })
    .await
}

#[tokio::test]
async fn embeddings_that_do_not_match_their_inputs_come_from_another_backend() {
    let broken = Mock::start(|seen| {
        let vector = |index: usize, of: Value| json!({ "object": "embedding", "index": index, "embedding": of });
        let data = match seen.header("x-variant").unwrap_or_default() {
            "joined" => json!([vector(0, json!([1]))]),
            "none" => json!([]),
            "twice" => json!([vector(0, json!([1])), vector(0, json!([1]))]),
            "null" => json!([vector(0, json!([1])), vector(1, json!([null]))]),
            "width" => json!([vector(0, json!([1])), vector(1, json!([1, 2]))]),
            _ => return Plan::json(200, &json!({ "error": { "message": "out of memory", "code": 500 } })),
        };
        Plan::json(200, &json!({ "object": "list", "data": data, "model": "m" }))
    })
    .await;
    let sound = embedder(3).await;
    let gateway = Gateway::start(&format!(
        "pools:\n  a: {{ model: m, backends: [\"{}\"] }}\n  b: {{ model: m, backends: [\"{}\"] }}\n  \
         alone: {{ model: n, backends: [\"{}\"] }}\nmodels:\n  auto: {{ to: a, fallback: [b] }}\n  alone: {{ to: alone }}\n",
        broken.url(),
        sound.url(),
        broken.url()
    ))
    .await;
    for variant in ["joined", "none", "twice", "null", "width", "error"] {
        let ask = |model: &str| {
            let body = json!({ "model": model, "input": ["one", "two"] });
            let request = client::http().post(gateway.at("/v1/embeddings")).header("x-variant", variant);
            client::answer(client::json(request, &body))
        };
        let answer = ask("auto").await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("x-signalbox-pool")),
            (200, "b"),
            "{variant}: {}",
            answer.text()
        );
        let alone = ask("alone").await;
        if variant == "joined" {
            assert_eq!((alone.status.as_u16(), alone.json()["data"].as_array().map(Vec::len)), (200, Some(1)));
            continue;
        }
        assert!(
            alone.status.is_server_error() && alone.json()["error"]["message"].is_string(),
            "{variant}: {}",
            alone.text()
        );
    }
}

#[tokio::test]
async fn embeddings_of_one_name_come_from_one_model() {
    let (small, large) = (embedder(2).await, embedder(3).await);
    let policy = |more: &str| {
        format!(
            "pools:\n  small: {{ model: s, backends: [{{ url: \"{0}\", max_concurrency: 1 }}] }}\n  \
             large: {{ model: l, backends: [{{ url: \"{1}\"{more} }}] }}\nmodels:\n  \
             tiers: {{ complexity: {{ tiers: [small, large], shares: [50%, 50%] }} }}\n  \
             length: {{ length: {{ short: small, long: large, boundary: 50 }} }}\n  \
             spill: {{ to: small, fallback: [large] }}\n  \
             rules: {{ routes: [{{ name: long, when: prompt.tokens > 50, to: large }}, {{ name: short, to: small }}] }}\n  \
             halves: {{ routes: [{{ name: more, when: prompt.tokens > 50, to: small }}, {{ name: less, when: prompt.tokens <= 50, to: large }}] }}\n",
            small.url(),
            large.url()
        )
    };
    let gateway = Gateway::start(&policy("")).await;
    for model in ["tiers", "length", "spill", "rules", "halves"] {
        for text in ["hello", &"Prove that every finite integral domain is a field. ".repeat(20)] {
            let answer = embed(&gateway, model, json!(text)).await;
            assert_eq!(
                (answer.status.as_u16(), answer.header("x-signalbox-pool")),
                (200, "small"),
                "{model}: {}",
                answer.text()
            );
        }
    }
    assert!(large.seen().is_empty());
    let many = futures_util::future::join_all((0..8).map(|_| embed(&gateway, "spill", json!("text")))).await;
    assert!(many.iter().all(|answer| answer.status == 200 && answer.header("x-signalbox-pool") == "small"));
    // The same model by another name.
    let gateway = Gateway::start(&policy(", same_as: s")).await;
    let long = "Prove that every finite integral domain is a field. ".repeat(20);
    let answer = embed(&gateway, "length", json!(long)).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-signalbox-pool")), (200, "large"), "{}", answer.text());
}

#[tokio::test]
async fn token_ids_stay_with_their_vocabulary() {
    let down = Mock::start(|_| Plan::error(503, "starting")).await;
    let up = Mock::start(polite).await;
    let gateway = Gateway::start(&format!(
        "pools:\n  a: {{ model: a, backends: [\"{0}\"] }}\n  b: {{ model: b, backends: [\"{1}\"] }}\n  \
         twin: {{ model: a, backends: [\"{1}\"] }}\n\
         models:\n  other: {{ to: a, fallback: [b] }}\n  same: {{ to: a, fallback: [b, twin] }}\n",
        down.url(),
        up.url()
    ))
    .await;
    for more in [json!({ "allowed_token_ids": [1234] }), json!({ "stop_token_ids": [2], "stream": true })] {
        assert_eq!(chat(&gateway, "other", more.clone()).await.status, 503, "{more}");
        let answer = chat(&gateway, "same", more.clone()).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("x-signalbox-pool")),
            (200, "twin"),
            "{more}: {}",
            answer.text()
        );
    }
    let prompt = json!({ "model": "other", "prompt": [[9906], [1917]], "max_tokens": 3 });
    assert_eq!(post(&gateway.at("/v1/completions"), &prompt).await.status, 503);
    assert_eq!(chat(&gateway, "other", json!({ "logit_bias": {} })).await.status, 200, "no ids");
    // A bias is a hint: an answer without it is better than none.
    for more in [json!({}), json!({ "stream": true })] {
        let mut more = more;
        more["logit_bias"] = json!({ "1234": -100 });
        let answer = chat(&gateway, "other", more).await;
        assert_eq!((answer.status.as_u16(), answer.header("x-signalbox-dropped")), (200, "logit_bias"));
    }
    assert!(up.seen().last().unwrap().json().get("logit_bias").is_none());
    let own = Gateway::start(&format!("pools: {{ p: {{ model: m, backends: [\"{}\"] }} }}\n", up.url())).await;
    let answer = chat(&own, "m", json!({ "logit_bias": { "1234": -100 } })).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-signalbox-dropped")), (200, ""));
    assert_eq!(up.seen().last().unwrap().json()["logit_bias"]["1234"], -100);
}

fn message(_: &Seen) -> Plan {
    Plan::json(
        200,
        &json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "c",
            "content": [{ "type": "text", "text": "ok" }], "stop_reason": "end_turn", "stop_sequence": null,
            "usage": { "input_tokens": 3, "output_tokens": 2 },
        }),
    )
}

#[tokio::test]
async fn a_pool_that_cannot_express_a_request_is_no_candidate() {
    let down = Mock::start(|_| Plan::error(503, "starting")).await;
    let (busy, claude) = (Mock::start(|_| Plan::chat("late").behind(1)).await, Mock::start(message).await);
    let gateway = Gateway::start(&format!(
        "accounts: {{ a: {{ keys: [\"k\"] }} }}\n\
         engines: {{ c: {{ url: \"{}\", dialect: anthropic, account: a }} }}\n\
         pools:\n  down: {{ model: a, backends: [\"{}\"] }}\n  \
         busy: {{ model: b, backends: [{{ url: \"{}\", max_concurrency: 1 }}] }}\n  claude: {{ model: c, backends: [{{ engine: c }}] }}\n\
         models:\n  down: {{ to: down, fallback: [claude] }}\n  busy: {{ to: busy, fallback: [claude] }}\n  \
         last: {{ to: claude, fallback: [down] }}\n  alone: {{ to: claude }}\n",
        claude.url(),
        down.url(),
        busy.url()
    ))
    .await;
    for more in [json!({ "n": 2 }), json!({ "logprobs": true }), json!({ "n": 2, "stream": true })] {
        let status = async |model: &str| chat(&gateway, model, more.clone()).await.status.as_u16();
        assert_eq!((status("down").await, status("last").await), (503, 503), "the outage's error: {more}");
        assert_eq!(status("alone").await, 400, "{more}");
    }
    assert_eq!(chat(&gateway, "down", json!({})).await.status, 200);
    let many = futures_util::future::join_all((0..4).map(|_| chat(&gateway, "busy", json!({ "n": 2 }))));
    let (many, ()) = tokio::join!(many, async {
        until("the first one to arrive", async || !busy.seen().is_empty()).await;
        busy.open(1);
    });
    for answer in many {
        assert_eq!((answer.status.as_u16(), answer.header("x-signalbox-pool")), (200, "busy"), "{}", answer.text());
    }
}
