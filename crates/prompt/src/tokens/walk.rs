//! Visits everything that a model reads: every text of a request, and the template's tokens around them.

use super::{
    body::Rendered,
    json::{Cursor, Flow, inside, unquoted},
    part::Part,
    piece::{Piece, Template},
    tools,
};

/// The deepest level of lists and objects that is read; deeper values count as their JSON.
const DEEPEST: usize = 16;
/// Members with ids and metadata that no chat template shows the model.
const UNREAD: [&str; 16] = [
    "id",
    "tool_call_id",
    "tool_use_id",
    "call_id",
    "item_id",
    "status",
    "cache_control",
    "signature",
    "thought_signature",
    "thoughtSignature",
    "encrypted_content",
    "encrypted_index",
    "redactedContent",
    "annotations",
    "logprobs",
    "file_name",
];
/// Bytes from which an unread value is worth a mention.
const LONG: usize = 64;

/// Calls `f` with every piece of `body` in the order of chat templates, until `f` breaks.
pub(super) fn pieces(body: &Rendered<'_>, template: &Template, f: &mut dyn FnMut(Piece<'_>) -> Flow) -> Flow {
    let mut walk = Walk { template, f, chat: !body.messages.is_empty() };
    tools::tools(body.tools, template.tools, walk.f)?;
    for system in [body.system, body.instructions] {
        if !system.is_empty() && system != "null" {
            walk.tokens(template.message)?;
            walk.say("system")?;
            walk.content(&mut Cursor::new(system), 0)?;
        }
    }
    walk.plain(&mut Cursor::new(body.documents), 0)?;
    Cursor::new(body.messages).elements(&mut |message| walk.message(message))?;
    walk.plain(&mut Cursor::new(body.prompt), 0)?;
    if body.input_is_message && body.input.starts_with('"') {
        walk.chat = true;
        walk.tokens(template.message)?;
        walk.say("user")?;
        walk.unescaped(body.input)?;
    } else {
        walk.plain(&mut Cursor::new(body.input), 0)?;
    }
    walk.plain(&mut Cursor::new(body.query), 0)?;
    let reply = if walk.chat { template.reply } else { 0 };
    walk.tokens(reply)
}

struct Walk<'w> {
    template: &'w Template,
    f: &'w mut dyn FnMut(Piece<'_>) -> Flow,
    /// True if there was a message, so that the template opens a reply.
    chat: bool,
}

impl Walk<'_> {
    fn tokens(&mut self, tokens: u64) -> Flow {
        if tokens == 0 { Flow::Continue(()) } else { (self.f)(Piece::Tokens(tokens)) }
    }

    fn say(&mut self, text: &str) -> Flow {
        if text.is_empty() { Flow::Continue(()) } else { (self.f)(Piece::Text(text)) }
    }

    /// Visits the text of the raw string `raw`.
    fn unescaped(&mut self, raw: &str) -> Flow {
        let text = unquoted(raw);
        self.say(&text)?;
        match inside(raw).len().saturating_sub(text.len()) as u64 {
            0 => Flow::Continue(()),
            escapes => (self.f)(Piece::Escapes(escapes)),
        }
    }

    /// Visits a message, or an item of a response's input.
    fn message(&mut self, cursor: &mut Cursor<'_>) -> Flow {
        self.chat = true;
        self.tokens(self.template.message)?;
        let mut part = Part::default();
        cursor.members(&mut |cursor, key| match key {
            "name" => {
                self.tokens(self.template.name)?;
                self.unescaped(cursor.value())
            }
            "tool_calls" => cursor.elements(&mut |call| {
                self.tokens(self.template.message)?;
                self.content(call, 1)
            }),
            _ => self.member(cursor, key, &mut part, 0),
        })?;
        self.attached(part, 0)
    }

    /// Visits texts, token ids, lists of either, or items.
    fn plain(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Flow {
        match cursor.peek() {
            Some(b'"') => {
                self.tokens(self.template.plain)?;
                self.unescaped(cursor.value())
            }
            Some(b'[') if depth < DEEPEST => cursor.elements(&mut |element| self.plain(element, depth + 1)),
            Some(b'{') => self.message(cursor),
            // Within a list a number is a token id.
            Some(b'0'..=b'9') if depth > 0 => self.tokens(1),
            _ => Flow::Continue(()),
        }
    }

    /// Visits a message's content: a text or parts.
    fn content(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Flow {
        match cursor.peek() {
            Some(b'"') => self.unescaped(cursor.value()),
            Some(b'[' | b'{') if depth >= DEEPEST => self.say(cursor.value()),
            Some(b'[') => cursor.elements(&mut |part| self.content(part, depth + 1)),
            Some(b'{') => {
                let mut part = Part::default();
                cursor.members(&mut |cursor, key| self.member(cursor, key, &mut part, depth + 1))?;
                self.attached(part, depth + 1)
            }
            _ => Flow::Continue(()),
        }
    }

    fn member<'a>(&mut self, cursor: &mut Cursor<'a>, key: &str, part: &mut Part<'a>, depth: usize) -> Flow {
        if UNREAD.contains(&key) {
            return self.unread(cursor.value());
        }
        if part.takes(cursor, key) {
            return Flow::Continue(());
        }
        match key {
            // The arguments of a tool call are shown as their JSON.
            "input" | "arguments" if cursor.peek() == Some(b'{') => self.say(cursor.value()),
            _ => self.content(cursor, depth),
        }
    }

    fn unread(&mut self, raw: &str) -> Flow {
        if raw.len() < LONG { Flow::Continue(()) } else { (self.f)(Piece::Opaque(raw)) }
    }

    /// Visits what the members of a part refer to, once all of them are known.
    fn attached(&mut self, part: Part<'_>, depth: usize) -> Flow {
        let found = part.sorted();
        for attachment in found.attachments {
            (self.f)(Piece::Attachment(attachment))?;
        }
        for raw in found.texts {
            self.content(&mut Cursor::new(raw), depth + 1)?;
        }
        found.opaque.map_or(Flow::Continue(()), |raw| self.unread(raw))
    }
}

/// Fuzz target: visits arbitrary bytes as every member of a request.
///
/// # Panics
/// If there is more text than JSON.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_tokens(input: &[u8]) {
    use super::piece::Style;

    let Ok(raw) = std::str::from_utf8(input) else { return };
    for style in [Style::Namespace { function: 7 }, Style::Json] {
        let template = Template { message: 3, name: 1, reply: 3, plain: 1, tools: style };
        let names: [&[u8]; 5] = [b"tools", b"system", b"messages", b"prompt", b"input"];
        for name in names {
            let mut bytes = 0;
            let flow = pieces(&Rendered::of([(name, input)]), &template, &mut |piece| {
                if let Piece::Text(text) = piece {
                    bytes += text.len();
                }
                Flow::Continue(())
            });
            assert!(flow.is_continue());
            // A lone surrogate is six bytes of JSON and up to nine of replacement characters.
            assert!(bytes <= 2 * raw.len() + "system".len(), "{bytes} bytes of text from {}", raw.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::piece::Style;
    use super::*;
    use crate::attachments::Attachment;

    const TEMPLATE: Template = Template { message: 3, name: 1, reply: 2, plain: 5, tools: Style::Json };

    fn shown(members: &[(&str, &str)]) -> String {
        let mut shown = Vec::new();
        let body = Rendered::of(members.iter().map(|(name, raw)| (name.as_bytes(), raw.as_bytes())));
        let flow = pieces(&body, &TEMPLATE, &mut |piece| {
            shown.push(match piece {
                Piece::Text(text) => text.to_owned(),
                Piece::Tokens(tokens) => format!("+{tokens}"),
                Piece::Attachment(Attachment { class, data, .. }) => format!("{class:?} {}", data.len()),
                Piece::Escapes(_) => return Flow::Continue(()),
                Piece::Opaque(raw) => format!("opaque {}", raw.len()),
            });
            Flow::Continue(())
        });
        assert!(flow.is_continue());
        shown.join("|")
    }

    #[test]
    fn messages_are_walked_whatever_their_dialect() {
        for (messages, want) in [
            (r#"[{"role":"user","content":"a\nb"}]"#, "+3|user|a\nb|+2"),
            (r#"[{"role":"system","name":"bob","content":null}]"#, "+3|system|+1|bob|+2"),
            (
                r#"[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:x","detail":"low"}}]}]"#,
                "+3|user|see|Image 6|+2",
            ),
            (
                r#"[{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c1","content":"ok"}]"#,
                "+3|assistant|+3|f|{\"a\":1}|+3|tool|ok|+2",
            ),
            (
                r#"[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"a":"\n"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"r"}]},{"type":"image","source":{"type":"base64","data":"AAAA"}},{"type":"document","source":{"type":"text","data":"doc"}}]}]"#,
                "+3|assistant|f|{\"a\":\"\\n\"}|+3|user|r|Image 4|doc|+2",
            ),
            (r#"[{"role":"assistant","audio":{"id":"a1"},"content":null}]"#, "+3|assistant|Audio 0|+2"),
            (r#"[{"role":"user","content":"x","images":["data:,","y z"]}]"#, "+3|user|x|Image 6|Image 3|+2"),
            (
                r#"[{"role":"user","content":[{"source":{"data":"AAAA","type":"base64","media_type":"image/png"},"type":"image"},{"image_url":"http:x"}]}]"#,
                "+3|user|Image 4|Image 6|+2",
            ),
            (
                r#"[{"type":"message","role":"user","content":[{"type":"input_image","detail":"low","file_id":"f"},{"type":"search_result","source":"https://a","content":[{"text":"b"}]}]}]"#,
                "+3|user|Image 0|b|https://a|+2",
            ),
            (
                r#"[{"role":"assistant","content":[{"type":"redacted_thinking","data":"0123456789012345678901234567890123456789012345678901234567890123"}]},{"type":"image_generation_call","result":"AAAA"},{"type":"mcp_call","result":"r"}]"#,
                "+3|assistant|opaque 66|+3|Image 4|+3|r|+2",
            ),
        ] {
            assert_eq!(shown(&[("messages", messages)]), want);
        }
    }

    #[test]
    fn other_members_are_walked_too() {
        assert_eq!(shown(&[("prompt", r#"["a", "b"]"#)]), "+5|a|+5|b");
        assert_eq!(shown(&[("prompt", "[[1, 2], [3]]")]), "+1|+1|+1");
        assert_eq!(shown(&[("input", r#""a""#)]), "+5|a");
        let items = r#"[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"function_call_output","call_id":"c","output":"b"}]"#;
        assert_eq!(
            shown(&[("input", items), ("instructions", r#""be brief""#)]),
            "+3|system|be brief|+3|user|a|+3|b|+2"
        );
        let asked = |input| {
            let mut tokens = 0;
            let body = Rendered { input, input_is_message: true, ..Rendered::default() };
            let flow = pieces(&body, &TEMPLATE, &mut |piece| {
                tokens += if let Piece::Tokens(tokens) = piece { tokens } else { 100 };
                Flow::Continue(())
            });
            (flow.is_continue(), tokens)
        };
        assert_eq!(asked(r#""a""#), asked(r#"[{"role":"user","content":"a"}]"#), "a text is a user's message");
        assert_eq!(asked(r#""a""#), (true, 3 + 100 + 100 + 2));
        assert_eq!(shown(&[("query", r#""q""#), ("documents", r#"["d", {"text":"e"}]"#)]), "+5|d|+3|e|+5|q|+2");
        assert_eq!(shown(&[("system", r#"[{"type":"text","text":"s"}]"#), ("messages", "[]")]), "+3|system|s|+2");
        assert_eq!(shown(&[("tools", r#"[{"name": "f"}]"#), ("messages", "[]")]), "{\"name\": \"f\"}|+2");
    }

    #[test]
    fn the_last_of_two_members_counts() {
        assert_eq!(shown(&[("prompt", r#""a""#), ("prompt", r#""b""#), ("other", r#""c""#)]), "+5|b");
    }

    #[test]
    fn depth_and_odd_shapes_do_no_harm() {
        let deep = format!(r#"[{{"role":"user","content":{}"x"{}}}]"#, "[".repeat(5_000), "]".repeat(5_000));
        assert!(shown(&[("messages", &deep)]).len() < 12_000);
        for odd in ["null", "3", "{}", "[]", "[null]", "[[]]", "\"", "[{\"content\":{\"a\":{\"b\":[1]}}}]"] {
            for name in ["tools", "system", "messages", "prompt", "input", "documents", "query"] {
                shown(&[(name, odd)]);
            }
        }
    }
}
