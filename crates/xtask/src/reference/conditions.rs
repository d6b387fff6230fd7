//! Generates the reference of conditions from the table of variables and the list of functions.

use super::markdown::table;
use signalbox_policy::condition::{FUNCTIONS, Item, Kind, VARIABLES};

/// The meaning of each function, by its name.
const MEANINGS: [(&str, &str); 15] = [
    ("size", "The length of a text in characters, or of a list."),
    ("startsWith", "True if a text begins with another."),
    ("endsWith", "True if a text ends with another."),
    ("contains", "True if a text contains another."),
    ("matches", "True if a regular expression matches a text."),
    ("duration", "A time with its unit, to compare measured times with."),
    ("double", "A whole number as a number with a fraction."),
    ("int", "A number without its fraction."),
    ("string", "A number as text."),
    ("time.in", "True between two times of day, on the named days of the week, in a time zone."),
    ("exists", "True if the condition holds for at least one element of a list."),
    ("all", "True if the condition holds for every element of a list."),
    ("exists_one", "True if the condition holds for exactly one element of a list."),
    ("filter", "The elements of a list for which the condition holds."),
    ("map", "A list of what an expression makes of each element."),
];

/// The generated part of its page.
pub(super) fn text() -> String {
    let variables = VARIABLES.map(|entry| {
        let kind = match entry.kind {
            Kind::Bool => "bool",
            Kind::Int => "int",
            Kind::Double => "double",
            Kind::Text => "string",
            Kind::Seconds => "double (seconds)",
            Kind::Duration => "duration",
            Kind::List(Item::Text) => "list of strings",
            Kind::List(_) => "list",
        };
        [format!("`{}`", entry.name), kind.to_owned(), entry.about.to_owned(), format!("`{}`", entry.example)]
    });
    // `has` is in the list for its error message alone.
    let functions = FUNCTIONS.iter().filter(|(name, _)| *name != "has").map(|(name, example)| {
        let meaning = MEANINGS.iter().find(|(known, _)| known == name);
        let (_, meaning) = meaning.unwrap_or_else(|| panic!("{name} has no meaning here"));
        [format!("`{name}`"), (*meaning).to_owned(), format!("`{example}`")]
    });
    let variables = table(["Variable", "Type", "Meaning", "Example"], variables);
    let functions = table(["Function", "Meaning", "Example"], functions);
    format!("## Variables\n\n{variables}\n## Functions\n\n{functions}")
}
