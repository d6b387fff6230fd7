//! Tables that adapt to the width of the terminal.

/// Space between two columns.
const GAP: usize = 2;
/// Least width to which a name is cut.
const MIN_NAME_WIDTH: usize = 6;

/// Style of a line.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Tone {
    #[default]
    Plain,
    Soft,
    Head,
    Good,
    Warn,
    Bad,
}

/// A line of text with its style.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TextLine {
    pub text: String,
    pub tone: Tone,
}

impl TextLine {
    pub(super) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }
}

/// A column: head, alignment, and priority for removal on narrow terminals; 0 is never removed.
#[derive(Copy, Clone)]
pub(super) struct Column(pub &'static str, pub Align, pub u8);

#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum Align {
    Words,
    Number,
}

/// Rows under columns.
pub(super) struct Sheet<const N: usize> {
    pub columns: [Column; N],
    pub rows: Vec<([String; N], Tone)>,
}

impl<const N: usize> Sheet<N> {
    /// Head and rows, fitted to `width` if possible. Empty without rows.
    pub(super) fn lines(&self, width: usize) -> Vec<TextLine> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let widths = self.widths(width);
        let line = |cells: [&str; N]| {
            let shown = (0..N).filter(|at| widths[*at] > 0);
            let padded = shown.map(|at| match self.columns[at].1 {
                Align::Words => format!("{:<1$}", cut(cells[at], widths[at]), widths[at]),
                Align::Number => format!("{:>1$}", cut(cells[at], widths[at]), widths[at]),
            });
            padded.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
        };
        let head = TextLine::new(line(self.columns.map(|column| column.0)), Tone::Head);
        let rows =
            self.rows.iter().map(|(cells, tone)| TextLine::new(line(cells.each_ref().map(String::as_str)), *tone));
        [head].into_iter().chain(rows).collect()
    }

    /// Width of each column; 0 if it is removed.
    fn widths(&self, most: usize) -> [usize; N] {
        let mut widths = std::array::from_fn(|at| {
            let widest = self.rows.iter().map(|(cells, _)| length(&cells[at])).max().unwrap_or(0);
            // A column without any value is removed.
            if widest == 0 { 0 } else { widest.max(length(self.columns[at].0)) }
        });
        loop {
            let shown = widths.iter().filter(|width| **width > 0).count();
            let over = (widths.iter().sum::<usize>() + GAP * shown.saturating_sub(1)).saturating_sub(most);
            if over == 0 {
                return widths;
            }
            let soonest = (0..N).filter(|at| widths[*at] > 0).max_by_key(|at| (self.columns[*at].2, *at));
            if let Some(at) = soonest.filter(|at| self.columns[*at].2 > 0) {
                widths[at] = 0;
                continue;
            }
            let words = (0..N).filter(|at| self.columns[*at].1 == Align::Words);
            if let Some(at) = words.max_by_key(|at| widths[*at]) {
                widths[at] = widths[at].saturating_sub(over).max(MIN_NAME_WIDTH);
            }
            return widths;
        }
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Cuts `text` to `width` with an ellipsis.
fn cut(text: &str, width: usize) -> String {
    // Names come from callers, and a terminal executes control characters.
    let text = &text.replace(char::is_control, " ");
    if length(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_go_and_names_are_cut_where_there_is_little_room() {
        let columns = [Column("Name", Align::Words, 0), Column("A", Align::Number, 1), Column("B", Align::Number, 2)];
        let row = ["a-long-name", "12", "345"].map(str::to_owned);
        let sheet = Sheet { columns, rows: vec![(row, Tone::Bad)] };
        let lines = |width| sheet.lines(width).into_iter().map(|line| line.text).collect::<Vec<_>>();
        assert_eq!(lines(80), ["Name          A    B", "a-long-name  12  345"]);
        assert_eq!(lines(19), ["Name          A", "a-long-name  12"]);
        assert_eq!(lines(12), ["Name", "a-long-name"]);
        assert_eq!(lines(8), ["Name", "a-long-…"]);
        assert_eq!(sheet.lines(8)[1].tone, Tone::Bad);
    }
}
