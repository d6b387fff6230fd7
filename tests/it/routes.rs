//! Routing by the rules of a model: conditions, lengths, contexts, complexity; and explanations before and after.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{
    client::{self, Answer, answer, http, json, post},
    gateway::Gateway,
    mock::{Mock, Plan, Seen, polite},
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
async fn patterns_have_stars_anywhere_and_names_may_be_refused() {
    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&format!(
        "pools: {{ p: {{ model: s, backends: [\"{0}\"] }}, q: {{ model: l, backends: [\"{0}\"] }} }}\n\
         models:\n  \"*\": {{ to: p }}\n  \"*-large-*\": {{ to: q }}\n  gone: {{ refuse: \"use `new`\" }}\n  \"old-*\": {{ refuse: retired }}\n",
        mock.url()
    ))
    .await;
    let ask = async |model: &str| {
        let body = json!({ "model": model, "messages": [{ "role": "user", "content": "hi" }] });
        post(&gateway.at(CHAT), &body).await
    };
    for (model, pool) in [("any", "p"), ("x-large-1", "q"), ("large-1", "p"), ("old-large-1", "q")] {
        let answer = ask(model).await;
        assert_eq!((answer.status.as_u16(), answer.header("x-signalbox-pool")), (200, pool), "{model}");
    }
    for (model, reason) in [("gone", "use `new`"), ("old-1", "retired")] {
        let answer = ask(model).await;
        assert_eq!(answer.status, 404, "{model}");
        assert_eq!(answer.json()["error"]["code"], "model_not_found");
        assert!(answer.text().contains(reason), "{}", answer.text());
    }
    assert_eq!(mock.seen().len(), 4);
    let listed = client::get(&gateway.at("/v1/models")).await.text();
    assert!(!listed.contains("gone"), "{listed}");
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

/// An answer in the API of the request.
fn in_any_api(seen: &Seen) -> Plan {
    let text = |kind: &str| json!([{ "type": kind, "text": "ok", "annotations": [] }]);
    match &*seen.path {
        "/v1/messages" => Plan::json(
            200,
            &json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": text("text"),
                "stop_reason": "end_turn", "stop_sequence": null, "usage": { "input_tokens": 3, "output_tokens": 1 },
            }),
        ),
        "/v1/responses" => Plan::json(
            200,
            &json!({
                "id": "resp_1", "object": "response", "status": "completed", "model": "m",
                "output": [{ "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": text("output_text") }],
                "usage": { "input_tokens": 3, "output_tokens": 1, "total_tokens": 4 },
            }),
        ),
        _ => polite(seen),
    }
}

/// An engine that speaks chat, completions, Messages and Responses.
async fn native() -> Mock {
    let mock = Mock::start(in_any_api).await;
    mock.set_apis(["/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"]);
    mock
}

/// A picture of this size in base64: the head of a PNG, and bytes that say nothing.
fn picture(width: u32, height: u32, kilobytes: usize) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};

    let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
    let head = [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", &size[..]].concat();
    STANDARD.encode([head, vec![0xA5; kilobytes << 10]].concat())
}

/// Requests with one attachment in each API, at the usual places and in the results of tools.
fn attached(kind: &str, media: &str, data: &str) -> Vec<(&'static str, Value)> {
    let url = format!("data:{media};base64,{data}");
    let chat = match kind {
        "image" => json!({ "type": "image_url", "image_url": { "url": url } }),
        "audio" => json!({ "type": "input_audio", "input_audio": { "data": data, "format": "wav" } }),
        "video" => json!({ "type": "video_url", "video_url": { "url": url } }),
        _ => json!({ "type": "file", "file": { "filename": "a.pdf", "file_data": url } }),
    };
    let call = json!({ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } });
    let source = json!({ "type": "base64", "media_type": media, "data": data });
    let block = json!({ "type": if kind == "files" { "document" } else { "image" }, "source": source });
    let tool_use = json!({ "type": "tool_use", "id": "t", "name": "f", "input": {} });
    let item = if kind == "files" {
        json!({ "type": "input_file", "filename": "a.pdf", "file_data": url })
    } else {
        json!({ "type": "input_image", "detail": "auto", "image_url": url })
    };
    let function = json!({ "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" });
    let user = |content: Value| json!({ "role": "user", "content": content });
    let messages = |messages: Value| json!({ "model": "auto", "max_tokens": 9, "messages": messages });
    let input = |items: Value| json!({ "model": "auto", "store": false, "input": items });
    let mut all = vec![
        (CHAT, messages(json!([user(json!([{ "type": "text", "text": "What is it?" }, chat]))]))),
        (
            CHAT,
            messages(json!([
                user(json!("look")),
                { "role": "assistant", "content": null, "tool_calls": [call] },
                { "role": "tool", "tool_call_id": "c", "content": [chat] }
            ])),
        ),
    ];
    if matches!(kind, "image" | "files") {
        let result = json!({ "type": "tool_result", "tool_use_id": "t", "content": [block] });
        let output = json!({ "type": "function_call_output", "call_id": "c", "output": [item] });
        all.extend([
            ("/v1/messages", messages(json!([user(json!([block]))]))),
            (
                "/v1/messages",
                messages(
                    json!([user(json!("x")), { "role": "assistant", "content": [tool_use] }, user(json!([result]))]),
                ),
            ),
            ("/v1/responses", input(json!([user(json!([item]))]))),
            ("/v1/responses", input(json!([user(json!("x")), function, output]))),
        ]);
    }
    all
}

/// The pool that takes a request, and the tokens that its prompt was estimated at.
async fn placed(gateway: &Gateway, path: &str, body: &Value) -> (String, u64) {
    let answer = post(&gateway.at(path), body).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    let decision = gateway.get_json(&format!("/admin/decisions/{}", answer.header("x-signalbox-id"))).await;
    (
        answer.header("x-signalbox-pool").to_owned(),
        decision["explained"]["prompt_tokens"][1].as_u64().expect("an estimate"),
    )
}

#[tokio::test]
async fn attachments_count_wherever_they_are_and_never_as_text() {
    let mock = native().await;
    let speaks = "speaks: [chat, messages, responses]";
    let pool = |name: &str, context: &str| {
        format!("  {name}: {{ model: m, context: {context}, {speaks}, backends: [\"{}\"] }}\n", mock.url())
    };
    let gateway = Gateway::start(&format!(
        "pools:\n{}{}models:\n  auto:\n    routes:\n      \
         - {{ name: long, when: prompt.tokens > 10000, to: image }}\n      \
         - {{ when: request.audio > 0 || request.video > 0, to: image, name: recorded }}\n      \
         - {{ when: request.images == 1 || request.files == 1, to: text, fallback: [image] }}\n      \
         - {{ name: rest, to: image }}\n",
        pool("text", "16k"),
        pool("image", "200k")
    ))
    .await;
    for (kind, media, pool) in [
        ("image", "image/png", "text"),
        ("files", "application/pdf", "text"),
        ("audio", "audio/wav", "image"),
        ("video", "video/mp4", "image"),
    ] {
        for (path, body) in attached(kind, media, &picture(512, 512, 150)) {
            let (taken, tokens) = placed(&gateway, path, &body).await;
            assert_eq!(taken, pool, "{kind} at {path}: {body}");
            assert!((50..5_000).contains(&tokens), "{tokens} tokens of {kind} at {path}");
        }
    }
}

#[tokio::test]
async fn pictures_weigh_what_their_model_takes_for_them() {
    let mock = Mock::start(polite).await;
    for (model, small, square, large) in [
        ("gpt-4o", 255, 765, 1105),
        ("gpt-4.1-mini", 104, 1659, 2362),
        ("claude-sonnet-4-5", 88, 1399, 1600),
        ("gemini-2.5-flash", 258, 4 * 258, 18 * 258),
        ("qwen2.5-vl-7b-instruct", 83, 1371, 10_660),
    ] {
        let policy = format!(
            "pools: {{ p: {{ model: {model}, speaks: [chat], backends: [\"{}\"] }} }}\nmodels: {{ auto: {{ to: p }} }}\n",
            mock.url()
        );
        let gateway = Gateway::start(&policy).await;
        let tokens = async |parts: Value| {
            let body = json!({ "model": "auto", "messages": [{ "role": "user", "content": parts }] });
            placed(&gateway, CHAT, &body).await.1
        };
        let text = json!({ "type": "text", "text": "What is in this picture?" });
        let alone = tokens(json!([text])).await;
        for (width, height, want) in [(256, 256, small), (1024, 1024, square), (2048, 4096, large)] {
            let url = format!("data:image/png;base64,{}", picture(width, height, 40));
            let found = tokens(json!([text, { "type": "image_url", "image_url": { "url": url } }])).await - alone;
            assert_eq!(found, want, "{model}, {width} × {height}");
        }
    }
}

#[tokio::test]
async fn escapes_weigh_what_they_stand_for() {
    let (_mocks, gateway) =
        bed("      - { name: long, when: prompt.tokens > 3000, to: long }\n      - { to: small }").await;
    let text = "Сегодня хорошая погода, поэтому мы гуляли в парке. ".repeat(100);
    let plain = said(&text).to_string();
    let escaped: String = plain
        .chars()
        .map(|letter| if letter.is_ascii() { letter.to_string() } else { format!("\\u{:04x}", u32::from(letter)) })
        .collect();
    assert!(escaped.len() > 2 * plain.len());
    let mut found = Vec::new();
    for body in [plain, escaped] {
        let request = http().post(gateway.at(CHAT)).header("content-type", "application/json").body(body);
        let answer = answer(request).await;
        let decision = gateway.get_json(&format!("/admin/decisions/{}", answer.header("x-signalbox-id"))).await;
        found.push((way(&answer).0.to_owned(), decision["explained"]["prompt_tokens"][1].clone()));
    }
    assert_eq!((&*found[0].0, &found[0]), ("small", &found[1]));
}

#[tokio::test]
async fn a_prompt_whose_caller_asks_for_truncation_is_not_refused() {
    let mock = native().await;
    let gateway = Gateway::start(&format!(
        "pools: {{ p: {{ context: 8k, speaks: [chat, completions, responses, messages], backends: [\"{}\"] }} }}\n\
         models: {{ auto: {{ to: p }} }}\n",
        mock.url()
    ))
    .await;
    let long = "one more word ".repeat(20_000);
    let messages = json!([{ "role": "user", "content": long }]);
    for (path, prompt, extra, status) in [
        (CHAT, json!({ "messages": messages }), json!({ "truncate_prompt_tokens": -1 }), 200),
        (CHAT, json!({ "messages": messages, "stream": true }), json!({ "transforms": ["middle-out"] }), 200),
        ("/v1/completions", json!({ "prompt": long }), json!({ "truncate_prompt_tokens": 4000 }), 200),
        ("/v1/responses", json!({ "input": long, "store": false }), json!({ "truncation": "auto" }), 200),
        ("/v1/responses", json!({ "input": long, "store": false }), json!({ "truncation": "disabled" }), 400),
        (CHAT, json!({ "messages": messages }), json!({}), 400),
    ] {
        let mut body = prompt;
        body["model"] = json!("auto");
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let answer = post(&gateway.at(path), &body).await;
        assert_eq!(answer.status, status, "{path} {extra}: {}", answer.text().chars().take(200).collect::<String>());
    }
}
