//! Triggers of a policy reload: a change of the file, or SIGHUP.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use notify::{RecursiveMode, Watcher};
use tokio::{sync::mpsc, time::timeout};

use super::Control;

/// Quiet period of the folder after which a change is handled, since editors write a file in several steps.
const QUIET: Duration = Duration::from_millis(150);
/// Time after which a text that may be half written is taken for whole.
const SETTLED: Duration = Duration::from_secs(2);
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
    let before = std::fs::read(&file).ok();
    let mut seen = Seen { in_force: before.clone(), place: identity(&file), before, cut: None, gone: None };
    tokio::spawn(async move {
        let _watcher = watcher;
        loop {
            // A file that may be half written is looked at again although nothing happens to it.
            let doubt = seen.cut.as_ref().map(|(_, since)| *since).or(seen.gone);
            let wait = doubt.map_or(Duration::MAX, |since| SETTLED.saturating_sub(since.elapsed()));
            if timeout(wait, changes.recv()).await == Ok(None) {
                return;
            }
            let settled = async { while timeout(QUIET, changes.recv()).await.is_ok_and(|change| change.is_some()) {} };
            // Check the file in either case.
            let _ = timeout(NEVER_QUIET, settled).await;
            // Changes of other files, and writes without a change, are ignored.
            let now = tokio::fs::read(&file).await.ok();
            let there = identity(&file);
            let Some(now) = now else {
                // An editor may be about to put another in its place.
                if seen.before.is_some() && seen.is_gone(Instant::now()) {
                    (seen.before, seen.gone) = (None, None);
                    control.audit.note_reload("file", &control.reload().await);
                }
                continue;
            };
            seen.gone = None;
            if !seen.accepts(&now, there, Instant::now()) {
                if seen.before.as_ref() == Some(&now) {
                    seen.cut = None;
                } else if seen.cut.as_ref().is_none_or(|(cut, _)| *cut != now) {
                    tracing::info!(
                        file = %file.display(),
                        "reload: the policy file is now only the beginning of its former text and may be half written: it is read in {} s \
                         unless it changes",
                        SETTLED.as_secs()
                    );
                    seen.cut = Some((now, Instant::now()));
                }
                continue;
            }
            (seen.before, seen.place, seen.cut) = (Some(now.clone()), there, None);
            // `reload` logs and counts the outcome.
            let loaded = control.reload().await;
            control.audit.note_reload("file", &loaded);
            if loaded.is_ok() {
                seen.in_force = Some(now);
            }
        }
    });
    Ok(())
}

/// Texts of the file so far.
struct Seen {
    /// The text of the policy in force.
    in_force: Option<Vec<u8>>,
    /// The last text that was loaded, or tried.
    before: Option<Vec<u8>>,
    /// The file that it was read from.
    place: Option<(u64, u64)>,
    /// A text that may be half written, and the time at which it was first read.
    cut: Option<(Vec<u8>, Instant)>,
    /// The time at which it could not be read for the first time.
    gone: Option<Instant>,
}

impl Seen {
    /// True once the file could not be read for a while.
    fn is_gone(&mut self, time: Instant) -> bool {
        time.duration_since(*self.gone.get_or_insert(time)) >= SETTLED
    }

    /// True if the text `now` is to be loaded: it is new, and whole as far as anyone can tell. A beginning of the text
    /// before counts as whole if it is the text in force, or if nothing was added to it for a while.
    fn accepts(&self, now: &[u8], there: Option<(u64, u64)>, time: Instant) -> bool {
        let is_settled = |(cut, since): &(Vec<u8>, Instant)| cut == now && time.duration_since(*since) >= SETTLED;
        if self.before.as_deref() == Some(now) {
            return false;
        }
        there != self.place
            || !is_beginning(Some(now), self.before.as_deref())
            || self.in_force.as_deref() == Some(now)
            || self.cut.as_ref().is_some_and(is_settled)
    }
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

/// Reloads the policy and opens the logs again on every SIGHUP, and opens the logs again on every SIGUSR1.
#[cfg(unix)]
pub(super) fn on_signals(control: Arc<Control>) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut hangups, mut rotations) = (signal(SignalKind::hangup())?, signal(SignalKind::user_defined1())?);
    tokio::spawn(async move {
        loop {
            let reloads = tokio::select! {
                Some(()) = hangups.recv() => true,
                Some(()) = rotations.recv() => false,
                else => return,
            };
            control.reopen_logs();
            tracing::info!("logs: opened again by their names");
            if reloads {
                control.audit.note_reload("SIGHUP", &control.reload().await);
            }
        }
    });
    Ok(())
}

/// Keeps SIGUSR1 and SIGUSR2, which programs that rotate logs send, from ending the process. Call it within a runtime,
/// as early as possible.
///
/// # Errors
/// [`io::Error`](std::io::Error) where the system refuses it.
pub fn survive_user_signals() -> std::io::Result<()> {
    #[cfg(unix)]
    for kind in [tokio::signal::unix::SignalKind::user_defined1(), tokio::signal::unix::SignalKind::user_defined2()] {
        // The process handles a signal from the first listener on, also once that is gone.
        drop(tokio::signal::unix::signal(kind)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_loaded_if_it_was_in_force_or_stays() {
        let text = |text: &str| Some(text.as_bytes().to_vec());
        let mut seen = Seen { in_force: text("ab"), before: text("abcd"), place: Some((1, 1)), cut: None, gone: None };
        let here = Some((1, 1));
        let (now, later) = (Instant::now(), Instant::now() + SETTLED);
        assert!(!seen.accepts(b"abcd", here, now), "nothing changed");
        assert!(seen.accepts(b"ab", here, now), "lines that broke the policy were removed again");
        assert!(seen.accepts(b"abxy", here, now) && seen.accepts(b"abc", Some((1, 2)), now));
        assert!(!seen.accepts(b"abc", here, now));
        seen.cut = Some((b"abc".to_vec(), now));
        assert!(!seen.accepts(b"abc", here, now) && seen.accepts(b"abc", here, later));
    }
}
