//! The choice between more requests in time and a shorter tail, under overload.

/// Purpose of a pool's wait queue while its engines cannot answer every request in time.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overload {
    /// As many requests in time as possible: one that can no longer be in time lets others go first.
    #[default]
    Attainment,
    /// No request much later than others: each keeps its place.
    Tail,
}

impl Overload {
    /// All choices, in the order in which messages list them.
    pub const ALL: [Self; 2] = [Self::Attainment, Self::Tail];

    /// The name used in policies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Attainment => "attainment",
            Self::Tail => "tail",
        }
    }
}
