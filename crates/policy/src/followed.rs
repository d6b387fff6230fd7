//! The files that a policy names and that are replaced while it serves: secrets, certificates and tokenizers.

use std::path::PathBuf;

use super::{Policy, Tokenizer};
use signalbox_types::RedisServer;

/// A file that a policy names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedFile {
    /// Its path.
    pub path: PathBuf,
    /// The kind of its content.
    pub kind: FileKind,
}

/// The kind of a file's content.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A secret. In force is the content with this BLAKE3 hash.
    Secret([u8; 32]),
    /// A certificate, a key of one, or roots.
    Certificate,
    /// A tokenizer.
    Tokenizer,
}

impl Policy {
    /// All files to follow, each once.
    pub fn followed_files(&self) -> Vec<FollowedFile> {
        let mut all: Vec<FollowedFile> = Vec::new();
        let mut add = |path: &PathBuf, kind| {
            if all.iter().all(|file| file.path != *path) {
                all.push(FollowedFile { path: path.clone(), kind });
            }
        };
        for (path, hash) in &self.secret_files {
            add(path, FileKind::Secret(*hash));
        }
        let tls = self.tls.iter().flat_map(|tls| [Some(&tls.certificate), Some(&tls.key), tls.client_roots.as_ref()]);
        let servers = [
            self.shared_limits.as_ref().map(|shared| &shared.server),
            self.caching.as_ref().and_then(|caching| caching.shared.as_ref()).map(|shared| &shared.server),
            self.shared_placement.as_ref().map(|shared| &shared.server),
        ];
        let redis = servers.into_iter().flatten().filter_map(RedisServer::tls).flat_map(|tls| {
            let identity = tls.identity.iter().flat_map(|(certificate, key)| [certificate, key]);
            tls.roots.iter().chain(identity)
        });
        tls.flatten()
            .chain(&self.admin_access.client_roots)
            .chain(redis)
            .for_each(|path| add(path, FileKind::Certificate));
        for pool in &self.pools {
            if let Tokenizer::File(path) = &pool.tokenizer {
                add(path, FileKind::Tokenizer);
            }
        }
        all
    }
}
