//! Compiles the keys that were created on the running gateway, in addition to those of the policy file.

use std::collections::HashSet;

use super::reader::{Reader, unknown};
use crate::{Key, ManagedKeys, Policy};
use signalbox_config::{Config, Field, Problem, Problems, Word, access::Keys, keys as raw, nearest, raw::Document};

/// Compiles the keys of the file `name` with this `text`, as additions to the keys of `policy`'s own file. With
/// `check_models`, the models that a key names must exist; otherwise a renamed model would make a policy unloadable.
///
/// # Errors
/// All problems of the text.
pub fn compile_managed_keys(name: &str, text: &str, policy: &Policy, check_models: bool) -> Result<Vec<Key>, Problems> {
    // Neither the environment nor files: the text comes over the network.
    let config = Config::parse_managed_keys(name, text)?;
    let mut reader = Reader { config: &config, problems: Vec::new(), route_names: HashSet::new() };
    let list = config.document().keys.as_ref().and_then(Keys::list).filter(|list| !list.value.is_empty());
    let mut keys = reader.keys(list);
    for raw in list.iter().flat_map(|list| &list.value) {
        reader.check_managed_key(raw, policy);
    }
    if check_models {
        reader.check_key_models(list, &policy.models, &policy.pools);
    }
    for key in &mut keys {
        key.managed = true;
    }
    config.all_problems(reader.problems).map_or(Ok(keys), Err)
}

impl Reader<'_> {
    pub(super) fn managed_keys(&mut self, raw: &raw::ManagedKeys, document: &Document) -> Option<ManagedKeys> {
        let path = self.config.path(&raw.path).map_err(|problem| self.report(problem)).ok()?;
        let teams = document.teams.iter().flat_map(|teams| &teams.entries);
        Some(ManagedKeys { path, teams: teams.map(|(name, _)| self.name(name)).collect() })
    }

    /// Checks that the key and the keys of the policy's file are different, and that its team exists.
    fn check_managed_key(&mut self, raw: &raw::Key, policy: &Policy) {
        let id = self.config.read(&raw.id);
        let others = raw.also.iter().flat_map(|also| &also.value).map(|other| &other.hash);
        let hashes: Vec<_> =
            std::iter::once(&raw.hash).chain(others).filter_map(|field| self.config.read(field).ok()).collect();
        let mut file_keys = policy.keys.iter().filter(|key| !key.managed);
        let same = file_keys.find(|key| {
            id.as_ref().is_ok_and(|Word(id)| **id == *key.id) || hashes.iter().any(|hash| key.has_hash(&hash.0))
        });
        if let Some(key) = same {
            self.report(
                Problem::at(raw.id.at(), format!("the key `{}` is in the policy file already", key.id))
                    .help("choose another id, or remove it from the policy file"),
            );
        }
        let teams = policy.managed_keys.iter().flat_map(|managed| &managed.teams);
        let team = raw.team.as_ref().and_then(|field| Some((self.config.read(field).ok()?, field)));
        if let Some((Word(team), field)) = team
            && teams.clone().all(|name| **name != *team)
        {
            // A misspelt team would have no budget.
            self.report(unknown("team", Field::text(field), field.at(), nearest(&team, teams.map(|name| &**name))));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::compile;

    #[test]
    fn thousands_of_keys_with_settings_fit() {
        let policy =
            compile(&"pools: { main: { model: m, backends: [http://a/v1] } }".parse::<Config>().unwrap()).unwrap();
        let key = |number: u64| {
            json!({
                "id": format!("customer-{number}"), "hash": format!("blake3:{number:064x}"), "tags": ["a", "b", "c"],
                "models": ["m"], "endpoints": ["chat", "embeddings"], "limits": { "rpm": 60, "tpm": 1_000, "concurrency": 4 },
                "budget": { "usd": 5, "per": "month" }, "expires": "2999-01-01", "priority": 5, "allow": ["cache"],
            })
        };
        let text = json!({ "keys": (0..7_000).map(key).collect::<Vec<_>>() }).to_string();
        assert_eq!(compile_managed_keys("keys.json", &text, &policy, true).unwrap().len(), 7_000);
        let text = format!("{{ \"keys\": [], \"{}\": 1 }}", " ".repeat(17 << 20));
        let problems = compile_managed_keys("keys.json", &text, &policy, true).unwrap_err();
        assert!(problems.iter().any(|(_, _, problem)| problem.message.contains("16 MiB")));
    }
}
