//! Compiles a backend that an operator adds over the admin API, by the rules of policy files.

use std::io;

use serde_json::{Value, json};

use super::compile;
use crate::{AddedBackend, AdminAccess, Pool};
use signalbox_config::{Config, Scalar, Word};
use signalbox_types::Name;

/// Keys of a backend that only a policy file may have, with the reason.
const ONLY_IN_POLICIES: [(&str, &str); 4] = [
    ("dns", "a DNS name is resolved where the policy names it"),
    ("file", "a file is read where the policy names it"),
    ("engine", "a named engine is in the policy already: name the address with `url`"),
    ("weight", "fixed shares of a pool are in the policy, where they add up"),
];

/// Compiles `body`, the mapping of a backend as in a policy, as the backend `id` of `pool`. Secrets are taken as they
/// stand: variables and files of the gateway's machine are not for those who may reach its API.
///
/// # Errors
/// The first problem, with its remedy.
pub fn compile_added(access: &AdminAccess, pool: &Pool, id: &str, body: &Value) -> Result<AddedBackend, String> {
    if let Err(mistake) = Word::read(id) {
        return Err(format!("the name of a backend: {}", mistake.message));
    }
    let Some(fields) = body.as_object() else {
        return Err("the body is a JSON object such as {\"url\": \"http://10.0.0.9:8000/v1\"}".to_owned());
    };
    if let Some((key, why)) = ONLY_IN_POLICIES.iter().find(|(key, _)| fields.contains_key(*key)) {
        return Err(format!("'{key}' belongs into the policy: {why}"));
    }
    if !fields.contains_key("url") {
        return Err("'url' is missing: the address of the engine, such as http://10.0.0.9:8000/v1".to_owned());
    }
    if has_variable(body) || fields.get("key").is_some_and(Value::is_object) {
        return Err(
            "variables and files are for policy files: send the key itself, or put the backend into the policy"
                .to_owned(),
        );
    }
    let document = json!({ "pools": { "added": { "model": pool.model.as_deref(), "backends": [body] } } });
    let document = match &pool.model {
        Some(_) => document,
        None => json!({ "pools": { "added": { "backends": [body] } } }),
    };
    let no_file = |_: &std::path::Path| Err(io::Error::from(io::ErrorKind::NotFound));
    let policy = Config::parse("the backend", &document.to_string(), &|_| None, &no_file)
        .and_then(|config| compile(&config))
        .map_err(|problems| {
            let first = problems.iter().next().map(|(_, _, problem)| problem.clone());
            first.map_or_else(String::new, |problem| match problem.help {
                Some(help) => format!("{}: {help}", problem.message),
                None => problem.message.into_owned(),
            })
        })?;
    let backend = policy.pools[0].backends[0].clone();
    let engine = policy.engines[backend.engine].clone();
    [Some(&engine.url), engine.dcgm.as_ref()].into_iter().flatten().try_for_each(|url| access.may_add(url))?;
    Ok(AddedBackend { pool: pool.name.clone(), id: Name::from(id), engine, backend })
}

/// True if a text in `value` refers to a variable, as policy files may.
pub fn has_variable(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("${"),
        Value::Array(values) => values.iter().any(has_variable),
        Value::Object(values) => values.iter().any(|(key, value)| key.contains("${") || has_variable(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

    fn policy() -> Policy {
        compile(&"pools: { main: { model: m, backends: [http://a/v1] } }".parse::<Config>().unwrap()).unwrap()
    }

    #[test]
    fn a_backend_is_compiled_as_in_a_policy() {
        let pool = &policy().pools[0];
        let body = json!({ "url": "http://B:8000/v1/", "max_concurrency": 4, "key": "sk-1", "drop": ["user"] });
        let added = compile_added(&AdminAccess::default(), pool, "b", &body).unwrap();
        assert_eq!(
            (&*added.engine.url, added.engine.max_concurrency, added.engine.keys.len()),
            ("http://b:8000/v1", Some(4), 1)
        );
        assert_eq!((added.backend.model.as_deref(), &*added.backend.drop), (Some("m"), &["user".to_owned()][..]));
    }

    #[test]
    fn what_cannot_be_added_is_refused_with_a_remedy() {
        let pool = &policy().pools[0];
        for (id, body, words) in [
            ("b", json!([]), "JSON object"),
            ("b", json!({}), "'url' is missing"),
            ("b", json!({ "url": "b:1" }), "without `http://`"),
            ("b", json!({ "url": "http://b", "maximum": 1 }), "unknown key"),
            ("b", json!({ "url": "http://b", "weight": "5%" }), "policy"),
            ("b", json!({ "url": "http://b", "dns": {} }), "policy"),
            ("b", json!({ "url": "http://b", "key": "${HOME}" }), "variables"),
            ("b", json!({ "url": "http://b", "key": { "file": "/etc/passwd" } }), "variables"),
            ("b c", json!({ "url": "http://b" }), "header"),
            ("b", json!({ "url": "http://169.254.169.254/latest" }), "no engine can be at"),
            ("b", json!({ "url": "http://[fe80::1]:80/v1" }), "no engine can be at"),
            ("b", json!({ "url": "http://b", "dcgm": "http://169.254.169.254/metrics" }), "no engine can be at"),
            ("b", json!({ "url": "http://b/v1/../admin" }), "`..`"),
            ("b", json!({ "url": "http://b/v1/%2E%2e/admin" }), "`..`"),
        ] {
            let said = compile_added(&AdminAccess::default(), pool, id, &body).unwrap_err();
            assert!(said.contains(words), "{body}: {said}");
        }
    }

    #[test]
    fn backends_are_added_in_the_networks_of_the_policy() {
        let access = |networks: &[&str]| AdminAccess {
            add_backends: Some(networks.iter().map(|text| signalbox_config::Network::read(text).unwrap()).collect()),
            ..AdminAccess::default()
        };
        let add = |networks: &[&str], url: &str| {
            compile_added(&access(networks), &policy().pools[0], "b", &json!({ "url": url }))
        };
        assert!(add(&["10.0.0.0/8"], "http://10.1.2.3:8000/v1").is_ok());
        for (networks, url, words) in [
            (&["10.0.0.0/8"][..], "http://11.0.0.1/v1", "none of the networks"),
            (&["10.0.0.0/8"], "http://gpu:8000/v1", "by its IP address"),
            (&[], "http://10.0.0.1/v1", "may be added"),
        ] {
            let said = add(networks, url).unwrap_err();
            assert!(said.contains(words), "{url}: {said}");
        }
    }
}
