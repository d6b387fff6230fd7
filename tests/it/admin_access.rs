//! Access to the admin listener: credentials, foreign host names and foreign origins.

use std::fs;

use http::Method;
use serde_json::{Value, json};

use super::tls::Root;
use crate::support::{
    cli,
    client::{self, Answer, answer, get, http, raw, trusting},
    gateway::{Gateway, Start},
    mock::{Mock, Plan, polite},
    until, within,
};

const TOKEN: &str = "correct-horse";
const CHAT: &str = "/v1/chat/completions";

fn chat() -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] })
}

fn pool(mock: &Mock) -> String {
    format!("pools:\n  main: {{ model: m, backends: [\"{}\"] }}\n", mock.url())
}

/// A caller's key, `sk-web`.
fn keyed() -> String {
    format!("keys: [{{ id: web, hash: \"blake3:{}\" }}]\n", blake3::hash(b"sk-web").to_hex())
}

async fn guarded(mock: &Mock, more: &str) -> Gateway {
    let admin = format!("admin: {{ listen: \"127.0.0.1:0\", token: \"${{ADMIN}}\"{more} }}\n");
    Start::with(&(admin + &pool(mock))).env("ADMIN", TOKEN).start().await
}

async fn with(method: Method, url: &str, headers: &[(&str, &str)]) -> Answer {
    let request = http().request(method, url);
    answer(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
}

#[tokio::test]
async fn operators_are_asked_for_their_token() {
    let mock = Mock::start(polite).await;
    let gateway = guarded(&mock, "").await;
    let basic = |name: &str, password: &str| {
        use base64::{Engine, engine::general_purpose::STANDARD};
        format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
    };
    let paths = ["/", "/metrics", "/admin/state", "/admin/events", "/admin/decisions", "/admin/keys", "/admin/usage"];
    for path in paths {
        let refused = get(&gateway.admin(path)).await;
        assert_eq!(refused.status, 401, "{path}");
        assert!(refused.header("www-authenticate").starts_with("Basic "), "browsers ask for a password");
        assert!(!refused.text().contains(TOKEN));
    }
    for wrong in [
        format!("Bearer {TOKEN}x"),
        format!("Bearer {}", &TOKEN[1..]),
        "Bearer ".to_owned(),
        basic(TOKEN, ""),
        basic("", "x"),
        format!("Basic {TOKEN}"),
        TOKEN.to_owned(),
    ] {
        let refused = with(Method::GET, &gateway.admin("/admin/state"), &[("authorization", &wrong)]).await;
        assert_eq!(refused.status, 401, "{wrong}");
    }
    let posts = ["/admin/reload", "/admin/cache/purge", "/admin/keys/web/revoke", "/admin/complexity/rollback?route=m"];
    for path in posts {
        assert_eq!(with(Method::POST, &gateway.admin(path), &[]).await.status, 401, "{path}");
    }
    for right in [format!("Bearer {TOKEN}"), format!("bearer {TOKEN}"), basic("me", TOKEN), basic("", TOKEN)] {
        let let_in = with(Method::GET, &gateway.admin("/admin/state"), &[("authorization", &right)]).await;
        assert_eq!(let_in.status, 200, "{right}");
    }
    let pressed = with(Method::POST, &gateway.admin("/admin/reload"), &[("authorization", &basic("me", TOKEN))]).await;
    assert_eq!(pressed.status, 200, "{}", pressed.text());
    // Probes have no credential.
    for path in ["/health", "/readyz"] {
        assert_eq!(get(&gateway.admin(path)).await.status, 200, "{path}");
    }
    assert!(!gateway.log().contains(TOKEN), "{}", gateway.log());
}

#[tokio::test]
async fn commands_send_the_token() {
    let mock = Mock::start(polite).await;
    let gateway = guarded(&mock, "").await;
    let admin = gateway.admin("");
    let admin = admin.trim_end_matches('/');
    for command in
        [&["top", "--once"][..], &["key", "list"], &["usage"], &["backend", "list"], &["cache", "purge", "--all"]]
    {
        let run = |more: &[&'static str]| {
            let arguments = command.iter().copied().chain(["--admin", admin]).chain(more.iter().copied());
            cli::run(gateway.dir(), arguments.collect::<Vec<_>>())
        };
        let (without, right) = (run(&[]), run(&["--token", TOKEN]));
        assert!(without.code != Some(0) && without.err.contains("401"), "{command:?}: {}", without.err);
        assert_eq!(right.code, Some(0), "{command:?}: {}", right.err);
    }
}

#[tokio::test]
async fn a_token_that_changes_holds_from_the_reload_on() {
    let mock = Mock::start(polite).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    fs::write(&file, "first\n").expect("a file");
    let policy = |name: &str| {
        let file = file.display();
        format!("admin: {{ listen: \"127.0.0.1:0\", token: {{ file: \"{file}\" }} }}\n{}", pool(&mock))
            .replace("main", name)
    };
    let gateway = Gateway::start(&policy("one")).await;
    let asked = async |token: &str| {
        let sent = format!("Bearer {token}");
        with(Method::GET, &gateway.admin("/admin/state"), &[("authorization", &sent)]).await.status.as_u16()
    };
    assert_eq!((asked("first").await, asked("second").await), (200, 401));
    fs::write(&file, "second\n").expect("a file");
    gateway.rewrite(&policy("two"));
    until("the new token", async || asked("second").await == 200).await;
    assert_eq!(asked("first").await, 401);
    // The listener stays until a restart, and so does what it asks for.
    gateway.rewrite(&format!("admin: off\n{}", pool(&mock).replace("main", "three")));
    gateway.wait_log("'admin' changed; it takes effect after a restart").await;
    assert_eq!((asked("second").await, asked("").await), (200, 401));
    let reloads = gateway.log().matches("reload: policy loaded").count();
    gateway.rewrite(&format!("admin: 127.0.0.1:0\n{}", pool(&mock).replace("main", "four")));
    until("a reload", async || gateway.log().matches("reload: policy loaded").count() > reloads).await;
    assert_eq!((asked("second").await, asked("").await), (200, 401), "whatever came between");
}

#[tokio::test]
async fn a_network_listener_needs_a_credential() {
    let mock = Mock::start(polite).await;
    for admin in
        ["admin: 0.0.0.0:0\n", "admin: { listen: \"0.0.0.0:0\" }\n", "admin: { listen: \"[::]:0\", hosts: [h] }\n"]
    {
        let Err(log) = Start::with(&(admin.to_owned() + &pool(&mock))).attempt().await else { panic!("it started") };
        assert!(log.contains("without a credential") && log.contains("SIGNALBOX_ADMIN_TOKEN"), "{log}");
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("p.yaml"), admin.to_owned() + &pool(&mock)).expect("a file");
        let checked = cli::run(folder.path(), ["check", "p.yaml"]);
        assert_eq!(checked.code, Some(1));
        assert!(checked.err.contains("without a credential") && checked.err.contains("p.yaml:1:"), "{}", checked.err);
    }
    let overruled = |token: Option<&str>| {
        let start = Start::with(&pool(&mock)).arg("--admin").arg("0.0.0.0:0");
        token.into_iter().fold(start, |start, token| start.env("SIGNALBOX_ADMIN_TOKEN", token))
    };
    let Err(log) = overruled(None).attempt().await else { panic!("it started") };
    assert!(log.contains("without a credential"), "{log}");
    let gateway = overruled(Some(TOKEN)).start().await;
    assert_eq!(get(&gateway.admin("/admin/state")).await.status, 401);
    let sent = format!("Bearer {TOKEN}");
    let let_in = with(Method::GET, &gateway.admin("/admin/state"), &[("authorization", &sent)]).await;
    assert_eq!(let_in.status, 200);
    gateway.wait_log("in the clear").await;
}

#[tokio::test]
async fn operators_may_be_known_by_their_certificates() {
    let (root, operators, folder) = (Root::new(), Root::new(), tempfile::tempdir().expect("a folder"));
    root.renew(folder.path());
    fs::write(folder.path().join("operators.pem"), operators.pem()).expect("a file");
    let mock = Mock::start(polite).await;
    let at = folder.path().display();
    let gateway = Gateway::start(&format!(
        "admin: {{ listen: \"127.0.0.1:0\", mtls: {{ client_roots: {at}/operators.pem }} }}\n\
         tls: {{ certificate: {at}/gateway.pem, key: {at}/gateway.key }}\n{}",
        pool(&mock)
    ))
    .await;
    let url = gateway.admin("/admin/state").replace("http://", "https://");
    let identity = |root: &Root| {
        let (certificate, key) = root.sign();
        certificate + &key
    };
    for (shown, let_in) in [(Some(identity(&operators)), true), (Some(identity(&root)), false), (None, false)] {
        let client = trusting(&root.pem(), shown.as_deref()).build().expect("a client");
        let answered = within("an end", client.get(&url).send()).await;
        assert_eq!(answered.is_ok(), let_in, "{answered:?}");
    }
    // Callers are asked for none.
    let client = trusting(&root.pem(), None).build().expect("a client");
    let callers = client.get(format!("https://{}/health", gateway.listen())).send();
    assert!(within("an answer", callers).await.is_ok());
    let Err(log) =
        Start::with(&format!("admin: {{ mtls: {{ client_roots: r.pem }} }}\n{}", pool(&mock))).attempt().await
    else {
        panic!("it started")
    };
    assert!(log.contains("`tls: { certificate"), "{log}");
}

#[tokio::test]
async fn neither_listener_answers_to_a_foreign_name() {
    let mock = Mock::start(polite).await;
    let open = Gateway::start(&pool(&mock)).await;
    let foreign = [
        "evil.example",
        "evil.example:4100",
        "127.0.0.1.evil.example",
        "evil.localhost",
        "localhost.evil.example",
        "10.0.0.7",
    ];
    for host in foreign {
        for url in [open.admin("/admin/state"), open.admin("/"), open.at("/v1/models"), open.at("/metrics")] {
            assert_eq!(with(Method::GET, &url, &[("host", host)]).await.status, 403, "{host} {url}");
        }
        // Probes may use whatever name they have.
        for url in [open.admin("/health"), open.at("/readyz")] {
            assert_eq!(with(Method::GET, &url, &[("host", host)]).await.status, 200, "{host} {url}");
        }
    }
    for host in ["localhost", "LOCALHOST:9", "127.0.0.1", "127.0.0.2:80", "[::1]:4101"] {
        for url in [open.admin("/admin/state"), open.at("/v1/models")] {
            assert_eq!(with(Method::GET, &url, &[("host", host)]).await.status, 200, "{host} {url}");
        }
    }
    // A second name does not get past the first one.
    let twice = "GET /admin/state HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    assert!(
        !raw(open.admin("").trim_start_matches("http://").parse().expect("an address"), twice.as_bytes())
            .await
            .contains(" 200 ")
    );

    let named = Start::with(&format!(
        "hosts: [api.example]\nadmin: {{ listen: \"127.0.0.1:0\", token: t, hosts: [ops.example] }}\n{}{}",
        keyed(),
        pool(&mock)
    ));
    let named = named.start().await;
    let headers = |host: &'static str, token: &'static str| [("host", host), ("authorization", token)];
    for (host, api, admin) in [("api.example", 200, 403), ("ops.example:9", 403, 200), ("evil.example", 403, 403)] {
        let asked = with(Method::GET, &named.at("/v1/models"), &headers(host, "Bearer sk-web")).await;
        assert_eq!(asked.status.as_u16(), api, "{host}");
        let asked = with(Method::GET, &named.admin("/admin/state"), &headers(host, "Bearer t")).await;
        assert_eq!(asked.status.as_u16(), admin, "{host}");
    }
    // Behind a load balancer host names vary; keys protect the API, and the policy lists no names.
    let keyed = Gateway::start(&(keyed() + &pool(&mock))).await;
    let asked = with(Method::GET, &keyed.at("/v1/models"), &headers("llm.example", "Bearer sk-web")).await;
    assert_eq!(asked.status, 200);
}

#[tokio::test]
async fn pages_of_other_sites_can_neither_use_the_admin_api_nor_send_requests() {
    let mock = Mock::start(polite).await;
    let gateway = guarded(&mock, "").await;
    let sent = format!("Bearer {TOKEN}");
    let own = gateway.admin("").trim_end_matches('/').to_owned();
    let press = async |headers: &[(&str, &str)]| {
        let headers: Vec<_> = headers.iter().copied().chain([("authorization", &*sent)]).collect();
        with(Method::POST, &gateway.admin("/admin/reload"), &headers).await.status.as_u16()
    };
    for (headers, status) in [
        (&[("origin", "http://evil.example")][..], 403),
        (&[("origin", "null")], 403),
        (&[("origin", "http://localhost:1")], 403),
        (&[("sec-fetch-site", "cross-site")], 403),
        (&[("sec-fetch-site", "same-site")], 403),
        (&[("content-type", "application/x-www-form-urlencoded")], 415),
        (&[("content-type", "Multipart/Form-Data; boundary=x")], 415),
        (&[("content-type", "text/plain;charset=utf-8")], 415),
        (&[("origin", &*own), ("content-type", "text/plain")], 415),
        (&[("origin", &*own), ("sec-fetch-site", "same-origin")], 200),
        (&[("content-type", "application/json")], 200),
        (&[], 200),
    ] {
        assert_eq!(press(headers).await, status, "{headers:?}");
    }

    let open = Gateway::start(&pool(&mock)).await;
    let asked = async |origin: &str| {
        let request = http().post(open.at(CHAT)).header("content-type", "text/plain").header("origin", origin);
        answer(request.body(chat().to_string())).await.status.as_u16()
    };
    for origin in [
        "http://evil.example",
        "http://10.0.0.7",
        "http://93.184.215.14:4100",
        "http://evil.localhost",
        "http://127.0.0.1.evil.com",
        "http://localhost.evil.com",
        "http://localhost@evil.com",
        "null",
    ] {
        assert_eq!(asked(origin).await, 403, "{origin}");
    }
    assert!(mock.seen().is_empty(), "no engine was asked");
    for origin in ["http://localhost:3000", "http://127.0.0.1:3000", "https://[::1]"] {
        assert_eq!(asked(origin).await, 200, "{origin}");
    }
}

#[tokio::test]
async fn pages_of_named_sites_may_call_and_the_upstream_has_no_say() {
    let everyone = |seen: &_| {
        polite(seen)
            .header("access-control-allow-origin", "*")
            .header("access-control-allow-credentials", "true")
            .header("access-control-expose-headers", "x-secret")
            .header("location", "http://10.1.2.3:8000/v1/chat/completions")
    };
    let mock = Mock::start(everyone).await;
    let without = Gateway::start(&(keyed() + &pool(&mock))).await;
    let request = || http().post(without.at(CHAT)).bearer_auth("sk-web").header("origin", "https://app.example");
    let answered = answer(client::json(request(), &chat())).await;
    assert_eq!(answered.status, 200);
    let reported = |answer: &Answer| answer.headers.keys().any(|name| name.as_str().starts_with("access-control-"));
    assert!(!reported(&answered) && answered.header("location").is_empty(), "{:?}", answered.headers);
    let preflight = |gateway: &Gateway, site: &str| {
        let request = http().request(Method::OPTIONS, gateway.at(CHAT)).header("origin", site.to_owned());
        let request = request.header("access-control-request-method", "POST");
        request.header("access-control-request-headers", "authorization,content-type,x-signalbox-session")
    };
    assert!(!reported(&answer(preflight(&without, "https://app.example")).await));

    let with_cors = |more: &str| {
        format!("cors: {{ origins: [https://app.example, http://localhost:3000] }}\n{more}{}", pool(&mock))
    };
    let gateway = Gateway::start(&with_cors(&keyed())).await;
    let allowed = answer(preflight(&gateway, "https://app.example")).await;
    assert_eq!((allowed.status.as_u16(), allowed.header("access-control-allow-origin")), (200, "https://app.example"));
    assert!(allowed.header("access-control-allow-headers").contains("authorization"), "{:?}", allowed.headers);
    assert!(allowed.header("access-control-allow-methods").contains("POST"), "{:?}", allowed.headers);
    assert_eq!(allowed.header("access-control-allow-credentials"), "");
    assert_eq!(mock.seen().len(), 1, "no engine is asked for leave");
    for site in ["https://evil.example", "https://app.example.evil.example", "http://app.example", "null"] {
        let refused = answer(preflight(&gateway, site)).await;
        assert_eq!(refused.header("access-control-allow-origin"), "", "{site}");
    }
    let asked = async |site: &str, key: &str| {
        let request = http().post(gateway.at(CHAT)).bearer_auth(key).header("origin", site);
        answer(client::json(request, &chat())).await
    };
    let answered = asked("https://app.example", "sk-web").await;
    assert_eq!(
        (answered.status.as_u16(), answered.header("access-control-allow-origin")),
        (200, "https://app.example")
    );
    assert_eq!(answered.header("access-control-allow-credentials"), "");
    let refused = asked("https://app.example", "sk-none").await;
    assert_eq!((refused.status.as_u16(), refused.header("access-control-allow-origin")), (401, "https://app.example"));
    assert_eq!(asked("https://evil.example", "sk-web").await.header("access-control-allow-origin"), "");

    // A site that is named may use a gateway without keys; and one that is named later, from then on.
    let open = Gateway::start(&pool(&mock)).await;
    let asked = async || {
        let request = http().post(open.at(CHAT)).header("origin", "https://app.example");
        answer(client::json(request, &chat())).await
    };
    assert_eq!(asked().await.status, 403);
    open.rewrite(&with_cors(""));
    until("the site to be let in", async || asked().await.status == 200).await;
    assert_eq!(asked().await.header("access-control-allow-origin"), "https://app.example");
}

#[tokio::test]
async fn an_open_gateway_says_so() {
    let mock = Mock::start(|_| Plan::chat("hi")).await;
    let open = Gateway::start(&format!("listen: 0.0.0.0:0\n{}", pool(&mock))).await;
    open.wait_log("OPEN to the network").await;
    open.wait_log("no keys are asked for").await;
    assert!(open.log().contains("WARN"), "{}", open.log());
    let near = Gateway::start(&pool(&mock)).await;
    assert!(!near.log().contains("no keys are asked for"), "{}", near.log());
    within("an answer", async { assert_eq!(get(&open.at("/health")).await.status, 200) }).await;
}

#[tokio::test]
async fn the_token_of_monitoring_reads_metrics_and_state_alone() {
    let mock = Mock::start(polite).await;
    let gateway = guarded(&mock, ", read_token: monitoring-only, add_backends: [10.0.0.0/8]").await;
    let read = [("authorization", "Bearer monitoring-only")];
    for path in ["/metrics", "/admin/state", "/admin/history"] {
        assert_eq!(with(Method::GET, &gateway.admin(path), &read).await.status, 200, "{path}");
        assert_eq!(get(&gateway.admin(path)).await.status, 401, "{path}");
    }
    for (method, path) in [
        (Method::GET, "/admin/keys"),
        (Method::GET, "/admin/decisions"),
        (Method::GET, "/"),
        (Method::POST, "/admin/reload"),
        (Method::POST, "/admin/state"),
        (Method::PUT, "/admin/backends/main/b"),
    ] {
        assert_eq!(with(method, &gateway.admin(path), &read).await.status, 401, "{path}");
    }
    for (url, status) in
        [("http://11.0.0.1/v1", 400), ("http://169.254.169.254/latest", 400), ("http://10.0.0.1/v1", 201)]
    {
        let request = http().put(gateway.admin("/admin/backends/main/b")).bearer_auth(TOKEN);
        let answer = answer(client::json(request, &json!({ "url": url }))).await;
        assert_eq!(answer.status, status, "{url}: {}", answer.text());
    }
}
