//! When to load the policy anew: its file changed, or SIGHUP came.

use std::{path::Path, sync::Arc, time::Duration};

use notify::{RecursiveMode, Watcher};
use tokio::{sync::mpsc, time::timeout};

use super::Control;

/// Editors write a file in several steps; a change counts when the folder has been quiet for this long.
const QUIET: Duration = Duration::from_millis(150);
/// A folder in which a journal grows is never quiet: then a change counts after this long.
const NEVER_QUIET: Duration = Duration::from_secs(1);

/// Loads the policy anew whenever `file` changes, until the process stops. The file's folder is watched, since editors and
/// Kubernetes replace files rather than write into them.
pub(super) fn on_change(control: Arc<Control>, file: &Path) -> notify::Result<()> {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => ".".into(),
    };
    let (notify_change, mut changes) = mpsc::channel(1);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            // A full channel already says that something changed.
            let _ = notify_change.try_send(());
        }
    })?;
    watcher.watch(&folder, RecursiveMode::NonRecursive)?;
    let file = file.to_owned();
    // Read here: in the task it might already be the next one.
    let mut before = std::fs::read(&file).ok();
    let mut place = identity(&file);
    let mut cut: Option<Vec<u8>> = None;
    tokio::spawn(async move {
        let _watcher = watcher;
        while changes.recv().await.is_some() {
            let settled = async { while timeout(QUIET, changes.recv()).await.is_ok_and(|change| change.is_some()) {} };
            // Either way the file is looked at.
            let _ = timeout(NEVER_QUIET, settled).await;
            // Other files of the folder change too, and some writes change nothing.
            let now = tokio::fs::read(&file).await.ok();
            let there = identity(&file);
            if now.is_none() || now == before {
                continue;
            }
            if there == place && is_beginning(now.as_deref(), before.as_deref()) {
                if now != cut {
                    tracing::warn!(
                        file = %file.display(),
                        "the policy's file was cut short where it stands and is not loaded, the policy before stays in force: write it \
                         whole, best under another name that is then renamed, or, if lines were only taken off its end, reload by SIGHUP \
                         or POST /admin/reload"
                    );
                    cut = now;
                }
                continue;
            }
            (before, place, cut) = (now, there, None);
            // The outcome is logged and counted where it happens.
            let _ = control.reload().await;
        }
    });
    Ok(())
}

/// True if a file is the beginning of what it was: half written, as far as anybody can tell.
fn is_beginning(now: Option<&[u8]>, before: Option<&[u8]>) -> bool {
    let (Some(now), Some(before)) = (now, before) else { return false };
    now.len() < before.len() && before.starts_with(now)
}

/// What tells a file that was written into from another that was put in its place, which is whole from its first moment.
#[cfg(unix)]
fn identity(file: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(file).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Path) -> Option<(u64, u64)> {
    None
}

/// Loads the policy anew on every SIGHUP.
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
