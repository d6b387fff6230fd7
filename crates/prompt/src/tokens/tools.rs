//! Renders tools as the model reads them.

use super::{
    json::{Flow, elements, members, text},
    piece::{Piece, Style},
};

/// The deepest level of schemas that is read.
const DEEPEST: usize = 12;
/// Tokens in OpenAI's rendering for the list of a function's parameters, for each parameter, for each value of an enum,
/// and once at the end.
const PARAMETERS: u64 = 3;
const PARAMETER: u64 = 3;
const VALUE: u64 = 3;
const END: u64 = 12;

/// Calls `f` with the pieces of the list of tools `raw`.
pub(super) fn tools(raw: &str, style: Style, f: &mut dyn FnMut(Piece<'_>) -> Flow) -> Flow {
    let mut any = false;
    elements(raw, &mut |tool| {
        any = true;
        match style {
            Style::Json => f(Piece::Text(tool)),
            Style::Namespace { function } => self::function(tool, function, f),
        }
    })?;
    if any && style != Style::Json { f(Piece::Tokens(END)) } else { Flow::Continue(()) }
}

fn function(tool: &str, tokens: u64, f: &mut dyn FnMut(Piece<'_>) -> Flow) -> Flow {
    // Chat nests the function inside the tool; the Responses API and Anthropic do not.
    let function = member(tool, "function").unwrap_or(tool);
    let Some(name) = member(function, "name") else { return f(Piece::Text(tool)) };
    let mut line = read(name);
    line.push(':');
    line.push_str(&sentence(member(function, "description")));
    f(Piece::Tokens(tokens))?;
    f(Piece::Text(&line))?;
    let schema = member(function, "parameters").or_else(|| member(function, "input_schema"));
    schema.map_or(Flow::Continue(()), |schema| within(schema, 0, f))
}

/// The parameters of a schema, at any depth.
fn within(schema: &str, depth: usize, f: &mut dyn FnMut(Piece<'_>) -> Flow) -> Flow {
    if depth == DEEPEST {
        return f(Piece::Text(schema));
    }
    members(schema, &mut |key, value| match key {
        "properties" | "$defs" | "definitions" => {
            let mut first = true;
            members(value, &mut |name, property| {
                if std::mem::take(&mut first) {
                    f(Piece::Tokens(PARAMETERS))?;
                }
                parameter(name, property, depth, f)
            })
        }
        "items" | "additionalProperties" => within(value, depth + 1, f),
        "anyOf" | "oneOf" | "allOf" => elements(value, &mut |choice| within(choice, depth + 1, f)),
        "enum" if depth > 0 => values(value, f),
        _ => Flow::Continue(()),
    })
}

fn parameter(name: &str, schema: &str, depth: usize, f: &mut dyn FnMut(Piece<'_>) -> Flow) -> Flow {
    let of = member(schema, "type").map_or_else(String::new, read);
    let line = format!("{name}:{of}:{}", sentence(member(schema, "description")));
    let one_of = member(schema, "enum");
    // The cookbook subtracts three tokens for a parameter with an enum: those of the parameter itself.
    f(Piece::Tokens(if one_of.is_some() { 0 } else { PARAMETER }))?;
    f(Piece::Text(&line))?;
    within(schema, depth + 1, f)
}

fn values(raw: &str, f: &mut dyn FnMut(Piece<'_>) -> Flow) -> Flow {
    elements(raw, &mut |value| {
        f(Piece::Tokens(VALUE))?;
        f(Piece::Text(&read(value)))
    })
}

fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut found = None;
    let _ = members(object, &mut |key, value| {
        if key == name {
            found = Some(value);
            return Flow::Break(());
        }
        Flow::Continue(())
    });
    found
}

/// A string unescaped, anything else as it stands.
fn read(raw: &str) -> String {
    if raw.starts_with('"') { text(raw, str::to_owned) } else { raw.to_owned() }
}

/// A description without its full stop.
fn sentence(raw: Option<&str>) -> String {
    let mut text = raw.map_or_else(String::new, read);
    if text.ends_with('.') {
        text.pop();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(raw: &str) -> String {
        let mut shown = Vec::new();
        let flow = tools(raw, Style::Namespace { function: 7 }, &mut |piece| {
            shown.push(match piece {
                Piece::Text(text) => text.to_owned(),
                Piece::Tokens(tokens) => format!("+{tokens}"),
                Piece::Escapes(_) | Piece::Attachment(_) | Piece::Opaque(_) => "other".to_owned(),
            });
            Flow::Continue(())
        });
        assert!(flow.is_continue());
        shown.join("|")
    }

    #[test]
    fn functions_are_shown_with_their_parameters() {
        let weather = r#"[{"type":"function","function":{"name":"w","description":"The weather.","parameters":{"type":"object","properties":{"city":{"type":"string","description":"Where"},"unit":{"type":"string","enum":["c","f"]}}}}}]"#;
        assert_eq!(shown(weather), "+7|w:The weather|+3|+3|city:string:Where|+0|unit:string:|+3|c|+3|f|+12");
        assert_eq!(shown(r#"[{"name":"now","input_schema":{"type":"object","properties":{}}}]"#), "+7|now:|+12");
        assert_eq!(shown(r#"[{"type":"web_search"}]"#), "{\"type\":\"web_search\"}|+12");
        assert_eq!(shown("[]"), "");
        assert_eq!(shown("null"), "");
    }

    #[test]
    fn nested_parameters_are_found() {
        let nested = r#"[{"name":"f","parameters":{"properties":{"list":{"type":"array","items":{"properties":{"deep":{"type":"integer"}}}}}}}]"#;
        assert_eq!(shown(nested), "+7|f:|+3|+3|list:array:|+3|+3|deep:integer:|+12");
        let turtles =
            format!(r#"[{{"name":"f","parameters":{}{{}}{}}}]"#, r#"{"items":"#.repeat(2_000), "}".repeat(2_000));
        assert!(shown(&turtles).len() < 40_000);
    }
}
