//! `signalbox prices`: lists the built-in table of prices and context sizes.

use std::{io, process::ExitCode};

use serde_json::{Value, json};

use super::output;
use signalbox_policy::prices::{Listed, builtin};

pub(super) fn prices(as_json: bool) -> io::Result<ExitCode> {
    let table = builtin();
    let models = table.providers.iter().flat_map(|provider| provider.models.iter().map(move |it| (provider, it)));
    if as_json {
        let models: Vec<Value> = models
            .map(|(provider, (name, Listed { price, context }))| {
                json!({
                    "provider": provider.name, "model": name, "input": price.input, "cached_input": price.cached_input,
                    "output": price.output, "context": context,
                })
            })
            .collect();
        let all = json!({ "date": table.date, "source": table.source, "models": models });
        return output::json(&all).map(|()| ExitCode::SUCCESS);
    }
    let rows = models.map(|(provider, (name, Listed { price, context }))| {
        let context = context.map(|tokens| tokens.to_string()).unwrap_or_default();
        let [input, cached, output] = [price.input, price.cached_input, price.output].map(|usd| usd.to_string());
        [format!("{} {name}", provider.name), input, cached, output, context]
    });
    let pages = table.providers.iter().map(|provider| [provider.name.clone(), provider.page.clone()]);
    let text = output::numbers(["model", "input", "cached input", "output", "context"], rows)
        + &output::table(["provider", "page"], pages);
    output::print(&format!(
        "{text}US dollars per million tokens, as of {}. Source: {}.\nA policy uses them with `prices: builtin`, for pools without a `price` or `context` of their own.\n",
        table.date, table.source
    ))
    .map(|()| ExitCode::SUCCESS)
}
