//! Builds the word lists of the guards ahead of their first use.

use super::{compare::compare, contrasts, lexicon, traits::Traits};

/// Builds the word lists, which the first comparison would build otherwise.
pub fn warm_up(text: &str) {
    lexicon::warm_up();
    contrasts::warm_up();
    // Their lists are within functions, and this text has a word for each.
    let text = Traits::of(&format!("{text} It was driven 5 km."));
    compare(&text, &text);
}

/// True if the word lists are built.
pub fn is_warm() -> bool {
    lexicon::is_warm() && contrasts::is_warm()
}
