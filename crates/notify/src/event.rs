//! Events, and their bodies.

use serde_json::{Value, json};

use signalbox_policy::{Format, Topic};
use signalbox_quota::{Amount, Budget, BudgetOwner, Spent, calendar};
use signalbox_types::dollars;

/// An event of which receivers are notified.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The spending of a period reached a share of its budget.
    Budget {
        /// The owner of the budget.
        owner: BudgetOwner,
        /// The budget.
        budget: Budget,
        /// The spending in the period.
        spent: Spent,
        /// The first second of the period, since 1970.
        since: i64,
        /// The share of the budget that was reached.
        threshold: f64,
    },
    /// An objective of a pool or a route changed its state.
    Objective {
        /// `pool` or `route`.
        scope: &'static str,
        /// Name of the pool or route.
        name: String,
        /// Name of the objective.
        objective: String,
        /// `ok`, `missing`, `burning` or `exhausted`.
        state: String,
        /// Burn rate over the last hour: 1 uses up the budget exactly by the end of its window.
        burn_1h: f64,
        /// Rest of the error budget: 1 for all of it, below 0 when overspent.
        budget_left: f64,
    },
    /// A test of the receiver.
    Test,
}

/// Words behind `@` with which Slack, Mattermost and Discord notify many people at once.
const CALLS: [&str; 5] = ["channel", "all", "here", "everyone", "group"];

/// `text` as Slack shows it: names in it may hold what Slack reads as a mention or a link. A mention that needs no such
/// marks is broken by a space without width.
fn slack(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut parts = escaped.split('@');
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let calls = |word: &&str| part.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        shown.push('@');
        if CALLS.iter().any(calls) {
            shown.push('\u{200b}');
        }
        shown.push_str(part);
    }
    shown
}

impl Event {
    /// The kind of event; `None` for a test, which every receiver gets.
    pub(super) fn topic(&self) -> Option<Topic> {
        match self {
            Self::Budget { .. } => Some(Topic::Budget),
            Self::Objective { .. } => Some(Topic::Objective),
            Self::Test => None,
        }
    }

    /// An id that is the same on all gateways that share a budget, so that receivers can drop duplicates. `unix`: seconds since 1970.
    pub(super) fn id(&self, unix: i64) -> String {
        let text = match self {
            Self::Budget { owner, budget, since, threshold, .. } => {
                format!("budget {owner} {} {} {since} {threshold}", budget.amount.unit(), budget.per.name())
            }
            Self::Objective { scope, name, objective, state, .. } => {
                format!("objective {scope} {name} {objective} {state} {unix} {}", fastrand::u64(..))
            }
            Self::Test => format!("test {unix} {}", fastrand::u64(..)),
        };
        format!("msg_{}", &blake3::hash(text.as_bytes()).to_hex()[..24])
    }

    /// The body in this form. `unix`: seconds since 1970.
    pub(super) fn body(&self, format: Format, unix: i64) -> Value {
        if format == Format::Slack {
            return json!({ "text": slack(&self.text()) });
        }
        let (kind, data) = match self {
            Self::Budget { owner, budget, spent, since, threshold } => {
                let (kind, name) = match owner {
                    BudgetOwner::Team(name) => ("team", name),
                    BudgetOwner::Key(id) => ("key", id),
                };
                let (spent, amount) = match budget.amount {
                    Amount::Usd(usd) => (json!(spent.usd), json!(usd)),
                    Amount::Tokens(tokens) => (json!(spent.tokens), json!(tokens)),
                };
                let data = json!({
                    "owner": kind, "name": name, "threshold": threshold, "spent": spent, "budget": amount,
                    "unit": budget.amount.unit(), "per": budget.per.name(),
                    "renewed": calendar::written(budget.per.end(*since)),
                });
                ("budget.threshold".to_owned(), data)
            }
            Self::Objective { scope, name, objective, state, burn_1h, budget_left } => {
                let data = json!({
                    "scope": scope, "name": name, "objective": objective, "state": state, "burn_1h": burn_1h,
                    "budget_left": budget_left,
                });
                (format!("objective.{state}"), data)
            }
            Self::Test => ("test".to_owned(), json!({})),
        };
        json!({ "type": kind, "timestamp": calendar::written(unix), "text": self.text(), "data": data })
    }

    /// True if the event calls for nobody: an objective is met again.
    pub fn is_recovery(&self) -> bool {
        matches!(self, Self::Objective { state, .. } if state == "ok")
    }

    /// The event as a sentence.
    pub fn text(&self) -> String {
        match self {
            Self::Budget { owner, budget, spent, threshold, .. } => {
                let amounts = match budget.amount {
                    Amount::Usd(usd) => format!("{} of {usd} USD", dollars(spent.usd, usd)),
                    Amount::Tokens(tokens) => format!("{} of {tokens} tokens", spent.tokens),
                };
                let left = if *threshold >= 1.0 { "; its requests are refused until it is renewed" } else { "" };
                format!(
                    "Signalbox: the budget of {owner} has reached {:.0} %: {amounts} per {} are spent{left}.",
                    threshold * 100.0,
                    budget.per.name()
                )
            }
            Self::Objective { scope, name, objective, state, burn_1h, budget_left } => {
                let what = match state.as_str() {
                    "ok" => "is met again",
                    "exhausted" => "has used up its error budget",
                    "missing" => "is missed more often than its error budget allows",
                    _ => "is using up its error budget too fast",
                };
                format!(
                    "Signalbox: the objective {objective} of the {scope} '{name}' {what}: burn rate {burn_1h:.1} over the last hour, \
                     {:.0} % of the error budget left.",
                    budget_left * 100.0
                )
            }
            Self::Test => "Signalbox: this is a test of notifications.".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_quota::Period;

    fn body(team: &str, format: Format) -> String {
        let event = Event::Budget {
            owner: BudgetOwner::Team(team.into()),
            budget: Budget { amount: Amount::Usd(1.0), per: Period::Month },
            spent: Spent { usd: 1.0, tokens: 1 },
            since: 0,
            threshold: 1.0,
        };
        event.body(format, 0)["text"].as_str().unwrap_or_default().to_owned()
    }

    #[test]
    fn names_neither_notify_nor_link_in_slack() {
        for (team, shown) in [
            ("<!channel>", "'&lt;!channel&gt;'"),
            ("<https://evil.test|pay>", "'&lt;https://evil.test|pay&gt;'"),
            ("r&d", "'r&amp;d'"),
            ("&lt;", "'&amp;lt;'"),
            ("@Here and ann@example.com", "'@\u{200b}Here and ann@example.com'"),
        ] {
            assert!(body(team, Format::Slack).contains(shown), "{}", body(team, Format::Slack));
            assert!(body(team, Format::Json).contains(&format!("'{team}'")), "{}", body(team, Format::Json));
        }
    }
}
