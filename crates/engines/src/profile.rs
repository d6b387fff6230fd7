//! The form of a profile: everything that is peculiar to one engine or provider.

use super::{MetricsPage, Verdict};
use signalbox_types::EngineApi;

/// Facts about one engine or provider.
#[derive(Copy, Clone, Debug)]
pub struct Profile {
    /// Its name in documents.
    pub name: &'static str,
    /// Signs by which it is recognised.
    pub signs: Signs,
    /// The port that it listens on by default, for engines that run on a machine of their operator.
    pub port: Option<u16>,
    /// Its metrics page, if it has one that says what it is doing.
    pub metrics: Option<MetricsPage>,
    /// Place of the slots and the context that it was started with, if not in its list of models.
    pub start: StartReport,
    /// Place of its report of the models in memory, if it loads them on demand.
    pub loaded: Option<LoadedReport>,
    /// Endpoints that it has, of those that engines are probed for. Whether one serves them depends on its models.
    pub endpoints: &'static [EngineApi],
    /// Wordings and codes of its refusals that the general rules do not cover, or would read otherwise.
    pub refusals: &'static [Refusal],
    /// Words in requests that steer the engine itself, which are its operator's to say.
    pub control: ControlWords,
    /// Its priorities, if it has any.
    pub priority: Option<Priority>,
    /// Members of its `usage` beside the counts that all have.
    pub usage: UsageForm,
    /// Text that it writes into a stream while nothing is generated, if it does.
    pub heartbeat: Option<&'static str>,
    /// Options that it should be started with.
    pub flags: &'static [Flag],
}

impl Profile {
    /// A profile of which only the name is known; a constant to fill in from.
    pub(crate) const UNKNOWN: Self = Self {
        name: "",
        signs: Signs { owners: &[], hosts: &[], headers: &[], routes: &[] },
        port: None,
        metrics: None,
        start: StartReport::Models,
        loaded: None,
        endpoints: &[],
        refusals: &[],
        control: ControlWords { members: &[], headers: &[] },
        priority: None,
        usage: UsageForm { cached: &[], written: &[], reasoning: &[] },
        heartbeat: None,
        flags: &[],
    };
}

/// Signs by which an engine or a provider is recognised.
#[derive(Copy, Clone, Debug)]
pub struct Signs {
    /// Values of `owned_by` in its list of models.
    pub owners: &'static [&'static str],
    /// Hosts of its API, also as ends of longer names, each with OpenTelemetry's name of the provider.
    pub hosts: &'static [(&'static str, &'static str)],
    /// Headers of its answers; with a value, if only that value is a sign.
    pub headers: &'static [(&'static str, &'static str)],
    /// Paths of its server that others do not have: its version, its state.
    pub routes: &'static [&'static str],
}

/// Place of an engine's start parameters.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum StartReport {
    /// In the list of models.
    Models,
    /// In `/props` of llama.cpp.
    Props,
}

/// Place of the models in memory.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum LoadedReport {
    /// `/api/ps`, as of Ollama.
    ApiPs,
    /// `/running`, as of llama-swap.
    Running,
    /// `status` of the models in `/models`, as of llama.cpp's router.
    Models,
}

impl LoadedReport {
    /// The path on the engine's server.
    pub const fn path(self) -> &'static str {
        match self {
            Self::ApiPs => "/api/ps",
            Self::Running => "/running",
            Self::Models => "/models",
        }
    }
}

/// Words in requests that steer the engine.
#[derive(Copy, Clone, Debug)]
pub struct ControlWords {
    /// Members of the body.
    pub members: &'static [&'static str],
    /// Headers, in lower case; a `*` at the end stands for the rest of the name.
    pub headers: &'static [&'static str],
}

/// An engine's priorities.
#[derive(Copy, Clone, Debug)]
pub struct Priority {
    /// Member of the body that has it.
    pub member: &'static str,
    /// True if the lowest number is served first.
    pub lowest_first: bool,
    /// The option without which the engine ignores or refuses it.
    pub flag: &'static str,
}

/// Members of a `usage` object, as paths separated by `.`.
#[derive(Copy, Clone, Debug)]
pub struct UsageForm {
    /// Prompt tokens found in the prefix cache.
    pub cached: &'static [&'static str],
    /// Prompt tokens written to it.
    pub written: &'static [&'static str],
    /// Tokens of the answer that are reasoning.
    pub reasoning: &'static [&'static str],
}

/// An option that an engine should be started with.
#[derive(Copy, Clone, Debug)]
pub struct Flag {
    /// The option.
    pub name: &'static str,
    /// The effect of its absence.
    pub lacks: &'static str,
    /// Path on the engine's server, and the member of the answer that tells whether it is set; `None` if the engine does
    /// not tell.
    pub reported_by: Option<(&'static str, &'static str)>,
}

/// A kind of refusal, recognised by its code or its words.
#[derive(Copy, Clone, Debug)]
pub struct Refusal {
    /// Verdict on it.
    pub verdict: Verdict,
    /// Statuses it comes with; empty for any.
    pub statuses: &'static [u16],
    /// Codes, of which the error has one, in lower-case letters and digits, separated by `|`; empty for any.
    pub codes: &'static str,
    /// Words of its text: groups separated by `&`, all of which it has; alternatives within one by `|`. Empty for any.
    pub words: &'static str,
}

impl Refusal {
    /// A refusal with one of `codes`.
    pub(crate) const fn coded(verdict: Verdict, codes: &'static str) -> Self {
        Self { verdict, statuses: &[], codes, words: "" }
    }

    /// A refusal with `words`.
    pub(crate) const fn said(verdict: Verdict, words: &'static str) -> Self {
        Self { verdict, statuses: &[], codes: "", words }
    }

    /// The same, with one of `statuses` only.
    pub(crate) const fn at(self, statuses: &'static [u16]) -> Self {
        Self { statuses, ..self }
    }
}
