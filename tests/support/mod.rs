//! Support of the integration tests: a mock engine, the gateway binary, a streaming client, SDKs and real engines.
#![allow(dead_code, unused_imports, reason = "each test uses the parts it needs")]
#![allow(unreachable_pub, reason = "a test binary has no outside; `pub` marks what tests may use")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "in a test a failed step is a failed test, and its details go to stderr"
)]

pub mod cli;
pub mod client;
pub mod dns;
pub mod engine;
pub mod gateway;
pub mod journal_replay;
pub mod mock;
pub mod prometheus;
pub mod redis;
pub mod replay;
pub mod sdk;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Limit on every wait in a test, far longer than any wait takes even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for `future`; fails the test, naming `what`, after [`PATIENCE`].
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("timed out after {PATIENCE:?}: {what}"))
}

/// Polls `ready` until it is true; fails the test, naming `what`, after [`PATIENCE`].
pub async fn until(what: &str, mut ready: impl AsyncFnMut() -> bool) {
    within(what, async {
        let mut tick = tokio::time::interval(Duration::from_millis(10));
        loop {
            tick.tick().await;
            if ready().await {
                return;
            }
        }
    })
    .await;
}

/// Reports a test that cannot run here, with the reason.
pub fn untried(why: &str) {
    eprintln!("{why}");
}

/// Cargo's target folder, which keeps installed helpers between runs.
pub fn target_dir() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder").to_path_buf()
}

/// Folder of the package.
pub fn package_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Folder of recorded traces: `SIGNALBOX_DATA`, or a folder beside the package.
pub fn data_dir() -> PathBuf {
    std::env::var_os("SIGNALBOX_DATA").map_or_else(|| package_dir().join("../shared/data"), PathBuf::from)
}
