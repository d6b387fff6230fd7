//! Finds the secrets in a policy file, and checks whether a world-readable file contains literal ones.

use std::path::Path;

use super::{
    embedder::{Embedder, OtherEmbedder},
    key_source::KeySource,
    raw::Document,
    scalar::Field,
    shape::Either,
};

/// True if everyone on this machine may read the file at `path`, and `document` contains literal secrets.
pub(super) fn is_exposed(path: &Path, document: &Document) -> bool {
    is_world_readable(path) && has_secrets(document)
}

#[cfg(unix)]
fn is_world_readable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o004 != 0)
}

/// Cannot be determined on other systems.
#[cfg(not(unix))]
fn is_world_readable(_: &Path) -> bool {
    false
}

fn has_secrets(document: &Document) -> bool {
    let typed = |text: &str| !text.is_empty() && !text.contains("${");
    let keys = key_sources(document).any(|source| matches!(source, Either::Short(field) if typed(field.text())));
    let headers = document.otel.iter().flat_map(|otel| &otel.headers).flat_map(|headers| &headers.entries);
    let cache = document.cache.iter().filter_map(|cache| cache.shared.as_ref()).map(|shared| shared.url.text());
    let limits = document.limits.iter().filter_map(|limits| limits.shared.as_ref()).map(|shared| shared.url.text());
    keys || headers.map(|(_, value)| Field::text(value)).any(typed)
        || cache.chain(limits).any(|url| url.contains('@') && typed(url))
}

/// Every key in the file, literal or by reference.
pub(super) fn key_sources(document: &Document) -> impl Iterator<Item = &KeySource> {
    let accounts = document.accounts.iter().flat_map(|named| &named.entries);
    let pools = document.pools.iter().flat_map(|named| &named.entries);
    let backends = pools.flat_map(|(_, pool)| &pool.backends.value).filter_map(|backend| match backend {
        Either::Short(_) => None,
        Either::Long(backend, _) => backend.key.as_ref(),
    });
    let embedder = embedder(document).and_then(|other| other.backend.as_ref()?.value.key.as_ref());
    let shared = document.cache.iter().filter_map(|cache| cache.shared.as_ref()).map(|shared| &shared.key);
    let admin = document
        .admin
        .iter()
        .flat_map(|admin| match admin {
            Either::Long(admin, _) => [admin.token.as_ref(), admin.read_token.as_ref()],
            Either::Short(_) => [None, None],
        })
        .flatten();
    let receivers = document.notifications.iter().flat_map(|all| &all.to.value);
    let receivers = receivers.flat_map(|it| [Some(&it.webhook), it.secret.as_ref()]).flatten();
    let accounts = accounts.flat_map(|(_, account)| &account.keys.value);
    accounts.chain(backends).chain(embedder).chain(shared).chain(admin).chain(receivers)
}

/// The embedder, if the file configures another than the built-in one.
pub(super) fn embedder(document: &Document) -> Option<&OtherEmbedder> {
    match document.cache.as_ref()?.semantic.as_ref()?.embedder.as_ref()? {
        Embedder::Long(other, _) => Some(other),
        Embedder::Short(_) => None,
    }
}
