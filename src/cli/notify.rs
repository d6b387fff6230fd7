//! `signalbox notify`: sends a test to every receiver of a policy's notifications.

use std::{io, path::Path, process::ExitCode};

use super::{loaded_texts::LoadedTexts, output};
use signalbox_notify::{Event, deliver};
use signalbox_server::PolicyText;
use signalbox_upstream::Client;

pub(super) fn notify(file: &Path) -> io::Result<ExitCode> {
    let policy = match LoadedTexts::default().load(file, PolicyText::File) {
        Ok(policy) => policy,
        Err(problems) => {
            output::complain(&problems);
            return Ok(ExitCode::FAILURE);
        }
    };
    let Some(notifications) = policy.notifications else {
        output::complain(
            "signalbox: the policy has no notifications: add `notifications: { to: [{ webhook: \"${WEBHOOK}\" }] }`\n",
        );
        return Ok(ExitCode::FAILURE);
    };
    let client = Client::new(policy.timeouts.connect).map_err(io::Error::other)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut failed = false;
    for receiver in &notifications.receivers {
        let result = runtime.block_on(deliver(receiver, &client, &Event::Test));
        failed |= result.is_err();
        let said = result.map_or_else(|error| format!("not delivered: {error}"), |()| "delivered".to_owned());
        output::print(&format!("{}: {said}\n", receiver.host()))?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
