//! Rows of both lengths.

use super::{
    interval::{FINE, Interval},
    open::Open,
    table::Table,
};

/// Length of a long interval, in seconds.
pub(super) const COARSE_S: u32 = 300;

/// An hour in short intervals and three days in long ones.
pub(super) struct Figures {
    pub(super) fine: Table,
    pub(super) coarse: Table,
    /// The long interval that is not complete.
    open: Open,
}

impl Figures {
    pub(super) fn new() -> Self {
        let fine_s = FINE.as_secs() as u32;
        Self { fine: Table::new(fine_s, 720), coarse: Table::new(COARSE_S, 864), open: Open::default() }
    }

    /// Adds an interval that ended at `end`, in Unix seconds.
    pub(super) fn push(&mut self, end: u32, interval: Interval) {
        let number = end.saturating_sub(1) / COARSE_S;
        if let Some((complete, row)) = self.open.close_before(number) {
            self.coarse.push((complete + 1) * COARSE_S, row);
        }
        self.fine.push(end, interval.row());
        self.open.add(number, interval);
    }

    /// Rows of the long intervals with the incomplete one, which ends with the last short interval.
    pub(super) fn coarse(&self) -> Table {
        let mut table = self.coarse.clone();
        if let Some(end) = self.fine.last() {
            table.push(end, self.open.row());
        }
        table
    }
}
