//! Active health checks: an engine that fails them is avoided before a request has to fail.

use std::sync::Arc;

use crate::{Client, EngineAccess, address, client::FetchError};
use signalbox_fleet::{Engine, Failure};
use signalbox_policy::Health;
use signalbox_types::Clock;

/// Failed checks in a row after which an engine is avoided: one may be an accident.
const TOLERATED: u32 = 2;
/// Intervals for which a failing engine is avoided, so that it stays avoided until a check succeeds.
const AVOIDED: u32 = 3;
/// Most bytes read of an answer.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Checks one engine until the task is aborted.
pub(super) async fn poll(engine: Arc<Engine>, access: EngineAccess, spec: Health, client: Client, clock: Clock) {
    let url = address::root_url(&engine.id.url, &spec.path);
    let mut failed = 0_u32;
    loop {
        let asked = clock.now();
        match client.fetch(&url, &access, spec.timeout, MAX_ANSWER_BYTES).await {
            // The status was a success, however long the answer is.
            Ok(_) | Err(FetchError::Broken) => {
                if failed >= TOLERATED {
                    tracing::info!(engine = %engine.name, "health check: passed again, requests may return to the engine");
                }
                failed = 0;
                engine.set_reachable(true);
                engine.breaker.succeeded(asked);
            }
            Err(error) => {
                failed = failed.saturating_add(1);
                if failed == TOLERATED {
                    tracing::warn!(
                        engine = %engine.name,
                        path = &*spec.path,
                        why = %error,
                        "health check: failed twice in a row, requests avoid the engine until it passes"
                    );
                }
                if failed >= TOLERATED {
                    engine.set_reachable(false);
                    engine.breaker.failed(clock.now(), Failure::Refused((spec.every + spec.timeout) * AVOIDED));
                }
            }
        }
        // Jitter, so that many engines are not checked at the same moment.
        tokio::time::sleep(spec.every.mul_f64(0.9 + 0.2 * fastrand::f64())).await;
    }
}
