//! Accounting: limits, budgets and usage of callers, error budgets of pools and routes, goodput, and the budget of background requests.
//!
//! [`Accounting`] counts each finished request once in each of them.

#![forbid(unsafe_code)]

mod background_budget;
mod caller_reservation;
mod caller_times;
mod callers;
mod demand;
mod distributed;
mod error_budgets;
mod goodput;
mod key_state;
mod limit_headers;
mod prefix_stability;
mod refusal;
mod settle;
mod usage_record;
mod usage_report;
mod usage_store;

#[cfg(any(test, feature = "fuzzing"))]
pub use self::usage_store::fuzz_usage;
pub use self::{
    background_budget::{BackgroundBudget, BackgroundPermit},
    caller_reservation::{CallerReservation, CostBounds},
    callers::Caller,
    demand::{Demand, DemandInput, most_expensive},
    refusal::OVER_BUDGET,
    settle::FinishedRequest,
};
pub use self::{
    callers::Callers,
    error_budgets::ErrorBudgets,
    prefix_stability::{PrefixReport, PrefixStability},
    settle::Accounting,
    usage_report::{BudgetReport, KeyReport, TeamReport},
    usage_store::UsageStoreError,
};
