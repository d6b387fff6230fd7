//! TLS certificates of the listeners: loaded with the policy, reloaded when renewed.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use arc_swap::ArcSwapOption;
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio_rustls::TlsAcceptor;

use signalbox_policy as policy;

/// ALPN protocols in order of preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// A certificate cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[error("{key}: '{}' {what}", file.display())]
pub struct TlsError {
    /// Key of the file in the policy.
    key: &'static str,
    file: PathBuf,
    what: String,
}

/// The certificate in use; none if connections are not encrypted.
pub(super) struct Certificate {
    shown: ArcSwapOption<Shown>,
    /// Key of the client roots in the policy.
    roots: &'static str,
}

struct Shown {
    acceptor: TlsAcceptor,
    files: Files,
}

/// Contents of the files.
#[derive(PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_roots: Option<Vec<u8>>,
}

impl Certificate {
    /// No certificate yet; `roots` is the policy's key of the client roots.
    pub(super) fn of(roots: &'static str) -> Self {
        Self { shown: ArcSwapOption::empty(), roots }
    }

    /// Acceptor for a new connection.
    pub(super) fn acceptor(&self) -> Option<TlsAcceptor> {
        self.shown.load().as_ref().map(|shown| shown.acceptor.clone())
    }

    /// Loads the certificate of `spec`. Blocks on the disk.
    pub(super) fn prepare(&self, spec: Option<&policy::Tls>) -> Result<Prepared, TlsError> {
        let Some(spec) = spec else { return Ok(Prepared(None)) };
        let files = Files::read(spec, self.roots)?;
        if let Some(shown) = self.shown.load_full().filter(|shown| shown.files == files) {
            return Ok(Prepared(Some(shown)));
        }
        let config = config(&files, spec, self.roots)?;
        Ok(Prepared(Some(Arc::new(Shown { acceptor: TlsAcceptor::from(Arc::new(config)), files }))))
    }

    /// Uses the certificate from the next connection on.
    pub(super) fn show(&self, Prepared(next): Prepared) {
        let asks = |shown: Option<&Arc<Shown>>| shown.is_some_and(|shown| shown.files.client_roots.is_some());
        let before = self.shown.swap(next.clone());
        match (&before, &next) {
            (Some(_), None) => tracing::warn!("tls: 'tls' was removed, connections are in the clear from now on"),
            (Some(before), Some(next)) if !Arc::ptr_eq(before, next) => {
                tracing::info!("tls: new certificate in use");
            }
            _ => {}
        }
        if asks(before.as_ref()) && next.is_some() && !asks(next.as_ref()) {
            tracing::warn!("tls: '{}' was removed, client certificates are not required any more", self.roots);
        }
    }
}

/// A loaded certificate, or none.
pub(super) struct Prepared(Option<Arc<Shown>>);

impl Files {
    fn read(spec: &policy::Tls, roots: &'static str) -> Result<Self, TlsError> {
        let read = |key, file: &Path| {
            fs::read(file).map_err(|error: io::Error| wrong(key, file, format!("cannot be read: {error}")))
        };
        Ok(Self {
            certificate: read("tls.certificate", &spec.certificate)?,
            key: read("tls.key", &spec.key)?,
            client_roots: spec.client_roots.as_deref().map(|file| read(roots, file)).transpose()?,
        })
    }
}

fn config(files: &Files, spec: &policy::Tls, roots_key: &'static str) -> Result<ServerConfig, TlsError> {
    let certificates = certificates("tls.certificate", &spec.certificate, &files.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&files.key)
        .map_err(|error| wrong("tls.key", &spec.key, format!("holds no private key in PEM: {error}")))?;
    let builder = match (&spec.client_roots, &files.client_roots) {
        (Some(file), Some(pem)) => {
            let refused = |error: &dyn std::fmt::Display| wrong(roots_key, file, format!("cannot be used: {error}"));
            let mut roots = RootCertStore::empty();
            for root in self::certificates(roots_key, file, pem)? {
                roots.add(root).map_err(|error| refused(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().map_err(|error| refused(&error))?;
            ServerConfig::builder().with_client_cert_verifier(verifier)
        }
        _ => ServerConfig::builder().with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(certificates, key).map_err(|error| {
        wrong("tls.key", &spec.key, format!("does not go with '{}': {error}", spec.certificate.display()))
    })?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}

fn certificates(key: &'static str, file: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(wrong(key, file, "holds no certificate in PEM".to_owned())),
        Err(error) => Err(wrong(key, file, format!("is no certificate in PEM: {error}"))),
    }
}

fn wrong(key: &'static str, file: &Path, what: String) -> TlsError {
    TlsError { key, file: file.to_owned(), what }
}
