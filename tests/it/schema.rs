//! The JSON schema of policy files agrees with `signalbox check`, wherever a schema can.
#![expect(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use std::{collections::BTreeSet, path::Path};

use jsonschema::Validator;
use serde_json::Value;
use signalbox::{
    config::{Config, schema, yaml},
    policy::compile,
};

fn validator() -> Validator {
    let schema: Value = serde_json::from_str(&schema()).expect("JSON");
    jsonschema::meta::validate(&schema).expect("a valid schema");
    jsonschema::validator_for(&schema).expect("a schema that compiles")
}

/// The verdict of `check`.
fn passes_check(text: &str) -> bool {
    let file = |_: &Path| Ok("sk-of-a-file".to_owned());
    let var = |name: &str| (name == "SET").then(|| "set".to_owned());
    Config::parse("test.yaml", text, &var, &file).and_then(|config| compile(&config)).is_ok()
}

/// The verdict of the schema; `None` for a file that is no YAML.
fn passes_schema(validator: &Validator, text: &str) -> Option<bool> {
    yaml::<Value>(text).ok().map(|value| validator.is_valid(&value))
}

fn files(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|ending| ending == "yaml")).collect();
    files.sort_unstable();
    let read = |path: &Path| std::fs::read_to_string(path).expect("a file");
    files.iter().map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), read(path))).collect()
}

#[test]
fn the_schema_accepts_every_policy_that_comes_along() {
    let validator = validator();
    for (name, text) in files("policies") {
        let errors: Vec<_> = validator.iter_errors(&yaml(&text).unwrap()).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
    }
}

/// Files that a schema cannot refuse: their values are well-formed, and wrong only beside others or outside the file.
const BEYOND_A_SCHEMA: [(&str, &str); 20] = [
    ("alias_loop", "names refer to each other"),
    ("azure", "a key depends on the dialect of another entry"),
    ("cache_of_nothing", "one of several keys has to be on"),
    ("conditions", "conditions are a language of their own"),
    ("duplicate_engine", "two addresses are equal once normalised"),
    ("embedder_backend", "the scope depends on the keys"),
    ("key_file", "a file outside is missing"),
    ("metrics_place", "a place is wrong beside `scrape: false`"),
    ("nothing", "an empty file is an empty document"),
    ("empty_file", "an empty file is an empty document"),
    ("same_address", "two addresses are compared"),
    ("second_route", "the order of routes matters"),
    ("secret_in_the_wrong_place", "the value of a variable is unknown"),
    ("shared", "the address of a server is read by its client"),
    ("tokenizers", "a file outside is missing"),
    ("unknown_engine_and_account", "names are compared"),
    ("unknown_model", "names are compared"),
    ("unknown_pool", "names are compared"),
    ("unset_variable", "variables are outside the file"),
    ("weights", "shares are added up"),
];

#[test]
fn the_schema_refuses_what_check_refuses() {
    let validator = validator();
    let beyond: BTreeSet<_> = BEYOND_A_SCHEMA.iter().map(|(name, _)| *name).collect();
    let mut refused = 0;
    for (name, text) in files("tests/it/broken") {
        match passes_schema(&validator, &text) {
            Some(false) => refused += 1,
            Some(true) => assert!(beyond.contains(&*name), "the schema accepts {name}"),
            None => {}
        }
    }
    assert!(refused >= 20, "{refused}");
}

/// A policy with `@` in place of one value, for each kind of value.
const PLACES: [&str; 38] = [
    "listen: @",
    "admin: @",
    "admin: { listen: @, token: t }",
    "hosts: [@]",
    "limits: { body: @ }",
    "limits: { header: @ }",
    "limits: { drain: @ }",
    "limits: { queue: { length: @ } }",
    "timeouts: { first_token: @ }",
    "timeouts: { total: @ }",
    "journal: { path: @ }",
    "journal: { path: j, keep: @ }",
    "journal: { path: j, facts: @ }",
    "access_log: { format: @ }",
    "learning: { re_ask: @ }",
    "otel: { endpoint: @ }",
    "otel: { endpoint: http://h, sample: @ }",
    "background: { budget: @ }",
    "teams: { t: { budget: { usd: @, per: day } } }",
    "teams: { t: { budget: { tokens: 1k, per: @ } } }",
    "accounts: { a: { keys: [@] } }",
    "engines: { e: { url: @ } }",
    "engines: { e: { url: http://h, scrape: @ } }",
    "engines: { e: { url: http://h, dialect: @ } }",
    "engines: { e: { url: http://h, gpu_hour: @ } }",
    "engines: { e: { url: http://h, dcgm: @ } }",
    "engines: { e: { url: http://h, max_concurrency: @ } }",
    "models: { m: { to: p, spill: @ } }",
    "models: { m: { to: p, queue: @ } }",
    "models: { m: { to: p, bound: { ttft: @ } } }",
    "models: { m: { to: p, objectives: [{ availability: @ }] } }",
    "models: { m: { to: p, objectives: [{ ttft: { p95: @ } }] } }",
    "models: { m: { to: p, objectives: [{ for: @ }] } }",
    "error_budgets: { fast: { rate: @ } }",
    "models: { m: { to: p, objectives: [{ ttft: { p95: 1s }, when: @ }] } }",
    "models: { m: { length: { short: p, long: q, boundary: @ } } }",
    "keys: [{ id: @, hash: \"blake3:0000000000000000000000000000000000000000000000000000000000000000\" }]",
    "keys: [{ id: a, hash: \"blake3:0000000000000000000000000000000000000000000000000000000000000000\", priority: @ }]",
];

/// Values as written in a policy.
const VALUES: [&str; 47] = [
    "1",
    "0",
    "9",
    "10",
    "-1",
    "1.5",
    "0.75",
    "007",
    "'5'",
    "true",
    "'true'",
    "off",
    "on",
    "none",
    "auto",
    "false",
    "word",
    "'two words'",
    "''",
    "'  '",
    "'a\u{7}b'",
    "30s",
    "0s",
    "500 ms",
    "1h30m",
    "10",
    "8k",
    "2Ki",
    "32MB",
    "1.5k",
    "25%",
    "100%",
    "0%",
    "101%",
    "99.95%",
    "text",
    "day",
    "azure",
    "127.0.0.1:4555",
    "localhost:80",
    "4100",
    "http://10.0.0.1:8000/v1",
    "https://Host",
    "ftp://h",
    "http://u:p@h/v1",
    "'prompt.tokens < 512'",
    "[1, 2]",
];

/// Pairs in which a schema cannot see the difference, with the reason.
fn is_excepted(place: &str, value: &str) -> bool {
    // YAML reads a number, and `check` its digits.
    let is_digits = value == "007";
    // Only this library reads `on` and `off` as truth values, in YAML 1.1; editors read words, which the schema refuses.
    let is_old_yaml = place.contains("scrape: @") && matches!(value, "on" | "off");
    // A key without a value counts as absent, and the schema sees the key.
    let is_absent = value == "~" && ["budget: { usd", "objectives"].iter().any(|part| place.contains(part));
    // Azure needs another key beside it.
    let is_half = value == "azure";
    is_digits || is_old_yaml || is_absent || is_half
}

#[test]
fn schema_and_check_agree_on_values() {
    let validator = validator();
    let mut differ = Vec::new();
    let (mut accepted, mut refused) = (0, 0);
    for place in PLACES {
        for value in VALUES.iter().chain(&["\"${SET}\"", "{ a: 1 }", "~"]) {
            let pools = "pools: { p: { backends: [http://127.0.0.1:1/v1] }, q: { backends: [http://127.0.0.1:2/v1] } }";
            let text = format!("{}\n{pools}\n", place.replace('@', value));
            let (check, schema) = (passes_check(&text), passes_schema(&validator, &text));
            // A variable stands for any value.
            if is_excepted(place, value) || value.contains("${") && schema == Some(true) {
                continue;
            }
            // Control characters are no YAML.
            if schema.unwrap_or(false) != check {
                differ.push(format!("{}: check {check}, schema {schema:?}", place.replace('@', value)));
            }
            if check { accepted += 1 } else { refused += 1 }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert!(accepted > 250 && refused > 900, "{accepted} accepted, {refused} refused");
}

#[test]
fn defaults_and_examples_obey_their_own_schema() {
    let schema: Value = serde_json::from_str(&schema()).expect("JSON");
    let mut found = 0;
    walk(&schema, &mut |part| {
        let values =
            part.get("default").into_iter().chain(part.get("examples").and_then(Value::as_array).into_iter().flatten());
        let values: Vec<_> = values.collect();
        if values.is_empty() {
            return;
        }
        let mut alone = part.clone();
        alone["$defs"] = schema["$defs"].clone();
        let validator = jsonschema::validator_for(&alone).expect("a schema that compiles");
        for value in values {
            assert!(validator.is_valid(value), "{value} of {part:#}");
            found += 1;
        }
    });
    assert!(found > 80, "{found}");
}

fn walk(schema: &Value, visit: &mut impl FnMut(&Value)) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("description") || object.contains_key("pattern") {
                visit(schema);
            }
            object.values().for_each(|part| walk(part, visit));
        }
        Value::Array(list) => list.iter().for_each(|part| walk(part, visit)),
        _ => {}
    }
}

#[test]
fn editors_are_offered_the_defaults_of_the_gateway() {
    let schema: Value = serde_json::from_str(&schema()).expect("JSON");
    let section = |name: &str| {
        let properties = schema["$defs"][name]["properties"].as_object().expect("properties");
        let set = properties.iter().filter_map(|(key, part)| Some(format!("{key}: {}", part.get("default")?)));
        format!("{{ {} }}", set.collect::<Vec<_>>().join(", "))
    };
    let pools = "pools: { p: { backends: [http://127.0.0.1:1/v1] } }";
    let policy = |text: String| {
        let config = Config::parse("test.yaml", &text, &|_| None, &|_| Ok(String::new())).expect("a policy");
        compile(&config).unwrap_or_else(|problems| panic!("{text}: {problems:?}"))
    };
    let limits = section("Limits").replacen('{', &format!("{{ queue: {}, ", section("Queue")), 1);
    let written = policy(format!("limits: {limits}\ntimeouts: {}\n{pools}\n", section("Timeouts")));
    let plain = policy(pools.to_owned());
    assert_eq!(format!("{:?}", written.limits), format!("{:?}", plain.limits));
    assert_eq!(format!("{:?}", written.timeouts), format!("{:?}", plain.timeouts));
}
