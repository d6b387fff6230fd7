//! `signalbox health`, `completions` and `man` through the real binary.

use std::path::Path;

use tokio::process::Command;

use crate::{
    support::{
        cli,
        client::get,
        gateway::{Gateway, Start},
        mock::{Mock, polite},
        until, within,
    },
    tls::Root,
};

/// Exit code, output and errors of `signalbox health`.
async fn health(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_signalbox"));
    command.arg("health").args(args).env_clear().kill_on_drop(true);
    let out = within("signalbox health", command.output()).await.expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

#[tokio::test]
async fn a_gateway_that_serves_is_ready_at_both_addresses() {
    let gateway = Start::simulated().start().await;
    for address in [gateway.admin(""), gateway.admin("/").replace("http://", ""), gateway.at("")] {
        let (code, said, complained) = health(&["--ready", "--admin", &address]).await;
        assert_eq!((code, &*complained), (Some(0), ""), "{address}");
        assert!(said.starts_with("ready: http://"), "{said}");
    }
}

#[tokio::test]
async fn a_gateway_that_drains_lives_but_is_not_ready() {
    let mock = Mock::start(polite).await;
    let pools =
        format!("pools: {{ p: {{ model: m, backends: [\"{}\"] }} }}\nlimits: {{ lame_duck: 3s }}\n", mock.url());
    let mut gateway = Gateway::start(&pools).await;
    let admin = gateway.admin("");
    gateway.sigterm();
    until("readiness to turn off", async || get(&gateway.admin("/readyz")).await.status == 503).await;
    let (code, said, _) = health(&["--admin", &admin]).await;
    assert_eq!((code, said), (Some(0), format!("draining: {admin}\n")));
    let (code, said, _) = health(&["--ready", "--admin", &admin]).await;
    assert_eq!((code, said), (Some(1), format!("draining: {admin}\n")));
    gateway.wait_exit().await;
    let (code, said, complained) = health(&["--admin", &admin]).await;
    assert_eq!((code, &*said), (Some(1), ""));
    assert!(complained.starts_with(&format!("signalbox: no gateway at {admin}: no connection")), "{complained}");
}

#[tokio::test]
async fn other_servers_are_no_gateways() {
    let mock = Mock::start(polite).await;
    let (code, _, complained) = health(&["--admin", mock.url().trim_end_matches("/v1")]).await;
    assert_eq!(code, Some(1));
    assert!(complained.contains("something else answers there, with status 4"), "{complained}");
}

#[tokio::test]
async fn a_policy_says_where_to_ask_also_over_tls() {
    let mock = Mock::start(polite).await;
    let folder = tempfile::tempdir().expect("a folder");
    Root::new().renew(folder.path());
    let at = folder.path().display();
    let policy = |listen: &str| {
        format!(
            "listen: {listen}\nadmin: off\nkeys: none\ntls: {{ certificate: {at}/gateway.pem, key: {at}/gateway.key }}\n\
             pools: {{ p: {{ model: m, backends: [\"{}\"] }} }}\n",
            mock.url()
        )
    };
    let gateway = Start::with(&policy("127.0.0.1:0")).arg("--admin").arg("127.0.0.1:0").start().await;
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, policy(&gateway.listen().to_string())).expect("the policy is written");
    let file = file.to_str().expect("UTF-8");
    let (code, said, complained) = health(&["--config", file]).await;
    assert_eq!((code, &*complained), (Some(0), ""));
    assert_eq!(said, format!("ready: https://{}\n", gateway.listen()));
    let (code, _, complained) = health(&["--config", "missing.yaml"]).await;
    assert_eq!(code, Some(1));
    assert!(complained.contains("missing.yaml"), "{complained}");
}

#[test]
fn completions_and_pages_name_every_command() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let help = cli::run(here, ["--help"]).out;
    let commands: Vec<_> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .map_while(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(commands.contains(&"serve") && commands.contains(&"completions"), "{commands:?}");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = cli::run(here, ["completions", shell]);
        assert_eq!((ran.code, &*ran.err), (Some(0), ""));
        for command in &commands {
            assert!(ran.out.contains(command), "{shell} lacks {command}");
        }
    }
    assert_eq!(cli::run(here, ["completions", "tcsh"]).code, Some(2));

    let folder = tempfile::tempdir().expect("a folder");
    let ran = cli::run(folder.path(), ["man", "--out", "pages"]);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    for command in &commands {
        let page = folder.path().join(format!("pages/signalbox-{command}.1"));
        let page = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
    }
    assert!(cli::run(here, ["man"]).out.contains("signalbox\\-serve(1)"));
}
