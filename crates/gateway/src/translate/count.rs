//! Counts the tokens of a prompt for backends that have no such endpoint.

use axum::body::Body;
use http::{HeaderValue, StatusCode, header};

use crate::{Reply, estimator::rendered, reply::put_id, route::counter, stages::Routed};
use signalbox_translation::CallerApi;
use signalbox_types::{Fault, Outcome};

/// Answers with the count by the pool's tokenizer, or with its estimate if the pool has none.
pub(super) async fn reply(api: CallerApi, routed: Routed) -> Result<Reply, Fault> {
    let call = &routed.call;
    let (counter, body) = (counter(&call.serving, &call.body).clone(), call.body.clone());
    let task = tokio::task::spawn_blocking(move || counter.count(&rendered(&body)).tokens);
    let tokens =
        task.await.map_err(|_| Fault::gateway(StatusCode::INTERNAL_SERVER_ERROR, "internal", "counting failed"))?;
    let mut reply = Reply::new(Body::from(api.token_count(tokens)));
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    put_id(reply.headers_mut(), &call.record.id());
    call.record.progress().head(StatusCode::OK);
    call.record.settle(Outcome::Complete);
    Ok(reply)
}
