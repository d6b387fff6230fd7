//! Detects events: compares the state of budgets and objectives with what was sent before. Pure: time is an argument.

use std::collections::{HashMap, HashSet};

use super::event::Event;
use signalbox_quota::{Amount, Budget, BudgetOwner, Spent};

/// Seconds that an objective must be met again before that is sent, so that one at its limit does not send again and again.
const STEADY: i64 = 300;

/// State of a budget.
#[derive(Clone, Debug)]
pub struct BudgetState {
    /// Its owner.
    pub owner: BudgetOwner,
    /// The budget.
    pub budget: Budget,
    /// The spending in the current period.
    pub spent: Spent,
    /// The first second of that period, since 1970.
    pub since: i64,
}

/// State of an objective.
#[derive(Clone, Debug)]
pub struct ObjectiveState {
    /// `pool` or `route`.
    pub scope: &'static str,
    /// Name of the pool or route.
    pub name: String,
    /// Name of the objective.
    pub objective: String,
    /// `ok`, `missing`, `burning` or `exhausted`.
    pub state: String,
    /// Burn rate over the last hour.
    pub burn_1h: f64,
    /// Rest of the error budget.
    pub budget_left: f64,
}

/// Events that were sent before.
#[derive(Debug, Default)]
pub struct Watch {
    /// By owner: the period, and the highest threshold that was reached in it.
    budgets: HashMap<BudgetOwner, (i64, f64)>,
    /// By scope, name and objective.
    objectives: HashMap<(&'static str, String, String), Sent>,
    /// False until the first look.
    started: bool,
}

/// State of an objective that was sent last, and the time since which it is met again.
#[derive(Debug)]
struct Sent {
    state: String,
    met_since: Option<i64>,
}

impl Watch {
    /// Returns the events since the last look. At the first look, thresholds that are reached already were sent before a restart, and are not
    /// sent again. Of several thresholds reached at once, only the highest is sent. `unix`: seconds since 1970.
    pub fn look(
        &mut self,
        thresholds: &[f64],
        budgets: Vec<BudgetState>,
        objectives: Vec<ObjectiveState>,
        unix: i64,
    ) -> Vec<Event> {
        let is_first = !std::mem::replace(&mut self.started, true);
        let owners: HashSet<_> = budgets.iter().map(|state| &state.owner).collect();
        self.budgets.retain(|owner, _| owners.contains(owner));
        drop(owners);
        let mut events: Vec<_> =
            budgets.into_iter().filter_map(|state| self.budget(thresholds, state, is_first)).collect();
        let known: HashSet<_> = objectives.iter().map(|it| (it.scope, &*it.name, &*it.objective)).collect();
        self.objectives.retain(|(scope, name, objective), _| known.contains(&(*scope, &**name, &**objective)));
        drop(known);
        events.extend(objectives.into_iter().filter_map(|state| self.objective(state, unix)));
        events
    }

    fn budget(&mut self, thresholds: &[f64], state: BudgetState, is_first: bool) -> Option<Event> {
        let BudgetState { owner, budget, spent, since } = state;
        let share = match budget.amount {
            Amount::Usd(usd) if usd > 0.0 => spent.usd / usd,
            Amount::Tokens(tokens) if tokens > 0 => spent.tokens as f64 / tokens as f64,
            _ => 0.0,
        };
        let reached = thresholds.iter().copied().filter(|threshold| *threshold <= share).fold(0.0, f64::max);
        let last = self.budgets.entry(owner.clone()).or_insert((since, 0.0));
        if last.0 != since {
            *last = (since, 0.0);
        }
        // A larger budget lowers the share; a threshold is sent again only when a new period has begun.
        if reached <= last.1 {
            return None;
        }
        last.1 = reached;
        (!is_first).then_some(Event::Budget { owner, budget, spent, since, threshold: reached })
    }

    fn objective(&mut self, now: ObjectiveState, unix: i64) -> Option<Event> {
        let key = (now.scope, now.name.clone(), now.objective.clone());
        let sent = self.objectives.entry(key).or_insert_with(|| Sent { state: "ok".to_owned(), met_since: None });
        if now.state == "ok" && sent.state != "ok" {
            let since = *sent.met_since.get_or_insert(unix);
            if unix - since < STEADY {
                return None;
            }
        } else {
            sent.met_since = None;
        }
        if sent.state == now.state {
            return None;
        }
        sent.state.clone_from(&now.state);
        let ObjectiveState { scope, name, objective, state, burn_1h, budget_left } = now;
        Some(Event::Objective { scope, name, objective, state, burn_1h, budget_left })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_quota::Period;

    const THRESHOLDS: [f64; 3] = [0.5, 0.8, 1.0];

    fn spent(usd: f64, since: i64) -> Vec<BudgetState> {
        let budget = Budget { amount: Amount::Usd(10.0), per: Period::Day };
        let spent = Spent { tokens: 0, usd };
        vec![BudgetState { owner: BudgetOwner::Team("search".into()), budget, spent, since }]
    }

    fn reached(events: &[Event]) -> Vec<f64> {
        let threshold = |event: &Event| match event {
            Event::Budget { threshold, .. } => Some(*threshold),
            _ => None,
        };
        events.iter().filter_map(threshold).collect()
    }

    #[test]
    fn each_threshold_is_sent_once_in_a_period() {
        let mut watch = Watch::default();
        let mut look = |usd, since| reached(&watch.look(&THRESHOLDS, spent(usd, since), Vec::new(), 0));
        assert!(look(0.0, 0).is_empty());
        assert_eq!(look(5.0, 0), [0.5]);
        assert!(look(7.9, 0).is_empty());
        assert_eq!(look(12.0, 0), [1.0], "only the highest");
        assert!(look(13.0, 0).is_empty());
        assert!(look(0.0, 86_400).is_empty(), "a new period");
        assert_eq!(look(8.0, 86_400), [0.8]);
    }

    #[test]
    fn thresholds_reached_before_a_restart_are_not_sent_again() {
        let mut watch = Watch::default();
        let mut look = |usd| reached(&watch.look(&THRESHOLDS, spent(usd, 0), Vec::new(), 0));
        assert!(look(6.0).is_empty());
        assert_eq!(look(8.5), [0.8]);
    }

    #[test]
    fn an_objective_is_sent_when_its_state_changes_and_when_it_stays_met() {
        let mut watch = Watch::default();
        let mut look = |state: &str, unix| {
            let state = ObjectiveState {
                scope: "pool",
                name: "small".into(),
                objective: "ttft".into(),
                state: state.into(),
                burn_1h: 15.0,
                budget_left: 0.4,
            };
            let events = watch.look(&THRESHOLDS, Vec::new(), vec![state], unix);
            events.iter().map(Event::text).collect::<Vec<_>>()
        };
        assert!(look("ok", 0).is_empty());
        assert!(look("burning", 10)[0].contains("using up its error budget too fast"));
        assert!(look("burning", 20).is_empty());
        assert!(look("ok", 30).is_empty() && look("burning", 40).is_empty(), "it flaps");
        assert!(look("exhausted", 50)[0].contains("used up"));
        assert!(look("ok", 60).is_empty());
        assert!(look("ok", 359).is_empty());
        assert!(look("ok", 360)[0].contains("is met again"));
        assert!(look("ok", 400).is_empty());
    }
}
