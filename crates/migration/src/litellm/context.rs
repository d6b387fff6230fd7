//! Results of an import besides the policy: remarks, and the environment variables that stand for values.

use std::collections::{HashMap, HashSet};

use crate::{
    Kind, Note, Variable,
    tree::{Node, Value},
};

/// The prefix of a value that LiteLLM reads from the environment.
pub(super) const ENVIRON: &str = "os.environ/";

/// Words in the names of variables whose values are secret.
const SECRET: [&str; 6] = ["KEY", "SECRET", "PASSWORD", "TOKEN", "CREDENTIAL", "WEBHOOK"];

/// Keys that clients and configurations send where none is needed.
const NO_KEYS: [&str; 16] = [
    "none",
    "null",
    "empty",
    "dummy",
    "fake",
    "fake-key",
    "anything",
    "any",
    "not-needed",
    "no-key",
    "no-key-required",
    "sk-no-key-required",
    "sk-fake",
    "sk-dummy",
    "placeholder",
    "xxx",
];

#[derive(Default)]
pub(super) struct Context {
    pub(super) notes: Vec<Note>,
    pub(super) variables: Vec<Variable>,
    /// Variables by the secret that they stand for.
    literals: HashMap<String, String>,
    /// The values of `environment_variables`.
    given: HashMap<String, Node>,
    /// Names that clients request and that lost a deployment, with its line.
    pub(super) left_out: Vec<(String, usize)>,
    /// Names that the configuration refers to.
    taken: HashSet<String>,
}

impl Context {
    pub(super) fn new(config: &Node) -> Self {
        let mut taken = HashSet::new();
        config.each_text(&mut |text| {
            taken.extend(text.strip_prefix(ENVIRON).map(str::to_owned));
        });
        let given =
            config.get("environment_variables").map(Node::entries).unwrap_or_default().iter().cloned().collect();
        Self { given, taken, ..Self::default() }
    }

    pub(super) fn note(&mut self, kind: Kind, line: usize, place: impl Into<String>, text: impl Into<String>) {
        let note = Note { kind, line, place: place.into(), text: text.into() };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(super) fn gap(&mut self, line: usize, place: impl Into<String>, text: impl Into<String>) {
        self.note(Kind::Gap, line, place, text);
    }

    pub(super) fn differs(&mut self, line: usize, place: impl Into<String>, text: impl Into<String>) {
        self.note(Kind::Differs, line, place, text);
    }

    /// The text of a scalar for a policy: variables are referred to, other text is escaped.
    pub(super) fn text(&mut self, node: &Node) -> Option<String> {
        let text = node.text()?;
        match text.strip_prefix(ENVIRON) {
            Some(name) => Some(self.refer(name)),
            None => Some(text.replace("${", "$${")),
        }
    }

    /// The text of a secret, which is always a variable; `None` for a key that stands for none. `usual`: the provider's
    /// own name for the variable.
    pub(super) fn secret(&mut self, node: &Node, usual: &str) -> Option<String> {
        let text = node.text()?;
        if let Some(name) = text.strip_prefix(ENVIRON) {
            return Some(self.refer(name));
        }
        let text = text.trim();
        if text.is_empty() || NO_KEYS.contains(&&*text.to_ascii_lowercase()) {
            return None;
        }
        if let Some(name) = self.literals.get(text) {
            return Some(format!("${{{name}}}"));
        }
        let usual = if is_name(usual) { usual } else { "LITELLM_SECRET" };
        let name = self.free(usual);
        self.literals.insert(text.to_owned(), name.clone());
        self.variables.push(Variable { name: name.clone(), plain_at: Some(node.line), purpose: None });
        Some(format!("${{{name}}}"))
    }

    /// A reference to a variable of LiteLLM's environment.
    pub(super) fn refer(&mut self, name: &str) -> String {
        if !is_name(name) {
            return self
                .require("LITELLM_VARIABLE", "a variable whose name has other characters than letters, digits and _");
        }
        let given = self.given.get(name).cloned();
        let plain = given.as_ref().and_then(Node::text);
        if let Some(value) = plain.as_deref()
            && !is_secret(name)
            && !value.is_empty()
            && !value.contains(['}', '$', '\n'])
            && !value.starts_with(ENVIRON)
        {
            return format!("${{{name}:-{value}}}");
        }
        if !self.variables.iter().any(|variable| variable.name == name) {
            let plain_at =
                given.filter(|_| plain.is_some_and(|value| !value.starts_with(ENVIRON))).map(|node| node.line);
            self.variables.push(Variable { name: name.to_owned(), plain_at, purpose: None });
        }
        format!("${{{name}}}")
    }

    /// A reference to a variable that LiteLLM does not have.
    pub(super) fn require(&mut self, name: &str, purpose: &'static str) -> String {
        if !self.variables.iter().any(|variable| variable.name == name) {
            self.variables.push(Variable { name: name.to_owned(), plain_at: None, purpose: Some(purpose) });
        }
        format!("${{{name}}}")
    }

    /// True if the configuration sets the variable or refers to it.
    pub(super) fn mentions(&self, name: &str) -> bool {
        self.given.contains_key(name) || self.taken.contains(name)
    }

    fn free(&mut self, usual: &str) -> String {
        let mut name = usual.to_owned();
        let mut number = 2;
        while !self.taken.insert(name.clone()) {
            name = format!("{usual}_{number}");
            number += 1;
        }
        name
    }
}

/// A scalar with this text.
pub(super) fn scalar(text: &str, line: usize) -> Node {
    Node { value: Value::Text(text.to_owned()), line }
}

/// A reference to the environment, as LiteLLM writes it.
pub(super) fn environ(name: &str, line: usize) -> Node {
    scalar(&format!("{ENVIRON}{name}"), line)
}

/// The variable that a value refers to.
pub(super) fn variable(node: &Node) -> Option<String> {
    let name = node.text()?.strip_prefix(ENVIRON)?.to_owned();
    is_name(&name).then_some(name)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET.iter().any(|word| name.contains(word))
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// True for text that can stand in headers.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic())
}
