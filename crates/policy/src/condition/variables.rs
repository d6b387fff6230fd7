//! The closed set of variables and functions of conditions: one table for the checker and the documentation.

use signalbox_measure::BudgetState;

/// The type of a value.
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
    /// A duration literal: `duration("800ms")`.
    Duration,
    /// A list of values.
    List(Item),
}

/// The type of a list's elements.
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
    /// The name of the type with its article, for messages.
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

    /// True if it is a number.
    pub(super) fn is_number(self) -> bool {
        matches!(self, Self::Int | Self::Double | Self::Seconds)
    }

    /// The type as an element of a list, if lists may contain it.
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

/// A variable, or a family of variables such as the headers.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each one is documented in the table below")]
pub enum Variable {
    PromptTokens,
    PromptComplexity,
    PromptLanguage,
    RequestModel,
    RequestClass,
    RequestStream,
    RequestTools,
    RequestImages,
    RequestAudio,
    RequestVideo,
    RequestFiles,
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

/// The documentation of a variable.
#[derive(Copy, Clone, Debug)]
pub struct Entry {
    /// The variable.
    pub variable: Variable,
    /// Its notation; `<name>` stands for the name of a pool or route.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// The least and the greatest value, for numbers.
    pub range: (f64, f64),
    /// A description in one sentence.
    pub about: &'static str,
    /// An example condition.
    pub example: &'static str,
}

const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
const FROM_0: (f64, f64) = (0.0, f64::INFINITY);
const TO_1: (f64, f64) = (0.0, 1.0);

/// All variables, in the order of the documentation.
#[rustfmt::skip]
pub const VARIABLES: [Entry; 26] = {
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
            "Estimated complexity of the prompt, from 0 to 1.", "prompt.complexity > 0.6"),
        entry(V::PromptLanguage, "prompt.language", Text, ANY,
            "The prompt's language as a two-letter code (ISO 639-1), or \"\" if unknown.", "prompt.language == \"de\""),
        entry(V::RequestModel, "request.model", Text, ANY,
            "The model that the client requested.", "request.model.startsWith(\"gpt-\")"),
        entry(V::RequestClass, "request.class", Text, ANY,
            "\"interactive\" if a person waits for the answer, otherwise \"batch\".", "request.class == \"batch\""),
        entry(V::RequestStream, "request.stream", Bool, ANY,
            "True if the answer is to be streamed.", "!request.stream"),
        entry(V::RequestTools, "request.tools", Int, FROM_0,
            "Number of tools that the client offers.", "request.tools > 0"),
        entry(V::RequestImages, "request.images", Int, FROM_0,
            "Number of images in the request, wherever they are: in messages of any role, in the results of tools, by address or by id.", "request.images > 0"),
        entry(V::RequestAudio, "request.audio", Int, FROM_0,
            "Number of sounds in the request, wherever they are.", "request.audio > 0"),
        entry(V::RequestVideo, "request.video", Int, FROM_0,
            "Number of videos in the request, wherever they are.", "request.video > 0"),
        entry(V::RequestFiles, "request.files", Int, FROM_0,
            "Number of documents and other files in the request, wherever they are.", "request.files > 0"),
        entry(V::RequestSchema, "request.schema", Bool, ANY,
            "True if the answer must follow a JSON schema.", "request.schema"),
        entry(V::RequestMaxTokens, "request.max_tokens", Int, FROM_0,
            "The client's limit of answer tokens; 0 if it set none.", "request.max_tokens > 4000"),
        entry(V::RequestTurns, "request.turns", Int, FROM_0,
            "Number of user messages in the conversation.", "request.turns > 10"),
        entry(V::Headers, "headers[\"name\"]", Text, ANY,
            "A header of the request, in any case; \"\" if it was not sent. `\"name\" in headers` distinguishes an empty header from a missing one.", "headers[\"x-tier\"] == \"gold\""),
        entry(V::KeyId, "key.id", Text, ANY,
            "The `id` of the caller's key; \"\" if there are no keys.", "key.id == \"web\""),
        entry(V::KeyTeam, "key.team", Text, ANY,
            "The team of the caller's key; \"\" if it has none.", "key.team == \"search\""),
        entry(V::KeyTags, "key.tags", List(Item::Text), ANY,
            "The tags of the caller's key.", "\"internal\" in key.tags"),
        entry(V::PoolTtftP95, "pool.<name>.ttft_p95", Seconds, FROM_0,
            "Recent 95th percentile of a pool's time to the first token, in seconds; 0 without measurements.", "pool.small.ttft_p95 > duration(\"800ms\")"),
        entry(V::PoolQueue, "pool.<name>.queue", Int, FROM_0,
            "Number of requests that wait for capacity in a pool.", "pool.small.queue > 20"),
        entry(V::PoolAttainment, "pool.<name>.attainment", Double, TO_1,
            "Recent share of a pool's requests that met its objectives; 1 without measurements.", "pool.small.attainment < 0.95"),
        entry(V::PoolBurn, "pool.<name>.burn", Double, FROM_0,
            "The highest burn rate of a pool's objectives over the last five minutes: the speed at which their error budgets are used. 1 uses them exactly; 0 if it has no objectives, or if fewer than five requests missed one.", "pool.small.burn > 2.0"),
        entry(V::PoolSlo, "pool.<name>.slo", Text, ANY,
            "The worst state of a pool's objectives: \"ok\", \"missing\", \"burning\" or \"exhausted\"; \"ok\" if it has none.", "pool.small.slo == \"burning\""),
        entry(V::RouteBurn, "route.<name>.burn", Double, FROM_0,
            "The highest burn rate of a route's own objectives. The route's name is that in headers and metrics: its `name`, or the model's name, with a number if the model has several routes (`auto.1`, `auto.2`).", "route.chat.burn > 2.0"),
        entry(V::RouteSlo, "route.<name>.slo", Text, ANY,
            "The worst state of a route's objectives.", "route[\"auto.2\"].slo == \"exhausted\""),
        entry(V::Time, "time.in(\"…\", \"zone\")", Bool, ANY,
            "True between two times of day, on some days of the week, in an IANA time zone. A range over midnight belongs to the day on which it begins.", "time.in(\"mon-fri 22:00-06:00\", \"Europe/Berlin\")"),
    ]
};

impl Variable {
    /// Its documentation.
    pub fn entry(self) -> &'static Entry {
        // The table is in the order of the enum, which a test checks.
        &VARIABLES[self as usize]
    }

    /// Its notation.
    pub fn name(self) -> &'static str {
        self.entry().name
    }
}

/// The first segments of variables.
pub(super) const GROUPS: [&str; 7] = ["prompt", "request", "headers", "key", "pool", "route", "time"];

/// The values of a request's class.
pub(super) const CLASSES: [&str; 2] = ["interactive", "batch"];

/// Names that conditions use for error-budget states: ok, missing, burning, exhausted.
pub(super) const STATES: [&str; 4] = {
    let [ok, missing, burning, exhausted] = BudgetState::ALL;
    [ok.label(), missing.label(), burning.label(), exhausted.label()]
};

/// The functions with examples, for messages about wrong calls.
pub const FUNCTIONS: [(&str, &str); 16] = [
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
