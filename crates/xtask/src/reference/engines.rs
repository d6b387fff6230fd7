//! Generates the reference of engines and providers from their profiles.

use std::fs;

use signalbox_engines::{LoadedReport, MetricsPage, PROFILES, Pick, Profile, Signal, Take};

use super::markdown::table;
use crate::workspace::root;

/// The generated part of its page.
pub(super) fn text() -> String {
    let parts = [
        ("Metrics pages", pages()),
        ("Metrics by signal", signals()),
        ("Recognition and endpoints", recognition()),
        ("Words that steer an engine", control()),
        ("Usage and heartbeats", usage()),
        ("Options", options()),
        ("Refusals", refusals()),
    ];
    parts.map(|(title, table)| format!("## {title}\n\n{table}")).join("\n")
}

fn with_pages() -> impl Iterator<Item = (&'static Profile, MetricsPage)> {
    PROFILES.into_iter().filter_map(|profile| Some((profile, profile.metrics?)))
}

fn code(words: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    words.into_iter().map(|word| format!("`{}`", word.as_ref())).collect::<Vec<_>>().join(", ")
}

/// Versions whose pages are among the tests: the names of the files that begin with the engine's kind.
fn versions(kind: &str) -> String {
    let folder = root().join("crates/engines/tests/pages");
    let files = fs::read_dir(&folder).expect("the folder of the pages").map(|entry| entry.expect("an entry").path());
    let is_own = |file: &std::path::PathBuf| {
        fs::read_to_string(file).is_ok_and(|page| page.starts_with(&format!("# engine {kind}\n")))
    };
    let mut names: Vec<_> =
        files.filter(is_own).filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    names.join(", ")
}

fn pages() -> String {
    let rows = with_pages().map(|(profile, page)| {
        [
            profile.name.to_owned(),
            code([page.path]),
            page.port.map_or_else(String::new, |port| port.to_string()),
            code(page.flag),
            code(page.prefixes),
            code(page.rank),
            versions(page.kind.name()),
        ]
    });
    table(["Engine", "Path", "Port", "Needs", "Prefixes", "Ranks by", "Pages in the tests"], rows)
}

/// A row for each signal of each engine, with the derivations that are tried in order.
fn signals() -> String {
    let rows = with_pages().flat_map(|(profile, page)| {
        let row = move |(signal, ways): &(Signal, &[Take])| {
            [
                profile.name.to_owned(),
                signal.name().to_owned(),
                ways.iter().map(way).collect::<Vec<_>>().join("; else "),
            ]
        };
        page.signals.iter().map(row)
    });
    table(["Engine", "Signal", "Read from"], rows)
}

fn way(take: &Take) -> String {
    let joined = |sign: &str| take.picks().into_iter().map(metric).collect::<Vec<_>>().join(sign);
    match take {
        Take::Value(_) => joined(""),
        Take::Sum(_) => joined(" + "),
        Take::Without(..) => joined(" − "),
        Take::Ratio(..) => joined(" / "),
        Take::Product(..) => joined(" × "),
    }
}

fn metric(pick: &Pick) -> String {
    match (pick.only, pick.label) {
        (Some((label, value)), _) => format!("`{}{{{label}=\"{value}\"}}`", pick.name),
        (None, Some(label)) => format!("label `{label}` of `{}`", pick.name),
        (None, None) => format!("`{}`", pick.name),
    }
}

fn recognition() -> String {
    let rows = PROFILES.into_iter().map(|profile| {
        let signs = profile.signs;
        let headers = signs.headers.iter().map(|(name, value)| match *value {
            "" => (*name).to_owned(),
            value => format!("{name}: {value}"),
        });
        [
            profile.name.to_owned(),
            profile.port.map_or_else(String::new, |port| port.to_string()),
            code(signs.owners),
            code(signs.hosts.iter().map(|(host, _)| host)),
            code(headers),
            code(signs.routes),
            profile.endpoints.iter().map(|api| api.name()).collect::<Vec<_>>().join(" "),
            code(profile.loaded.map(LoadedReport::path)),
        ]
    });
    table(["Profile", "Port", "`owned_by`", "Hosts", "Headers", "Routes", "Endpoints", "Models in memory"], rows)
}

fn control() -> String {
    let has = |profile: &&Profile| !profile.control.members.is_empty() || !profile.control.headers.is_empty();
    let rows = PROFILES.into_iter().filter(has).map(|profile| {
        let priority = profile.priority.map_or_else(String::new, |priority| {
            let first = if priority.lowest_first { "lowest" } else { "highest" };
            format!("{first} first, with `{}`", priority.flag)
        });
        [profile.name.to_owned(), code(profile.control.members), code(profile.control.headers), priority]
    });
    table(["Engine", "Members", "Headers", "Priorities"], rows)
}

fn usage() -> String {
    let rows = PROFILES.into_iter().filter_map(|profile| {
        let usage = profile.usage;
        let has = !usage.cached.is_empty() || !usage.written.is_empty() || profile.heartbeat.is_some();
        has.then(|| {
            let heartbeat = code(profile.heartbeat);
            [profile.name.to_owned(), code(usage.cached), code(usage.written), code(usage.reasoning), heartbeat]
        })
    });
    table(["Profile", "Cached", "Written to the cache", "Reasoning", "Heartbeat"], rows)
}

fn options() -> String {
    let rows = PROFILES.into_iter().flat_map(|profile| {
        profile.flags.iter().map(|flag| {
            let reported =
                flag.reported_by.map_or_else(|| "–".to_owned(), |(path, member)| format!("`{path}`: `{member}`"));
            [profile.name.to_owned(), code([flag.name]), flag.lacks.to_owned(), reported]
        })
    });
    table(["Engine", "Option", "Without it", "Reported by"], rows)
}

fn refusals() -> String {
    let rows = PROFILES.into_iter().flat_map(|profile| {
        profile.refusals.iter().map(|refusal| {
            let statuses = refusal.statuses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let words = refusal.words.replace('|', " / ").replace('&', "…");
            let codes = code(refusal.codes.split('|').filter(|code| !code.is_empty()));
            [profile.name.to_owned(), refusal.verdict.name().to_owned(), statuses, codes, words]
        })
    });
    table(["Profile", "Verdict", "Statuses", "Codes", "Words"], rows)
}
