//! Sampling parameters, within what a version of Claude accepts.
//!
//! Claude takes a temperature up to 1, since 4.1 either a temperature or a `top_p`, and since 4.7 no sampling parameters at
//! all, except at their defaults. Chat clients send all of them with every request. Models of other vendors behind the
//! Messages API take what chat completions allows.

use serde_json::value::RawValue;

use super::{Model, raw, request::Request};
use crate::Dropped;

/// The sampling parameters that the upstream gets.
#[derive(Default)]
pub(super) struct Sampling<'a> {
    temperature: Option<&'a str>,
    top_p: Option<&'a RawValue>,
    top_k: Option<&'a RawValue>,
}

impl<'a> Sampling<'a> {
    /// Decides on the parameters of a request. A parameter at its default is left out without notice.
    pub(super) fn decide(request: &Request<'a>, model: Model, dropped: &mut Dropped) -> Self {
        // 1 changes nothing.
        let top_p = request.top_p.filter(|top_p| raw::float(top_p) != Some(1.0));
        if model.samples_by_itself() {
            if request.temperature.is_some_and(|temperature| raw::float(temperature) != Some(1.0)) {
                dropped.add("temperature");
            }
            dropped.note("top_p", top_p.as_ref());
            dropped.note("top_k", request.top_k.as_ref());
            return Self::default();
        }
        let temperature = request.temperature.map(|temperature| {
            // Chat completions allows 2. Anthropic's own endpoint for that API caps it at 1 as well.
            if raw::float(temperature).is_some_and(|value| value > 1.0) {
                dropped.add("temperature");
                "1"
            } else {
                temperature.get()
            }
        });
        let top_p = if temperature.is_some() && model.takes_one_sampler() {
            dropped.note("top_p", top_p.as_ref());
            None
        } else {
            top_p
        };
        Self { temperature, top_p, top_k: request.top_k }
    }

    /// True if thinking does not allow the parameters.
    pub(super) fn excludes_thinking(&self) -> bool {
        let below = |value: Option<&str>, least: f64| {
            value.and_then(|value| value.parse().ok()).is_some_and(|value: f64| value < least)
        };
        below(self.temperature, 1.0) || below(self.top_p.map(RawValue::get), 0.95) || self.top_k.is_some()
    }

    /// Appends the parameters.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        if let Some(temperature) = self.temperature {
            raw::key(out, "temperature");
            out.extend_from_slice(temperature.as_bytes());
        }
        raw::member(out, "top_p", self.top_p);
        raw::member(out, "top_k", self.top_k);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::request_tests::{translated, with};

    #[test]
    fn each_version_gets_the_parameters_that_it_accepts() {
        let both = json!({"temperature": 0.5, "top_p": 0.9});
        let all = json!({"temperature": 0.5, "top_p": 0.9, "top_k": 5});
        let none: [&str; 0] = [];
        for (model, members, want, want_dropped) in [
            ("claude-sonnet-4-5", &both, json!({"temperature": 0.5}), ["top_p"].as_slice()),
            ("claude-sonnet-4-5", &json!({"temperature": 0, "top_p": 0.95}), json!({"temperature": 0}), &["top_p"]),
            ("claude-sonnet-4-5", &json!({"temperature": 0.5, "top_p": 1.0}), json!({"temperature": 0.5}), &none),
            ("claude-sonnet-4-5", &json!({"top_p": 0.9}), json!({"top_p": 0.9}), &none),
            ("claude-sonnet-4-5", &json!({"temperature": null, "top_p": 0.9}), json!({"top_p": 0.9}), &none),
            (
                "claude-opus-4-1-20250805",
                &json!({"temperature": 2, "top_p": 0.9}),
                json!({"temperature": 1}),
                &["temperature", "top_p"],
            ),
            ("claude-sonnet-4-6", &all, json!({"temperature": 0.5, "top_k": 5}), &["top_p"]),
            ("claude-3-7-sonnet-20250219", &both, both.clone(), &none),
            ("claude-sonnet-4-20250514", &both, both.clone(), &none),
            ("glm-5", &all, all.clone(), &none),
            ("claude-opus-4-7", &all, json!({}), &["temperature", "top_p", "top_k"]),
            ("anthropic/claude-sonnet-5", &json!({"temperature": 1, "top_p": 1}), json!({}), &none),
        ] {
            let mut chat = with(members);
            chat["model"] = json!(model);
            let (got, dropped) = translated(&chat);
            let kept: serde_json::Map<String, Value> = ["temperature", "top_p", "top_k"]
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), got.get(name)?.clone())))
                .collect();
            assert_eq!(
                (Value::Object(kept), dropped),
                (want, want_dropped.iter().map(|name| (*name).to_owned()).collect()),
                "{model} {members}"
            );
        }
    }
}
