//! Compiles the receivers of notifications.

use super::reader::Reader;
use crate::{Notifications, Receiver};
use signalbox_config::{Format, Located, Problem, Share, Topic, notifications as raw, read_url};

/// The default thresholds of budgets.
const THRESHOLDS: [f64; 3] = [0.5, 0.8, 1.0];

impl Reader<'_> {
    pub(super) fn notifications(&mut self, raw: &raw::Notifications) -> Notifications {
        if raw.to.value.is_empty() {
            self.report(
                Problem::at(raw.to.at, "notifications without a receiver")
                    .help("add one: `to: [{ webhook: \"${WEBHOOK}\" }]`, or remove `notifications`"),
            );
        }
        let receivers = raw.to.value.iter().filter_map(|raw| self.receiver(raw)).collect();
        Notifications { receivers, thresholds: self.thresholds(raw.budgets.as_ref()) }
    }

    fn thresholds(&mut self, raw: Option<&Located<Vec<signalbox_config::Field<Share>>>>) -> Vec<f64> {
        let Some(raw) = raw else { return THRESHOLDS.to_vec() };
        let mut thresholds = Vec::with_capacity(raw.value.len());
        for field in &raw.value {
            let Some(Share(share)) = self.read(field) else { continue };
            if share <= 0.0 {
                self.report(
                    Problem::at(field.at(), "a threshold of nothing is always reached").help("write one such as `80%`"),
                );
            }
            thresholds.push(share);
        }
        thresholds.sort_by(f64::total_cmp);
        thresholds.dedup();
        thresholds
    }

    fn receiver(&mut self, raw: &raw::Receiver) -> Option<Receiver> {
        let url = self.secret(&raw.webhook);
        let secret = raw.secret.as_ref().map(|source| self.secret(source));
        let format = self.or(raw.format.as_ref(), Format::Json);
        let topics = match &raw.events {
            None => vec![Topic::Budget, Topic::Objective],
            Some(fields) => fields.iter().filter_map(|field| self.read(field)).collect(),
        };
        let url = url?;
        if let Err(mistake) = read_url(url.expose()) {
            // The mistake may quote the URL, which is a secret.
            drop(mistake);
            self.report(
                Problem::at(raw.webhook.at(), "not the URL of a webhook")
                    .help("it begins with `https://` (or `http://`) and a host"),
            );
        }
        Some(Receiver { url, format, secret: secret.unwrap_or_default(), topics })
    }
}
