//! The API listener's application: access checks, then the walk of requests for models or, for all other paths, a
//! router.

use std::{convert::Infallible, net::SocketAddr, panic::AssertUnwindSafe, sync::Arc};

use axum::{Router, body::Body, extract::Request, response::IntoResponse, routing::any_service};
use futures_util::{FutureExt, future::BoxFuture};
use http::{HeaderValue, StatusCode, Version, header};
use tower::{Service, ServiceExt};

use super::{
    Control, admin,
    gathered::Gathered,
    guard,
    h2_stall_guard::StallGuard,
    listen::{self, App, HangUp},
};
use signalbox_gateway::{ExplainApi, Models, Observer, Parts, Reply, is_events, reply_to, root, walk};
use signalbox_types::{Endpoint, Fault};

/// The application of the API listener.
pub(super) struct Api {
    control: Arc<Control>,
    /// The walk, without a router between: `None` if another gateway is observed, which every path belongs to.
    walk: Option<Walk>,
    /// Every path.
    router: Router,
    /// Every path, for policies that name origins of web pages.
    with_cors: Router,
    stall_guard: Arc<StallGuard>,
}

type Walk = Box<dyn Fn(Request) -> BoxFuture<'static, Result<Reply, Infallible>> + Send + Sync>;

impl Api {
    /// Puts the application together, and starts the task that ends stalled HTTP/2 streams.
    pub(super) fn new(control: &Arc<Control>) -> Arc<Self> {
        let app = &control.app;
        let stall_guard = Arc::new(StallGuard::default());
        let sweeper = stall_guard.clone();
        tokio::spawn(async move { sweeper.run(listen::WRITE_LIMIT).await });
        let (live, parts, client) = (app.live.clone(), app.parts.clone(), app.client.clone());
        let (walk, router): (Option<Walk>, _) = if live.load().snapshot.policy.observed.is_some() {
            (None, Router::new().fallback_service(any_service(Observer::new(live, parts, client))))
        } else {
            let edge = walk(live.clone(), &parts, &client);
            let router = Router::new()
                .fallback_service(any_service(edge.clone()))
                .merge(root())
                .merge(Models::router(live.clone()))
                .merge(ExplainApi::router(live, parts))
                .merge(admin::public(control.clone()));
            (Some(Box::new(move |request| edge.clone().call(request))), router)
        };
        let with_cors = router.clone().layer(guard::cors(control.app.live.clone()));
        Arc::new(Self { control: control.clone(), walk, router, with_cors, stall_guard })
    }

    async fn checked(&self, request: Request) -> Reply {
        let serving = self.control.app.live.load();
        let policy = &serving.snapshot.policy;
        if let Some(refusal) = guard::refusal_of_client(&self.control, policy, &request) {
            return refusal;
        }
        let has_origins = !policy.origins.is_empty();
        drop(serving);
        match &self.walk {
            _ if has_origins => self.with_cors.clone().oneshot(request).await.into_response(),
            Some(walk) if Endpoint::of_path(request.uri().path()).is_some() => walk(request).await.into_response(),
            _ => self.router.clone().oneshot(request).await.into_response(),
        }
    }
}

impl App for Arc<Api> {
    async fn answer(self, request: Request, _: SocketAddr, hang_up: HangUp) -> Reply {
        let is_http1 = request.version() < Version::HTTP_2;
        let answered = AssertUnwindSafe(self.checked(request)).catch_unwind().await;
        // The panic itself is in the log.
        let mut reply = answered.unwrap_or_else(|_| {
            let message = "the gateway failed on this request; see its log";
            reply_to(None, "", &Fault::gateway(StatusCode::INTERNAL_SERVER_ERROR, "internal", message))
        });
        if is_events(reply.headers()) {
            reply = reply.map(|body| Body::new(Gathered::new(body)));
        }
        if !is_http1 {
            return reply.map(|body: Body| self.stall_guard.watch(body, hang_up));
        }
        let Parts { descriptors, metrics, .. } = &*self.control.app.parts;
        let requests = usize::try_from(metrics.in_flight()).unwrap_or(usize::MAX);
        if self.control.is_draining() || descriptors.exceeded(requests).is_some() {
            // Makes the client connect again, to another gateway or when there is room.
            reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        reply
    }
}
