//! OpenAI's tools that the client carries out: `local_shell`, `shell` and `apply_patch`.
//!
//! Models of OpenAI know their schemas, so no request has them; a chat backend gets them as functions. The arguments of a call
//! become the `action` or `operation` of its own item, in a form that clients can decode whatever the model wrote, and return
//! as the arguments that they were.

use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    fields::Fields,
    json::{comma, nested_text, put, string},
};

/// A tool that the client carries out.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientTool {
    LocalShell,
    Shell,
    ApplyPatch,
}

impl ClientTool {
    /// The tool of a type.
    pub(super) fn named(kind: &str) -> Option<Self> {
        Some(match kind {
            "local_shell" => Self::LocalShell,
            "shell" => Self::Shell,
            "apply_patch" => Self::ApplyPatch,
            _ => return None,
        })
    }

    /// Its type, and its name at a backend.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::LocalShell => "local_shell",
            Self::Shell => "shell",
            Self::ApplyPatch => "apply_patch",
        }
    }

    /// The type of its calls.
    pub(super) fn item(self) -> &'static str {
        match self {
            Self::LocalShell => "local_shell_call",
            Self::Shell => "shell_call",
            Self::ApplyPatch => "apply_patch_call",
        }
    }

    /// The beginning of the ids of its calls.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::LocalShell => "lsh_",
            Self::Shell => "sh_",
            Self::ApplyPatch => "apc_",
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            Self::LocalShell => "Runs a program on the user's computer and returns its output.",
            Self::Shell => "Runs shell commands on the user's computer and returns their output.",
            Self::ApplyPatch => {
                "Creates, changes or deletes one file. The diff of a new file has each line behind a `+`. The diff of a change has sections that begin with `@@`, optionally followed by a line that stands before the section, with unchanged lines behind a space, removed lines behind a `-` and added lines behind a `+`; it has no line numbers and no names of files."
            }
        }
    }

    pub(super) fn parameters(self) -> &'static str {
        match self {
            Self::LocalShell => {
                r#"{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"},"description":"The program and its arguments, such as [\"bash\",\"-lc\",\"ls\"]."},"env":{"type":"object","additionalProperties":{"type":"string"},"description":"Environment variables to set."},"working_directory":{"type":"string"},"timeout_ms":{"type":"integer"}},"required":["command"]}"#
            }
            Self::Shell => {
                r#"{"type":"object","properties":{"commands":{"type":"array","items":{"type":"string"},"description":"The commands to run."},"timeout_ms":{"type":"integer"},"max_output_length":{"type":"integer","description":"The most characters of output to return."}},"required":["commands"]}"#
            }
            Self::ApplyPatch => {
                r#"{"type":"object","properties":{"type":{"type":"string","enum":["create_file","update_file","delete_file"]},"path":{"type":"string","description":"Path of the file, relative to the workspace."},"diff":{"type":"string","description":"For `create_file` and `update_file`: the diff."}},"required":["type","path"]}"#
            }
        }
    }

    /// The member of a call's item that holds what to do, from the escaped arguments of the function.
    pub(super) fn member(self, escaped: &[u8]) -> String {
        let mut quoted = b"\"".to_vec();
        quoted.extend_from_slice(escaped);
        quoted.push(b'"');
        let text: String = serde_json::from_slice(&quoted).unwrap_or_default();
        let arguments: Map<String, Value> = serde_json::from_str(&text).unwrap_or_default();
        let (name, value) = match self {
            Self::LocalShell => ("action", local_shell(&arguments)),
            Self::Shell => ("action", shell(&arguments)),
            Self::ApplyPatch => ("operation", apply_patch(&arguments)),
        };
        format!(",\"{name}\":{value}")
    }

    /// The arguments of a call in the history, as a quoted JSON string, from its `action` or `operation`.
    pub(super) fn arguments(self, member: Option<&RawValue>) -> String {
        let mut out = b"{".to_vec();
        let fields = member.and_then(|member| Fields::of(member).ok());
        for (name, value) in fields.iter().flat_map(|fields| &fields.0) {
            let is_kind = name == "type" && self != Self::ApplyPatch;
            if !is_kind && value.get() != "null" {
                comma(&mut out);
                string(&mut out, name);
                put(&mut out, &[":", value.get()]);
            }
        }
        out.push(b'}');
        ["\"", &nested_text(&String::from_utf8_lossy(&out)), "\""].concat()
    }
}

fn local_shell(arguments: &Map<String, Value>) -> Value {
    let mut action = Map::new();
    action.insert("type".into(), json!("exec"));
    let command = match arguments.get("command").or_else(|| arguments.get("cmd")) {
        Some(Value::String(line)) => vec![json!("bash"), json!("-lc"), json!(line)],
        other => words(other),
    };
    action.insert("command".into(), Value::Array(command));
    let env: Map<String, Value> = arguments.get("env").and_then(Value::as_object).map(pairs).unwrap_or_default();
    action.insert("env".into(), Value::Object(env));
    copy_numbers(arguments, &["timeout_ms"], &mut action);
    for name in ["working_directory", "user"] {
        if let Some(value) = arguments.get(name).filter(|value| value.is_string()) {
            action.insert(name.into(), value.clone());
        }
    }
    Value::Object(action)
}

fn shell(arguments: &Map<String, Value>) -> Value {
    let mut action = Map::new();
    let commands = match arguments.get("commands").or_else(|| arguments.get("command")) {
        Some(Value::String(line)) => vec![json!(line)],
        other => words(other),
    };
    action.insert("commands".into(), Value::Array(commands));
    copy_numbers(arguments, &["timeout_ms", "max_output_length"], &mut action);
    Value::Object(action)
}

fn apply_patch(arguments: &Map<String, Value>) -> Value {
    // Models repeat the name that the operation has in the item.
    let arguments = arguments.get("operation").and_then(Value::as_object).unwrap_or(arguments);
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let diff = text("diff").unwrap_or_default();
    let path = text("path").unwrap_or_default();
    match text("type") {
        Some("delete_file") => json!({"type": "delete_file", "path": path}),
        Some("create_file") => json!({"type": "create_file", "path": path, "diff": diff}),
        _ => json!({"type": "update_file", "path": path, "diff": diff}),
    }
}

/// The items of a list as texts.
fn words(list: Option<&Value>) -> Vec<Value> {
    let items = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().map(as_text).collect()
}

fn pairs(members: &Map<String, Value>) -> Map<String, Value> {
    members.iter().map(|(name, value)| (name.clone(), as_text(value))).collect()
}

fn as_text(value: &Value) -> Value {
    if value.is_string() { value.clone() } else { json!(value.to_string()) }
}

fn copy_numbers(arguments: &Map<String, Value>, names: &[&str], action: &mut Map<String, Value>) {
    for name in names {
        if let Some(value) = arguments.get(*name).filter(|value| value.is_u64()) {
            action.insert((*name).to_owned(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(tool: ClientTool, arguments: &str) -> Value {
        let text = tool.member(nested_text(arguments).as_bytes());
        serde_json::from_str(&format!("{{{}}}", text.strip_prefix(',').unwrap())).unwrap()
    }

    #[test]
    fn any_arguments_become_a_form_that_clients_decode() {
        use ClientTool::{ApplyPatch, LocalShell, Shell};
        for (tool, arguments, want) in [
            (
                LocalShell,
                r#"{"command":["ls","-l",1],"env":{"A":"b","N":1},"timeout_ms":5,"working_directory":"/w","user":null}"#,
                json!({"action": {"type": "exec", "command": ["ls", "-l", "1"], "env": {"A": "b", "N": "1"}, "timeout_ms": 5, "working_directory": "/w"}}),
            ),
            (
                LocalShell,
                r#"{"command":"ls | wc"}"#,
                json!({"action": {"type": "exec", "command": ["bash", "-lc", "ls | wc"], "env": {}}}),
            ),
            (LocalShell, "", json!({"action": {"type": "exec", "command": [], "env": {}}})),
            (
                Shell,
                r#"{"commands":["a","b"],"timeout_ms":1,"max_output_length":2.5}"#,
                json!({"action": {"commands": ["a", "b"], "timeout_ms": 1}}),
            ),
            (Shell, r#"{"command":"a"}"#, json!({"action": {"commands": ["a"]}})),
            (Shell, "[1]", json!({"action": {"commands": []}})),
            (
                ApplyPatch,
                r#"{"operation":{"type":"create_file","path":"p","diff":"+a\n"}}"#,
                json!({"operation": {"type": "create_file", "path": "p", "diff": "+a\n"}}),
            ),
            (
                ApplyPatch,
                r#"{"type":"delete_file","path":"p","diff":""}"#,
                json!({"operation": {"type": "delete_file", "path": "p"}}),
            ),
            (ApplyPatch, "{}", json!({"operation": {"type": "update_file", "path": "", "diff": ""}})),
        ] {
            assert_eq!(member(tool, arguments), want, "{arguments}");
        }
    }

    #[test]
    fn schemas_are_valid_json() {
        for tool in [ClientTool::LocalShell, ClientTool::Shell, ClientTool::ApplyPatch] {
            let schema: Value = serde_json::from_str(tool.parameters()).unwrap();
            assert_eq!(schema["type"], "object");
            assert_eq!(ClientTool::named(tool.name()), Some(tool));
            assert!(!tool.description().contains(['"', '\\']));
        }
    }
}
