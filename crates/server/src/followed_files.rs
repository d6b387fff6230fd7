//! Follows the files that the policy names, such as secrets, certificates and tokenizers: a change is in force within two
//! seconds, however it was made (written in place, renamed into place, a link swapped as in Kubernetes). A change that cannot
//! be used leaves what is in force, and says so.

use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::sleep;

use super::Control;
use signalbox_config::{plain, read_limited};
use signalbox_policy::{FileKind, FollowedFile};

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// Time after which a changed file is looked at again, since it may be half written.
const SETTLE: Duration = Duration::from_millis(100);
/// Most looks at a file that keeps changing.
const LOOKS: usize = 5;
/// Largest file of a secret, in bytes.
const LARGEST: usize = 1 << 20;

/// The result of a look at a file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Look {
    /// The hash of a secret.
    Secret([u8; 32]),
    /// The file, its size and its last change. Content is not read: a tokenizer has megabytes.
    Stamp(Option<(u64, u64)>, u64, Option<SystemTime>),
    /// The error.
    Failed(String),
    /// A pipe, which can be read once.
    Once,
}

impl Look {
    /// Looks at a file. Blocks on the disk.
    fn at(file: &FollowedFile) -> Self {
        let metadata = match fs::metadata(&file.path) {
            Ok(metadata) => metadata,
            Err(error) => return Self::Failed(plain(&error)),
        };
        if !metadata.is_file() {
            return if metadata.is_dir() { Self::Failed("it is a folder".to_owned()) } else { Self::Once };
        }
        if let FileKind::Secret(_) = file.kind {
            return match read_limited(&file.path, LARGEST) {
                Ok(text) => Self::Secret(*blake3::hash(text.as_bytes()).as_bytes()),
                Err(error) => Self::Failed(plain(&error)),
            };
        }
        #[cfg(unix)]
        let identity =
            Some((std::os::unix::fs::MetadataExt::dev(&metadata), std::os::unix::fs::MetadataExt::ino(&metadata)));
        #[cfg(not(unix))]
        let identity = None;
        Self::Stamp(identity, metadata.len(), metadata.modified().ok())
    }
}

/// Looks at the files so far.
#[derive(Default)]
struct Seen {
    /// The last look at each file other than a secret.
    stamps: HashMap<PathBuf, Look>,
    /// Secrets that were not in force when they were last tried.
    tried: HashMap<PathBuf, Look>,
}

impl Seen {
    /// True if a look shows a change that was not tried yet.
    fn is_news(&self, file: &FollowedFile, look: &Look) -> bool {
        match file.kind {
            _ if *look == Look::Once => false,
            // What was tried meanwhile may have left a trouble behind.
            FileKind::Secret(hash) if *look == Look::Secret(hash) => self.tried.contains_key(&file.path),
            FileKind::Secret(_) => self.tried.get(&file.path) != Some(look),
            FileKind::Certificate | FileKind::Tokenizer => {
                self.stamps.get(&file.path).is_some_and(|before| before != look)
            }
        }
    }

    /// Notes the looks, and returns the files that changed.
    fn changed(&mut self, looks: Vec<(FollowedFile, Look)>) -> Vec<FollowedFile> {
        let mut changed = Vec::new();
        for (file, look) in looks {
            if self.is_news(&file, &look) {
                changed.push(file.clone());
            }
            match file.kind {
                FileKind::Secret(hash) if look == Look::Secret(hash) => drop(self.tried.remove(&file.path)),
                FileKind::Secret(_) => drop(self.tried.insert(file.path, look)),
                FileKind::Certificate | FileKind::Tokenizer => drop(self.stamps.insert(file.path, look)),
            }
        }
        changed
    }
}

/// Starts the task; it ends with the process.
pub(super) fn start(control: Arc<Control>) {
    tokio::spawn(async move {
        let mut seen = Seen::default();
        loop {
            sleep(LOOK).await;
            let files = control.discovery.base().followed_files();
            if files.is_empty() {
                continue;
            }
            let Some(mut looks) = look(files.clone()).await else { continue };
            let mut settled = !looks.iter().any(|(file, look)| seen.is_news(file, look));
            for _ in 0..LOOKS {
                if settled {
                    break;
                }
                sleep(SETTLE).await;
                let Some(again) = look(files.clone()).await else { break };
                settled = again == looks;
                looks = again;
            }
            let changed = seen.changed(looks);
            if !changed.is_empty() {
                apply(&control, &changed).await;
            }
        }
    });
}

async fn look(files: Vec<FollowedFile>) -> Option<Vec<(FollowedFile, Look)>> {
    let look = move || files.into_iter().map(|file| (file.clone(), Look::at(&file))).collect();
    // A panic was logged.
    tokio::task::spawn_blocking(look).await.ok()
}

/// Puts changed files in force.
async fn apply(control: &Arc<Control>, changed: &[FollowedFile]) {
    for FollowedFile { path, kind } in changed {
        tracing::info!(file = %path.display(), "reload: a file that the policy names has changed");
        if *kind == FileKind::Tokenizer {
            control.app.renew_tokenizer(path).await;
        }
    }
    let renewed = control.clone();
    let _ = tokio::task::spawn_blocking(move || renewed.app.reload_certificates()).await;
    let was_refused = control.policy_log.refused().is_some();
    let mut loaded = control.reload().await;
    if loaded.is_err() && was_refused {
        // The policy in its file is not in force for reasons of its own. That must not keep a secret in force.
        loaded = control.renew().await;
    }
    control.audit.note_reload("file", &loaded);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_tried_once_and_the_way_back_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "one").unwrap();
        let hash = |text: &str| *blake3::hash(text.as_bytes()).as_bytes();
        let file = FollowedFile { path: path.clone(), kind: FileKind::Secret(hash("one")) };
        let mut seen = Seen::default();
        let mut changed = |file: &FollowedFile| seen.changed(vec![(file.clone(), Look::at(file))]).len();
        assert_eq!(changed(&file), 0, "in force");
        fs::write(&path, "two").unwrap();
        assert_eq!((changed(&file), changed(&file)), (1, 0), "it could not be used");
        fs::remove_file(&path).unwrap();
        assert_eq!((changed(&file), changed(&file)), (1, 0));
        fs::write(&path, "one").unwrap();
        assert_eq!((changed(&file), changed(&file)), (1, 0), "back");
        let tokenizer = FollowedFile { path: path.clone(), kind: FileKind::Tokenizer };
        assert_eq!(changed(&tokenizer), 0, "the first look");
        fs::write(folder.path().join("next"), "six").unwrap();
        fs::rename(folder.path().join("next"), &path).unwrap();
        assert_eq!((changed(&tokenizer), changed(&tokenizer)), (1, 0));
    }

    #[cfg(unix)]
    #[test]
    fn pipes_are_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let file = FollowedFile { path, kind: FileKind::Secret([0; 32]) };
        let look = Look::at(&file);
        assert_eq!(look, Look::Once);
        assert!(Seen::default().changed(vec![(file, look)]).is_empty());
    }
}
