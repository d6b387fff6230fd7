//! Adds the model that a request's path names to a body that names none, as Azure's clients may send it.

use bytes::{BufMut, Bytes, BytesMut};

use super::{json, multipart::Form};

/// The JSON object in `body` with `model` as its first member, if it has no `model`. What is no object stays as it is.
pub fn in_json(body: Bytes, model: &str) -> Bytes {
    let Ok(members) = json::members(&body) else { return body };
    let at = body.iter().position(|byte| *byte == b'{');
    let Some(at) = at.filter(|_| !members.iter().any(|member| member.name(&body) == b"model")) else { return body };
    let model = serde_json::Value::from(model).to_string();
    let comma = if members.is_empty() { "" } else { "," };
    let mut with = BytesMut::with_capacity(body.len() + model.len() + 16);
    with.put_slice(format!("{{\"model\":{model}{comma}").as_bytes());
    with.put_slice(&body[at + 1..]);
    with.freeze()
}

/// The form in `body` with a first field `model`, if it has none. What is no form stays as it is, and a name that no form
/// can carry as plain text is not added.
pub fn in_form(body: Bytes, boundary: &str, model: &str) -> Bytes {
    let is_plain = !model.chars().any(char::is_control) && !model.contains(boundary);
    if !is_plain || !Form::read(&body, boundary).is_ok_and(|form| form.model.is_none()) {
        return body;
    }
    let field = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{model}\r\n");
    [field.as_bytes(), &body].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_without_a_model_gets_the_one_of_the_path() {
        for (body, want) in [
            (r#"{"messages":[]}"#, r#"{"model":"a\"b","messages":[]}"#),
            (" {}", r#"{"model":"a\"b"}"#),
            (r#"{"x":1,"model":"m"}"#, r#"{"x":1,"model":"m"}"#),
            (r#"{"\u006dodel":"m"}"#, r#"{"\u006dodel":"m"}"#),
            ("[]", "[]"),
            ("{", "{"),
            ("", ""),
        ] {
            assert_eq!(in_json(Bytes::from_static(body.as_bytes()), "a\"b"), want.as_bytes());
        }
    }

    #[test]
    fn a_form_without_a_model_gets_the_one_of_the_path() {
        let field = |name: &str, value: &str| {
            format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let form = |fields: &[String]| Bytes::from(fields.concat() + "--x--\r\n");
        let without = form(&[field("language", "en")]);
        assert_eq!(in_form(without.clone(), "x", "m"), form(&[field("model", "m"), field("language", "en")]));
        let with = form(&[field("model", "own")]);
        assert_eq!(in_form(with.clone(), "x", "m"), with);
        for odd in ["m\r\n--x--", "--x", "a\nb"] {
            assert_eq!(in_form(without.clone(), "x", odd), without);
        }
        assert_eq!(in_form("no form".into(), "x", "m"), "no form");
    }
}
