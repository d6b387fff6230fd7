//! Parses a policy file to its end: an entry of the wrong shape is reported and left out, and the rest is read.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::DeserializeError as Error;

use super::{
    lenient::{Step, Watch},
    mistake::{At, nearest},
    problem::Problem,
    yaml::{is_of_litellm, options, options_within, problem},
};

/// The most entries that are left out. Each costs another pass.
const MAX_LEFT_OUT: usize = 64;

/// An entry that was left out.
#[derive(Clone, Debug)]
pub(super) struct LeftOut {
    /// Its keys from the root on; list entries have none.
    pub(super) keys: Vec<String>,
    /// The known key that was probably meant.
    pub(super) meant: Option<&'static str>,
    /// The position of its problem.
    pub(super) at: Option<At>,
}

/// The readable part of a file, and the problems of the rest.
#[derive(Debug)]
pub(super) struct Recovered<T> {
    /// The document without the entries that were left out; `None` if the text is not YAML.
    pub(super) document: Option<T>,
    /// The problems of the others.
    pub(super) problems: Vec<Problem>,
    /// The entries that were left out.
    pub(super) left_out: Vec<LeftOut>,
    /// True if the file is a configuration of `LiteLLM`.
    has_litellm: bool,
}

/// Reads `text`; an empty file is an empty document.
#[cfg(test)]
pub(super) fn parse<T: DeserializeOwned + Default>(text: &str) -> Recovered<T> {
    parse_within(text, super::yaml::MAX_NODES)
}

/// Reads `text` of at most `nodes` values, lists and mappings; an empty file is an empty document.
pub(super) fn parse_within<T: DeserializeOwned + Default>(text: &str, nodes: usize) -> Recovered<T> {
    let mut found = Recovered { document: None, problems: Vec::new(), left_out: Vec::new(), has_litellm: false };
    let mut watch = Watch::default();
    while watch.left_out.len() < MAX_LEFT_OUT {
        let read = serde_saphyr::with_deserializer_from_str_with_options(text, options_within(nodes), |inner| {
            watch.read::<Option<T>, _>(inner)
        });
        let error = match read {
            Ok(document) => {
                found.document = Some(document.unwrap_or_default());
                break;
            }
            Err(error) => error,
        };
        let way = watch.failed();
        let path: Vec<_> = way.iter().map(|step| step.index).collect();
        // The text itself is at fault: leaving entries out does not help.
        let is_last = path.is_empty() || watch.left_out.contains(&path);
        match found.consider(&error, &way, text) {
            Some(problem) if found.problems.contains(&problem) => break,
            Some(problem) => found.problems.push(problem),
            None => {}
        }
        if is_last {
            break;
        }
        watch.left_out.push(path);
    }
    found
}

impl<T> Recovered<T> {
    /// Notes the entry of `error`, and returns its problem unless it follows from another.
    fn consider(&mut self, error: &Error, way: &[Step], text: &str) -> Option<Problem> {
        let problem = problem(error, text);
        let keys: Vec<_> = way.iter().map(|step| step.key.clone()).collect();
        let mut meant = None;
        let shown = match error.without_snippet() {
            Error::SerdeMissingField { field, .. } => self.missing(field, &keys, text, problem),
            // One such key explains the others.
            Error::SerdeUnknownField { field, .. } if is_of_litellm(field) && self.has_litellm => None,
            Error::SerdeUnknownField { field, expected, .. } => {
                self.has_litellm |= is_of_litellm(field);
                meant = nearest(field, expected.iter().copied());
                Some(problem)
            }
            _ if self.is_outdented(&keys) => None,
            Error::Unexpected { expected, .. } if expected.contains("mapping") => Some(match &*keys {
                [section, name] if section == "models" => problem.help(format!("write `{name}: {{ to: POOL }}`")),
                _ => problem,
            }),
            _ => Some(problem),
        };
        let at = shown.as_ref().and_then(|problem| problem.at);
        self.left_out.push(LeftOut { keys, meant, at });
        shown
    }

    /// The problem of a mapping without `field`; `None` if that was left out because it is invalid itself.
    fn missing(&self, field: &str, keys: &[String], text: &str, problem: Problem) -> Option<Problem> {
        let follows = self.left_out.iter().any(|out| {
            let is_here = out.keys.len() == keys.len() + 1 && out.keys.starts_with(keys);
            is_here && (out.keys.last().is_some_and(|key| key == field) || out.meant == Some(field))
        });
        if follows {
            return None;
        }
        let (name, above) = keys.split_last()?;
        // Sections hold named entries; elsewhere a key of that name has its own meaning.
        let outside = above.len() == 1 && beside(text, above).is_some_and(|beside| beside.get(field).is_some());
        Some(if outside {
            problem.help(format!("`{field}` stands beside `{name}` and not in it: indent it further than `{name}`"))
        } else {
            problem
        })
    }

    /// True for a key of a pool that stands beside the pool, which was reported.
    fn is_outdented(&self, keys: &[String]) -> bool {
        let [section, key] = keys else { return false };
        let pool = |out: &LeftOut| out.keys.len() == 2 && out.keys[0] == *section && out.at.is_some();
        section == "pools" && POOL.contains(&&**key) && self.left_out.iter().any(pool)
    }
}

/// The keys of a pool.
const POOL: [&str; 8] = ["model", "tokenizer", "balance", "speaks", "price", "context", "objectives", "backends"];

/// The mapping at `keys`.
fn beside(text: &str, keys: &[String]) -> Option<Value> {
    let whole = serde_saphyr::from_str_with_options::<Value>(text, options()).ok()?;
    keys.iter().try_fold(&whole, |value, key| value.get(key)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::Document;

    #[test]
    fn frequent_slips_have_a_help_of_their_own() {
        let help = |text: &str| found(text).into_iter().next().map(|(_, help)| help).unwrap_or_default();
        let pools = "pools: { small: { backends: [http://a/v1] } }\n";
        assert_eq!(help(&format!("{pools}models: {{ auto: small }}")), "write `auto: { to: POOL }`");
        let help_of_list = help(&format!("{pools}models: {{ auto: {{ to: [small, large] }} }}"));
        assert!(help_of_list.contains("`to: small, fallback: [large]`"), "{help_of_list}");
        assert!(help(&format!("{pools}keys: [{{ id: a, key: sk-x }}]")).contains("`signalbox key hash`"));
        assert_eq!(help(&format!("{pools}port: 4100")), "did you mean `listen`?");
        assert_eq!(help("pools: { a: { backends: [{ url: http://a/v1, api_key: x }] } }"), "did you mean `key`?");
    }

    fn found(text: &str) -> Vec<(String, String)> {
        let problems = parse::<Document>(text).problems;
        problems.into_iter().map(|it| (it.message.into(), it.help.unwrap_or_default().into())).collect()
    }

    fn messages(text: &str) -> Vec<String> {
        found(text).into_iter().map(|(message, _)| message).collect()
    }

    #[test]
    fn every_entry_of_the_wrong_shape_is_reported() {
        let text = "listn: x\nlimits: { body: [1], size: 2 }\npools:\n  a: { modle: q, backends: [http://h/v1, [1]] }\n  \
                    b: { model: q }\n  c: [x]\nmodels:\n  auto: { to: a, cascade: {} }\n";
        let found = parse::<Document>(text);
        let mut messages: Vec<_> = found.problems.iter().map(|problem| &*problem.message).collect();
        messages.sort_unstable();
        assert_eq!(
            messages,
            [
                "`backends` is missing here",
                "`to` is missing here",
                "expected a mapping",
                "expected a single value, not a list or a mapping",
                "expected an address such as `http://host:8000/v1`, or a mapping with `url`, `engine`, `dns` or `file`",
                "unknown key `listn`",
                "unknown key `modle`",
                "unknown key `size`",
            ]
        );
        let document = found.document.unwrap();
        let pools: Vec<_> = document.pools.iter().flat_map(|pools| &pools.entries).map(|(key, _)| key.text()).collect();
        assert_eq!(pools, ["a"], "the readable rest remains");
    }

    #[test]
    fn what_follows_from_a_problem_is_not_reported_again() {
        assert_eq!(messages("pools: { a: { backend: [http://h/v1] } }"), ["unknown key `backend`"]);
        assert_eq!(messages("pools: { a: { backends: http://h/v1 } }").len(), 1);
    }

    #[test]
    fn keys_beside_their_pool_are_explained() {
        for text in [
            "pools:\n  main:\n    model: qwen\n  backends:\n    - http://h/v1\n",
            "pools:\n  main:\n  model: qwen\n  backends: [http://h/v1]\n",
        ] {
            let [(message, help)] = &found(text)[..] else { panic!("{:?}", found(text)) };
            assert_eq!(message, "`backends` is missing here");
            assert!(help.contains("stands beside `main`"), "{help}");
        }
        let found = found("pools:\n  main: { model: q, backends: [] }\nbackends: [http://h/v1]\n");
        assert!(found[0].1.contains("belongs to one of the `pools`"), "{found:?}");
    }

    #[test]
    fn a_configuration_of_litellm_is_recognised() {
        let [(message, help)] = &found("model_list: [{ model_name: a }]\nlitellm_settings: {}\n")[..] else { panic!() };
        assert_eq!(message, "`model_list` belongs to a configuration of LiteLLM");
        assert!(help.contains("signalbox import litellm"), "{help}");
    }

    #[test]
    fn text_that_is_no_yaml_ends_the_search() {
        let found = parse::<Document>("listn: x\npools:\n  a: {\n");
        assert!(found.document.is_none());
        assert!(!found.problems.is_empty() && found.problems.len() <= 2, "{:?}", found.problems);
        let help = messages_with_help("pools:\n  main:\n    model: qwen\n     backends:\n       - http://h/v1\n");
        assert!(help.contains("indented further than `model`"), "{help}");
        assert!(messages_with_help("pools:\n\tmain: x\n").contains("a tab"));
    }

    fn messages_with_help(text: &str) -> String {
        found(text).into_iter().flat_map(|(message, help)| [message, help]).collect::<Vec<_>>().join("\n")
    }
}
