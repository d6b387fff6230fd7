//! A request of `/v1/responses` as a request of `/v1/chat/completions`.

use super::{
    conversation::Conversation,
    echo::Echo,
    fields::Fields,
    input::Reader,
    settings::{self, Include},
    stored_state::HeldState,
    tools::Tools,
};
use crate::{
    Dropped, ProviderStates, Translated, Unsupported,
    json::{inner, put, string, word},
    unsupported,
};

/// Fields that are read elsewhere, or that only the Response object repeats.
const READ: [&str; 18] = [
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "text",
    "reasoning",
    "include",
    "stream",
    "stream_options",
    "store",
    "background",
    "conversation",
    "prompt",
    "previous_response_id",
    "metadata",
    "top_logprobs",
    "model",
];

/// Hints without a counterpart: the answer is the same unless a limit is reached. `max_tool_calls` counts only calls of
/// tools that the provider carries out.
const HINTS: [&str; 4] = ["client_metadata", "context_management", "max_tool_calls", "truncation"];

/// Fields of chat requests that the translation writes itself.
const WRITTEN: [&str; 9] = [
    "messages",
    "response_format",
    "reasoning_effort",
    "verbosity",
    "logprobs",
    "max_tokens",
    "max_completion_tokens",
    "functions",
    "function_call",
];

/// Translates a request. The [`Echo`] is needed to translate its answer. `states` has what providers want back with the calls
/// of earlier turns.
///
/// # Errors
/// If the request is malformed, or asks for something that no chat backend can do.
pub fn to_chat(body: &[u8], states: &dyn ProviderStates) -> Result<(Translated, Echo), Unsupported> {
    to_chat_held(body, None, states)
}

/// Translates a request whose state the gateway holds; `None` if it holds none. See [`to_chat`].
///
/// # Errors
/// If the request is malformed, or asks for something that no chat backend can do.
pub(crate) fn to_chat_held(
    body: &[u8],
    held: Option<&HeldState>,
    states: &dyn ProviderStates,
) -> Result<(Translated, Echo), Unsupported> {
    let fields =
        Fields::read(body).map_err(|error| unsupported("", format!("the body is not a valid JSON object: {error}")))?;
    refuse_state(&fields, held.is_some())?;
    let mut dropped = Dropped::default();
    let mut tools = Tools::default();
    if let Some(list) = fields.get("tools") {
        tools.add_list(list, "tools", &mut dropped)?;
    }
    let messages = messages(&fields, states, &mut tools, &mut dropped)?;

    let mut out = Vec::with_capacity(body.len() + body.len() / 8 + 256);
    put(&mut out, &["{"]);
    if let Some(model) = fields.get("model") {
        put(&mut out, &[r#""model":"#, model.get(), ","]);
    }
    put(&mut out, &[r#""messages":["#]);
    out.extend_from_slice(&messages);
    out.push(b']');
    if tools.write(fields.get("tool_choice"), &mut out)?
        && let Some(parallel) = fields.get("parallel_tool_calls")
    {
        put(&mut out, &[r#","parallel_tool_calls":"#, parallel.get()]);
    }
    let (include, summary) = moved(&fields, &mut out, &mut dropped)?;
    kept(&fields, &mut out, &mut dropped)?;
    if let Some(stream) = fields.get("stream") {
        put(&mut out, &[r#","stream":"#, stream.get()]);
        if stream.get() == "true" {
            put(&mut out, &[r#","stream_options":{"include_usage":true}"#]);
        }
    }
    out.push(b'}');
    let echo = Echo::new(&fields, tools.into_names(), (summary, include.reasoning), held);
    Ok((Translated { body: out, dropped: dropped.into_names() }, echo))
}

/// Rejects what needs state elsewhere. `is_held`: the gateway stores responses, and has resolved what it stores.
fn refuse_state(fields: &Fields<'_>, is_held: bool) -> Result<(), Unsupported> {
    if fields.is_true("background") {
        return Err(unsupported("background", "answers in the background are not available; set `background: false`"));
    }
    let remedy = if is_held {
        "it belongs to a provider that these backends cannot reach; send all earlier items in `input`"
    } else {
        "nothing is stored here; send all earlier items in `input`, with `store: false`"
    };
    for (name, what) in [("conversation", "Conversation"), ("previous_response_id", "Previous response")] {
        if fields.get(name).is_some() {
            return Err(unsupported(name, format!("{what} not found: {remedy}")));
        }
    }
    if fields.get("prompt").is_some() {
        return Err(unsupported(
            "prompt",
            "prompt templates are not stored here; send their text in `instructions` and `input`",
        ));
    }
    if !is_held && fields.is_true("store") {
        let message = "responses are not stored here; set `store: false` and send all earlier items in `input`";
        return Err(unsupported("store", message));
    }
    Ok(())
}

/// The messages of the request, separated by commas.
fn messages(
    fields: &Fields<'_>,
    states: &dyn ProviderStates,
    tools: &mut Tools,
    dropped: &mut Dropped,
) -> Result<Vec<u8>, Unsupported> {
    let mut conversation = Conversation::new(states);
    if let Some(raw) = fields.get("instructions") {
        let pieces = super::content::pieces(Some(raw), "instructions")?;
        conversation.system(&pieces);
    }
    let mut reader = Reader { conversation: &mut conversation, tools, dropped };
    if let Some(input) = fields.get("input") {
        reader.input(input, "input")?;
    }
    let messages = conversation.finish();
    if messages.is_empty() {
        return Err(unsupported("input", "the request has no input; `input` is a string or a list of items"));
    }
    Ok(messages)
}

/// Writes the fields that have another name or place in a chat request.
fn moved(fields: &Fields<'_>, out: &mut Vec<u8>, dropped: &mut Dropped) -> Result<(Include, bool), Unsupported> {
    if let Some(text) = fields.get("text") {
        settings::text(text, out, dropped)?;
    }
    let summary = match fields.get("reasoning") {
        Some(reasoning) => settings::reasoning(reasoning, out, dropped)?,
        None => false,
    };
    let mut include = match fields.get("include") {
        Some(include) => settings::include(include, dropped)?,
        None => Include::default(),
    };
    if let Some(top) = fields.get("top_logprobs") {
        include.logprobs |= top.get() != "0";
        if include.logprobs {
            put(out, &[r#","top_logprobs":"#, top.get()]);
        }
    }
    if include.logprobs {
        put(out, &[r#","logprobs":true"#]);
    }
    if let Some(options) = fields.get("stream_options")
        && Fields::of(options).is_ok_and(|options| options.get("include_obfuscation").is_some())
    {
        dropped.add("stream_options.include_obfuscation");
    }
    Ok((include, summary))
}

/// Writes the fields that are the same in both APIs, and the unknown ones, which may be parameters of the engine.
fn kept(fields: &Fields<'_>, out: &mut Vec<u8>, dropped: &mut Dropped) -> Result<(), Unsupported> {
    for (name, value) in fields.0.iter().filter(|(name, value)| !READ.contains(&&**name) && value.get() != "null") {
        match &**name {
            "max_output_tokens" => put(out, &[r#","max_tokens":"#, value.get()]),
            "truncation" if word(Some(value)) == "disabled" => {}
            hint if HINTS.contains(&hint) => dropped.add(hint),
            "n" if value.get() != "1" => return Err(unsupported("n", "a response is one answer; remove `n`")),
            chat if WRITTEN.contains(&chat) => {
                let message =
                    format!("`{chat}` is a field of chat completions; use its counterpart of the Responses API");
                return Err(unsupported(chat, message));
            }
            name => {
                out.push(b',');
                string(out, name);
                put(out, &[":", value.get()]);
            }
        }
    }
    if let Some(model) = fields.get("model")
        && inner(model).is_none()
    {
        return Err(unsupported("model", "`model` must be a string"));
    }
    Ok(())
}
