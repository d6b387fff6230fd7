//! Rotation while the gateway serves: of files of secrets, of the secrets of keys, and of log files.
#![allow(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use std::{fs, os::unix::fs::symlink, path::Path};

use http::Method;
use serde_json::{Value, json};

use crate::{
    keys::{ask, chat, code, keys, pool, used},
    support::{
        cli::run,
        client::{self, http},
        gateway::Gateway,
        mock::{Mock, polite},
        until,
    },
};

/// Writes secrets as the kubelet does: into a folder of their own, to which a link is swapped.
fn mount(folder: &Path, version: &str) {
    let own = folder.join(format!("..{version}"));
    fs::create_dir(&own).unwrap();
    for name in ["admin", "provider"] {
        fs::write(own.join(name), format!("sk-{name}-secret-of-{version}\n")).unwrap();
        if folder.join(name).symlink_metadata().is_err() {
            symlink(format!("..data/{name}"), folder.join(name)).unwrap();
        }
    }
    symlink(&own, folder.join("..tmp")).unwrap();
    fs::rename(folder.join("..tmp"), folder.join("..data")).unwrap();
}

#[tokio::test]
async fn files_of_secrets_are_followed_however_they_change() {
    let mock = Mock::start(polite).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    mount(path, "one");
    fs::write(path.join("account"), "sk-account-secret-of-one").unwrap();
    let policy = format!(
        "admin: {{ listen: \"127.0.0.1:0\", token: {{ file: \"{0}/admin\" }} }}\n\
         accounts: {{ paid: {{ keys: [{{ file: \"{0}/account\" }}] }} }}\n\
         engines: {{ e: {{ url: \"{1}\", account: paid, scrape: false }} }}\n\
         pools:\n  own: {{ model: m, backends: [{{ url: \"{1}\", key: {{ file: \"{0}/provider\" }} }}] }}\n  \
           paid: {{ model: m, backends: [{{ engine: e }}] }}\nmodels: {{ own: {{ to: own }}, paid: {{ to: paid }} }}\n",
        path.display(),
        mock.url()
    );
    let gateway = Gateway::start(&policy).await;
    let operator = async |version: &str| {
        let token = format!("sk-admin-secret-of-{version}");
        client::answer(http().get(gateway.admin("/admin/state")).bearer_auth(token)).await.status.as_u16()
    };
    let sent = async |model: &str| {
        assert_eq!(client::post(&gateway.at("/v1/chat/completions"), &chat(model, 5)).await.status, 200);
        mock.seen().last().unwrap().header("authorization").unwrap_or_default().to_owned()
    };
    assert_eq!((operator("one").await, sent("own").await), (200, "Bearer sk-provider-secret-of-one".to_owned()));
    mount(path, "two");
    until("the new token", async || operator("two").await == 200).await;
    assert_eq!((operator("one").await, sent("own").await), (401, "Bearer sk-provider-secret-of-two".to_owned()));
    // Written in place, and renamed into place.
    fs::write(path.join("account"), "sk-account-secret-of-two").unwrap();
    until("the account's new key", async || sent("paid").await == "Bearer sk-account-secret-of-two").await;
    fs::write(path.join("next"), "sk-account-secret-of-three").unwrap();
    fs::rename(path.join("next"), path.join("account")).unwrap();
    until("the account's next key", async || sent("paid").await == "Bearer sk-account-secret-of-three").await;
    // One that cannot be read changes nothing, and is reported until it can be.
    fs::remove_file(path.join("account")).unwrap();
    gateway.wait_log("policy not loaded").await;
    assert_eq!(sent("paid").await, "Bearer sk-account-secret-of-three");
    let troubles = async || {
        let state =
            client::answer(http().get(gateway.admin("/admin/state")).bearer_auth("sk-admin-secret-of-two")).await;
        state.json()["health"]["troubles"].to_string()
    };
    assert!(troubles().await.contains("is not in force"));
    fs::write(path.join("account"), "sk-account-secret-of-three").unwrap();
    until("all to be well", async || !troubles().await.contains("is not in force")).await;
    // A policy file that is refused does not keep an old secret in force.
    gateway.rewrite(&format!("{policy}nonsense: 1\n"));
    until("the refusal", async || troubles().await.contains("is not in force")).await;
    mount(path, "three");
    until("the new token", async || operator("three").await == 200).await;
    assert_eq!((operator("two").await, sent("own").await), (401, "Bearer sk-provider-secret-of-three".to_owned()));
}

#[tokio::test]
async fn a_key_keeps_its_budget_over_several_secrets() {
    let mock = Mock::start(|seen| used(seen, 10, 5)).await;
    let hash = |secret: &str| format!("blake3:{}", blake3::hash(secret.as_bytes()).to_hex());
    let more = format!(
        ", budget: {{ tokens: 45, per: day }}, also: [{{ hash: \"{}\", valid_until: 2999-01-01 }}, {{ hash: \"{}\", valid_until: 2026-01-01 }}]",
        hash("old"),
        hash("ended")
    );
    let gateway = Gateway::start(&format!("{}{}", keys(&[("web", &more)]), pool(&mock, ""))).await;
    let status = async |secret: &str| ask(&gateway, secret, &chat("auto", 5), &[]).await.status.as_u16();
    assert_eq!([status("web").await, status("old").await, status("web").await], [200; 3]);
    assert_eq!([status("old").await, status("web").await], [429; 2], "one budget");
    let ended = ask(&gateway, "ended", &chat("auto", 5), &[]).await;
    assert_eq!(code(&ended), (401, "invalid_api_key".to_owned()));
    assert!(ended.text().contains("was replaced and is not valid since 2026-01-01"), "{}", ended.text());
    let listed = gateway.get_json("/admin/keys").await;
    assert_eq!(listed["keys"][0]["other_secrets_until"], json!(["2999-01-01T00:00:00Z"]));
    // A key is revoked with all its secrets.
    assert_eq!(client::post(&gateway.admin("/admin/keys/web/revoke"), &json!({})).await.status, 200);
    assert_eq!([status("web").await, status("old").await], [401; 2]);
}

#[tokio::test]
async fn a_managed_key_is_rotated_with_an_overlap() {
    let mock = Mock::start(|seen| used(seen, 10, 5)).await;
    let folder = tempfile::tempdir().unwrap();
    let policy = format!("managed_keys: {{ path: \"{}/keys.json\" }}\n{}", folder.path().display(), pool(&mock, ""));
    let gateway = Gateway::start(&policy).await;
    let send = async |method: Method, path: &str, body: &Value| {
        let answer = client::answer(client::json(http().request(method, gateway.admin(path)), body)).await;
        (answer.status.as_u16(), answer.json())
    };
    let secret = |answer: &Value| answer["secret"].as_str().unwrap_or_default().to_owned();
    let status = async |secret: &str| ask(&gateway, secret, &chat("auto", 5), &[]).await.status.as_u16();
    let (_, made) = send(Method::POST, "/admin/keys", &json!({ "id": "web", "limits": { "rpm": 100 } })).await;
    let first = secret(&made);
    let (done, rotated) = send(Method::POST, "/admin/keys/web/rotate", &json!({ "overlap": "1h" })).await;
    let second = secret(&rotated);
    assert!(done == 200 && second.starts_with("sb-") && second != first, "{rotated}");
    assert_eq!([status(&first).await, status(&second).await], [200; 2]);
    // At once, on the command line, by an empty body, and with a hash of one's own.
    let at = gateway.admin("");
    let arguments = ["key", "rotate", "web", "--overlap", "0s", "--json", "--admin", at.trim_end_matches('/')];
    let said = run(folder.path(), arguments);
    let third = secret(&serde_json::from_str(&said.out).unwrap());
    assert_eq!([status(&first).await, status(&second).await, status(&third).await], [200, 401, 200]);
    let empty = client::answer(http().post(gateway.admin("/admin/keys/web/rotate"))).await;
    assert_eq!((empty.status.as_u16(), status(&third).await), (200, 200));
    let own = format!("blake3:{}", blake3::hash(b"own").to_hex());
    let (done, _) = send(Method::POST, "/admin/keys/web/rotate", &json!({ "hash": own })).await;
    assert_eq!((done, status("own").await, status(&third).await), (200, 200, 200));
    assert_eq!(send(Method::PATCH, "/admin/keys/web", &json!({ "also": null })).await.0, 200);
    assert_eq!([status("own").await, status(&third).await, status(&first).await], [200, 401, 401]);
    for (body, words) in [(json!({ "overlap": "soon" }), "overlap"), (json!({ "grate": "1h" }), "grate")] {
        let (done, answer) = send(Method::POST, "/admin/keys/web/rotate", &body).await;
        assert!(done == 400 && answer.to_string().contains(words), "{answer}");
    }
    assert_eq!(send(Method::POST, "/admin/keys/nobody/rotate", &json!({})).await.0, 404);
    let usage = client::get(&gateway.admin("/admin/usage")).await.text();
    assert_eq!(usage.lines().filter(|row| row.contains("\"key\":\"web\"")).count(), 1, "{usage}");
}

#[tokio::test]
async fn log_files_are_opened_again() {
    let mock = Mock::start(polite).await;
    let folder = tempfile::tempdir().unwrap();
    let (access, journal) = (folder.path().join("access.log"), folder.path().join("journal.jsonl"));
    let policy = format!(
        "access_log: {{ format: json, path: \"{}\" }}\njournal: {{ path: \"{}\" }}\n{}",
        access.display(),
        journal.display(),
        pool(&mock, "")
    );
    let gateway = Gateway::start(&policy).await;
    let lines = |path: &Path| fs::read_to_string(path).map_or(0, |text| text.lines().count());
    let send = async |what: &str, count: usize| {
        assert_eq!(client::post(&gateway.at("/v1/chat/completions"), &chat("auto", 5)).await.status, 200);
        until(what, async || lines(&access) == count && lines(&journal) == count).await;
    };
    send("the first lines", 1).await;
    gateway.signal("USR2");
    send("SIGUSR2 to change nothing", 2).await;
    let rename = |to: &str| {
        for path in [&access, &journal] {
            fs::rename(path, path.with_extension(to)).unwrap();
        }
    };
    for (signal, to) in [("USR1", "1"), ("HUP", "2")] {
        rename(to);
        gateway.signal(signal);
        until("new files", async || access.exists() && journal.exists()).await;
        assert_eq!(lines(&access) + lines(&journal), 0);
        send("lines in the new files", 1).await;
    }
    // Without a signal, the next line goes to a new file.
    rename("3");
    send("lines in new files", 1).await;
    for path in [&access, &journal] {
        fs::remove_file(path).unwrap();
    }
    send("lines in new files", 1).await;
    assert_eq!(lines(&access.with_extension("1")), 2);
}
