//! Routing by the rules of a model: conditions, lengths, contexts, complexity; and explanations before and after.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{
    client::{Answer, answer, http, json, post},
    gateway::Gateway,
    mock::{Mock, polite},
    until,
};

const CHAT: &str = "/v1/chat/completions";

/// Three engines behind as many pools, and the rules of the model `auto`.
async fn bed(routes: &str) -> (Vec<Mock>, Gateway) {
    let mut mocks = Vec::new();
    for _ in 0..3 {
        mocks.push(Mock::start(polite).await);
    }
    let policy = format!(
        "pools:\n  small: {{ model: s, context: 16k, price: {{ input: 1, output: 1 }}, backends: [\"{}\"] }}\n  \
         large: {{ model: l, context: 16k, price: {{ input: 9, output: 9 }}, backends: [\"{}\"] }}\n  \
         long: {{ model: x, context: 128k, backends: [\"{}\"] }}\nmodels:\n  auto:\n    routes:\n{routes}\n",
        mocks[0].url(),
        mocks[1].url(),
        mocks[2].url()
    );
    let gateway = Gateway::start(&policy).await;
    (mocks, gateway)
}

fn said(text: &str) -> Value {
    json!({ "model": "auto", "messages": [{ "role": "user", "content": text }] })
}

async fn ask(gateway: &Gateway, body: &Value, headers: &[(&str, &str)]) -> Answer {
    let mut request = json(http().post(gateway.at(CHAT)), body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    answer(request).await
}

/// Pool and route of an answer.
fn way(answer: &Answer) -> (&str, &str) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    (answer.header("x-signalbox-pool"), answer.header("x-signalbox-route"))
}

#[tokio::test]
async fn the_first_rule_whose_condition_holds_is_used() {
    let (_mocks, gateway) = bed("      - { name: city, when: 'headers[\"x-city\"] == \"Zürich\"', to: large }\n      \
               - { name: elsewhere, when: '\"x-city\" in headers', to: long }\n      \
               - { name: tools, when: request.tools > 0 || request.images > 0, to: large }\n      \
               - { name: gold, when: 'headers[\"x-tier\"] == \"gold\"', to: large }\n      \
               - { name: batch, when: request.class == \"batch\", to: long }\n      \
               - { name: german, when: prompt.language == \"de\", to: long }\n      \
               - { name: rest, to: small }")
    .await;
    let plain = said("What is the capital of France?");
    assert_eq!(way(&ask(&gateway, &plain, &[]).await), ("small", "rest"));
    assert_eq!(way(&ask(&gateway, &plain, &[("x-tier", "gold")]).await), ("large", "gold"));
    assert_eq!(way(&ask(&gateway, &plain, &[("x-signalbox-class", "batch")]).await), ("long", "batch"));
    let from = async |city: &'static [u8]| {
        let request = json(http().post(gateway.at("/v1/chat/completions")), &plain).header("x-city", city);
        way(&answer(request).await).1.to_owned()
    };
    assert_eq!(from("Zürich".as_bytes()).await, "city");
    assert_eq!(from(b"Z\xfcrich").await, "elsewhere", "what is no text was sent all the same");
    let mut flex = plain.clone();
    flex["service_tier"] = json!("flex");
    assert_eq!(way(&ask(&gateway, &flex, &[]).await), ("long", "batch"));
    let german =
        said("Bitte erkläre mir in wenigen Sätzen, warum der Himmel am Abend rot erscheint und am Mittag blau ist.");
    assert_eq!(way(&ask(&gateway, &german, &[]).await), ("long", "german"));
    let mut tools = plain.clone();
    tools["tools"] = json!([{ "type": "function", "function": { "name": "f", "parameters": { "type": "object" } } }]);
    let answer = ask(&gateway, &tools, &[]).await;
    assert_eq!(way(&answer), ("large", "tools"));
    let decision = gateway.get_json(&format!("/admin/decisions/{}", answer.header("x-signalbox-id"))).await;
    let before = decision["explained"]["passed_over"].as_array().unwrap();
    assert_eq!(before.iter().map(|route| &route["route"]).collect::<Vec<_>>(), ["city", "elsewhere"]);
    let id = ask(&gateway, &plain, &[]).await.header("x-signalbox-id").to_owned();
    let decision = gateway.get_json(&format!("/admin/decisions/{id}")).await;
    assert_eq!(decision["explained"]["passed_over"][5], json!({ "route": "german", "because": "condition" }));
}

#[tokio::test]
async fn a_model_without_a_last_rule_says_so() {
    let (mocks, gateway) = bed("      - { when: request.stream, to: small }").await;
    let answer = ask(&gateway, &said("hi"), &[]).await;
    assert_eq!((answer.status.as_u16(), answer.json()["error"]["code"].as_str()), (400, Some("no_route")));
    assert!(mocks.iter().all(|mock| mock.seen().is_empty()));
}

#[tokio::test]
async fn a_long_prompt_goes_to_the_long_pool_and_one_too_long_is_refused_with_numbers() {
    let (mocks, gateway) = bed("      - { to: small, fallback: [large, long] }").await;
    let of = |tokens: usize| said(&"word ".repeat(tokens * 4 / 5));
    assert_eq!(way(&ask(&gateway, &of(2_000), &[]).await).0, "small");
    let answer = ask(&gateway, &of(30_000), &[]).await;
    assert_eq!(way(&answer).0, "long");
    let decision = gateway.get_json(&format!("/admin/decisions/{}", answer.header("x-signalbox-id"))).await;
    assert_eq!(decision["explained"]["too_small"], json!(["small", "large"]));
    let before = mocks.iter().map(|mock| mock.seen().len()).sum::<usize>();
    let refused = ask(&gateway, &of(400_000), &[]).await;
    assert_eq!(
        (refused.status.as_u16(), refused.json()["error"]["code"].as_str()),
        (400, Some("context_length_exceeded"))
    );
    let message = refused.json()["error"]["message"].to_string();
    assert!(message.contains("128000") && message.contains("the model 'auto'"), "{message}");
    // The answer counts too.
    let mut greedy = of(1_000);
    greedy["max_tokens"] = json!(100_000);
    assert_eq!(way(&ask(&gateway, &greedy, &[]).await).0, "long");
    greedy["max_tokens"] = json!(200_000);
    assert_eq!(ask(&gateway, &greedy, &[]).await.status, 400);
    assert_eq!(mocks.iter().map(|mock| mock.seen().len()).sum::<usize>(), before + 1, "what is refused is not sent");
    // Of a list of inputs each is limited, not their sum.
    let inputs = json!({ "model": "auto", "input": vec!["word ".repeat(6_000); 40] });
    let answer = post(&gateway.at("/v1/embeddings"), &inputs).await;
    assert_eq!(way(&answer).0, "small");
}

#[tokio::test]
async fn a_boundary_divides_short_from_long() {
    let (_mocks, gateway) =
        bed("      - { length: { short: small, long: long, boundary: 2k }, fallback: [large] }").await;
    assert_eq!(way(&ask(&gateway, &said(&"word ".repeat(500)), &[]).await).0, "small");
    assert_eq!(way(&ask(&gateway, &said(&"word ".repeat(6_000)), &[]).await).0, "long");
}

#[tokio::test]
async fn hard_prompts_go_up_and_their_conversations_stay_there() {
    // Half goes up and a sixth is hard: even where a busy machine halves the upper tier's share, the hard fit into it.
    let (_mocks, gateway) =
        bed("      - { name: tiers, complexity: { tiers: [small, large], shares: [50%, 50%] } }").await;
    let hard = "Prove that there are infinitely many primes congruent to 3 modulo 4, then derive a lower bound on how many lie below n, \
                and explain why the same argument fails for 1 modulo 4. State each lemma exactly.";
    let mut pools = BTreeMap::new();
    for number in 0..120 {
        // Some words of its own, lest it should count as one conversation.
        let text = if number % 6 == 0 { format!("{hard} ({number})") } else { format!("hi, number {number}") };
        let answer = ask(&gateway, &said(&text), &[]).await;
        let pool = way(&answer).0.to_owned();
        // A short prompt's marks are capped: it may stay below the bar that is assumed before any traffic, until the bar is learned.
        if number < 48 {
            continue;
        }
        *pools.entry((number % 6 == 0, pool)).or_insert(0) += 1;
    }
    let large = |is_hard: bool| pools.get(&(is_hard, "large".to_owned())).copied().unwrap_or(0);
    assert!(large(true) == 12 && large(false) <= 36, "{pools:?}");
    // A short follow-up stays where its hard conversation is.
    let mut talk = said(&format!("{hard} (a conversation)"));
    assert_eq!(way(&ask(&gateway, &talk, &[]).await).0, "large");
    for follow_up in ["thanks", "and now?", "ok", "go on", "fine", "hi", "thanks again"] {
        let messages = talk["messages"].as_array_mut().expect("messages");
        messages.push(json!({ "role": "assistant", "content": "Because." }));
        messages.push(json!({ "role": "user", "content": follow_up }));
        assert_eq!(way(&ask(&gateway, &talk, &[]).await).0, "large", "{follow_up}");
    }
}

#[tokio::test]
async fn a_client_may_name_the_pool_itself() {
    let (_mocks, gateway) = bed("      - { to: small }").await;
    let forced = ask(&gateway, &said("hi"), &[("x-signalbox-pool", "large")]).await;
    assert_eq!(way(&forced).0, "large");
    let unknown = ask(&gateway, &said("hi"), &[("x-signalbox-pool", "larg")]).await;
    assert_eq!(unknown.status, 400);
    assert!(unknown.text().contains("did you mean 'large'?"), "{}", unknown.text());
}

#[tokio::test]
async fn a_request_is_explained_without_being_sent() {
    let (mocks, gateway) = bed("      - { name: tools, when: request.tools > 0, to: large }\n      \
               - { name: tiers, complexity: { tiers: [small, large], shares: [75%, 25%] }, fallback: [long] }")
    .await;
    let url = gateway.at("/v1/route/explain");
    let one = post(&url, &said("hi")).await.json();
    assert_eq!((one["route"].as_str(), one["explained"]["tier"]["tier"].as_u64()), (Some("tiers"), Some(0)));
    assert_eq!(one["pools"][0]["pool"], "small");
    assert!(one["explained"]["complexity"]["reasons"].is_object(), "{one}");
    let mut tools = said("hi");
    tools["tools"] = json!([{}]);
    let many = json!({ "requests": [
        { "request": said("hi"), "label": "small" },
        { "request": tools, "label": "small" },
        { "request": { "model": "nobody", "messages": [1] } },
    ] });
    let many = post(&url, &many).await.json();
    assert_eq!(many["summary"]["routes"], json!({ "tiers": 1, "tools": 1 }));
    assert_eq!(many["summary"]["confusion"], json!({ "small": { "small": 1, "large": 1 } }));
    assert_eq!((many["summary"]["accuracy"].as_f64(), many["summary"]["refused"].as_u64()), (Some(0.5), Some(1)));
    assert_eq!(many["results"][2]["error"]["code"], "model_not_found");
    let completion = json!({ "model": "auto", "prompt": "a poem about a river" });
    let completion = post(&format!("{url}?endpoint=completions"), &completion).await.json();
    assert_eq!(
        (&completion["route"], &completion["pools"][0]["pool"]),
        (&json!("tiers"), &json!("small")),
        "{completion}"
    );
    for (query, words) in
        [("endpoint=poems", "'poems' is no endpoint; there are chat,"), ("model=auto", "no 'model' to ask by")]
    {
        let refused = post(&format!("{url}?{query}"), &said("hi")).await;
        assert_eq!(refused.status, 400);
        assert!(refused.text().contains(words), "{}", refused.text());
    }
    assert!(mocks.iter().all(|mock| mock.seen().is_empty()));
    assert_eq!(gateway.get_json("/admin/decisions").await.as_array().map(Vec::len), Some(0));
}

#[tokio::test]
async fn feedback_is_learned_persisted_and_rolled_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("lessons.json");
    let mut mocks = Vec::new();
    for _ in 0..2 {
        mocks.push(Mock::start(polite).await);
    }
    let policy = format!(
        "learning: {{ file: \"{}\" }}\npools:\n  small: {{ model: s, backends: [\"{}\"] }}\n  large: {{ model: l, backends: [\"{}\"] }}\n\
         models:\n  auto: {{ complexity: {{ tiers: [small, large], shares: [50%, 50%] }} }}\n",
        file.display(),
        mocks[0].url(),
        mocks[1].url()
    );
    let mut gateway = Gateway::start(&policy).await;
    let url = gateway.at("/v1/feedback");
    // Prompts about tulips are too much for the small model, those about rivers are not, whatever their length says.
    for number in 0..160_u32 {
        let hard = number % 2 == 0;
        let text = if hard { format!("tulip number {number} blooms") } else { format!("river number {number} flows") };
        let answer = ask(&gateway, &said(&text), &[]).await;
        let small = way(&answer).0 == "small";
        let outcome = match (hard, small) {
            (true, true) => "underpowered",
            (false, false) => "overprovisioned",
            _ => "ok",
        };
        let word = json!({ "request_id": answer.header("x-signalbox-id"), "outcome": outcome });
        let reply = post(&url, &word).await;
        assert_eq!(reply.json(), json!({ "recorded": true, "learned": true }), "{}", reply.text());
        // Labels that come during a try do not count towards the next one.
        if (number + 1) % 50 == 0 {
            until("a try at better weights", async || {
                gateway.get_json("/admin/complexity").await["learned"]["auto"]["tries"] == (number + 1) / 50
            })
            .await;
        }
    }
    let learned = gateway.get_json("/admin/complexity").await["learned"]["auto"].clone();
    assert_eq!(learned["feedback"], 160);
    assert!(learned["promotions"].as_u64() >= Some(1), "{learned}");
    assert!(learned["weights"].as_str().is_some_and(|version| version.contains('+')), "{learned}");
    let explained = async |text: &str| post(&gateway.at("/v1/route/explain"), &said(text)).await.json();
    let (tulip, river) = (explained("tulip number 900 blooms").await, explained("river number 900 flows").await);
    let score = |it: &Value| it["explained"]["complexity"]["score"].as_f64().expect("a score");
    assert!(score(&tulip) > score(&river) + 0.2, "{tulip} {river}");

    // Invalid and unknown values are refused.
    for (word, status) in [
        (json!({ "outcome": "ok" }), 400),
        (json!({ "request_id": "x", "outcome": "meh" }), 400),
        (json!({ "request_id": "x", "outcome": "ok" }), 404),
    ] {
        assert_eq!(post(&url, &word).await.status, status, "{word}");
    }

    // Kept over a restart.
    gateway.sigterm();
    gateway.wait_exit().await;
    let gateway = Gateway::start(&policy).await;
    let reported = gateway.get_json("/admin/complexity").await;
    assert_eq!(reported["learned"]["auto"]["weights"], learned["weights"]);
    let back = post(&gateway.admin("/admin/complexity/rollback?route=auto"), &json!({})).await.json();
    assert_eq!(back, json!({ "route": "auto", "rolled_back": true }));
    let reported = gateway.get_json("/admin/complexity").await;
    assert!(reported["learned"]["auto"]["weights"] != learned["weights"], "{reported}");
}
