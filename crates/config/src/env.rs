//! Substitutes `${NAME}` and `${NAME:-default}` in the values of the file.

use std::{borrow::Cow, collections::HashMap};

use super::mistake::Mistake;

/// The variables that a text refers to, with the values they had when it was read.
pub(super) struct Vars(HashMap<String, String>);

impl Vars {
    /// Looks up the variables that `text` may refer to, and no others.
    pub(super) fn of(text: &str, var: &dyn Fn(&str) -> Option<String>) -> Self {
        let names = text.split("${").skip(1).map(|rest| &rest[..name_len(rest)]).filter(|name| !name.is_empty());
        Self(names.filter_map(|name| Some((name.to_owned(), var(name)?))).collect())
    }

    /// `text` with its variables substituted; `$${` is an escaped `${`.
    pub(super) fn fill<'a>(&self, text: &'a str) -> Result<Cow<'a, str>, Mistake> {
        if !text.contains("${") {
            return Ok(Cow::Borrowed(text));
        }
        let mut unset: Vec<&str> = Vec::new();
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (head, tail) = (&rest[..at], &rest[at + 2..]);
            if let Some(head) = head.strip_suffix('$') {
                filled.push_str(head);
                filled.push_str("${");
                rest = tail;
                continue;
            }
            filled.push_str(head);
            let Some((reference, after)) = tail.split_once('}') else {
                return Err(Mistake::new("`${` without its `}`")
                    .help("write `${NAME}`, or `$${` for the characters themselves"));
            };
            match self.look_up(reference)? {
                Some(value) => filled.push_str(value),
                None if !unset.contains(&reference) => unset.push(reference),
                None => {}
            }
            rest = after;
        }
        if !unset.is_empty() {
            return Err(not_set(&unset));
        }
        filled.push_str(rest);
        Ok(Cow::Owned(filled))
    }

    /// The value of `NAME` or `NAME:-default`, or `None` if the variable is not set; as in a shell, an empty one takes
    /// the default too.
    fn look_up<'a>(&'a self, reference: &'a str) -> Result<Option<&'a str>, Mistake> {
        let (name, default) = reference.split_at(name_len(reference));
        let default = default.strip_prefix(":-").or(default.is_empty().then_some(""));
        let (false, Some(default)) = (name.is_empty(), default) else {
            return Err(Mistake::new("not a variable").help("write `${NAME}` or `${NAME:-default}`"));
        };
        Ok(match self.0.get(name) {
            Some(value) if !value.is_empty() => Some(value),
            _ if reference.len() > name.len() => Some(default),
            value => value.map(String::as_str),
        })
    }
}

/// The mistake of variables that are not set.
fn not_set(names: &[&str]) -> Mistake {
    let all: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    let name = names.first().copied().unwrap_or_default();
    let mistake = match &*all {
        [one] => Mistake::new(format!("the environment variable {one} is not set"))
            .help(format!("set it where signalbox starts, or give a default: `${{{name}:-…}}`")),
        _ => Mistake::new(format!("the environment variables {} are not set", all.join(", ")))
            .help(format!("set them where signalbox starts, or give defaults: `${{{name}:-…}}`")),
    };
    Mistake { unset: names.iter().map(|name| (*name).to_owned()).collect(), ..mistake }
}

/// Length of the variable name at the start of `text`.
fn name_len(text: &str) -> usize {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(text: &str) -> Result<String, Mistake> {
        let vars = Vars::of(text, &|name| match name {
            "A" => Some("one".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        });
        vars.fill(text).map(Cow::into_owned)
    }

    #[test]
    fn variables_are_filled_in() {
        assert_eq!(fill("x").unwrap(), "x");
        assert_eq!(fill("${A}/${A}!").unwrap(), "one/one!");
        assert_eq!(fill("${B:-two}${EMPTY:-three}${EMPTY}").unwrap(), "twothree");
        assert_eq!(fill("${B:-}").unwrap(), "");
        assert_eq!(fill("$${A} $A").unwrap(), "${A} $A");
        assert_eq!(fill("${B:-http://x:1/v1}").unwrap(), "http://x:1/v1");
    }

    #[test]
    fn missing_variables_are_reported() {
        assert_eq!(fill("${B}").unwrap_err().message, "the environment variable `B` is not set");
        let both = fill("${B}:${A}:${C}:${B}").unwrap_err();
        assert_eq!(
            (&*both.message, both.unset),
            ("the environment variables `B`, `C` are not set", vec!["B".into(), "C".into()])
        );
        for bad in ["${", "${A", "${}", "${1}", "${A-b}", "${A B}", "${:-x}"] {
            assert!(fill(bad).is_err(), "{bad}");
        }
    }
}
