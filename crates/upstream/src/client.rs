//! HTTP client: pooled connections, and fresh ones for the single retry after a pooled connection has died. Plain
//! connections are driven by the task that uses them (`direct`); TLS takes a usual client.

use std::{borrow::Cow, sync::Arc, time::Duration};

use bytes::Bytes;
use http::HeaderMap;

use super::{
    answer_body::{self, AnswerBody},
    decoded,
    direct::{self, Direct, Place},
    engine_access::EngineAccess,
    loop_guard::LoopGuard,
    outgoing::{Outgoing, SendError, causes},
    own_clients::{IDLE, OwnClients, SetUpError, builder, proxy},
};
use signalbox_config::Proxies;
use signalbox_policy::Engine;

/// Sends requests upstream, through the proxies of the environment. Follows no redirects and never retries by itself, so
/// that every attempt is counted.
#[derive(Clone, Debug)]
pub struct Client {
    pooled: Transport,
    fresh: Transport,
    /// Plain connections; none in tests whose answers come from memory.
    direct: Option<Direct>,
    /// Proxies that some requests take; `None` without any.
    proxies: Option<Arc<Proxies>>,
    own: OwnClients,
    loops: LoopGuard,
}

/// Way of a request to its engine.
#[derive(Clone, Debug)]
enum Transport {
    Network(reqwest::Client),
    /// Answers from memory, for tests on paused time.
    #[cfg(feature = "scripted")]
    Script(script::Script),
}

impl Client {
    /// Creates a client with a connect timeout.
    pub fn new(connect: Duration) -> Result<Self, SetUpError> {
        Self::build(connect, true)
    }

    /// Creates a client that takes any certificate, as probes of health do: the address of a listener on this machine
    /// is seldom a name of its certificate. It must send nothing that is secret.
    pub fn for_probes(connect: Duration) -> Result<Self, SetUpError> {
        Self::build(connect, false)
    }

    fn build(connect: Duration, verifies: bool) -> Result<Self, SetUpError> {
        // A second installation is rejected and harmless: the first one stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let build = |idle| builder(connect, idle).proxy(proxy()).tls_danger_accept_invalid_certs(!verifies).build();
        let network = |idle| build(idle).map(Transport::Network);
        Ok(Self {
            pooled: network(usize::MAX)?,
            fresh: network(0)?,
            direct: Some(Direct::new(connect, IDLE)),
            proxies: Some(Proxies::of_process()).filter(|proxies| !proxies.is_empty()),
            own: OwnClients::new(connect),
            loops: LoopGuard::new(),
        })
    }

    /// Mark of the gateway that uses this client, on requests that it sends for others.
    pub fn loops(&self) -> &LoopGuard {
        &self.loops
    }

    /// Calls these engines by their names, with their certificates and through their proxies from now on, and no others.
    /// Blocks on the disk.
    pub fn set_engines<'a>(&self, engines: impl Iterator<Item = &'a Engine>) -> Result<(), SetUpError> {
        self.own.replace(engines)
    }

    /// The way to `url`, and the URL by which its server is called.
    fn route(&self, fresh: bool, url: String) -> (Cow<'_, Transport>, String) {
        match self.own.find(fresh, &url) {
            Some((client, url)) => (Cow::Owned(Transport::Network(client)), url),
            None => (Cow::Borrowed(if fresh { &self.fresh } else { &self.pooled }), url),
        }
    }

    /// Sends over a pooled connection if there is one. An answer that was compressed without being asked for is
    /// decompressed.
    pub async fn send(&self, outgoing: Outgoing) -> Result<http::Response<AnswerBody>, SendError> {
        self.send_over(false, outgoing).await
    }

    /// Sends over a new connection.
    pub async fn send_fresh(&self, outgoing: Outgoing) -> Result<http::Response<AnswerBody>, SendError> {
        self.send_over(true, outgoing).await
    }

    async fn send_over(&self, fresh: bool, outgoing: Outgoing) -> Result<http::Response<AnswerBody>, SendError> {
        let is_unasked = decoded::is_unasked(&outgoing.method, &outgoing.headers);
        let answer = self.send_asked(fresh, outgoing).await?;
        Ok(if is_unasked { answer_body::plain(answer) } else { answer })
    }

    async fn send_asked(&self, fresh: bool, outgoing: Outgoing) -> Result<http::Response<AnswerBody>, SendError> {
        let Outgoing { method, url, headers, body } = outgoing;
        let is_proxied = self.proxies.as_ref().is_some_and(|proxies| proxies.of(&url).is_some());
        let direct = self.direct.as_ref().filter(|_| !is_proxied && !self.own.has(&url));
        if let Some((direct, place)) = direct.zip(Place::of(&url)) {
            let request = direct::request(&place, &method, headers, body)?;
            return Ok(direct.send(place.authority, fresh, request).await?.map(AnswerBody::from));
        }
        let (client, url) = self.route(fresh, url);
        send(&client, Outgoing { method, url, headers, body }).await
    }

    /// Sends `outgoing` with a streamed body, over a pooled connection if there is one.
    pub async fn stream(
        &self,
        outgoing: Outgoing<()>,
        body: reqwest::Body,
    ) -> Result<http::Response<AnswerBody>, SendError> {
        let Outgoing { method, url, headers, body: () } = outgoing;
        let (client, url) = self.route(false, url);
        send(&client, Outgoing { method, url, headers, body }).await
    }

    /// Fetches a small document, such as `/metrics`, within `limit` and `most` bytes.
    pub async fn fetch(
        &self,
        url: &str,
        access: &EngineAccess,
        limit: Duration,
        most: usize,
    ) -> Result<Fetched, FetchError> {
        let (transport, url) = self.route(false, url.to_owned());
        #[cfg_attr(
            not(feature = "scripted"),
            expect(clippy::infallible_destructuring_match, reason = "tests have another transport")
        )]
        let client = match &*transport {
            Transport::Network(client) => client,
            #[cfg(feature = "scripted")]
            Transport::Script(_) => return Err(FetchError::Unreachable),
        };
        let response = client
            .get(url)
            .timeout(limit)
            .headers(access.headers())
            .send()
            .await
            .map_err(|_| FetchError::Unreachable)?;
        if !response.status().is_success() {
            return Err(FetchError::Refused(response.status()));
        }
        let (head, body) = http::Response::<reqwest::Body>::from(response).into_parts();
        let body = http_body_util::BodyExt::collect(http_body_util::Limited::new(body, most)).await;
        Ok(Fetched { headers: head.headers, body: body.map_err(|_| FetchError::Broken)?.to_bytes() })
    }
}

/// A fetched document.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// Reason why a document could not be fetched.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FetchError {
    /// No answer in time.
    #[error("nobody answers there")]
    Unreachable,
    /// The status was not a success.
    #[error("it answers {0}")]
    Refused(http::StatusCode),
    /// The answer broke off, took too long or was too large.
    #[error("its answer broke off or is too large")]
    Broken,
}

async fn send(
    transport: &Transport,
    outgoing: Outgoing<impl Into<reqwest::Body>>,
) -> Result<http::Response<AnswerBody>, SendError> {
    let Outgoing { method, url, headers, body } = outgoing;
    #[cfg_attr(
        not(feature = "scripted"),
        expect(clippy::infallible_destructuring_match, reason = "tests have another transport")
    )]
    let client = match transport {
        Transport::Network(client) => client,
        #[cfg(feature = "scripted")]
        Transport::Script(script) => {
            return script.answer(Outgoing { method, url, headers, body: body.into() }).await;
        }
    };
    let request = client.request(method, url).headers(headers).body(body);
    match request.send().await {
        Ok(response) => Ok(http::Response::<reqwest::Body>::from(response).map(AnswerBody::from)),
        Err(error) if error.is_connect() || error.is_builder() => Err(SendError::connect(&error)),
        Err(error) => Err(SendError::Lost(causes(&error))),
    }
}

#[cfg(feature = "scripted")]
mod script {
    use std::{fmt, future::Future, sync::Arc};

    use futures_util::future::BoxFuture;

    use super::{Client, Outgoing, SendError, Transport};

    type Answer = Result<http::Response<super::AnswerBody>, SendError>;

    /// Answers requests in place of the network.
    #[derive(Clone)]
    pub(super) struct Script(Arc<dyn Fn(Outgoing<reqwest::Body>) -> BoxFuture<'static, Answer> + Send + Sync>);

    impl Script {
        pub(super) async fn answer(&self, outgoing: Outgoing<reqwest::Body>) -> Answer {
            (self.0)(outgoing).await
        }
    }

    impl fmt::Debug for Script {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Script")
        }
    }

    impl Client {
        /// Creates a client whose requests `answer` answers.
        pub fn scripted<A: Future<Output = Answer> + Send + 'static>(
            answer: impl Fn(Outgoing<reqwest::Body>) -> A + Send + Sync + 'static,
        ) -> Self {
            let script = Transport::Script(Script(Arc::new(move |outgoing| Box::pin(answer(outgoing)))));
            let (own, loops) = (super::OwnClients::new(super::Duration::ZERO), super::LoopGuard::new());
            Self { pooled: script.clone(), fresh: script, direct: None, proxies: None, own, loops }
        }
    }
}
