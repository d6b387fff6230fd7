//! TLS at the listeners: client certificates, ALPN, and renewal of certificates under load.

use std::{fs, net::Ipv4Addr, path::Path};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{
    client::{self, Sse, answer, get, http, trusting},
    gateway::{Gateway, Start},
    mock::{Mock, Plan, chat_events},
    until, within,
};

/// A root certificate with its key.
pub(crate) struct Root(CertifiedIssuer<'static, KeyPair>);

impl Root {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a root"))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this machine, and its key, in PEM.
    pub(crate) fn sign(&self) -> (String, String) {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.subject_alt_names = vec![SanType::IpAddress(Ipv4Addr::LOCALHOST.into())];
        // OpenSSL takes a certificate with its issuer's name for self-signed.
        params.distinguished_name.push(DnType::CommonName, "this machine");
        let key = KeyPair::generate().expect("a key");
        (params.signed_by(&key, &self.0).expect("a certificate").pem(), key.serialize_pem())
    }

    /// Writes a new certificate for the gateway.
    pub(crate) fn renew(&self, folder: &Path) {
        let (certificate, key) = self.sign();
        fs::write(folder.join("gateway.pem"), certificate).expect("the certificate is written");
        fs::write(folder.join("gateway.key"), key).expect("the key is written");
    }
}

fn policy(mock: &Mock, folder: &TempDir, more: &str) -> String {
    let folder = folder.path().display();
    format!(
        "tls: {{ certificate: {folder}/gateway.pem, key: {folder}/gateway.key{more} }}\npools:\n  main: {{ model: m, backends: [\"{}\"] }}\n",
        mock.url()
    )
}

fn secured(gateway: &Gateway, path: &str) -> String {
    format!("https://{}{path}", gateway.listen())
}

fn chat() -> Value {
    json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "hi" }] })
}

#[tokio::test]
async fn both_versions_of_http_are_spoken_within_and_streams_pass() {
    let (root, folder) = (Root::new(), tempfile::tempdir().unwrap());
    root.renew(folder.path());
    let mock = Mock::start(|_| Plan::chat_stream(["Hello", ", ", "you"])).await;
    let mut gateway = Gateway::start(&policy(&mock, &folder, "")).await;
    let clients = [
        (trusting(&root.pem(), None).http1_only(), http::Version::HTTP_11),
        (trusting(&root.pem(), None), http::Version::HTTP_2),
    ];
    for (builder, version) in clients {
        let client = builder.build().unwrap();
        let health = within("a handshake", client.get(secured(&gateway, "/health")).send()).await.unwrap();
        assert_eq!((health.status().as_u16(), health.version()), (200, version));
        let request = client::json(client.post(secured(&gateway, "/v1/chat/completions")), &chat());
        assert_eq!(Sse::send(request).await.text().await.0, "Hello, you");
    }
    // Operators on this machine are asked for nothing that needs a name.
    assert_eq!(get(&gateway.admin("/health")).await.status, 200);
    gateway.wait_log(&format!("https://{}/v1", gateway.listen())).await;
    gateway.sigterm();
    assert_eq!(gateway.wait_exit().await.code(), Some(0), "{}", gateway.log());
}

#[tokio::test]
async fn plain_text_clients_get_an_error_and_silent_ones_are_closed() {
    let (root, folder) = (Root::new(), tempfile::tempdir().unwrap());
    root.renew(folder.path());
    let mock = Mock::start(|_| Plan::chat_stream(["never"])).await;
    let gateway = Gateway::start(&(policy(&mock, &folder, "") + "limits: { header: 2s }\n")).await;
    let clear = client::json(http().post(gateway.at("/v1/chat/completions")), &chat());
    let reported = answer(clear).await;
    assert_eq!(
        (reported.status.as_u16(), reported.json()["error"]["code"].as_str()),
        (400, Some("no_tls")),
        "{}",
        reported.text()
    );
    for said in [&b""[..], b"\x16\x03\x01\x02\x00\x01"] {
        let mut silent = TcpStream::connect(gateway.listen()).await.unwrap();
        silent.write_all(said).await.unwrap();
        let mut rest = Vec::new();
        let ended = within("the connection's end", silent.read_to_end(&mut rest)).await;
        assert!(ended.is_err() || rest.is_empty(), "{rest:?}");
    }
    assert!(mock.seen().is_empty());
}

#[tokio::test]
async fn only_clients_with_a_certificate_are_let_in_where_roots_are_named() {
    let (root, folder) = (Root::new(), tempfile::tempdir().unwrap());
    root.renew(folder.path());
    let clients = Root::new();
    fs::write(folder.path().join("clients.pem"), clients.pem()).unwrap();
    let mock = Mock::start(|_| Plan::chat_stream(["Hello"])).await;
    let more = format!(", client_roots: {}/clients.pem", folder.path().display());
    let gateway = Gateway::start(&policy(&mock, &folder, &more)).await;
    let identity = |root: &Root| {
        let (certificate, key) = root.sign();
        certificate + &key
    };
    for (shown, let_in) in [(Some(identity(&clients)), true), (Some(identity(&root)), false), (None, false)] {
        let client = trusting(&root.pem(), shown.as_deref()).build().unwrap();
        let answered = within("an end", client.get(secured(&gateway, "/health")).send()).await;
        assert_eq!(answered.is_ok(), let_in, "{answered:?}");
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_and_a_broken_one_is_not() {
    let (before, after, folder) = (Root::new(), Root::new(), tempfile::tempdir().unwrap());
    before.renew(folder.path());
    let mock = Mock::start(|_| {
        let (begun, rest) = (chat_events(["Hel"]), chat_events(["lo"]));
        Plan::stream().events(&begun[..2]).gate(1).events(&rest[1..]).done()
    })
    .await;
    let gateway = Gateway::start(&policy(&mock, &folder, "")).await;
    let reaches = async |root: &Root| {
        let client = trusting(&root.pem(), None).build().unwrap();
        within("an end", client.get(secured(&gateway, "/health")).send()).await.is_ok()
    };
    assert!(reaches(&before).await && !reaches(&after).await);
    let client = trusting(&before.pem(), None).build().unwrap();
    let url = secured(&gateway, "/v1/chat/completions");
    let mut stream = Sse::send(client::json(client.post(url), &chat())).await;
    after.renew(folder.path());
    gateway.sighup();
    until("the new certificate", async || reaches(&after).await && !reaches(&before).await).await;
    mock.open(1);
    assert_eq!(stream.text().await.0, "Hello", "what is under way goes on");
    // The key of another.
    fs::write(folder.path().join("gateway.key"), before.sign().1).unwrap();
    gateway.sighup();
    gateway.wait_log("does not go with").await;
    assert!(reaches(&after).await, "the one before stays");
}

#[tokio::test]
async fn an_invalid_certificate_file_is_named() {
    let (root, folder) = (Root::new(), tempfile::tempdir().unwrap());
    let mock = Mock::start(|_| Plan::chat_stream(["never"])).await;
    let refused = async || match Start::with(&policy(&mock, &folder, "")).attempt().await {
        Ok(_) => panic!("it started"),
        Err(log) => log,
    };
    let log = refused().await;
    assert!(log.contains("tls.certificate: '") && log.contains("gateway.pem' cannot be read"), "{log}");
    root.renew(folder.path());
    fs::write(folder.path().join("gateway.pem"), "a letter").unwrap();
    assert!(refused().await.contains("holds no certificate in PEM"));
    root.renew(folder.path());
    fs::write(folder.path().join("gateway.key"), "a letter").unwrap();
    assert!(refused().await.contains("tls.key: '"));
}

#[tokio::test]
async fn a_policy_that_is_refused_opens_no_door() {
    let (root, folder) = (Root::new(), tempfile::tempdir().unwrap());
    root.renew(folder.path());
    let mock = Mock::start(|_| Plan::chat_stream(["Hello"])).await;
    let gateway = Gateway::start(&policy(&mock, &folder, "")).await;
    let without = policy(&mock, &folder, "").lines().skip(1).collect::<Vec<_>>().join("\n");
    gateway.rewrite(&format!("{without}\njournal: {{ path: /nowhere/at/all }}\n"));
    gateway.wait_log("cannot be opened").await;
    let client = trusting(&root.pem(), None).build().unwrap();
    assert!(client.get(secured(&gateway, "/health")).send().await.is_ok());
    assert_eq!(answer(http().get(gateway.at("/health"))).await.status, 400);
}

#[tokio::test]
async fn a_half_renewed_certificate_does_not_block_a_reload() {
    let (root, folder) = (Root::new(), tempfile::tempdir().unwrap());
    root.renew(folder.path());
    let mock = Mock::start(|_| Plan::chat_stream(["Hello"])).await;
    let gateway = Gateway::start(&policy(&mock, &folder, "")).await;
    fs::write(folder.path().join("gateway.pem"), root.sign().0).unwrap();
    gateway.rewrite(&(policy(&mock, &folder, "") + "models: { other: { to: main } }\n"));
    let client = trusting(&root.pem(), None).build().unwrap();
    let names = async || client.get(secured(&gateway, "/v1/models")).send().await.unwrap().text().await.unwrap();
    until("the new policy", async || names().await.contains("other")).await;
    gateway.wait_log("the certificate in use stays").await;
}

#[tokio::test]
async fn an_unfinished_handshake_does_not_delay_the_shutdown() {
    let (root, folder) = (Root::new(), tempfile::tempdir().unwrap());
    root.renew(folder.path());
    let mock = Mock::start(|_| Plan::chat_stream(["never"])).await;
    let more = "limits: { header: 1h, drain: 1h }\n";
    let mut gateway = Gateway::start(&(policy(&mock, &folder, "") + more)).await;
    let mut begun = TcpStream::connect(gateway.listen()).await.unwrap();
    begun.write_all(b"\x16\x03\x01").await.unwrap();
    gateway.sigterm();
    assert_eq!(gateway.wait_exit().await.code(), Some(0), "{}", gateway.log());
}
