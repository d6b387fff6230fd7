//! Triggers of a policy reload: a change of the file, or SIGHUP.

use std::{path::Path, sync::Arc, time::Duration};

use notify::{RecursiveMode, Watcher};
use tokio::{sync::mpsc, time::timeout};

use super::Control;

/// Quiet period of the folder after which a change is handled, since editors write a file in several steps.
const QUIET: Duration = Duration::from_millis(150);
/// Longest wait for a quiet period: a folder in which a journal grows is never quiet.
const NEVER_QUIET: Duration = Duration::from_secs(1);

/// Reloads the policy whenever `file` changes, until the process ends. Watches the folder, since editors and Kubernetes replace files rather
/// than write into them.
pub(super) fn on_change(control: Arc<Control>, file: &Path) -> notify::Result<()> {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => ".".into(),
    };
    let (notify_change, mut changes) = mpsc::channel(1);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            // A full channel already signals a change.
            let _ = notify_change.try_send(());
        }
    })?;
    watcher.watch(&folder, RecursiveMode::NonRecursive)?;
    let file = file.to_owned();
    // Read before the task starts, when the file might already have changed.
    let mut before = std::fs::read(&file).ok();
    let mut place = identity(&file);
    let mut cut: Option<Vec<u8>> = None;
    tokio::spawn(async move {
        let _watcher = watcher;
        while changes.recv().await.is_some() {
            let settled = async { while timeout(QUIET, changes.recv()).await.is_ok_and(|change| change.is_some()) {} };
            // Check the file in either case.
            let _ = timeout(NEVER_QUIET, settled).await;
            // Changes of other files, and writes without a change, are ignored.
            let now = tokio::fs::read(&file).await.ok();
            let there = identity(&file);
            if now.is_none() || now == before {
                continue;
            }
            if there == place && is_beginning(now.as_deref(), before.as_deref()) {
                if now != cut {
                    tracing::warn!(
                        file = %file.display(),
                        "reload: the policy file is now only the beginning of its former text and may be half written: the previous \
                         policy stays in force; write a new file and rename it over this one; if lines were removed from its end on \
                         purpose, send SIGHUP or POST /admin/reload"
                    );
                    cut = now;
                }
                continue;
            }
            (before, place, cut) = (now, there, None);
            // `reload` logs and counts the outcome.
            let _ = control.reload().await;
        }
    });
    Ok(())
}

/// True if a file is a proper prefix of its previous content, and so probably half written.
fn is_beginning(now: Option<&[u8]>, before: Option<&[u8]>) -> bool {
    let (Some(now), Some(before)) = (now, before) else { return false };
    now.len() < before.len() && before.starts_with(now)
}

/// Device and inode. They change if the file was replaced atomically, and stay if it was rewritten in place and may be
/// half written.
#[cfg(unix)]
fn identity(file: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(file).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Path) -> Option<(u64, u64)> {
    None
}

/// Reloads the policy on every SIGHUP.
#[cfg(unix)]
pub(super) fn on_hangup(control: Arc<Control>) -> std::io::Result<()> {
    let mut hangups = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            let _ = control.reload().await;
        }
    });
    Ok(())
}
