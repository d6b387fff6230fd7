//! Names of tools at a chat backend, and what they stand for in the Responses API.

use std::collections::HashMap;

use super::client_tools::ClientTool;

/// The longest name of a function that OpenAI accepts.
const LONGEST: usize = 64;

/// The kinds of tools that a chat function can stand for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A function with JSON arguments.
    Function,
    /// A tool with free text as its input: a function with the one parameter `input` at the backend.
    Custom,
    /// A search for tools that the client carries out.
    Search,
    /// A tool of the API that the client carries out.
    Client(ClientTool),
}

/// A tool as the client declared it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) kind: Kind,
    pub(super) namespace: Option<Box<str>>,
    pub(super) name: Box<str>,
}

/// The tools whose name or kind differs at the backend, by their names there.
pub(super) type Names = HashMap<Box<str>, Origin>;

/// The name at a backend of the tool `name` in `namespace`. The same pair always gives the same name, so calls in the
/// history match the declarations.
pub(super) fn flat(namespace: &str, name: &str) -> String {
    let joint = if namespace.is_empty() || namespace.ends_with("__") { "" } else { "__" };
    let full = [namespace, joint, name].concat();
    let is_accepted = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    if namespace.is_empty() || (full.len() <= LONGEST && full.chars().all(is_accepted)) {
        return full;
    }
    // The hash keeps changed names apart.
    let hash = format!("_{:016x}", fnv(full.as_bytes()));
    let begin = full.chars().map(|character| if is_accepted(character) { character } else { '_' });
    begin.take(LONGEST - hash.len()).chain(hash.chars()).collect()
}

/// FNV-1a: stable across versions and processes, unlike the hashers of the standard library.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_joined_and_shortened_stably() {
        assert_eq!(flat("", "shell"), "shell");
        assert_eq!(flat("mcp__github__", "search"), "mcp__github__search");
        assert_eq!(flat("functions", "shell"), "functions__shell");
        let long = flat("a_rather_long_namespace_of_a_server", "and_an_equally_long_name_of_its_tool");
        assert_eq!(long.len(), LONGEST);
        let dotted = flat("mcp.gh", "search");
        assert!(dotted.starts_with("mcp_gh__search_") && dotted != flat("mcp:gh", "search"), "{dotted}");
        assert_ne!(long, flat("a_rather_long_namespace_of_a_server", "and_an_equally_long_name_of_its_too2"));
    }
}
