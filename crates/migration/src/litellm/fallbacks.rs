//! Fallbacks and aliases, as models of the policy.

use super::{
    context::{Context, is_word},
    groups::{Fleet, Group},
};
use crate::tree::Node;
use signalbox_types::ModelGlob;

/// A model of the policy.
#[derive(Debug)]
pub(super) struct PlannedModel {
    pub(super) group: Group,
    /// Pools to try in order after the first.
    pub(super) fallback: Vec<String>,
}

/// The names that clients may request, by what becomes of them.
#[derive(Debug, Default)]
pub(super) struct RequestNames {
    pub(super) models: Vec<PlannedModel>,
    /// Names and the models that they stand for.
    pub(super) aliases: Vec<(String, String)>,
    /// Names that were left out, and that a pattern would send elsewhere, with the line of the first one.
    pub(super) refused: Vec<(String, usize)>,
}

/// The keys that name other models, each with whether it means every failure.
const LISTS: [(&str, bool); 2] = [("fallbacks", true), ("context_window_fallbacks", false)];

/// Resolves the fallbacks of both sections of the settings.
pub(super) fn resolve(cx: &mut Context, fleet: &Fleet, router: &Node, litellm: &Node) -> RequestNames {
    let sections = [("router_settings", router), ("litellm_settings", litellm)];
    let aliases = aliases(cx, fleet, &sections);
    let mut models = Vec::new();
    for group in &fleet.groups {
        let mut fallback = group.pools[1..].to_vec();
        for (section, node) in sections {
            for (key, is_general) in LISTS {
                let own = of_group(node.get(key), &group.name);
                let every = of_group(node.get(key), "*");
                let default = node.get("default_fallbacks").filter(|_| is_general).map(Node::list);
                let Some(named) = own.or(every).or(default) else { continue };
                add(cx, fleet, &aliases, group, (&format!("{section}.{key}"), named), &mut fallback);
            }
        }
        models.push(PlannedModel { group: group.clone(), fallback });
    }
    for (section, node) in sections {
        remarks(cx, fleet, section, node);
    }
    let refused = refused(cx, fleet, &aliases);
    RequestNames { models, aliases, refused }
}

/// Names without a counterpart that a pattern of the policy would take. Requests for them must not go to another provider
/// unnoticed.
fn refused(cx: &mut Context, fleet: &Fleet, aliases: &[(String, String)]) -> Vec<(String, usize)> {
    let mut refused: Vec<(String, usize)> = Vec::new();
    for (name, line) in std::mem::take(&mut cx.left_out) {
        let is_kept = fleet.groups.iter().any(|group| group.name == name)
            || aliases.iter().any(|(alias, _)| *alias == name)
            || refused.iter().any(|(known, _)| *known == name);
        let taker = fleet
            .groups
            .iter()
            .find(|group| group.name.contains('*') && ModelGlob(group.name.as_str().into()).matches(&name));
        if let Some(taker) = taker.filter(|_| !is_kept && is_word(&name)) {
            let text =
                format!("requests for it are refused: else `{}` would take them to another provider", taker.name);
            cx.differs(line, format!("model_list `{name}`"), text);
            refused.push((name, line));
        }
    }
    refused
}

/// Adds the pools of the models `named`, each once.
fn add(
    cx: &mut Context,
    fleet: &Fleet,
    aliases: &[(String, String)],
    group: &Group,
    (place, named): (&str, &[Node]),
    fallback: &mut Vec<String>,
) {
    for node in named {
        let Some(name) = node.text().or_else(|| node.get("model").and_then(Node::text)) else { continue };
        if node.text().is_none() {
            cx.gap(node.line, place, format!("a fallback with parameters of its own: only the model `{name}` is used; set `defaults` of its backends"));
        }
        let meant = aliases.iter().find(|(alias, _)| *alias == name).map_or(&name, |(_, model)| model);
        match fleet.groups.iter().find(|other| other.name == *meant) {
            Some(other) => {
                let new: Vec<_> = other
                    .pools
                    .iter()
                    .filter(|pool| !fallback.contains(pool) && group.pools.first() != Some(pool))
                    .cloned()
                    .collect();
                fallback.extend(new);
            }
            None => {
                cx.gap(node.line, place, format!("the fallback `{name}` is no model of this policy: it was left out"));
            }
        }
    }
}

/// The list of `group` in `[{group: [names]}]`.
fn of_group<'n>(lists: Option<&'n Node>, group: &str) -> Option<&'n [Node]> {
    lists?.list().iter().find_map(|entry| entry.get(group)).map(Node::list)
}

fn aliases(cx: &mut Context, fleet: &Fleet, sections: &[(&str, &Node); 2]) -> Vec<(String, String)> {
    let mut aliases: Vec<(String, String)> = Vec::new();
    for (section, node) in sections {
        for (alias, target) in node.get("model_group_alias").map(Node::entries).unwrap_or_default() {
            let place = format!("{section}.model_group_alias `{alias}`");
            let model = target.text().or_else(|| target.get("model").and_then(Node::text)).unwrap_or_default();
            let is_taken = fleet.groups.iter().any(|group| group.name == *alias)
                || aliases.iter().any(|(known, _)| known == alias);
            if is_taken || !is_word(alias) || alias.contains('*') {
                cx.gap(
                    target.line,
                    place,
                    "a name that a model has already, or that cannot stand in headers: it was left out",
                );
            } else if !fleet.groups.iter().any(|group| group.name == model && !group.name.contains('*')) {
                cx.gap(target.line, place, format!("`{model}` is no model of this policy: it was left out"));
                cx.left_out.push((alias.clone(), target.line));
            } else {
                if target.get("hidden").is_some_and(Node::is_true) {
                    cx.gap(
                        target.line,
                        place,
                        "aliases are listed by `/v1/models`: limit the `models` of keys to hide them",
                    );
                }
                aliases.push((alias.clone(), model));
            }
        }
    }
    aliases
}

fn remarks(cx: &mut Context, fleet: &Fleet, section: &str, node: &Node) {
    for (key, _) in LISTS {
        for (name, list) in node.get(key).map(Node::list).unwrap_or_default().iter().flat_map(Node::entries) {
            if name != "*" && !fleet.groups.iter().any(|group| group.name == *name) {
                let text = format!("`{name}` is no model of this policy: its fallbacks were left out");
                cx.gap(list.line, format!("{section}.{key}"), text);
            }
        }
    }
    if let Some(lists) = node.get("context_window_fallbacks").filter(|lists| !lists.list().is_empty()) {
        let text = "these models became ordinary fallbacks: a prompt that is too long goes to the first one with room, and they take over after failures too";
        cx.differs(lists.line, format!("{section}.context_window_fallbacks"), text);
    }
    if let Some(lists) = node.get("content_policy_fallbacks").filter(|lists| !lists.list().is_empty()) {
        let text = "a rejection by a content filter goes to the client as it came: `cascade: { to: POOL, checks: [refusal] }` asks another model when an answer is a refusal";
        cx.gap(lists.line, format!("{section}.content_policy_fallbacks"), text);
    }
}
