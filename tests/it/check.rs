//! `signalbox check`, `schema` and `key` through the real binary.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

const SECRET: &str = "sk-never-to-be-shown";

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs `signalbox` inside `dir` (from the crate's root), so that paths print the same everywhere.
fn signalbox(dir: &str, arguments: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_signalbox"))
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(dir))
        .env_clear()
        .env("SIGNALBOX_TEST_SECRET", SECRET)
        .output()
        .expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn files(dir: &str, ending: &str) -> Vec<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
    let entries = std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    let mut files: Vec<_> =
        entries.map(|name| name.into_string().expect("UTF-8")).filter(|name| name.ends_with(ending)).collect();
    files.sort_unstable();
    files
}

#[test]
fn every_broken_file_is_reported_with_location_and_help() {
    let files = files("tests/it/broken", ".yaml");
    assert!(files.len() >= 15);
    for file in files {
        let ran = signalbox("tests/it/broken", &["check", &file]);
        assert_eq!((ran.code, &*ran.out), (Some(1), ""), "{file}: {}", ran.err);
        assert!(ran.err.contains("help: "), "{file} has no mend:\n{}", ran.err);
        assert!(!ran.err.contains(SECRET), "{file} shows a secret:\n{}", ran.err);
        insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "snapshots/check", omit_expression => true }, {
            insta::assert_snapshot!(file.trim_end_matches(".yaml"), ran.err);
        });

        let ran = signalbox("tests/it/broken", &["check", &file, "--json"]);
        assert_eq!((ran.code, &*ran.err), (Some(1), ""), "{file}");
        assert!(!ran.out.contains(SECRET), "{file} shows a secret:\n{}", ran.out);
        let json: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
        for problem in json["problems"].as_array().expect("a list") {
            assert!(problem["line"].as_u64() >= Some(1) && problem["column"].as_u64() >= Some(1), "{file}: {problem}");
            assert!(problem["message"].is_string() && problem["help"].is_string(), "{file}: {problem}");
        }
    }
}

#[test]
fn a_policy_may_come_by_the_standard_input() {
    for (policy, passes) in [("pools: { p: { backends: [\"http://h/v1\"] } }\n", true), ("pools: { p: 1 }\n", false)] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_signalbox"))
            .args(["check", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        child.stdin.take().expect("an input").write_all(policy.as_bytes()).expect("it is read");
        let output = child.wait_with_output().expect("it ends");
        let text = [output.stderr, output.stdout].concat();
        let text = String::from_utf8_lossy(&text);
        assert_eq!(output.status.success(), passes, "{text}");
        assert!(passes || text.contains("[standard input:1:"), "{text}");
    }
}

#[test]
fn the_policies_that_come_along_are_good() {
    for file in files("policies", ".yaml") {
        let ran = signalbox("policies", &["check", &file]);
        assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{file}");
        insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "snapshots/check", omit_expression => true }, {
            insta::assert_snapshot!(format!("policy_{}", file.trim_end_matches(".yaml")), ran.out);
        });
        let ran = signalbox("policies", &["check", &file, "--json"]);
        let json: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
        assert_eq!(json["ok"], true, "{file}");
    }
}

#[test]
fn a_missing_file_is_reported_as_such() {
    let ran = signalbox("policies", &["check", "nowhere.yaml"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("this file cannot be read: no such file"), "{}", ran.err);
}

#[test]
fn a_missing_model_file_is_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let policy = dir.path().join("policy.yaml");
    let text = "pools: { p: { backends: [http://h/v1] } }\ncache: { semantic: { scope: shared, embedder: { onnx: minilm } } }\n";
    std::fs::write(&policy, text).expect("a file");
    let check = || signalbox("policies", &["check", policy.to_str().expect("UTF-8")]);
    assert!(check().err.contains("`model.onnx` of this model cannot be read: no such file"), "{}", check().err);
    std::fs::create_dir(dir.path().join("minilm")).expect("a folder");
    for name in signalbox::config::embedder::MODEL_FILES {
        std::fs::write(dir.path().join("minilm").join(name), "").expect("a file");
    }
    assert!(!check().err.contains("cannot be read"), "{}", check().err);
}

#[test]
fn the_schema_is_printed_as_it_is_kept() {
    let ran = signalbox("policies", &["schema"]);
    assert!(ran.out == include_str!("../../policies/policy.schema.json"), "policies/policy.schema.json is stale");
}

#[test]
fn the_line_of_a_new_key_is_a_valid_policy_entry() {
    let ran = signalbox("policies", &["key", "new", "--id", "web", "--json"]);
    let key: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let secret = key["secret"].as_str().expect("a secret");
    assert_eq!(key["hash"], format!("blake3:{}", blake3::hash(secret.as_bytes()).to_hex()));

    let ran = signalbox("policies", &["key", "new", "--id", "on"]);
    let line = ran.out.lines().find(|line| line.contains("hash:")).expect("a line for the policy");
    let dir = tempfile::tempdir().expect("a directory");
    let policy = dir.path().join("policy.yaml");
    std::fs::write(&policy, format!("keys:\n{line}\npools: {{ p: {{ backends: [http://h/v1] }} }}\n")).expect("a file");
    let ran = signalbox("policies", &["check", policy.to_str().expect("UTF-8"), "--json"]);
    let json: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(json["keys"], 1, "{}", ran.out);
}

#[test]
fn no_secret_is_shown_however_short_and_however_broken_the_file() {
    let secret = "zq7";
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("policy.yaml");
    let pools = "pools: { p: { backends: [http://h/v1] } }\n";
    for text in [
        // No YAML.
        format!("a: [\nengines: {{ e: {{ url: http://h/v1, key: {secret} }}\n{pools}"),
        format!("key: \"{secret}\nlisten: 1\n"),
        format!("limits: {{ shared: {{ url: \"redis://me:{secret}@h:1\" }}\n]\n"),
        format!("admin: {{ token: {secret}\n"),
        format!("keys:\n  - {secret}\n ]\n"),
        format!("accounts:\n  a:\n    keys:\n      - {secret}\n   b: [\n"),
        format!("otel:\n  headers:\n    x-a: {secret}\n   b: [\n"),
        format!("api_key: *{secret}\n"),
        format!("key: !{secret} x\n"),
        format!("password = {secret}\n]\n"),
        // YAML, and no policy.
        format!("{pools}engines: {{ e: {{ url: http://h2/v1, api_key: {secret} }} }}\n"),
        format!("{pools}engines: {{ e: {{ url: http://h2/v1, kye: {secret} }} }}\n"),
        format!("{pools}accounts: {{ openai: {secret} }}\n"),
        format!("{pools}accounts: {{ openai: [{secret}] }}\n"),
        format!("{pools}keys: {secret}\n"),
        format!("{pools}keys: {{ web: {secret} }}\n"),
        format!("{pools}keys: [{{ id: web, hash: {secret} }}]\n"),
        format!("{pools}admin: {{ listen: x, token: {secret} }}\n"),
        format!("{pools}admin: {{ listen: x, token: \"${{UNSET:-{secret}}}\" }}\n"),
        format!("{pools}token: {secret}\n"),
        format!("pools: {{ p: {{ backends: [\"http://me:{secret}@h/v1\"] }} }}\n"),
        format!("{pools}limits: {{ shared: {{ url: \"ftp://me:{secret}@h\" }} }}\n"),
        format!("{pools}otel: {{ endpoint: x, headers: {{ x-a: {secret} }} }}\n"),
        format!("{pools}engines: {{ e: key:{secret} }}\n"),
        format!("{pools}engines: {{ e: {{ url: http://h2/v1, key: {{{secret}}} }} }}\n"),
        format!("{pools}keys: [{{ {secret}: }}]\n"),
    ] {
        std::fs::write(&file, &text).expect("a file");
        for more in [&[][..], &["--json"]] {
            let arguments: Vec<_> =
                ["check", file.to_str().expect("UTF-8")].into_iter().chain(more.iter().copied()).collect();
            let ran = signalbox("policies", &arguments);
            assert_eq!(ran.code, Some(1), "{text}");
            assert!(!ran.err.contains(secret) && !ran.out.contains(secret), "{text}\n{}{}", ran.err, ran.out);
        }
    }
}

#[test]
fn errors_in_keys_have_locations() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("policy.yaml");
    for (text, reported) in [
        ("admin: 10.0.0.1:4101", "without a credential"),
        ("admin: { listen: 10.0.0.1:4101, token: \"\" }", "an empty key"),
        ("admin: { mtls: { client_roots: r.pem } }", "without one of the gateway's own"),
        ("admin: { hosts: [\"http://h\"] }", "not the name of a host"),
        ("admin: [1]", "expected an address such as"),
        ("hosts: [\"h:80\"]", "not the name of a host"),
        ("cors: { origins: [\"*\"] }", "every site's pages would be let in"),
        ("cors: { origins: [\"https://h/x\"] }", "not a site as browsers name it"),
        ("cors: { origins: [] }", "an empty list of sites"),
        ("cors: {}", "`origins` is missing here"),
        ("keys:", "expected a list of keys, or `none`"),
        ("keys: nobody", "expected a list of keys, or `none`"),
    ] {
        std::fs::write(&file, format!("pools: {{ p: {{ backends: [http://h/v1] }} }}\n{text}\n")).expect("a file");
        let ran = signalbox("policies", &["check", file.to_str().expect("UTF-8")]);
        assert_eq!(ran.code, Some(1), "{text}");
        let err = ran.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            err.contains(reported) && err.contains("policy.yaml:2:") && err.contains("help: "),
            "{text}\n{}",
            ran.err
        );
    }
    for text in
        ["keys: none", "admin: off", "admin: { token: t }", "hosts: [h, 10.0.0.1]", "cors: { origins: [https://h] }"]
    {
        std::fs::write(&file, format!("pools: {{ p: {{ backends: [http://h/v1] }} }}\n{text}\n")).expect("a file");
        let ran = signalbox("policies", &["check", file.to_str().expect("UTF-8")]);
        assert_eq!(ran.code, Some(0), "{text}: {}", ran.err);
    }
}
