//! Background traffic: second answers from which routes with tiers learn the difficulty of prompts.

use serde_json::{Value, json};

use crate::support::{
    client::{Answer, Sse, post},
    gateway::{Gateway, Metrics},
    mock::{Mock, Plan, Seen, chat_events, usage_event},
    until,
};

fn tiers(budget: &str, mocks: [&Mock; 3]) -> String {
    let [small, large, judge] = mocks.map(Mock::url);
    format!(
        "{budget}\npools:\n  small: {{ model: s, backends: [\"{small}\"] }}\n  large: {{ model: l, backends: [\"{large}\"] }}\n  \
         judge: {{ model: j, backends: [\"{judge}\"] }}\n\
         models:\n  auto: {{ complexity: {{ tiers: [small, large], shares: [50%, 50%] }} }}\n"
    )
}

/// Answers with `say`, streamed on request.
async fn mock(say: impl Fn(&Value) -> String + Send + Sync + 'static) -> Mock {
    let plan = move |seen: &Seen| {
        let body = seen.json();
        let text = say(&body);
        if body["stream"] == true {
            Plan::stream().events(chat_events([text])).event(&usage_event(9, 3)).done()
        } else {
            Plan::chat(&text)
        }
    };
    Mock::start(plan).await
}

fn prompt(body: &Value) -> &str {
    body["messages"][0]["content"].as_str().unwrap_or_default()
}

async fn ask(gateway: &Gateway, text: &str) -> Answer {
    let body = json!({ "model": "auto", "messages": [{ "role": "user", "content": text }] });
    post(&gateway.at("/v1/chat/completions"), &body).await
}

fn pairs(metrics: &Metrics) -> f64 {
    metrics.sum("signalbox_pairs_total", &[])
}

#[tokio::test]
async fn both_ends_of_the_tiers_are_compared_within_the_budget() {
    // What is asked of tulips is too much for the small model.
    let small = mock(|body| if prompt(body).contains("tulip") { "41".to_owned() } else { "42".to_owned() }).await;
    let large = mock(|_| "It is 42.".to_owned()).await;
    let judge = mock(|_| "never asked".to_owned()).await;
    let gateway = Gateway::start(&tiers("background: { budget: 100% }", [&small, &large, &judge])).await;
    let mut asked = 0_u32;
    until("twenty pairs", async || {
        let flower = if asked.is_multiple_of(2) { "tulip" } else { "river" };
        let text = format!("{flower} {asked}");
        if asked.is_multiple_of(3) {
            let body = json!({ "model": "auto", "stream": true, "messages": [{ "role": "user", "content": text }] });
            let (text, _) = Sse::post(&gateway.at("/v1/chat/completions"), &body).await.text().await;
            assert!(text.contains("42") || text == "41", "{text}");
        } else {
            assert_eq!(ask(&gateway, &text).await.status, 200);
        }
        asked += 1;
        pairs(&gateway.metrics().await) >= 20.0
    })
    .await;
    // Those under way end, and no more come.
    let pair = ["purpose=\"pair\"", "outcome=\"ok\""];
    let metrics = gateway
        .wait_metrics("the errands to end", |metrics| {
            let sent = metrics.sum("signalbox_background_requests_total", &pair);
            metrics.sum("signalbox_in_flight", &[]) < 0.5 && (sent - pairs(metrics)).abs() < 0.1
        })
        .await;
    let count = |result: &str| metrics.sum("signalbox_pairs_total", &[&format!("result=\"{result}\"")]);
    let (agreed, disagreed) = (count("agreed"), count("disagreed"));
    assert!(agreed >= 3.0 && disagreed >= 3.0 && (agreed + disagreed - pairs(&metrics)).abs() < 0.1, "{metrics:?}");
    let requests = metrics.sum("signalbox_requests_total", &["outcome=\"ok\""]);
    assert!((requests - f64::from(asked)).abs() < 0.1, "{metrics:?}");
    let sent = metrics.sum("signalbox_background_requests_total", &pair);
    let tokens = |name: &str| metrics.sum(name, &[]);
    let (own, all) = (tokens("signalbox_background_tokens_total"), tokens("signalbox_tokens_total"));
    assert!(own > 0.0 && own <= all * 0.55, "as much as callers' own at most: {own} of {all}");
    assert_eq!((small.seen().len() + large.seen().len(), judge.seen().len()), (asked as usize + sent as usize, 0));
    let learned = gateway.get_json("/admin/complexity").await["learned"]["auto"].clone();
    assert_eq!((learned["pairs"].as_f64(), learned["labels"].as_f64()), (Some(sent), Some(sent)), "{learned}");
}

#[tokio::test]
async fn a_judge_decides_what_words_do_not_show() {
    let small = mock(|_| "a poor tale of a fox".to_owned()).await;
    let large = mock(|_| "a good tale of a wolf".to_owned()).await;
    let judge = mock(|body| {
        let data: Value =
            serde_json::from_str(body["messages"][1]["content"].as_str().unwrap_or_default()).unwrap_or_default();
        let good = |answer: &Value| answer.as_str().is_some_and(|text| text.contains("good"));
        if good(&data["A"]) { "A".to_owned() } else { "The better one is B".to_owned() }
    })
    .await;
    let policy = tiers("background: { budget: 100%, judge: judge }", [&small, &large, &judge]);
    let gateway = Gateway::start(&policy).await;
    until("six judgements", async || {
        assert_eq!(ask(&gateway, "tell me a tale").await.status, 200);
        gateway.metrics().await.sum("signalbox_pairs_total", &["result=\"larger\""]) >= 6.0
    })
    .await;
    let asked = judge.seen();
    assert!(asked.iter().all(|seen| seen.json()["model"] == "j" && seen.json()["temperature"] == 0));
    let metrics = gateway.metrics().await;
    assert!(metrics.sum("signalbox_pairs_total", &["result=\"smaller\""]) < 0.1, "{metrics:?}");
}

#[tokio::test]
async fn without_a_budget_nothing_is_sent_and_only_where_it_is_allowed() {
    let (small, large, judge) =
        (mock(|_| "1".to_owned()).await, mock(|_| "1".to_owned()).await, mock(|_| "1".to_owned()).await);
    for background in ["", "background: { budget: 0% }", "background: { budget: 50%, pools: [judge] }"] {
        let before = small.seen().len() + large.seen().len();
        let gateway = Gateway::start(&tiers(background, [&small, &large, &judge])).await;
        for number in 0..10 {
            assert_eq!(ask(&gateway, &format!("question {number}")).await.status, 200);
        }
        assert!(gateway.metrics().await.sum("signalbox_background_requests_total", &[]) < 0.1);
        drop(gateway);
        assert_eq!(small.seen().len() + large.seen().len(), before + 10, "{background}");
    }
}
