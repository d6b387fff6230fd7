//! Reload of a policy while it serves: by file, signal or API; validated and swapped as a whole, without loss.

use std::{
    collections::BTreeSet,
    os::unix::fs::symlink,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use serde_json::{Value, json};

use crate::support::{
    client::{Answer, End, Sse, answer, http, json, post},
    gateway::{Gateway, Metrics, Start},
    mock::{Mock, Plan, Seen, chat_events, polite},
    until,
};

fn chat(model: &str, stream: bool) -> Value {
    json!({ "model": model, "stream": stream, "messages": [{ "role": "user", "content": "hi" }] })
}

fn pool(name: &str, mock: &Mock) -> String {
    format!("pools:\n  {name}: {{ model: m, backends: [\"{}\"] }}\n", mock.url())
}

/// Streams wait at gate 1 after their first token.
fn held(seen: &Seen) -> Plan {
    if seen.streams() {
        Plan::stream().events(&chat_events(["a"])[..2]).gate(1).events(&chat_events(["b"])[1..]).done()
    } else {
        polite(seen)
    }
}

async fn ask(gateway: &Gateway) -> Answer {
    post(&gateway.at("/v1/chat/completions"), &chat("m", false)).await
}

async fn press(gateway: &Gateway, origin: Option<&str>) -> Answer {
    let request = http().post(gateway.admin("/admin/reload"));
    answer(match origin {
        Some(origin) => request.header("origin", origin),
        None => request,
    })
    .await
}

async fn hash(gateway: &Gateway) -> String {
    gateway.get_json("/admin/state").await["hash"].as_str().expect("a hash").to_owned()
}

async fn reloads(gateway: &Gateway, ok: u32, error: u32) {
    let count = |now: &crate::support::gateway::Metrics, result: &str| {
        now.sum("signalbox_config_reloads_total", &[&format!("result=\"{result}\"")]) as u32
    };
    let what = format!("{ok} reloads and {error} refusals");
    gateway.wait_metrics(&what, |now| (count(now, "ok"), count(now, "error")) == (ok, error)).await;
}

/// The way in which the kubelet updates a volume of a `ConfigMap`: the file is a link into `..data`, itself a link to a folder,
/// which a rename replaces.
#[tokio::test]
async fn a_config_map_that_changes_is_reloaded() {
    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&format!("pools:\n  main: {{ model: m, backends: [\"{}\"] }}\n", mock.url())).await;
    let reloads = |now: &Metrics| now.sum("signalbox_config_reloads_total", &["result=\"ok\""]) as u32;
    let dir = gateway.dir();
    let first = std::fs::read_to_string(gateway.config()).unwrap();
    let write = |version: &str, text: &str| {
        std::fs::create_dir(dir.join(version)).unwrap();
        std::fs::write(dir.join(version).join("policy.yaml"), text).unwrap();
        symlink(version, dir.join("..data_tmp")).unwrap();
        std::fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
    };
    write("..first", &first);
    symlink("..data/policy.yaml", dir.join("link")).unwrap();
    std::fs::rename(dir.join("link"), gateway.config()).unwrap();
    for number in 1..3 {
        // A longer one, and then one that is the beginning of it.
        let text = if number == 1 { format!("{first}models: {{ x: {{ to: main }} }}\n") } else { first.clone() };
        write(&format!("..{number}"), &text);
        gateway.wait_metrics("the reload", |now| reloads(now) == number).await;
    }
}

#[tokio::test]
async fn a_policy_is_loaded_anew_by_file_signal_and_button() {
    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&pool("first", &mock)).await;
    assert_eq!(ask(&gateway).await.header("x-signalbox-pool"), "first");
    let mut hashes = vec![hash(&gateway).await];

    gateway.rewrite(&pool("second", &mock));
    reloads(&gateway, 1, 0).await;
    assert_eq!(ask(&gateway).await.header("x-signalbox-pool"), "second");
    hashes.push(hash(&gateway).await);

    gateway.sighup();
    reloads(&gateway, 2, 0).await;
    assert_eq!(hash(&gateway).await, hashes[1], "the same file has the same hash");

    let pressed = press(&gateway, None).await;
    assert_eq!((pressed.status.as_u16(), &pressed.json()["hash"]), (200, &json!(hashes[1])));
    reloads(&gateway, 3, 0).await;
    let metrics = gateway.metrics().await;
    assert!(metrics.0.contains_key(&format!("signalbox_config_info{{hash=\"{}\"}}", hashes[1])), "{metrics:?}");
    assert_ne!(hashes[0], hashes[1]);
    assert!(!gateway.log().contains("takes effect after a restart"), "{}", gateway.log());
}

#[tokio::test]
async fn a_file_that_is_written_in_place_is_noticed_too() {
    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&pool("first", &mock)).await;
    let text = std::fs::read_to_string(gateway.config()).unwrap();
    std::fs::write(gateway.config(), text.replace("first", "second")).unwrap();
    until("the new policy to serve", async || ask(&gateway).await.header("x-signalbox-pool") == "second").await;
    // A file that is touched, and others beside it, change nothing.
    let before = gateway.metrics().await.sum("signalbox_config_reloads_total", &[]);
    std::fs::write(gateway.dir().join("other.yaml"), "x").unwrap();
    std::fs::write(gateway.config(), text.replace("first", "second")).unwrap();
    std::fs::write(gateway.config(), text.replace("first", "third")).unwrap();
    until("the third policy to serve", async || ask(&gateway).await.header("x-signalbox-pool") == "third").await;
    let after = gateway.metrics().await.sum("signalbox_config_reloads_total", &[r#"result="ok""#]);
    assert!(after - before <= 1.5, "{before} → {after}");
}

#[tokio::test]
async fn a_bad_policy_is_refused_and_the_old_one_serves_on() {
    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&pool("first", &mock)).await;
    let before = hash(&gateway).await;
    gateway.rewrite(&pool("second", &mock).replace("backends", "backend"));
    reloads(&gateway, 0, 1).await;
    gateway.wait_log("did you mean").await;
    assert!(gateway.log().contains("policy.yaml:2:"), "{}", gateway.log());
    let pressed = press(&gateway, None).await;
    assert_eq!(pressed.status, 400);
    assert!(pressed.json()["error"]["message"].as_str().unwrap().contains("did you mean"), "{}", pressed.text());
    gateway.sighup();
    reloads(&gateway, 0, 3).await;
    std::fs::remove_file(gateway.config()).unwrap();
    assert_eq!(press(&gateway, None).await.status, 400);
    assert_eq!((hash(&gateway).await, ask(&gateway).await.header("x-signalbox-pool")), (before, "first"));
    // A journal that cannot be opened is as bad as a word that cannot be read.
    gateway.rewrite(&(pool("third", &mock) + "journal: { path: nowhere/at/all }\n"));
    reloads(&gateway, 0, 5).await;
    gateway.wait_log("nowhere/at/all").await;
    assert_eq!(ask(&gateway).await.header("x-signalbox-pool"), "first");
    gateway.rewrite(&pool("fourth", &mock));
    reloads(&gateway, 1, 5).await;
    assert_eq!(ask(&gateway).await.header("x-signalbox-pool"), "fourth");
}

#[tokio::test]
async fn a_policy_that_is_refused_late_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    let journal = |name: &str| format!("journal: {{ path: \"{}\" }}\n", file(name).display());
    std::fs::write(file("broken.json"), "{}").expect("a file");
    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&(pool("first", &mock) + &journal("one"))).await;
    let learning = format!("learning: {{ file: \"{}\" }}\n", file("broken.json").display());
    gateway.rewrite(&(pool("second", &mock) + &journal("two") + &learning));
    reloads(&gateway, 0, 1).await;
    gateway.wait_log("broken.json").await;
    assert_eq!(ask(&gateway).await.header("x-signalbox-pool"), "first");
    let written = |name: &str| std::fs::read_to_string(file(name)).unwrap_or_default().lines().count();
    until("a line in the old journal", async || written("one") == 1).await;
    assert_eq!(written("two"), 0);
}

#[tokio::test]
async fn other_sites_may_not_press_the_button() {
    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&pool("first", &mock)).await;
    let own = gateway.admin("").trim_end_matches('/').to_owned();
    for (origin, status) in
        [("http://evil.example", 403), ("null", 403), ("http://127.0.0.1:1", 403), (own.as_str(), 200)]
    {
        assert_eq!(press(&gateway, Some(origin)).await.status.as_u16(), status, "{origin}");
    }
    // A page whose name was made to lead here is of the same origin as what it asks for.
    for (path, host, status) in [
        ("/admin/decisions", "evil.example:4101", 403),
        ("/admin/reload", "evil.example:4101", 403),
        ("/admin/decisions", "localhost:4101", 200),
    ] {
        let request =
            if path.ends_with("reload") { http().post(gateway.admin(path)) } else { http().get(gateway.admin(path)) };
        let request = request.header("host", host).header("origin", format!("http://{host}"));
        assert_eq!(answer(request).await.status.as_u16(), status, "{path} {host}");
    }
    assert_eq!(crate::support::client::get(&gateway.admin("/admin/reload")).await.status, 405);
    assert_eq!(answer(http().post(gateway.at("/admin/reload"))).await.status, 404, "not for clients");
    reloads(&gateway, 1, 0).await;
}

#[tokio::test]
async fn other_sites_may_not_use_an_open_gateway() {
    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&pool("first", &mock)).await;
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
    let asked = async |origin: &str| {
        let request = crate::support::client::json(http().post(gateway.at("/v1/chat/completions")), &body);
        answer(request.header("origin", origin)).await.status.as_u16()
    };
    for origin in ["http://evil.example", "http://evil.example:4100", "null"] {
        assert_eq!(asked(origin).await, 403, "{origin}");
    }
    assert!(mock.seen().is_empty(), "no engine was asked");
    assert_eq!(asked("http://localhost:3000").await, 200);
}

#[tokio::test]
async fn streams_and_counts_outlive_a_reload() {
    let (mock, other) = (Mock::start(held).await, Mock::start(held).await);
    mock.set_vllm(3, 1, 0.25);
    let gateway = Gateway::start(&pool("first", &mock)).await;
    let url = gateway.at("/v1/chat/completions");
    let mut streams = Vec::new();
    for _ in 0..8 {
        let mut stream = Sse::post(&url, &chat("m", true)).await;
        stream.event().await.unwrap();
        streams.push(stream);
    }
    let latency = async || {
        let state = gateway.get_json("/admin/state").await;
        state["pools"][0]["backends"][0]["in_flight"].as_u64()
    };
    until("the engine's signals to be read", async || {
        !gateway.get_json("/admin/state").await["pools"][0]["backends"][0]["signals"].is_null()
    })
    .await;
    let both = format!("pools:\n  first: {{ model: m, backends: [\"{}\", \"{}\"] }}\n", mock.url(), other.url());
    gateway.rewrite(&both);
    reloads(&gateway, 1, 0).await;
    assert_eq!(latency().await, Some(8), "what is under way still counts");
    let backend = gateway.get_json("/admin/state").await["pools"][0]["backends"][0].clone();
    assert_eq!(backend["signals"]["running"], 3.0, "what the engine said is not forgotten: {backend}");
    // The balancer knows of the eight.
    assert_eq!(ask(&gateway).await.header("x-signalbox-backend"), "first-2");
    // The engine's own policy is gone altogether, and the streams still end well.
    gateway.rewrite(&pool("third", &other));
    reloads(&gateway, 2, 0).await;
    mock.open(1);
    for mut stream in streams {
        let (text, end) = stream.text().await;
        assert!(text.ends_with('b') && matches!(end, End::Clean), "{text:?} {end:?}");
    }
    gateway.wait_metrics("nothing to be under way", |now| now.sum("signalbox_in_flight", &[]) < 0.5).await;
    gateway.rewrite(&both);
    reloads(&gateway, 3, 0).await;
    assert_eq!(latency().await, Some(0));
}

#[tokio::test]
async fn requests_go_on_without_a_gap_while_the_policy_changes() {
    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&pool("p0", &mock)).await;
    let url = gateway.at("/v1/chat/completions");
    let client = http();
    let over = Arc::new(AtomicBool::new(false));
    let asking = tokio::spawn({
        let over = over.clone();
        async move {
            let mut pools = BTreeSet::new();
            let mut stream = false;
            while !over.load(Relaxed) {
                stream = !stream;
                let answer = answer(json(client.post(&url), &chat("m", stream))).await;
                assert_eq!(answer.status, 200, "{}", answer.text());
                pools.insert(answer.header("x-signalbox-pool").to_owned());
            }
            pools
        }
    });
    mock.wait_seen(1).await;
    for number in 1..6 {
        gateway.rewrite(&pool(&format!("p{number}"), &mock));
        assert_eq!(press(&gateway, None).await.status, 200);
        let seen = mock.seen().len();
        mock.wait_seen(seen + 3).await;
    }
    over.store(true, Relaxed);
    assert_eq!(asking.await.unwrap().len(), 6);
}

#[tokio::test]
async fn places_taken_before_a_reload_are_still_taken_after_it() {
    let mock = Mock::start(held).await;
    let gateway = Gateway::start(&(pool("first", &mock) + "limits: { in_flight: 2 }\n")).await;
    let url = gateway.at("/v1/chat/completions");
    let mut streams = vec![Sse::post(&url, &chat("m", true)).await, Sse::post(&url, &chat("m", true)).await];
    assert_eq!(ask(&gateway).await.status, 503);
    gateway.rewrite(&(pool("second", &mock) + "limits: { in_flight: 2 }\n"));
    reloads(&gateway, 1, 0).await;
    assert_eq!(ask(&gateway).await.status, 503, "two are under way, whoever let them in");
    gateway.rewrite(&(pool("second", &mock) + "limits: { in_flight: 3 }\n"));
    reloads(&gateway, 2, 0).await;
    streams.push(Sse::post(&url, &chat("m", true)).await);
    assert_eq!((streams[2].status.as_u16(), ask(&gateway).await.status.as_u16()), (200, 503));
    gateway.rewrite(&(pool("second", &mock) + "limits: { in_flight: 1 }\n"));
    reloads(&gateway, 3, 0).await;
    mock.open(1);
    for mut stream in streams {
        stream.rest().await;
    }
    until("a place to be free", async || ask(&gateway).await.status == 200).await;
}

#[tokio::test]
async fn a_removed_key_is_refused() {
    let mock = Mock::start(polite).await;
    let line = |id: &str| {
        let hash = blake3::hash(format!("sk-{id}").as_bytes()).to_hex();
        format!("  - {{ id: {id}, hash: \"blake3:{hash}\" }}\n")
    };
    let with = |keys: &[&str]| {
        let keys: String = keys.iter().map(|id| line(id)).collect();
        format!("keys:\n{keys}{}", pool("main", &mock))
    };
    let gateway = Start::with(&with(&["one", "two"])).start().await;
    let try_key = async |key: &str| {
        let request = json(http().post(gateway.at("/v1/chat/completions")), &chat("m", false));
        answer(request.bearer_auth(key)).await.status.as_u16()
    };
    assert_eq!((try_key("sk-one").await, try_key("sk-two").await, try_key("sk-three").await), (200, 200, 401));
    gateway.rewrite(&with(&["two", "three"]));
    reloads(&gateway, 1, 0).await;
    assert_eq!((try_key("sk-one").await, try_key("sk-two").await, try_key("sk-three").await), (401, 200, 200));
}

#[tokio::test]
async fn a_new_key_for_an_engine_serves_its_metrics_too() {
    let mock = Mock::start(polite).await;
    mock.set_vllm(0, 0, 0.1);
    let with = |key: &str| {
        format!("pools:\n  main: {{ model: m, backends: [{{ url: \"{}\", key: \"{key}\" }}] }}\n", mock.url())
    };
    let gateway = Gateway::start(&with("sk-old")).await;
    let asked_with = |key: &str| {
        let want = format!("Bearer {key}");
        mock.probes().iter().any(|probe| probe.header("authorization") == Some(&want))
    };
    until("the metrics to be read", async || asked_with("sk-old")).await;
    gateway.rewrite(&with("sk-new"));
    until("the metrics to be read with the new key", async || asked_with("sk-new")).await;
    assert_eq!(
        (ask(&gateway).await.status.as_u16(), mock.seen()[0].header("authorization")),
        (200, Some("Bearer sk-new"))
    );
}

/// A policy with a key whose secret is `sk-web`.
fn keyed(policy: &str) -> String {
    format!("keys: [{{ id: web, hash: \"blake3:{}\" }}]\n{policy}", blake3::hash(b"sk-web").to_hex())
}

#[tokio::test]
async fn keys_do_not_go_by_themselves() {
    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&keyed(&pool("first", &mock))).await;
    let open = async || ask(&gateway).await.status == 200;
    assert!(!open().await);
    gateway.rewrite(&pool("second", &mock));
    gateway.wait_log("write `keys: none`").await;
    let refused =
        |log: &str| log.lines().filter(|line| line.contains("WARN") && line.contains("policy refused")).count();
    assert_eq!((refused(&gateway.log()), open().await), (1, false), "{}", gateway.log());
    // Whoever asks for it.
    gateway.sighup();
    reloads(&gateway, 0, 2).await;
    let pressed = press(&gateway, None).await;
    assert_eq!((pressed.status.as_u16(), open().await), (400, false));
    assert!(pressed.text().contains("keys: none"), "{}", pressed.text());
    // A key without a value is no word that there are none.
    gateway.rewrite(&format!("{}keys:\n", pool("third", &mock)));
    reloads(&gateway, 0, 4).await;
    assert!(!open().await);
    gateway.rewrite(&format!("keys: none\n{}", pool("fourth", &mock)));
    reloads(&gateway, 1, 4).await;
    assert!(open().await);
    gateway.rewrite(&keyed(&pool("fifth", &mock)));
    reloads(&gateway, 2, 4).await;
    assert!(!open().await);
}

#[tokio::test]
async fn a_half_written_file_is_not_taken() {
    let mock = Mock::start(polite).await;
    // What protects comes last, so that every beginning is a policy, or none at all.
    let policy = format!("{}listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n{}", pool("first", &mock), keyed(""));
    let gateway = Gateway::start(&policy).await;
    let open = async || ask(&gateway).await.status == 200;
    let text = std::fs::read_to_string(gateway.config()).unwrap();
    let end = |line: &str| text.find(line).unwrap() + line.len();
    for cut in [0, end("pools:"), end("backends:"), end("admin: 127.0.0.1:0\n"), end("hash: ")] {
        std::fs::write(gateway.config(), &text[..cut]).unwrap();
        let warned = |log: &str| log.matches("is now only the beginning of its former text").count();
        let before = warned(&gateway.log());
        until("the file to be looked at", async || warned(&gateway.log()) > before || open().await).await;
        assert!(!open().await, "{}", &text[..cut]);
    }
    // What stays cut for two seconds is tried, and none of these is a policy that keeps the keys.
    let reloads = async |ok: u32| {
        let count = |now: &Metrics| now.sum("signalbox_config_reloads_total", &["result=\"ok\""]) as u32;
        gateway.wait_metrics(&format!("{ok} reloads"), |now| count(now) == ok).await;
    };
    std::fs::write(gateway.config(), text.replace("first", "second")).unwrap();
    reloads(1).await;
    assert!(!open().await);
    // Another file in its place is whole, and may be shorter.
    let longer = text.replace("first", "third") + "models: { other: { to: third } }\n";
    gateway.rewrite(&longer);
    reloads(2).await;
    gateway.rewrite(&longer[..longer.len() - 1 - "models: { other: { to: third } }\n".len()]);
    reloads(3).await;
    // So is what an operator says is meant.
    std::fs::write(gateway.config(), longer.split_at(longer.find("keys:").unwrap()).0.to_owned() + "keys: none\n")
        .unwrap();
    reloads(4).await;
    assert!(open().await);
}

#[tokio::test]
async fn lines_that_were_appended_may_be_removed_again() {
    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&pool("first", &mock)).await;
    let text = std::fs::read_to_string(gateway.config()).unwrap();
    std::fs::write(gateway.config(), text.clone() + "models: { broken: { to: nowhere } }\n").unwrap();
    reloads(&gateway, 0, 1).await;
    std::fs::write(gateway.config(), &text).unwrap();
    reloads(&gateway, 1, 1).await;
    // Lines of the policy in force take a little longer.
    std::fs::write(gateway.config(), text.clone() + "models: { other: { to: first } }\n").unwrap();
    reloads(&gateway, 2, 1).await;
    std::fs::write(gateway.config(), &text).unwrap();
    reloads(&gateway, 3, 1).await;
}

#[tokio::test]
async fn other_protections_are_not_removed_by_omission() {
    let mock = Mock::start(polite).await;
    let admin = |token: &str| format!("admin: {{ listen: \"127.0.0.1:0\"{token}, hosts: [ops.example] }}\n");
    let gateway = Gateway::start(&format!("hosts: [a.example]\n{}{}", admin(", token: t"), pool("first", &mock))).await;
    let asked = async |path: &str, token: &str| {
        answer(http().post(gateway.admin(path)).bearer_auth(token)).await.status.as_u16()
    };
    for (policy, reason) in [
        (format!("hosts: [a.example]\n{}{}", admin(""), pool("second", &mock)), "`admin` would ask for no credential"),
        (format!("{}{}", admin(", token: t"), pool("third", &mock)), "`hosts` is gone"),
    ] {
        gateway.rewrite(&policy);
        gateway.wait_log(reason).await;
        assert_eq!(asked("/admin/reload", "").await, 401);
        assert_eq!(ask(&gateway).await.header("x-signalbox-pool"), "first");
    }
    // Narrower keys are an edit like any other.
    gateway.rewrite(&format!("hosts: [b.example]\n{}{}", admin(", token: u"), pool("fourth", &mock)));
    until("the new policy", async || ask(&gateway).await.header("x-signalbox-pool") == "fourth").await;
    assert_eq!((asked("/admin/reload", "t").await, asked("/admin/reload", "u").await), (401, 200));
}

#[tokio::test]
async fn secrets_that_everyone_may_read_are_warned_of() {
    use std::os::unix::fs::PermissionsExt;

    let mock = Mock::start(polite).await;
    let with_key =
        |key: &str| format!("pools:\n  main: {{ model: m, backends: [{{ url: \"{}\", key: {key} }}] }}\n", mock.url());
    let warned = |gateway: &Gateway| gateway.log().matches("every user of this machine may read it").count();
    let gateway = Start::with(&with_key("\"${KEY}\"")).env("KEY", "sk-1").start().await;
    let open = |gateway: &Gateway, policy: &str, mode: u32| {
        let draft = gateway.dir().join("draft");
        std::fs::write(&draft, policy.to_owned() + "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n").expect("a file");
        std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(mode)).expect("its mode");
        std::fs::rename(draft, gateway.config()).expect("in its place");
    };
    open(&gateway, &with_key("sk-2"), 0o640);
    gateway.wait_metrics("a reload", |now| now.sum("signalbox_config_reloads_total", &["ok"]) > 0.5).await;
    assert_eq!(warned(&gateway), 0, "{}", gateway.log());
    open(&gateway, &with_key("sk-3"), 0o644);
    until("the warning", async || warned(&gateway) == 1).await;
    assert!(!gateway.log().contains("sk-3"), "{}", gateway.log());
}
