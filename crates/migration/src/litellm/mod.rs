//! The import of LiteLLM's `config.yaml`.

mod address;
mod context;
mod deployment;
mod fallbacks;
mod groups;
mod head;
mod parameters;
mod providers;
mod remarks;
mod scalars;
mod settings;
mod write;

use std::io;

use self::context::Context;
use super::{
    Imported,
    tree::{Node, Value},
};
use signalbox_config::{self as config, At, Problem};

/// Keys of the file, besides those that are read.
const OTHER: [(&str, &str); 9] = [
    ("guardrails", "no guardrails: run them in the application, or as an engine in front of the model"),
    ("mcp_servers", "no MCP servers: clients connect to them directly"),
    ("assistant_settings", "no assistants: the Responses API takes their place (`speaks: [responses]`)"),
    ("files_settings", "files and batches go to the engines of a pool with `speaks: [files, batches]`"),
    ("finetune_settings", "no fine-tuning endpoints: call the provider"),
    ("vector_store_registry", "no vector stores: retrieve in the application"),
    ("vector_stores", "no vector stores: retrieve in the application"),
    ("prompts", "no prompt management: keep prompts in the application"),
    ("search_tools", "no search tools: clients call them directly"),
];

/// Keys that are read.
const KNOWN: [&str; 8] = [
    "model_list",
    "router_settings",
    "litellm_settings",
    "general_settings",
    "environment_variables",
    "include",
    "credential_list",
    "callback_settings",
];

/// The most files that a configuration may include.
const MOST_INCLUDES: usize = 64;

/// Translates the configuration `text` of the file `name`. `include` reads the files that it includes, by their paths as
/// written.
///
/// # Errors
/// If a file is no YAML, if it is no configuration of LiteLLM, or if no deployment has a counterpart.
pub fn import(name: &str, text: &str, include: &dyn Fn(&str) -> io::Result<String>) -> Result<Imported, Problem> {
    let mut config = parse(text)?;
    if !KNOWN.iter().any(|key| config.get(key).is_some()) {
        return Err(Problem::at(At::default(), "not a configuration of LiteLLM's proxy")
            .help("name the file that `litellm --config` reads: it has a `model_list`"));
    }
    includes(&mut config, include)?;
    let mut cx = Context::new(&config);
    let none = Node::default();
    let section = |key: &str| config.get(key).unwrap_or(&none);
    let (router, litellm, general) =
        (section("router_settings"), section("litellm_settings"), section("general_settings"));
    let entries = section("model_list").list();
    let entries: Vec<Node> =
        entries.iter().map(|entry| with_credential(&mut cx, entry, section("credential_list"))).collect();
    let deployments: Vec<_> = entries.iter().filter_map(|entry| deployment::read(&mut cx, entry)).collect();
    let count = (deployments.len(), entries.len());
    let strategy = router.get("routing_strategy").and_then(Node::text).unwrap_or_else(|| groups::SHUFFLE.to_owned());
    let fleet = groups::arrange(&mut cx, &deployments, &strategy);
    let models = fallbacks::resolve(&mut cx, &fleet, router, litellm);
    let settings = settings::read(&mut cx, router, litellm, general);
    for (key, node) in config.entries().iter().filter(|(key, node)| !KNOWN.contains(&&**key) && !node.is_null()) {
        let text = OTHER.iter().find(|(known, _)| known == key).map_or(
            "a section that this import does not know (LiteLLM ignores sections that only hold anchors)",
            |(_, text)| text,
        );
        cx.gap(node.line, key.clone(), text);
    }
    if entries.is_empty() {
        cx.gap(
            0,
            "model_list",
            "no models in this file: those in LiteLLM's database are listed by its `GET /model/info`",
        );
    }
    let Context { mut notes, variables, .. } = cx;
    notes.sort_by_key(|note| (note.line, note.kind));
    if count.0 == 0 {
        let reasons: Vec<_> = notes.iter().map(|note| format!("{}: {}", note.place, note.text)).collect();
        return Err(Problem::at(At::default(), "no deployment of this configuration has a counterpart")
            .help(reasons.join("\n")));
    }
    let mut imported = Imported { policy: String::new(), notes, variables, deployments: count };
    imported.policy = head::head(name, &imported) + &write::body(&fleet, &models, &settings);
    Ok(imported)
}

fn parse(text: &str) -> Result<Node, Problem> {
    config::yaml::<Node>(text.strip_prefix('\u{feff}').unwrap_or(text)).map_err(|problem| *problem)
}

/// Adds the included files: lists are joined, other values replaced.
fn includes(config: &mut Node, include: &dyn Fn(&str) -> io::Result<String>) -> Result<(), Problem> {
    let paths = config.get("include").map(Node::texts).unwrap_or_default();
    for path in paths.iter().take(MOST_INCLUDES) {
        let of = |message: String| Problem::at(At::default(), format!("the included file `{path}`: {message}"));
        let text = include(path).map_err(|error| {
            of(config::plain(&error)).help("paths start from the folder of the file that includes them")
        })?;
        let included =
            parse(&text).map_err(|problem| of(problem.message.into_owned()).help("this is not valid YAML"))?;
        for (key, mut node) in included.entries().iter().cloned() {
            forget_lines(&mut node);
            let joined = match (config.get(&key), &node.value) {
                (Some(own), Value::List(more)) => {
                    let all = own.list().iter().chain(more).cloned().collect();
                    Node { value: Value::List(all), line: own.line }
                }
                _ => node,
            };
            config.set(&key, joined);
        }
    }
    Ok(())
}

/// Removes the lines: they belong to another file.
fn forget_lines(node: &mut Node) {
    node.line = 0;
    match &mut node.value {
        Value::List(list) => list.iter_mut().for_each(forget_lines),
        Value::Map(entries) => entries.iter_mut().for_each(|(_, node)| forget_lines(node)),
        _ => {}
    }
}

/// The entry with the values of the credential that it names.
fn with_credential(cx: &mut Context, entry: &Node, credentials: &Node) -> Node {
    let named = entry.get("litellm_params").and_then(|params| params.get("litellm_credential_name"));
    let Some((node, name)) = named.and_then(|node| Some((node, node.text()?))) else { return entry.clone() };
    let is_named = |one: &&Node| one.get("credential_name").and_then(Node::text).as_deref() == Some(&*name);
    let Some(values) = credentials.list().iter().find(is_named).and_then(|one| one.get("credential_values")) else {
        cx.gap(
            node.line,
            "litellm_credential_name",
            format!("the credential `{name}` is not in this file: it is in LiteLLM's database"),
        );
        return entry.clone();
    };
    let mut entry = entry.clone();
    let mut params = entry.get("litellm_params").cloned().unwrap_or_default();
    for (key, value) in values.entries() {
        if params.get(key).is_none() {
            params.set(key, value.clone());
        }
    }
    entry.set("litellm_params", params);
    entry
}

/// Fuzz target: imports arbitrary bytes. An import may fail, but must not panic, and its policy must be one that the
/// gateway can read, whatever names and addresses are in the configuration.
///
/// # Panics
///
/// If a policy has syntax errors or unknown keys.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_litellm(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let include = |_: &str| Err(io::ErrorKind::NotFound.into());
    let Ok(imported) = import("fuzz.yaml", &text, &include) else { return };
    let read = config::Config::parse("fuzz", &imported.policy, &|_| None, &|_| Err(io::ErrorKind::NotFound.into()));
    assert!(read.is_ok(), "a policy that cannot be read:\n{}\n{:?}", imported.policy, read.err());
}

#[cfg(test)]
mod tests;
