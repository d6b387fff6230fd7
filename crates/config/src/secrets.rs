//! Finds the secrets in a policy file, and checks whether a world-readable file contains literal ones.

use std::path::Path;

use super::{
    At,
    embedder::{Embedder, OtherEmbedder},
    key_source::KeySource,
    mask_text::is_secret,
    placement::SharedPlacement,
    raw::Document,
    scalar::Field,
    shape::Either,
};

/// The position of the first literal secret in `document`, if everyone on this machine may read the file at `path`.
pub(super) fn exposed(path: &Path, document: &Document) -> Option<At> {
    if is_world_readable(path) { secret(document) } else { None }
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

fn secret(document: &Document) -> Option<At> {
    let typed = |text: &str| !text.is_empty() && !text.contains("${");
    let keys = key_sources(document).filter_map(|source| match source {
        Either::Short(field) => typed(field.text()).then(|| field.at()),
        Either::Long(..) => None,
    });
    let headers = document.otel.iter().flat_map(|otel| &otel.headers).flat_map(|headers| &headers.entries);
    let cache = document.cache.iter().filter_map(|cache| cache.shared.as_ref()).map(|shared| &shared.url);
    let limits = document.limits.iter().filter_map(|limits| limits.shared.as_ref()).map(|shared| &shared.url);
    let placement = shared_placement(document).map(|shared| &shared.url);
    let headers = headers.filter(|(_, value)| typed(value.text())).map(|(_, value)| value.at());
    let urls =
        cache.chain(limits).chain(placement).filter(|url| url.text().contains('@') && typed(url.text())).map(Field::at);
    let engines = document.engines.iter().flat_map(|named| &named.entries).map(|(_, engine)| engine);
    let proxies = engines.clone().filter_map(|engine| engine.proxy.as_ref());
    let proxies = proxies.filter(|proxy| proxy.text().contains('@') && typed(proxy.text())).map(Field::at);
    let given = engines.flat_map(|engine| [&engine.headers, &engine.query]).flatten().flat_map(|named| &named.entries);
    let given =
        given.filter(|(name, value)| is_secret(name.text()) && typed(value.text())).map(|(_, value)| value.at());
    keys.chain(headers).chain(proxies).chain(given).chain(urls).min_by_key(|at| at.start)
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
    let shared = document.cache.iter().filter_map(|cache| cache.shared.as_ref());
    let shared =
        shared.flat_map(|it| [Some(&it.key), it.password.as_ref(), it.sentinel.as_ref().map(|it| &it.password)]);
    let limits = document.limits.iter().filter_map(|limits| limits.shared.as_ref());
    let limits = limits.flat_map(|it| [it.password.as_ref(), it.sentinel.as_ref().map(|it| &it.password)]);
    let placement = shared_placement(document)
        .flat_map(|it| [Some(&it.key), it.password.as_ref(), it.sentinel.as_ref().map(|it| &it.password)]);
    let redis = shared.chain(limits).chain(placement).flatten();
    let admin = document.admin.iter().flat_map(|admin| match admin {
        Either::Long(admin, _) => [admin.token.as_ref(), admin.read_token.as_ref()],
        Either::Short(_) => [None, None],
    });
    let admin = admin.flatten();
    let receivers = document.notifications.iter().flat_map(|all| &all.to.value);
    let receivers = receivers.flat_map(|it| [Some(&it.webhook), it.secret.as_ref()]).flatten();
    let accounts = accounts.flat_map(|(_, account)| &account.keys.value);
    accounts.chain(backends).chain(embedder).chain(redis).chain(admin).chain(receivers)
}

fn shared_placement(document: &Document) -> impl Iterator<Item = &SharedPlacement> {
    document.placement.iter().filter_map(|placement| placement.shared.as_ref())
}

/// The embedder, if the file configures another than the built-in one.
pub(super) fn embedder(document: &Document) -> Option<&OtherEmbedder> {
    match document.cache.as_ref()?.semantic.as_ref()?.embedder.as_ref()? {
        Embedder::Long(other, _) => Some(other),
        Embedder::Short(_) => None,
    }
}
