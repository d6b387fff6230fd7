//! Notifications to webhooks: budgets that are nearly spent, and objectives that are missed or met again.
//!
//! [`Watch`] compares the state of budgets and objectives with what was sent before, and [`Sender`] delivers its events in the background.

#![forbid(unsafe_code)]

mod deliver;
mod event;
mod watch;

pub use self::{
    deliver::{DeliveryError, Sender, deliver},
    event::Event,
    watch::{BudgetState, ObjectiveState, Watch},
};
