//! The closed set of variables and functions that conditions are written in: one table, for the checker and for the docs.

use crate::measure::BudgetState;

/// What a value is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// True or false.
    Bool,
    /// A whole number.
    Int,
    /// A number with a point.
    Double,
    /// A text.
    Text,
    /// A measured time in seconds: a number with a point that may also be compared with a [`Kind::Duration`].
    Seconds,
    /// A time as written: `duration("800ms")`.
    Duration,
    /// A list of such values.
    List(Item),
}

/// What the values of a list are.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// True or false.
    Bool,
    /// Whole numbers.
    Int,
    /// Numbers with a point.
    Double,
    /// Texts.
    Text,
}

impl Kind {
    /// In words, with its article.
    pub fn words(self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Int => "a whole number",
            Self::Double => "a number",
            Self::Text => "a text",
            Self::Seconds => "a number of seconds",
            Self::Duration => "a duration",
            Self::List(_) => "a list",
        }
    }

    /// Whether it counts.
    pub(super) fn is_number(self) -> bool {
        matches!(self, Self::Int | Self::Double | Self::Seconds)
    }

    /// As the values of a list, where lists may hold such.
    pub(super) fn item(self) -> Option<Item> {
        match self {
            Self::Bool => Some(Item::Bool),
            Self::Int => Some(Item::Int),
            Self::Double | Self::Seconds => Some(Item::Double),
            Self::Text => Some(Item::Text),
            Self::Duration | Self::List(_) => None,
        }
    }
}

impl From<Item> for Kind {
    fn from(item: Item) -> Self {
        match item {
            Item::Bool => Self::Bool,
            Item::Int => Self::Int,
            Item::Double => Self::Double,
            Item::Text => Self::Text,
        }
    }
}

/// A variable, or a family of them such as the headers.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each one is told in the table below")]
pub enum Variable {
    PromptTokens,
    PromptComplexity,
    PromptLanguage,
    RequestModel,
    RequestClass,
    RequestStream,
    RequestTools,
    RequestImages,
    RequestSchema,
    RequestMaxTokens,
    RequestTurns,
    Headers,
    KeyId,
    KeyTeam,
    KeyTags,
    PoolTtftP95,
    PoolQueue,
    PoolAttainment,
    PoolBurn,
    PoolSlo,
    RouteBurn,
    RouteSlo,
    Time,
}

/// What there is to say of a variable.
#[derive(Copy, Clone, Debug)]
pub struct Entry {
    /// Which one.
    pub variable: Variable,
    /// As it is written; `<name>` stands for a pool's or a route's name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// The least and the most it can be, where it is a number.
    pub range: (f64, f64),
    /// What it says, in a sentence.
    pub about: &'static str,
    /// A condition with it.
    pub example: &'static str,
}

const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
const FROM_0: (f64, f64) = (0.0, f64::INFINITY);
const TO_1: (f64, f64) = (0.0, 1.0);

/// All variables, in the order of the docs.
#[rustfmt::skip]
pub(crate) const VARIABLES: [Entry; 23] = {
    use {Kind::{Bool, Double, Int, List, Seconds, Text}, Variable as V};
    const fn entry(
        variable: V, name: &'static str, kind: Kind, range: (f64, f64), about: &'static str, example: &'static str,
    ) -> Entry {
        Entry { variable, name, kind, range, about, example }
    }
    [
        entry(V::PromptTokens, "prompt.tokens", Int, FROM_0,
            "Tokens of the prompt.", "prompt.tokens > 8000"),
        entry(V::PromptComplexity, "prompt.complexity", Double, TO_1,
            "How hard the prompt looks, from 0 to 1.", "prompt.complexity > 0.6"),
        entry(V::PromptLanguage, "prompt.language", Text, ANY,
            "The prompt's language as a two-letter code (ISO 639-1), or \"\" where it cannot be told.", "prompt.language == \"de\""),
        entry(V::RequestModel, "request.model", Text, ANY,
            "The model the client asked for.", "request.model.startsWith(\"gpt-\")"),
        entry(V::RequestClass, "request.class", Text, ANY,
            "\"interactive\" where somebody waits for the answer, or \"batch\".", "request.class == \"batch\""),
        entry(V::RequestStream, "request.stream", Bool, ANY,
            "Whether the answer is to be streamed.", "!request.stream"),
        entry(V::RequestTools, "request.tools", Int, FROM_0,
            "How many tools the client offers.", "request.tools > 0"),
        entry(V::RequestImages, "request.images", Int, FROM_0,
            "How many images the prompt has.", "request.images > 0"),
        entry(V::RequestSchema, "request.schema", Bool, ANY,
            "Whether the answer is to follow a JSON schema.", "request.schema"),
        entry(V::RequestMaxTokens, "request.max_tokens", Int, FROM_0,
            "The most tokens the client wants of the answer; 0 where it set no limit.", "request.max_tokens > 4000"),
        entry(V::RequestTurns, "request.turns", Int, FROM_0,
            "How many messages of the conversation are the user's.", "request.turns > 10"),
        entry(V::Headers, "headers[\"name\"]", Text, ANY,
            "A header of the request, in any case; \"\" where it was not sent. `\"name\" in headers` tells the two apart.", "headers[\"x-tier\"] == \"gold\""),
        entry(V::KeyId, "key.id", Text, ANY,
            "The caller's key by its `id`; \"\" where there are no keys.", "key.id == \"web\""),
        entry(V::KeyTeam, "key.team", Text, ANY,
            "The team of the caller's key; \"\" where it has none.", "key.team == \"search\""),
        entry(V::KeyTags, "key.tags", List(Item::Text), ANY,
            "The tags of the caller's key.", "\"internal\" in key.tags"),
        entry(V::PoolTtftP95, "pool.<name>.ttft_p95", Seconds, FROM_0,
            "95th percentile of a pool's time to the first token, lately, in seconds; 0 while nothing was measured.", "pool.small.ttft_p95 > duration(\"800ms\")"),
        entry(V::PoolQueue, "pool.<name>.queue", Int, FROM_0,
            "Requests that wait for room in a pool.", "pool.small.queue > 20"),
        entry(V::PoolAttainment, "pool.<name>.attainment", Double, TO_1,
            "Share of a pool's requests, lately, that kept its objectives; 1 while nothing was measured.", "pool.small.attainment < 0.95"),
        entry(V::PoolBurn, "pool.<name>.burn", Double, FROM_0,
            "How fast a pool uses up its error budgets, over the last five minutes: the highest burn rate of its objectives. 1 is just what is allowed; 0 where it has no objectives, or fewer than five requests missed one.", "pool.small.burn > 2.0"),
        entry(V::PoolSlo, "pool.<name>.slo", Text, ANY,
            "How a pool's objectives stand, the worst of them: \"ok\", \"burning\" or \"exhausted\"; \"ok\" where it has none.", "pool.small.slo != \"ok\""),
        entry(V::RouteBurn, "route.<name>.burn", Double, FROM_0,
            "The same for a route and its own objectives, by the name it has in headers and metrics: its `name`, else the model's, with a number where it has several (`auto.1`, `auto.2`).", "route.chat.burn > 2.0"),
        entry(V::RouteSlo, "route.<name>.slo", Text, ANY,
            "How a route's objectives stand.", "route[\"auto.2\"].slo == \"exhausted\""),
        entry(V::Time, "time.in(\"…\", \"zone\")", Bool, ANY,
            "Whether it is now between two times of day, on these days of the week, in a zone by its IANA name. A range over midnight belongs to the day it begins on.", "time.in(\"mon-fri 22:00-06:00\", \"Europe/Berlin\")"),
    ]
};

impl Variable {
    /// What there is to say of it.
    pub fn entry(self) -> &'static Entry {
        // The table has them in the order of the enum; a test sees to it.
        &VARIABLES[self as usize]
    }

    /// As it is written.
    pub fn name(self) -> &'static str {
        self.entry().name
    }
}

/// The first words of variables.
pub(super) const GROUPS: [&str; 7] = ["prompt", "request", "headers", "key", "pool", "route", "time"];

/// What a request's class can be.
pub(super) const CLASSES: [&str; 2] = ["interactive", "batch"];

/// How objectives can stand.
pub(super) const STATES: [&str; 3] = {
    let [ok, burning, exhausted] = BudgetState::ALL;
    [ok.label(), burning.label(), exhausted.label()]
};

/// What is told of a function where it is called wrongly.
pub(crate) const FUNCTIONS: [(&str, &str); 16] = [
    ("size", "size(request.model)"),
    ("startsWith", "request.model.startsWith(\"gpt-\")"),
    ("endsWith", "request.model.endsWith(\"-mini\")"),
    ("contains", "request.model.contains(\"code\")"),
    ("matches", "request.model.matches(\"^gpt-[45]\")"),
    ("duration", "duration(\"800ms\")"),
    ("double", "double(prompt.tokens)"),
    ("int", "int(pool.small.burn)"),
    ("string", "string(request.tools)"),
    ("time.in", "time.in(\"22:00-06:00\", \"Europe/Berlin\")"),
    ("exists", "key.tags.exists(tag, tag.startsWith(\"eu-\"))"),
    ("all", "key.tags.all(tag, tag != \"slow\")"),
    ("exists_one", "key.tags.exists_one(tag, tag.startsWith(\"eu-\"))"),
    ("filter", "key.tags.filter(tag, tag != \"slow\")"),
    ("map", "key.tags.map(tag, size(tag))"),
    ("has", "\"x-tier\" in headers"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (place, entry) in VARIABLES.iter().enumerate() {
            assert_eq!(entry.variable as usize, place, "{}", entry.name);
            assert!(GROUPS.iter().any(|group| entry.name.starts_with(group)), "{}", entry.name);
        }
    }
}
