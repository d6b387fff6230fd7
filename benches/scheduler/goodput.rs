//! Goodput: the highest load at which 90 % of the requests are within the SLO, found by bisection.

use crate::{
    plays::play,
    policies::Policy,
    scenario::{Scenario, Traces, Traffic},
};

/// Required share of requests within the SLO.
const ENOUGH: f64 = 0.9;

/// Bisection steps on a logarithmic scale: a range of 1:16 ends within 4.5 %.
const STEPS: u32 = 6;

/// Traffic with a variable load.
pub(crate) struct Course {
    pub(crate) name: &'static str,
    /// Unit of the load.
    pub(crate) unit: &'static str,
    traffic: fn(f64) -> Traffic,
    least: f64,
    most: f64,
}

/// All courses.
pub(crate) const COURSES: &[Course] = &[
    Course { name: "goodput, mooncake", unit: "×", traffic: Traffic::Mooncake, least: 0.125, most: 2.0 },
    Course { name: "goodput, conversations", unit: "/s", traffic: Traffic::Conversations, least: 1.5, most: 24.0 },
    Course { name: "goodput, azure conv", unit: "×", traffic: Traffic::AzureConv, least: 1.0, most: 16.0 },
    Course { name: "goodput, azure code", unit: "×", traffic: Traffic::AzureCode, least: 0.25, most: 4.0 },
];

/// Returns the highest load that one seed sustains, or the lowest load tried if even that is too much.
pub(crate) fn goodput(course: &Course, policy: &Policy, traces: &Traces, seed: u64) -> Option<f64> {
    let (mut carried, mut too_much) = (course.least, course.most);
    for _ in 0..STEPS {
        let middle = (carried * too_much).sqrt();
        let scenario = Scenario::plain(course.name, (course.traffic)(middle));
        if play(&scenario, policy, traces, seed)?.attainment >= ENOUGH {
            carried = middle;
        } else {
            too_much = middle;
        }
    }
    Some(carried)
}
