//! Anthropic's tools that the client carries out: bash, the text editor, the memory and the computer.
//!
//! Their schemas are known to Claude and stand in no request, so a chat backend gets them as functions of the same name. Calls
//! come back under that name, which is all that a client looks at. A tool's version, the date in its type, adds commands but
//! changes no meaning, so every version has the schema of the newest.

use super::request::Tool;
use crate::json::{filled, number, put, string};

/// A kind of tool, by the beginning of its type before the date.
struct Kind {
    prefix: &'static str,
    name: &'static str,
    description: &'static str,
    parameters: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind {
        prefix: "bash_",
        name: "bash",
        description: "Runs a command in a bash session that keeps its state between calls.",
        parameters: r#"{"type":"object","properties":{"command":{"type":"string","description":"The command to run. Required unless the session is restarted."},"restart":{"type":"boolean","description":"True to restart the session."}}}"#,
    },
    Kind {
        prefix: "text_editor_",
        name: "str_replace_based_edit_tool",
        description: "Views, creates and edits text files. `view` shows a file, or lists a directory; `create` writes a file; `str_replace` replaces a text that occurs exactly once; `insert` inserts a text after a line.",
        parameters: r#"{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert"],"description":"The command to run."},"path":{"type":"string","description":"Path of the file or directory."},"file_text":{"type":"string","description":"For `create`: the content of the file."},"old_str":{"type":"string","description":"For `str_replace`: the text to replace."},"new_str":{"type":"string","description":"For `str_replace`: the new text."},"insert_line":{"type":"integer","description":"For `insert`: the line after which the text is inserted; 0 for the beginning."},"insert_text":{"type":"string","description":"For `insert`: the text."},"view_range":{"type":"array","items":{"type":"integer"},"description":"For `view`: the first and the last line; -1 for the end of the file."}},"required":["command","path"]}"#,
    },
    Kind {
        prefix: "memory_",
        name: "memory",
        description: "Reads and changes files in the directory /memories, which outlasts the conversation.",
        parameters: r#"{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"],"description":"The command to run."},"path":{"type":"string","description":"Path of the file or directory, below /memories."},"view_range":{"type":"array","items":{"type":"integer"},"description":"For `view`: the first and the last line."},"file_text":{"type":"string","description":"For `create`: the content of the file."},"old_str":{"type":"string","description":"For `str_replace`: the text to replace."},"new_str":{"type":"string","description":"For `str_replace`: the new text."},"insert_line":{"type":"integer","description":"For `insert`: the line at which the text is inserted."},"insert_text":{"type":"string","description":"For `insert`: the text."},"old_path":{"type":"string","description":"For `rename`: the present path."},"new_path":{"type":"string","description":"For `rename`: the new path."}},"required":["command"]}"#,
    },
    Kind {
        prefix: "computer_",
        name: "computer",
        description: "Controls a computer by its mouse, keyboard and screen. Take a screenshot to see the effect of an action.",
        parameters: r#"{"type":"object","properties":{"action":{"type":"string","enum":["key","type","mouse_move","left_click","left_click_drag","right_click","middle_click","double_click","triple_click","left_mouse_down","left_mouse_up","screenshot","cursor_position","scroll","hold_key","wait","zoom"],"description":"The action to carry out."},"coordinate":{"type":"array","items":{"type":"integer"},"description":"x and y in pixels from the upper left corner."},"start_coordinate":{"type":"array","items":{"type":"integer"},"description":"For `left_click_drag`: x and y of the beginning."},"text":{"type":"string","description":"For `type`: the text. For `key` and `hold_key`: the keys. For clicks and `scroll`: keys that are held."},"scroll_direction":{"type":"string","enum":["up","down","left","right"]},"scroll_amount":{"type":"integer"},"duration":{"type":"number","description":"For `wait` and `hold_key`: seconds."},"region":{"type":"array","items":{"type":"integer"},"description":"For `zoom`: x and y of the upper left and the lower right corner."}},"required":["action"]}"#,
    },
];

/// The usual name of a tool that the client carries out, by its type in any version.
pub(super) fn name(kind: &str) -> Option<&'static str> {
    of(kind).map(|kind| kind.name)
}

fn of(kind: &str) -> Option<&'static Kind> {
    let is_date = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    KINDS.iter().find(|known| kind.strip_prefix(known.prefix).is_some_and(is_date))
}

/// Appends the members of the function that stands for a tool. Nothing for a tool of another type.
pub(super) fn write(tool: &Tool<'_>, out: &mut Vec<u8>) {
    let Some(kind) = tool.r#type.as_deref().and_then(of) else { return };
    put(out, &[r#""name":"#]);
    match tool.name.filter(|name| filled(Some(name)).is_some()) {
        Some(name) => put(out, &[name.get()]),
        None => string(out, kind.name),
    }
    put(out, &[r#","description":""#, kind.description]);
    if let (Some(width), Some(height)) = (tool.display_width_px, tool.display_height_px) {
        put(out, &[" The screen has "]);
        number(out, width);
        put(out, &[" x "]);
        number(out, height);
        put(out, &[" pixels."]);
    }
    put(out, &[r#"","parameters":"#, kind.parameters]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_known_in_every_version() {
        for kind in ["bash_20241022", "text_editor_20250728", "memory_20250818", "computer_20251124", "bash_20300101"] {
            assert!(name(kind).is_some(), "{kind}");
        }
        for kind in ["bash", "bash_", "bash_code_execution", "computer_toolset_20260801", "web_search_20250305"] {
            assert!(name(kind).is_none(), "{kind}");
        }
    }

    #[test]
    fn schemas_are_valid_json() {
        for kind in KINDS {
            let schema: serde_json::Value = serde_json::from_str(kind.parameters).unwrap();
            assert_eq!(schema["type"], "object", "{}", kind.name);
            assert!(!kind.description.contains(['"', '\\']), "{}", kind.description);
        }
    }
}
