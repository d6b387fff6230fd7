//! `signalbox explain`: shows how a policy would route a request, and why. Sends nothing and needs no engine.

use std::{
    fmt::Write as _,
    io::{self, Read as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{output, sources};
use signalbox_config::Config;
use signalbox_fleet::{Registry, Snapshot};
use signalbox_gateway::{Explanation, Parts, explain as explained};
use signalbox_journal::{AttemptEntry, Explained};
use signalbox_policy::{Tokenizer, compile};
use signalbox_prompt::tokens::{ModelTokenizer, TokenizerSlot};
use signalbox_types::{Clock, Endpoint, Fault};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The policy file
    policy: PathBuf,
    /// JSON body of the request; `-`, the default, reads standard input
    #[arg(default_value = "-")]
    request: PathBuf,
    /// A header of the request, such as `x-signalbox-class: batch`; may be repeated
    #[arg(long, short = 'H', value_parser = header)]
    header: Vec<(HeaderName, HeaderValue)>,
    /// Id of the caller's key [default: the first key of the policy]
    #[arg(long)]
    key: Option<String>,
    /// Endpoint: chat, completions, embeddings, responses, messages, …
    #[arg(long, default_value = "chat", value_parser = endpoint)]
    endpoint: Endpoint,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Parses a header from the command line.
pub(super) fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("a header is written `name: value`")?;
    let name = name.trim().parse::<HeaderName>().map_err(|error| error.to_string())?;
    let value = value.trim().parse::<HeaderValue>().map_err(|error| error.to_string())?;
    Ok((name, value))
}

fn endpoint(text: &str) -> Result<Endpoint, String> {
    let names = || Endpoint::ALL.map(Endpoint::name).join(", ");
    Endpoint::of_name(text).ok_or_else(|| format!("not an endpoint; there are {}", names()))
}

pub(super) fn explain(args: &Args) -> io::Result<ExitCode> {
    let policy = match Config::load(&args.policy)
        .and_then(|config| compile(&config))
        .map(|policy| sources::explained(&policy))
    {
        Ok(policy) => policy,
        Err(problems) => {
            output::complain(&output::report(&problems));
            return Ok(ExitCode::FAILURE);
        }
    };
    let key = match &args.key {
        None => (!policy.keys.is_empty()).then_some(0),
        Some(id) => match policy.keys.iter().position(|key| *key.id == **id) {
            Some(at) => Some(at),
            None => return Ok(complain(&format!("this policy has no key `{id}`"))),
        },
    };
    let body = match read(&args.request) {
        Ok(body) => body,
        Err(error) => return Ok(complain(&format!("'{}' cannot be read: {error}", args.request.display()))),
    };
    // Random choices are the same in every run.
    fastrand::seed(0);
    let parts = Arc::new(Parts::new(Clock::start()));
    let serving = parts.serving(Snapshot::new(policy, &Registry::default()), source);
    let headers: HeaderMap = args.header.iter().cloned().collect();
    match explained(&parts, &serving, args.endpoint, &headers, key, body) {
        Ok(explanation) if args.json => {
            let value = serde_json::to_value(&explanation).map_err(io::Error::other)?;
            output::json(&value).map(|()| ExitCode::SUCCESS)
        }
        Ok(explanation) => output::print(&text(&explanation)).map(|()| ExitCode::SUCCESS),
        Err(Fault { status, code, message, .. }) => {
            let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
            Ok(complain(&format!("the gateway would answer {}{code}: {message}", status.as_u16())))
        }
    }
}

/// The tokenizer, if it is available locally; nothing is downloaded.
fn source(tokenizer: &Tokenizer) -> Arc<TokenizerSlot> {
    let own = |path: &Path| std::fs::read(path).ok().and_then(|bytes| ModelTokenizer::read(&bytes).ok());
    Arc::new(match tokenizer {
        Tokenizer::OpenAi(encoding) => TokenizerSlot::open_ai(*encoding),
        Tokenizer::File(path) => own(path).map_or_else(TokenizerSlot::learned, TokenizerSlot::own),
        Tokenizer::Learned | Tokenizer::Hub(_) => TokenizerSlot::learned(),
    })
}

fn complain(message: &str) -> ExitCode {
    output::complain(&format!("signalbox: {message}\n"));
    ExitCode::FAILURE
}

fn read(path: &Path) -> io::Result<Bytes> {
    if path == Path::new("-") {
        let mut body = Vec::new();
        io::stdin().lock().read_to_end(&mut body)?;
        return Ok(body.into());
    }
    std::fs::read(path).map(Bytes::from)
}

fn text(explanation: &Explanation) -> String {
    let Explanation { model, route, explained, bound_ms, pools, without_backends } = explanation;
    let mut lines = vec![("model", model.clone().unwrap_or_else(|| "(none)".to_owned())), ("route", route.to_string())];
    for passed in &explained.skipped_rules {
        lines.push(("", format!("passed over {}: {}", passed.route, passed.because)));
    }
    let [least, expected, most] = explained.prompt_tokens;
    lines.push((
        "prompt",
        if least == most {
            format!("{expected} tokens")
        } else {
            format!("about {expected} tokens ({least} to {most})")
        },
    ));
    for pool in &explained.too_small {
        lines.push(("", format!("does not fit into {pool}")));
    }
    for pool in &explained.over_budget {
        lines.push(("", format!("the budget does not suffice for {pool}")));
    }
    lines.extend(scored(explained));
    if let Some(bound) = bound_ms {
        lines.push(("bound", format!("first token within {bound:.0} ms")));
    }
    for pool in without_backends {
        lines.push(("", format!("no backend of {pool} could take it")));
    }
    let mut text = String::new();
    for (name, line) in lines {
        let _ = writeln!(text, "{name:<11}{line}");
    }
    for (at, pool) in pools.iter().enumerate() {
        if let Some(before) = at.checked_sub(1).and_then(|before| pools.get(before)) {
            let _ = writeln!(text, "if `{}` fails or has no room:", before.pool);
        }
        text += &candidates(pool);
    }
    text
}

fn scored(explained: &Explained) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(scored) = &explained.complexity {
        lines.push((
            "complexity",
            format!(
                "{:.2}; a small model's answer {:.0} %, a larger one adds {:.0} points (confidence {:.2}, weights {})",
                scored.score,
                scored.quality * 100.0,
                scored.gap * 100.0,
                scored.confidence,
                scored.weights
            ),
        ));
        for (feature, amount) in &scored.reasons {
            lines.push(("", format!("{amount:+.3} {feature}{}", in_words(feature, *amount))));
        }
    }
    if let Some(tier) = &explained.tier {
        let bar = match tier.bar {
            Some(bar) if tier.bar_of == "gap" => {
                format!(
                    " (the next tier would have to add {:.1} points, a threshold learned from traffic)",
                    bar * 100.0
                )
            }
            Some(bar) => format!(" (threshold {bar:.2}, adapted to traffic)"),
            None => String::new(),
        };
        lines.push(("tier", format!("{} by {}{bar}", tier.tier, tier.reason)));
    }
    if let Some(length) = &explained.length {
        let kind = if length.long { "long" } else { "short" };
        lines.push(("length", format!("{kind}: long from {:.0} tokens on", length.boundary)));
    }
    lines
}

/// The meaning of a feature whose name does not say it.
fn in_words(feature: &str, amount: f64) -> &'static str {
    match feature {
        "kind_of_work" if amount < 0.0 => ": its words are those of easy work (small talk, lookups, rewriting)",
        "kind_of_work" => ": its words are those of hard work (proofs, design, law, medicine, analysis)",
        _ => "",
    }
}

fn candidates(pool: &AttemptEntry) -> String {
    let rows = pool.candidates.iter().map(|candidate| {
        let chosen = if candidate.backend == pool.backend { pool.reason } else { "" };
        [
            pool.pool.to_string(),
            candidate.backend.to_string(),
            candidate.cost.map_or_else(|| "-".to_owned(), |cost| format!("{cost:.0}")),
            match candidate.load_ms {
                Some(load) => format!("{:.0} ms, {load:.0} of them to load the model", candidate.ttft_ms),
                None => format!("{:.0} ms", candidate.ttft_ms),
            },
            format!("{} + {} cached", candidate.uncached_tokens, candidate.cached_tokens),
            chosen.to_owned(),
        ]
    });
    output::table(["pool", "backend", "cost", "first token", "prompt tokens", "chosen by"], rows)
}
