//! What the integration tests stand on: a mock engine, the real gateway binary, a streaming client, SDKs and real engines.
#![allow(dead_code, unused_imports, reason = "each test uses the parts it needs")]
#![allow(unreachable_pub, reason = "a test binary has no outside; `pub` marks what tests may use")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "in a test a failed step is a failed test, and its story goes to stderr"
)]

pub mod cli;
pub mod client;
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

/// How long anything is waited for before the test fails: far longer than any of it takes, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for `future`, and fails the test, naming `what`, where it takes longer than [`PATIENCE`].
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain for {what}"))
}

/// Waits until `ready` says so, asking again and again, and fails the test, naming `what`, after [`PATIENCE`].
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

/// Tells that something could not be tried here, and why.
pub fn untried(why: &str) {
    eprintln!("{why}");
}

/// Cargo's target folder, where installed helpers are kept between runs.
pub fn target_dir() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder").to_path_buf()
}

/// The package's own folder.
pub fn package_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where recorded traces are, if they are anywhere: `SIGNALBOX_DATA`, or a folder beside the package.
pub fn data_dir() -> PathBuf {
    std::env::var_os("SIGNALBOX_DATA").map_or_else(|| package_dir().join("../shared/data"), PathBuf::from)
}
