//! Tries backends, one after the other, until one has begun to answer.

use http::HeaderMap;

use super::attempt::{Attempt, LOST};
use crate::{
    gateway::{
        admit::enter,
        asked::{Asked, Placed},
        relay::Committed,
        stages::Call,
    },
    types::{Fault, Retry},
    upstream::{Client, address},
};

/// Most engines that may break off on one request: it might be the request that brings them down, one after the other.
const MOST_LOST: usize = 2;

/// Tries backends, from the first one placed on, until one has begun to answer.
pub(super) async fn commit(client: &Client, call: &Call, asked: &mut Asked, first: Placed) -> Result<Committed, Fault> {
    let headers: HeaderMap = address::forwarded(&call.headers);
    let mut placed = first;
    let mut broken_off = 0;
    loop {
        asked.tries(&placed);
        let fault = match (Attempt { client, call, asked, headers: &headers }).run(placed).await {
            Ok(committed) => return Ok(committed),
            Err(fault) => fault,
        };
        broken_off += usize::from(fault.kind == LOST);
        if fault.retry == Retry::Never || broken_off == MOST_LOST {
            return Err(fault);
        }
        // What went wrong upstream says more than that there is no other place.
        placed = enter(asked, &call.record).await.map_err(|_| fault)?;
    }
}
