//! Parses YAML into the raw document, and converts the parser's errors to problems.

use serde::de::DeserializeOwned;
use serde_saphyr::{DeserializeError as Error, Location, MessageFormatter, UserMessageFormatter};

use super::{
    mistake::{At, nearest},
    problem::Problem,
};

/// Keys that are planned and not supported by this version.
const LATER: [&str; 6] = ["health", "labels", "limits", "mirror", "prefer", "require"];

/// The sections of a `LiteLLM` configuration.
const LITELLM: [&str; 5] =
    ["model_list", "litellm_settings", "router_settings", "general_settings", "environment_variables"];

/// Keys that are often written at the top of the file, because they are not indented, and the section of their owner.
const OWNERS: [(&[&str], &str); 3] = [
    (&["backends", "model", "balance", "speaks", "price", "context", "tokenizer"], "pools"),
    (&["to", "alias", "routes", "fallback", "complexity", "length", "cascade"], "models"),
    (&["url", "dialect", "scrape", "max_concurrency"], "engines"),
];

/// The most values, lists and mappings of a policy file.
pub(super) const MAX_NODES: usize = 250_000;

/// Parser options. The depth is limited to that of policies, because every level uses stack.
pub(super) fn options() -> serde_saphyr::Options {
    options_within(MAX_NODES)
}

/// These options for a document of at most `nodes` values, lists and mappings.
pub(super) fn options_within(nodes: usize) -> serde_saphyr::Options {
    let budget = serde_saphyr::budget! { max_depth: 32, max_nodes: nodes, max_events: nodes.saturating_mul(4) };
    serde_saphyr::options! { with_snippet: false, budget: budget }
}

/// Reads `text`; an empty file is an empty document.
pub fn parse<T: DeserializeOwned + Default>(text: &str) -> Result<T, Box<Problem>> {
    serde_saphyr::from_str_with_options::<Option<T>>(text, options())
        .map(Option::unwrap_or_default)
        .map_err(|error| Box::new(problem(&error, text)))
}

/// The problem that the parser's `error` in `text` amounts to.
pub(super) fn problem(error: &Error, text: &str) -> Problem {
    let at = error.location().map_or_else(At::default, |location| place(location, text));
    let of = |message: String| Problem::at(at, message);
    match error.without_snippet() {
        Error::SerdeUnknownField { field, expected, .. } => unknown_key(at, field, expected),
        Error::SerdeMissingField { field, .. } => {
            of(format!("`{field}` is missing here")).help(format!("add `{field}: …` to this mapping"))
        }
        Error::DuplicateMappingKey { key, .. } => {
            of(key.as_ref().map_or("this key occurs twice".to_owned(), |key| format!("`{key}` occurs twice")))
                .help("keep one of the two")
        }
        Error::SerdeInvalidType { expected, .. } | Error::SerdeInvalidValue { expected, .. } => {
            of(format!("expected {expected}")).help("write it in one of these forms")
        }
        Error::Unexpected { expected, .. } if expected.contains("mapping") => of("expected a mapping".to_owned())
            .help("write `{ name: value }`, or `name: value` on indented lines below"),
        Error::Unexpected { expected, .. } if expected.contains("sequence") => {
            of("expected a list".to_owned()).help("write `[a, b]`, or `- a` on lines below")
        }
        Error::Unexpected { expected, .. } if expected.contains("scalar") => {
            let expected = of("expected a single value, not a list or a mapping".to_owned());
            if text.get(..at.start).is_some_and(|before| before.trim_end().ends_with("to:")) {
                return expected.help("a route has one pool in `to`: write `to: small, fallback: [large]`");
            }
            expected.help("quote it where it begins with `[`, `{`, `*` or `&`")
        }
        Error::NullIntoString { .. } => {
            of("a value is missing here".to_owned()).help("give it a value, or remove the key")
        }
        Error::MultipleDocuments { .. } => {
            of("a second document begins here".to_owned()).help("a policy is one document: remove the `---`")
        }
        other => of(UserMessageFormatter.format_message(other).into_owned()).help(
            layout(text, at.start)
                .unwrap_or_else(|| "this is not valid YAML: check quotes, brackets and indentation".to_owned()),
        ),
    }
}

/// True for the sections of a `LiteLLM` configuration.
pub(super) fn is_of_litellm(key: &str) -> bool {
    LITELLM.contains(&key)
}

/// The remedy for a line of `text` at the byte `at` that is indented wrongly.
fn layout(text: &str, at: usize) -> Option<String> {
    let before = text.get(..at)?;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = text[start..].lines().next()?;
    let indent = |line: &str| line.len() - line.trim_start().len();
    if line[..indent(line)].contains('\t') {
        return Some("this line is indented with a tab: YAML allows spaces only".to_owned());
    }
    let above = text[..start].lines().rev().find(|line| !matches!(line.trim().chars().next(), None | Some('#')))?;
    let (key, value) = above.split_once(": ")?;
    let is_plain =
        !value.trim().is_empty() && !value.trim_start().starts_with(['|', '>', '#', '&', '{', '[', '"', '\'']);
    (is_plain && indent(line) > indent(above)).then(|| {
        let key = key.trim_start().trim_start_matches("- ");
        format!("this line is indented further than `{key}` above it, which has a value already: align the two")
    })
}

/// Keys of other programs, with those of a policy.
const SYNONYMS: [(&str, &str); 6] = [
    ("api_key", "key"),
    ("apikey", "key"),
    ("api_base", "url"),
    ("base_url", "url"),
    ("address", "url"),
    ("port", "listen"),
];

fn unknown_key(at: At, field: &str, expected: &[&'static str]) -> Problem {
    let problem = Problem::at(at, format!("unknown key `{field}`"));
    if LATER.contains(&field) {
        return problem.help(format!("`{field}` is not supported yet by this version"));
    }
    if field == "connect" && expected.contains(&"first_token") {
        return problem.help("`connect` holds for the whole gateway: set it under `timeouts` at the top of the file");
    }
    let is_root = expected.contains(&"pools");
    if is_root && is_of_litellm(field) {
        return Problem::at(at, format!("`{field}` belongs to a configuration of LiteLLM"))
            .help("`signalbox import litellm FILE` writes a policy from such a file");
    }
    if field == "key" && expected.contains(&"hash") {
        return problem.help(
            "a policy has the hash of a caller's key: `signalbox key hash` prints it for a key, `signalbox key new` makes a new key",
        );
    }
    let synonym = SYNONYMS.iter().find(|(other, known)| *other == field && expected.contains(known));
    if let Some(known) = synonym.map(|(_, known)| *known).or_else(|| nearest(field, expected.iter().copied())) {
        return problem.help(format!("did you mean `{known}`?"));
    }
    if let Some((_, owner)) = OWNERS.iter().find(|(keys, _)| is_root && keys.contains(&field)) {
        return problem
            .help(format!("`{field}` belongs to one of the `{owner}`: indent it below `{owner}` and a name"));
    }
    let known = expected.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
    match nearest(field, LATER) {
        Some(later) => problem.help(format!("known here: {known} (`{later}` is not supported yet by this version)")),
        None => problem.help(format!("known here: {known}")),
    }
}

/// The position in bytes; some of the parser's errors only have a character count.
fn place(location: Location, text: &str) -> At {
    let span = location.span();
    let bytes = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    if let (Some(start), Some(len)) = (span.byte_offset(), span.byte_len()) {
        return At { start: bytes(start), len: bytes(len) };
    }
    let start = text.char_indices().nth(bytes(span.offset())).map_or(text.len(), |(at, _)| at);
    At { start, len: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::Document;

    #[test]
    fn an_empty_file_is_an_empty_document() {
        for text in ["", "# nothing\n", "pools:\n", "{}"] {
            assert!(parse::<Document>(text).unwrap().pools.is_none(), "{text}");
        }
    }

    #[test]
    fn keys_of_later_versions_are_named_as_such() {
        let help = |text| parse::<Document>(text).unwrap_err().help.unwrap();
        assert_eq!(help("mirror: {}"), "`mirror` is not supported yet by this version");
        assert_eq!(help("listn: x"), "did you mean `listen`?");
        assert_eq!(help("engines: { a: { url: b, labels: {} } }"), "`labels` is not supported yet by this version");
        assert!(help("models: { a: { timeouts: { connect: 1s } } }").contains("at the top of the file"));
        assert!(help("zzz: 1").starts_with("known here: `listen`"));
    }
}
