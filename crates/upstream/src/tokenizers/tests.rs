use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use axum::{Router, extract::Path as Part, routing::get};

use super::*;
use signalbox_prompt::tokens::{Counter, Rendered};

const TINY: &str = r#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"Whitespace"},"post_processor":null,"decoder":null,"model":{"type":"WordLevel","vocab":{"a":0,"[UNK]":1},"unk_token":"[UNK]"}}"#;

/// A hub with one model, `acme/tiny`, that counts requests.
async fn hub(cache: &Path) -> (Hub, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let file = move |Part((org, name)): Part<(String, String)>| {
        counted.fetch_add(1, SeqCst);
        async move {
            match (&*org, &*name) {
                ("acme", "tiny") => Ok(TINY),
                ("acme", "page") => Ok("<html>"),
                _ => Err(http::StatusCode::UNAUTHORIZED),
            }
        }
    };
    let app = Router::new().route("/{org}/{name}/resolve/main/tokenizer.json", get(file));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (Hub::new(&endpoint, cache.to_owned()), asked)
}

async fn loaded(source: &TokenizerSlot) {
    while !source.is_exact() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_hub_model_is_downloaded_once_and_cached() {
    let cache = tempfile::tempdir().unwrap();
    let (hub, asked) = hub(cache.path()).await;
    let name = Tokenizer::Hub("acme/tiny".to_owned());
    let tokenizers = Tokenizers::new(hub.clone());
    let source = tokenizers.source(&name);
    let counter = Counter::new(source.clone());
    loaded(&source).await;
    assert_eq!(counter.count(&Rendered { prompt: r#""a a b""#, ..Rendered::default() }).tokens, 3);
    assert!(Arc::ptr_eq(&source, &tokenizers.source(&name)), "a reload finds it");
    // The next process finds the file.
    loaded(&Tokenizers::new(hub).source(&name)).await;
    assert_eq!(asked.load(SeqCst), 1);
    assert!(cache.path().join("models--acme--tiny/snapshots/main/tokenizer.json").is_file());
}

#[tokio::test]
async fn the_revision_in_use_is_taken_from_the_cache() {
    let cache = tempfile::tempdir().unwrap();
    let (hub, asked) = hub(cache.path()).await;
    let folder = cache.path().join("models--acme--big");
    for (revision, text) in [("0a", "broken"), ("1b", TINY)] {
        std::fs::create_dir_all(folder.join("snapshots").join(revision)).unwrap();
        std::fs::write(folder.join("snapshots").join(revision).join("tokenizer.json"), text).unwrap();
    }
    std::fs::create_dir_all(folder.join("refs")).unwrap();
    std::fs::write(folder.join("refs/main"), "1b\n").unwrap();
    assert!(hub.load("acme/big").await.is_ok());
    assert_eq!(asked.load(SeqCst), 0);
}

#[tokio::test]
async fn loading_errors_name_their_reason() {
    let cache = tempfile::tempdir().unwrap();
    let (hub, _) = hub(cache.path()).await;
    let message = |error: Result<ModelTokenizer, LoadError>| error.unwrap_err().to_string();
    let refused = message(hub.load("meta/gated").await);
    assert!(refused.contains("401") && refused.contains("name the file"), "{refused}");
    assert!(message(hub.load("acme/page").await).starts_with("not a tokenizer.json"));
    assert!(!cache.path().join("models--acme--page").exists(), "what is no tokenizer is not kept");
    let nobody = Hub::new("http://127.0.0.1:1", cache.path().to_owned());
    assert!(message(nobody.load("acme/tiny").await).contains("does not answer"));
    assert!(message(read(cache.path().join("gone.json")).await).contains("gone.json cannot be read"));
}

#[tokio::test]
async fn a_file_is_loaded_in_the_background() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    std::fs::write(&path, TINY).unwrap();
    let tokenizers = Tokenizers::new(Hub::new("http://127.0.0.1:1", folder.path().to_owned()));
    let source = tokenizers.source(&Tokenizer::File(path));
    loaded(&source).await;
    assert!(!tokenizers.source(&Tokenizer::Learned).is_exact());
}
