//! Ids of new responses and conversations.

use signalbox_cache::responses::StateId;

/// Part after `resp_` of the id of a new response, after which its items are named.
pub(crate) fn new_state_root() -> String {
    let mut random = [0; 15];
    if getrandom::fill(&mut random).is_err() {
        // Without a source of randomness ids stay distinct, though not secret.
        random.fill_with(|| fastrand::u8(..));
    }
    StateId::new_root(random)
}
