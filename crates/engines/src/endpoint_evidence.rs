//! Evidence in error answers for and against an endpoint. The one place that knows how servers word that an endpoint or a
//! model is missing.

use memchr::memmem;
use serde_json::Value;

use signalbox_types::Presence;

/// Largest error body that is read, in bytes. Servers without an endpoint say so in fewer.
const LONGEST: usize = 64 << 10;
/// Deepest nesting of an error that is read.
const DEEPEST: usize = 6;

/// The thing that is missing by an answer with 404, 405 or 501.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ErrorSubject {
    /// The endpoint, perhaps: the answer is no API error, or one that says no more than the status does.
    Endpoint,
    /// The model that was asked for.
    Model,
    /// A part of the request: an object, a parameter, a kind of input.
    Request,
}

/// Members of an error with words for people.
const TEXTS: [&str; 14] = [
    "message",
    "msg",
    "detail",
    "details",
    "error",
    "errors",
    "title",
    "reason",
    "description",
    "error_description",
    "error_message",
    "error_msg",
    "errormessage",
    "fault",
];
/// Members of an error with words for programs.
const CODES: [&str; 6] = ["code", "type", "status", "error_code", "errorcode", "name"];

/// Words of servers and proxies without a route: any combination of them names no object and no parameter. From Starlette,
/// axum, Go, Flask, Express, Fastify, Spring, ASP.NET, nginx, Kong, APISIX, Traefik, Ktor, OpenAI, Azure, LM Studio.
const ROUTING: &str = "\
    a again allowed an any api apierror are at available backend be been but by can cannot check client code could \
    default delete did do does doesn endpoint entered error exception exist exists for found future get handler \
    has have head here http httpexception if implemented in invalid is isn it looking manually match matched matching may \
    method no not nothing of on options or page patch path please post put request requested resource route \
    router s server service sorry spelling static status such supported t that the there this those to try \
    unexpected unimplemented unknown unsupported uri url values was were with you your";

/// Codes of a model that is missing, letters only.
const MODEL_CODES: [&str; 6] = [
    "modelnotfound",
    "modelnotfounderror",
    "modelnotfoundexception",
    "deploymentnotfound",
    "unknownmodel",
    "invalidmodel",
];
/// Beginnings of sentences about a model that was asked for, in lower case.
const MODEL_BEGINNINGS: [&str; 13] = [
    "invalid model:",
    "model",
    "the model",
    "requested model",
    "the requested model",
    "the specified model",
    "no model",
    "no such model",
    "unknown model",
    "could not find model",
    "deployment",
    "the api deployment",
    "no endpoints found for",
];
/// Words of its absence.
const ABSENT: [&str; 9] = [
    "invalid model:",
    "not found",
    "not exist",
    "doesn't exist",
    "not find",
    "no model",
    "no such model",
    "unknown model",
    "no endpoints found for",
];

impl ErrorSubject {
    /// Reads the body of an answer with an error status to a request to `path`, in which `model` was asked for.
    pub fn of(body: &[u8], path: &str, model: Option<&str>) -> Self {
        let body = body.trim_ascii();
        if body.is_empty() || is_page(body) {
            return Self::Endpoint;
        }
        let Some(text) = std::str::from_utf8(body).ok().filter(|text| text.len() <= LONGEST) else {
            return Self::Request;
        };
        let mut words = Words::default();
        match serde_json::from_str(text) {
            Ok(Value::String(text)) => words.texts.push(text),
            Ok(value) => words.gather(&value, DEEPEST),
            Err(_) => words.texts.push(text.to_owned()),
        }
        words.subject(path, model)
    }
}

/// Words of one error.
#[derive(Default)]
struct Words {
    texts: Vec<String>,
    codes: Vec<String>,
    /// True if it names a parameter of the request.
    names_parameter: bool,
}

impl Words {
    fn gather(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Array(all) if depth > 0 => all.iter().for_each(|it| self.gather(it, depth - 1)),
            Value::Object(members) if depth > 0 => {
                for (name, value) in members {
                    self.member(&name.to_ascii_lowercase(), value, depth);
                }
            }
            _ => {}
        }
    }

    fn member(&mut self, name: &str, value: &Value, depth: usize) {
        match value {
            Value::String(text) if TEXTS.contains(&name) => self.texts.push(text.clone()),
            Value::String(text) if CODES.contains(&name) => self.codes.push(text.clone()),
            Value::String(text) if name == "param" => self.names_parameter |= !text.is_empty(),
            Value::Array(all) if TEXTS.contains(&name) => {
                let texts = all.iter().filter_map(Value::as_str).map(str::to_owned);
                self.texts.extend(texts);
                self.gather(value, depth - 1);
            }
            Value::Object(_) if TEXTS.contains(&name) => self.gather(value, depth - 1),
            _ => {}
        }
    }

    fn subject(&self, path: &str, model: Option<&str>) -> ErrorSubject {
        let letters = |code: &str| code.chars().filter(char::is_ascii_alphabetic).collect::<String>().to_lowercase();
        let is_model = self.codes.iter().any(|code| MODEL_CODES.contains(&&*letters(code)))
            || self.texts.iter().any(|text| is_about_model(text, model));
        if is_model && !self.texts.iter().any(|text| quotes_another(text, model)) {
            return ErrorSubject::Model;
        }
        // llama.cpp answers so to any path that it lacks; its other errors name the file.
        let is_routing = |text: &String| text == "File Not Found" || is_routing(text, path);
        let codes = self.codes.iter().filter(|code| !code.contains('/') && *code != "about:blank");
        let says_no_more =
            self.texts.iter().all(is_routing) && codes.map(|code| spaced(code)).all(|it| is_routing(&it));
        if says_no_more && !self.names_parameter { ErrorSubject::Endpoint } else { ErrorSubject::Request }
    }
}

/// True for a page for people, as web servers and proxies send it.
fn is_page(body: &[u8]) -> bool {
    let start = body[..body.len().min(512)].to_ascii_lowercase();
    body.starts_with(b"<") && ["<html", "<!doctype html"].iter().any(|it| memmem::find(&start, it.as_bytes()).is_some())
}

/// True if all words of `text` are about routing; `path` and its parts count as such.
fn is_routing(text: &str, path: &str) -> bool {
    let end = path.rsplit('/').next().unwrap_or(path);
    let is_path = |word: &str| word.contains('/') && !end.is_empty() && word.contains(end);
    let words = text.split_whitespace().filter(|word| !is_path(word));
    words
        .flat_map(|word| word.split(|c: char| !c.is_alphabetic()))
        .filter(|word| !word.is_empty())
        .all(|word| ROUTING.split(' ').any(|known| known.eq_ignore_ascii_case(word)))
}

/// A code as words: `NotFoundError` and `not_found_error` as `Not Found Error`.
fn spaced(code: &str) -> String {
    let is_shouted = !code.contains(|c: char| c.is_ascii_lowercase());
    let mut words = String::with_capacity(code.len() + 8);
    let mut before = ' ';
    for letter in code.chars() {
        if letter.is_ascii_uppercase() && before.is_ascii_lowercase() && !is_shouted {
            words.push(' ');
        }
        words.push(letter);
        before = letter;
    }
    words
}

/// True if `text` says that the model which was asked for is missing.
fn is_about_model(text: &str, model: Option<&str>) -> bool {
    let lower = text.trim_start().to_lowercase();
    // LiteLLM puts the names of its own errors first.
    let lower = lower.rsplit_once("exception - ").map_or(&*lower, |(_, rest)| rest);
    let own = model.map(|model| tail(model).to_lowercase()).filter(|own| !own.is_empty());
    let begins = MODEL_BEGINNINGS.iter().any(|start| lower.starts_with(start))
        || own.is_some_and(|own| lower.trim_start_matches(['`', '\'', '"']).starts_with(&own));
    // Anthropic: `model: claude-x`.
    begins && (lower.starts_with("model:") || ABSENT.iter().any(|words| lower.contains(words)))
}

/// True if `text` quotes a name that is not the model's.
fn quotes_another(text: &str, model: Option<&str>) -> bool {
    let Some(own) = model.map(tail) else { return false };
    ['`', '"', '\''].into_iter().any(|quote| {
        // An apostrophe is no quotation mark.
        let text = text.replace("n't", "n t");
        let quoted = text.split(quote).skip(1).step_by(2).filter(|it| !it.is_empty()).map(str::to_owned);
        let mut quoted = quoted.filter(|_| text.matches(quote).count() > 1).peekable();
        quoted.peek().is_some() && !quoted.any(|name| name.contains(own) || own.contains(tail(&name)))
    })
}

/// A model's name without its owner.
fn tail(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}

/// Reads the answer to a probe: a request that no API accepts, so that an error about the request shows the endpoint.
pub fn probed(status: u16, body: &[u8]) -> Presence {
    let lower = body.to_ascii_lowercase();
    let says = |words: &str| memmem::find(&lower, words.as_bytes()).is_some();
    match status {
        // Ollama looks for the model before it looks at the rest, and so does Azure for the deployment.
        404 if says("model") || says("deploymentnotfound") => Presence::Present,
        404 | 405 | 501 => Presence::Absent,
        // LM Studio answers 200 on any path.
        200..=299 if says("unexpected endpoint") => Presence::Absent,
        // llama.cpp tokenizes nothing.
        200..=299 | 400 | 413 | 415 | 422 => Presence::Present,
        // A handler that does not expect such a body. Errors of proxies are 502 to 504.
        500 if says("\"error\"") => Presence::Present,
        _ => Presence::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> ErrorSubject {
        ErrorSubject::of(body.as_bytes(), "/v1/responses", Some("owner/qwen-7b"))
    }

    #[test]
    fn servers_without_the_route_say_no_more_than_the_status() {
        for body in [
            "",
            " \r\n",
            "{}",
            "null",
            "404 page not found\n",
            "Not Found",
            "Method Not Allowed",
            "default backend - 404",
            "<html><head><title>404 Not Found</title></head><body><center>nginx</center></body></html>",
            "<!DOCTYPE html>\n<html lang=en><title>404 Not Found</title><p>The requested URL was not found.</p></html>",
            "<!DOCTYPE html><html><body><pre>Cannot POST /v1/responses</pre></body></html>",
            r#"{"detail":"Not Found"}"#,
            r#"{"detail":"Method Not Allowed"}"#,
            r#"{"error":"Not Found"}"#,
            r#"{"error":{"message":"Not Found","type":"Not Found","param":null,"code":404}}"#,
            r#"{"object":"error","message":"Not Found","type":"NotFoundError","param":null,"code":404}"#,
            r#"{"error":{"message":"File Not Found","type":"not_found_error","code":404}}"#,
            r#"{"error":{"code":404,"message":"Not Found","status":"NOT_FOUND"}}"#,
            r#"{"error":{"message":"Invalid URL (POST /v1/responses)","type":"invalid_request_error","param":null,"code":null}}"#,
            r#"{"error":{"message":"Unknown request URL: POST /v1/responses.","type":"invalid_request_error","code":"unknown_url"}}"#,
            r#"{"error":"Unexpected endpoint or method. (POST /v1/responses)"}"#,
            r#"{"message":"Route POST:/v1/responses not found","error":"Not Found","statusCode":404}"#,
            r#"{"message":"no Route matched with those values","request_id":"1f"}"#,
            r#"{"error_msg":"404 Route Not Found"}"#,
            r#"{"timestamp":"2026","status":404,"error":"Not Found","message":"No static resource v1/responses.","path":"/v1/responses"}"#,
            r#"{"type":"https://tools.ietf.org/html/rfc9110#section-15.5.5","title":"Not Found","status":404,"traceId":"0"}"#,
            r#"{"type":"about:blank","title":"Method Not Allowed","status":405,"instance":"/v1/responses"}"#,
            r#"{"error":{"code":"404","message":"Resource not found"}}"#,
            r#"{"type":"error","error":{"type":"not_found_error","message":"Not Found"}}"#,
            r#"{"error":{"message":"Not implemented","type":"not_implemented"}}"#,
        ] {
            assert_eq!(of(body), ErrorSubject::Endpoint, "{body}");
        }
    }

    #[test]
    fn an_error_that_names_more_is_about_the_request() {
        for body in [
            r#"{"error":{"message":"Response with id 'resp_1' not found.","type":"invalid_request_error","param":"response_id","code":404}}"#,
            r#"{"error":{"message":"Not found","type":"invalid_request_error","param":"previous_response_id","code":null}}"#,
            r#"{"error":{"message":"Not found","code":"previous_response_not_found"}}"#,
            r#"{"error":{"message":"Item with id 'rs_1' not found.","type":"invalid_request_error"}}"#,
            r#"{"error":{"message":"File not found.","type":"invalid_request_error"}}"#,
            r#"{"error":{"message":"The vector store vs_1 was not found","code":null}}"#,
            r#"{"error":{"message":"No endpoints found that support image input","code":404}}"#,
            r#"{"error":{"message":"No endpoints found that support tool use. To learn more about provider routing, visit: https://x","code":404}}"#,
            r#"{"error":{"message":"No endpoints available matching your guardrail restrictions and data policy","code":404}}"#,
            r#"{"type":"error","error":{"type":"not_found_error","message":"File not found: file_1"}}"#,
            r#"{"type":"error","error":{"type":"not_found_error","message":"container: c_1"}}"#,
            r#"{"error":{"message":"image input is not implemented for this model","type":"not_implemented"}}"#,
            r#"{"error":{"code":501,"message":"This server does not support embeddings. Start it with `--embeddings`","type":"not_supported_error"}}"#,
            r#"{"error":{"message":"Not implemented: logprobs","type":"NotImplementedError"}}"#,
            r#"[{"error":{"code":404,"message":"Requested entity was not found: cachedContents/c1","status":"NOT_FOUND"}}]"#,
            r#"{"type":"about:blank","title":"Not Found","status":404,"detail":"Prompt pmpt_1 was not found"}"#,
            r#"{"detail":"The adapter sql does not exist."}"#,
            r#"{"detail":[{"loc":["body"],"msg":"no such picture"}]}"#,
            r#"{"detail":{"error":"conversation conv_1 not found"}}"#,
            r#"{"error":{"message":"The model `gpt-image-9` does not exist.","code":"model_not_found"}}"#,
            r#"{"error":{"message":"This parameter is not allowed for this model"}}"#,
            "this model does not support embeddings",
            "no such picture",
        ] {
            assert_eq!(of(body), ErrorSubject::Request, "{body}");
        }
        assert_eq!(ErrorSubject::of(&[0x1f, 0x8b, 0xff], "/v1/responses", None), ErrorSubject::Request);
    }

    #[test]
    fn a_model_that_is_missing_is_known_by_the_words_of_engines() {
        for body in [
            r#"{"error":{"message":"The model `owner/qwen-7b` does not exist.","type":"NotFoundError","param":"model","code":404}}"#,
            r#"{"error":{"message":"The model `qwen-7b` does not exist or you do not have access to it.","code":"model_not_found"}}"#,
            r#"{"error":"Model not found"}"#,
            r#"{"message":"Model not found: owner/qwen-7b","type":"Not Found","code":404}"#,
            r#"{"error":"model \"qwen-7b\" not found, try pulling it first"}"#,
            r#"{"error":{"message":"model 'qwen-7b' not found","type":"not_found_error"}}"#,
            r#"{"type":"error","error":{"type":"not_found_error","message":"model: qwen-7b"}}"#,
            r#"[{"error":{"code":404,"message":"models/qwen-7b is not found for API version v1beta","status":"NOT_FOUND"}}]"#,
            r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
            r#"{"error":{"message":"No endpoints found for owner/qwen-7b.","code":404}}"#,
            r#"{"object":"error","message":"Invalid model: qwen-7b","type":"invalid_model","code":"1500"}"#,
            r#"{"error":{"message":"litellm.NotFoundError: OpenAIException - The model `qwen-7b` does not exist.","code":"404"}}"#,
        ] {
            assert_eq!(of(body), ErrorSubject::Model, "{body}");
        }
    }

    #[test]
    fn answers_of_known_servers_to_probes_are_read() {
        for (status, body, want) in [
            // llama.cpp
            (404, r#"{"error":{"message":"File Not Found","type":"not_found_error","code":404}}"#, Presence::Absent),
            (501, r#"{"error":{"code":501,"message":"This server does not support embeddings"}}"#, Presence::Absent),
            (500, r#"{"error":{"code":500,"message":"'messages' is required"}}"#, Presence::Present),
            (200, r#"{"tokens":[]}"#, Presence::Present),
            // vLLM, SGLang and TGI
            (404, r#"{"detail":"Not Found"}"#, Presence::Absent),
            (405, r#"{"detail":"Method Not Allowed"}"#, Presence::Absent),
            (400, r#"{"error":{"message":"Input should be a valid dictionary","code":400}}"#, Presence::Present),
            (422, "Failed to deserialize the JSON body", Presence::Present),
            // Ollama and Azure
            (404, "404 page not found", Presence::Absent),
            (404, r#"{"error":{"message":"model '' not found"}}"#, Presence::Present),
            (404, r#"{"error":{"code":"DeploymentNotFound"}}"#, Presence::Present),
            // LM Studio
            (200, r#"{"error":"Unexpected endpoint or method. (POST /v1/messages)"}"#, Presence::Absent),
            (400, r#"{"error":"'messages' field is required"}"#, Presence::Present),
            // Any
            (401, "", Presence::Unknown),
            (403, "", Presence::Unknown),
            (429, "", Presence::Unknown),
            (503, r#"{"error":{"message":"Loading model"}}"#, Presence::Unknown),
            (500, "<html>", Presence::Unknown),
        ] {
            assert_eq!(probed(status, body.as_bytes()), want, "{status} {body}");
        }
    }
}
