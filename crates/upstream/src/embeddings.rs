//! Client of OpenAI's `/v1/embeddings`, and an [`Embedder`] over it for worker threads, each of which waits for one
//! answer at a time.

use std::{sync::OnceLock, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use super::{
    client::Client,
    outgoing::{Outgoing, SendError},
};
use signalbox_cache::{EmbedError, Embedder};
use signalbox_embed::normalise;
use signalbox_policy::Secret;

/// Texts per request; servers allow at least 32.
const BATCH: usize = 32;
/// Largest answer for one text, in bytes: 16,384 numbers of 32 characters.
const MAX_BYTES_PER_TEXT: usize = 512 << 10;
/// Length of the excerpt of an error response, in bytes.
const EXCERPT: usize = 200;

/// A server's embedding model.
#[derive(Debug)]
pub struct Embeddings {
    client: Client,
    source: Source,
    headers: HeaderMap,
    dimensions: OnceLock<usize>,
}

/// Source of vectors.
#[derive(Clone, Debug)]
pub struct Source {
    /// Base URL of the API, such as `http://127.0.0.1:8080/v1`.
    pub url: String,
    /// Model name.
    pub model: String,
    /// API key, if the server requires one.
    pub key: Option<Secret>,
    /// Length of its vectors, if it should be requested.
    pub dimensions: Option<usize>,
    /// Timeout of a request, including its answer.
    pub timeout: Duration,
}

/// Reason why there are no vectors.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingsError {
    /// The key cannot be sent.
    #[error("the key has characters that no header may have")]
    Key,
    /// No answer.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The answer did not come in time.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// The server rejected the request.
    #[error("it answers {status}: {excerpt}")]
    Refused {
        /// Status.
        status: StatusCode,
        /// Beginning of the response body.
        excerpt: String,
    },
    /// The answer broke off, or is too large.
    #[error("its answer broke off or is too large")]
    Broken,
    /// The answer is not a list of vectors.
    #[error("its answer is no list of embeddings: {0}")]
    Shape(String),
    /// There is not exactly one vector per text.
    #[error("its answer has no embedding for text {0}, or two")]
    Texts(usize),
    /// A vector has another length than earlier ones, or than requested.
    #[error(
        "its embeddings should have {before} dimensions, as asked for or as before, and have {now}: was the model behind that name \
         changed? (a reload with another `model` or `dimensions`, or a restart, begins anew)"
    )]
    Dimensions {
        /// Dimensions requested, or those of its first answer.
        before: usize,
        /// Dimensions of this answer.
        now: usize,
    },
    /// A vector has no direction.
    #[error("its embedding of text {0} is zero or not finite")]
    Direction(usize),
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    input: &'a [&'a str],
    encoding_format: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    embedding: Vec<f32>,
}

impl Embeddings {
    /// Creates a client of `source`. Sends nothing yet.
    pub fn new(client: Client, source: Source) -> Result<Self, EmbeddingsError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &source.key {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.0)).map_err(|_| EmbeddingsError::Key)?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        let dimensions = source.dimensions.map_or_else(OnceLock::new, OnceLock::from);
        Ok(Self { client, source, headers, dimensions })
    }

    /// Name for keys: vectors of another server, model or length are never compared with these.
    pub fn id(&self) -> String {
        let Source { url, model, dimensions, .. } = &self.source;
        let hash = blake3::hash(format!("{:?}", (url, model, dimensions)).as_bytes()).to_hex();
        format!("backend:{model}@{}", &hash[..12])
    }

    /// Length of its vectors, if requested or known from an answer.
    pub fn dimensions(&self) -> Option<usize> {
        self.dimensions.get().copied()
    }

    /// Requests one vector of length 1 for each text, in order.
    pub async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbeddingsError> {
        let limit = self.source.timeout;
        let ask_all = async {
            let mut vectors = Vec::with_capacity(texts.len());
            for batch in texts.chunks(BATCH) {
                let bytes = self.ask(batch).await?;
                let first = vectors.len();
                vectors.extend(self.read(&bytes, batch.len(), first)?);
            }
            Ok(vectors)
        };
        tokio::time::timeout(limit, ask_all).await.unwrap_or(Err(EmbeddingsError::Late(limit)))
    }

    async fn ask(&self, texts: &[&str]) -> Result<Bytes, EmbeddingsError> {
        let Source { model, dimensions, .. } = &self.source;
        let request = Request { model, input: texts, encoding_format: "float", dimensions: *dimensions };
        let body = serde_json::to_vec(&request).map_err(|error| EmbeddingsError::Shape(error.to_string()))?;
        let url = format!("{}/embeddings", self.source.url.trim_end_matches('/'));
        let outgoing = Outgoing { method: Method::POST, url, headers: self.headers.clone(), body: body.into() };
        // A pooled connection may have died unnoticed. Embedding has no side effects, so repeating it is safe.
        let response = match self.client.send(outgoing.clone()).await {
            Err(SendError::Lost(_)) => self.client.send_fresh(outgoing).await,
            other => other,
        }?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_BYTES_PER_TEXT * texts.len()).collect().await;
        let bytes = body.map_err(|_| EmbeddingsError::Broken)?.to_bytes();
        if head.status.is_success() {
            return Ok(bytes);
        }
        let excerpt = String::from_utf8_lossy(&bytes[..bytes.len().min(EXCERPT)]).into_owned();
        Err(EmbeddingsError::Refused { status: head.status, excerpt })
    }

    /// Reads the vectors of an answer to `texts` texts, the first of which is the caller's text number `first`.
    fn read(&self, bytes: &[u8], texts: usize, first: usize) -> Result<Vec<Vec<f32>>, EmbeddingsError> {
        let answer: Answer =
            serde_json::from_slice(bytes).map_err(|error| EmbeddingsError::Shape(error.to_string()))?;
        let mut vectors = vec![None; texts];
        for Item { index, mut embedding } in answer.data {
            let place = vectors.get_mut(index).filter(|place| place.is_none());
            let place = place.ok_or(EmbeddingsError::Texts(first + index))?;
            let (now, before) = (embedding.len(), self.dimensions().unwrap_or(embedding.len()));
            if now != before {
                return Err(EmbeddingsError::Dimensions { before, now });
            }
            if !normalise(&mut embedding) {
                return Err(EmbeddingsError::Direction(first + index));
            }
            *place = Some(embedding);
        }
        let vectors: Vec<Vec<f32>> = vectors
            .into_iter()
            .enumerate()
            .map(|(index, vector)| vector.ok_or(EmbeddingsError::Texts(first + index)))
            .collect::<Result<_, _>>()?;
        if let Some(now) = vectors.first().map(Vec::len) {
            let other = vectors.iter().map(Vec::len).find(|&length| length != now);
            // Among concurrent answers, the first one determines the length.
            let before = if other.is_some() { now } else { *self.dimensions.get_or_init(|| now) };
            let now = other.unwrap_or(now);
            if now != before {
                return Err(EmbeddingsError::Dimensions { before, now });
            }
        }
        Ok(vectors)
    }
}

/// A server's embedding model.
#[derive(Debug)]
pub struct RemoteEmbedder {
    id: String,
    embeddings: Embeddings,
    runtime: Handle,
}

impl RemoteEmbedder {
    /// Creates an embedder whose requests run on `runtime`.
    pub fn new(embeddings: Embeddings, runtime: Handle) -> Self {
        Self { id: embeddings.id(), embeddings, runtime }
    }
}

impl Embedder for RemoteEmbedder {
    fn id(&self) -> &str {
        &self.id
    }

    /// 0 until the server has answered.
    fn dimensions(&self) -> usize {
        self.embeddings.dimensions().unwrap_or(0)
    }

    /// Unknown; a server should reject texts that are too long.
    fn max_tokens(&self) -> usize {
        usize::MAX
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let answer = self.runtime.block_on(self.embeddings.embed(texts));
        answer.map_err(|error| EmbedError { embedder: self.id.clone(), problem: error.to_string().into() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    fn embeddings() -> Embeddings {
        static CLIENT: LazyLock<Client> = LazyLock::new(|| Client::new(Duration::from_secs(1)).unwrap());
        let source = Source {
            url: "http://127.0.0.1:9/v1/".to_owned(),
            model: "m".to_owned(),
            key: None,
            dimensions: None,
            timeout: Duration::from_secs(1),
        };
        Embeddings::new(CLIENT.clone(), source).unwrap()
    }

    #[test]
    fn server_model_and_length_identify_an_embedder() {
        let id = |url: &str, model: &str, dimensions| {
            let source = Source { url: url.to_owned(), model: model.to_owned(), dimensions, ..embeddings().source };
            Embeddings::new(embeddings().client, source).unwrap().id()
        };
        let ids = [
            id("http://a", "m", None),
            id("http://b", "m", None),
            id("http://a", "n", None),
            id("http://a", "m", Some(8)),
        ];
        for (at, one) in ids.iter().enumerate() {
            assert!(one.starts_with("backend:") && !ids[at + 1..].contains(one), "{one}");
        }
        assert_eq!(ids[0], id("http://a", "m", None));
    }

    #[test]
    fn answers_become_ordered_unit_vectors() {
        let embeddings = embeddings();
        let answer = br#"{"data":[{"index":1,"embedding":[0,2]},{"index":0,"embedding":[3,4],"object":"embedding"}]}"#;
        assert_eq!(embeddings.read(answer, 2, 0).unwrap(), [[0.6, 0.8], [0.0, 1.0]]);
        assert_eq!(embeddings.dimensions(), Some(2));
        let error = embeddings.read(br#"{"data":[{"index":0,"embedding":[1,0,0]}]}"#, 1, 0).unwrap_err();
        assert!(matches!(error, EmbeddingsError::Dimensions { before: 2, now: 3 }));
    }

    #[test]
    fn invalid_answers_give_precise_errors() {
        let message = |answer: &str| embeddings().read(answer.as_bytes(), 2, 4).unwrap_err().to_string();
        for (answer, part) in [
            ("{}", "missing field `data`"),
            (r#"{"data":[]}"#, "text 4"),
            (r#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}"#, "text 4, or two"),
            (r#"{"data":[{"index":2,"embedding":[1]}]}"#, "text 6"),
            (r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}"#, "should have 1 dimensions"),
            (r#"{"data":[{"index":0,"embedding":[0,0]}]}"#, "text 4 is zero"),
            (r#"{"data":[{"index":0,"embedding":[]}]}"#, "text 4 is zero"),
            (r#"{"data":[{"index":0,"embedding":[null]}]}"#, "no list"),
            (r#"{"data":[{"index":0,"embedding":[1e39]}]}"#, "number out of range"),
        ] {
            assert!(message(answer).contains(part), "{answer}: {}", message(answer));
        }
    }

    proptest! {
        #[test]
        fn any_answer_gives_unit_vectors_or_an_error(answer in "\\{\"data\":\\[(\\{\"index\":[01],\"embedding\":\\[[0-9e,.-]{0,9}\\]\\},?){0,3}\\]\\}") {
            if let Ok(vectors) = embeddings().read(answer.as_bytes(), 2, 0) {
                prop_assert_eq!(vectors.len(), 2);
                for vector in vectors {
                    prop_assert!((vector.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-3);
                }
            }
        }
    }
}
