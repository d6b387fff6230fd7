//! `hold_back`: an answer that breaks off among the held tokens is restarted elsewhere, where it could not be resumed later.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    client::{End, Sse, data},
    gateway::Gateway,
    mock::{Mock, Plan, Seen, chat_events},
};

fn words(who: &str) -> Vec<String> {
    (0..40).map(|number| format!("{who}{number} ")).collect()
}

/// The first `tokens` of an answer; the caller adds the rest.
fn begun(tokens: usize) -> Plan {
    Plan::stream().events(&chat_events(words("a"))[..=tokens])
}

/// A provider with the behaviour `plan`, and another with an answer of its own.
struct Bed {
    first: Mock,
    other: Mock,
    gateway: Gateway,
}

impl Bed {
    async fn start(plan: impl Fn(&Seen) -> Plan + Send + Sync + 'static) -> Self {
        let first = Mock::start(plan).await;
        let other = Mock::start(|_| Plan::chat_stream(words("b"))).await;
        let policy = format!(
            "pools:\n  first: {{ model: one, backends: [\"{}\"] }}\n  other: {{ model: two, backends: [\"{}\"] }}\n\
             models:\n  auto: {{ to: first, fallback: [other], hold_back: 16 }}\n",
            first.url(),
            other.url()
        );
        Self { first, other, gateway: Gateway::start(&policy).await }
    }

    /// Sends a request whose answer cannot be resumed in the middle, since it may call tools.
    async fn ask(&self) -> Sse {
        let tool = json!({ "type": "function", "function": { "name": "look", "parameters": { "type": "object" } } });
        let body = json!({ "model": "auto", "stream": true, "tools": [tool],
            "messages": [{ "role": "user", "content": "Count." }] });
        Sse::post(&self.gateway.at("/v1/chat/completions"), &body).await
    }

    /// Text of an answer, code of the error in it, and number of requests at both providers.
    async fn outcome(&self) -> (String, Option<String>, (usize, usize)) {
        let (events, end) = self.ask().await.rest().await;
        assert!(matches!(end, End::Clean), "{end:?}");
        let values: Vec<Value> = events.iter().filter_map(|event| serde_json::from_str(&data(event)?).ok()).collect();
        let text = values.iter().filter_map(|value| value["choices"][0]["delta"]["content"].as_str()).collect();
        let error = values.iter().find_map(|value| value["error"]["code"].as_str().map(str::to_owned));
        (text, error, (self.first.seen().len(), self.other.seen().len()))
    }
}

#[tokio::test]
async fn a_stream_that_breaks_while_held_back_is_restarted_elsewhere() {
    for plan in [|| begun(5).cut(), || begun(5), || begun(5).event(r#"{"error":{"message":"out of memory"}}"#)] {
        let bed = Bed::start(move |_| plan()).await;
        let (text, error, (first, other)) = bed.outcome().await;
        assert_eq!((text, error), (words("b").concat(), None));
        assert!(first >= 1 && other == 1, "{first} and {other} attempts");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_after_the_hold_ends_in_an_error() {
    let bed = Bed::start(|_| begun(39).cut()).await;
    let (text, error, attempts) = bed.outcome().await;
    assert_eq!((text, error.as_deref(), attempts), (words("a")[..39].concat(), Some("stream_cut"), (1, 0)));
}

#[tokio::test]
async fn an_answer_shorter_than_the_hold_is_passed_on_at_once() {
    // The connection breaks after the last word, which takes nothing away.
    let bed = Bed::start(|_| Plan::stream().events(chat_events(["only ", "this"])).cut()).await;
    assert_eq!(bed.outcome().await, ("only this".to_owned(), None, (1, 0)));
}

#[tokio::test]
async fn a_stream_that_stalls_while_held_back_is_restarted_elsewhere() {
    let bed = Bed::start(|_| begun(5).hang()).await;
    let (text, error, attempts) = bed.outcome().await;
    assert_eq!((text, error, attempts), (words("b").concat(), None, (1, 1)));
}

#[tokio::test]
async fn a_slow_answer_is_not_held_for_long() {
    let late = Duration::from_millis(1_200);
    let more = || chat_events(words("a"));
    let bed = Bed::start(move |_| begun(3).pause(late).events(&more()[4..5]).gate(0).events(&more()[5..]).done()).await;
    let mut answer = bed.ask().await;
    // The first token after a second releases those that were held, though there are fewer than the route holds back.
    for _ in 0..5 {
        assert!(answer.event().await.is_ok());
    }
    bed.first.open(0);
    let (events, end) = answer.rest().await;
    assert!(matches!(end, End::Clean) && events.len() > 30, "{end:?} after {}", events.len());
    assert_eq!(bed.other.seen().len(), 0);
}
