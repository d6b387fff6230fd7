//! Requests to a deployment, as Azure's clients make them: the path names the model.

use bytes::Bytes;

use super::{
    edits::{Edits, quoted},
    json,
    request::RequestBody,
};
use signalbox_types::{Endpoint, Fault};

impl RequestBody {
    /// Reads a JSON object as a request for `model`, if there is one: a body that names another, or none, is rewritten
    /// and read once more.
    pub fn json_for(endpoint: Endpoint, bytes: Bytes, model: Option<&str>) -> Result<Self, Fault> {
        let read = Self::json(endpoint, bytes.clone());
        let Some(model) =
            model.filter(|model| read.as_ref().map_or(true, |body| body.model.as_deref() != Some(*model)))
        else {
            return read;
        };
        let Ok(members) = json::members(&bytes) else { return read };
        let mut unread = Self::opaque(bytes);
        unread.members = members;
        let model = quoted(model);
        let edits = Edits { replace: Some(("model", model.as_bytes())), ..Edits::default() };
        Self::json(endpoint, unread.edited(&edits))
    }

    /// Reads a multipart form as a request for `model`, if there is one: a form that names another, or none, is rewritten
    /// and read once more. A name that no form can carry as plain text is not put in.
    pub fn form_for(bytes: Bytes, boundary: &str, model: Option<&str>) -> Result<Self, Fault> {
        let read = Self::form(bytes, boundary)?;
        let is_plain = |name: &&str| !name.chars().any(char::is_control) && !name.contains(boundary);
        match model.filter(is_plain) {
            Some(model) if read.model.is_none() => {
                let field =
                    format!("--{boundary}\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{model}\r\n");
                Self::form([field.as_bytes(), read.bytes()].concat().into(), boundary)
            }
            Some(model) if read.model.as_deref() != Some(model) => {
                Self::form(read.edited(&Edits { model: Some(model), ..Edits::default() }), boundary)
            }
            _ => Ok(read),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_is_the_model() {
        for text in [
            r#"{"model":"m \"1\"","messages":[1]}"#,
            r#"{"model":null,"messages":[1]}"#,
            r#"{"model":"gpt-4o","messages":[1]}"#,
        ] {
            let body = RequestBody::json_for(Endpoint::Chat, text.into(), Some("m \"1\"")).unwrap();
            assert_eq!(body.model.as_deref(), Some("m \"1\""), "{text}");
            assert_eq!(&body.bytes()[..], br#"{"model":"m \"1\"","messages":[1]}"#, "{text}");
        }
        let body = RequestBody::json_for(Endpoint::Chat, r#"{"messages":[1], "x":1 }"#.into(), Some("m")).unwrap();
        assert_eq!(&body.bytes()[..], br#"{"messages":[1], "x":1,"model":"m" }"#);
        for text in ["{", r#"{"model":null,"messages":7}"#, r#"{"model":"a","messages":[1],"model":null}"#] {
            assert!(RequestBody::json_for(Endpoint::Chat, text.into(), Some("m")).is_err(), "{text}");
        }
    }

    #[test]
    fn a_deployment_is_the_model_of_a_form() {
        let field = |name: &str, value: &str| {
            format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let form = |fields: &[String]| Bytes::from(fields.concat() + "--x--\r\n");
        let read = |bytes: &Bytes, model: Option<&str>| RequestBody::form_for(bytes.clone(), "x", model).unwrap();
        let without = form(&[field("language", "en")]);
        assert_eq!(read(&without, Some("m")).bytes(), &form(&[field("model", "m"), field("language", "en")]));
        let with = form(&[field("model", "own"), field("language", "en")]);
        assert_eq!(read(&with, Some("m")).bytes(), &form(&[field("model", "m"), field("language", "en")]));
        assert_eq!((read(&with, Some("own")).bytes(), read(&with, None).bytes()), (&with, &with));
        for odd in ["m\r\n--x--", "--x", "a\nb"] {
            assert_eq!(read(&without, Some(odd)).bytes(), &without);
        }
        assert!(RequestBody::form_for("no form".into(), "x", Some("m")).is_err());
    }
}
