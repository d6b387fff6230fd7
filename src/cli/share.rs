//! Shares on the command line, written as in a policy: `25%` or `0.25`.

use signalbox_config::{Scalar as _, Share};

/// Parses a share.
pub(super) fn share(text: &str) -> Result<f64, String> {
    Share::read(text).map(|Share(share)| share).map_err(|mistake| match mistake.help {
        Some(help) => format!("{}: {help}", mistake.message),
        None => mistake.message.into_owned(),
    })
}
