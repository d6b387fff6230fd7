//! State of the display, and key bindings.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    backends::{BackendRow, backend_rows},
    charts::RANGES,
    sheet::Sheet,
    state::{Line, State},
    tables,
};

/// Most characters of a search.
const LONGEST_SEARCH: usize = 64;

/// Screens.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Screen {
    #[default]
    Overview,
    Pools,
    Backends,
    Decisions,
    Charts,
}

impl Screen {
    pub(super) const ALL: [Self; 5] = [Self::Overview, Self::Pools, Self::Backends, Self::Decisions, Self::Charts];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Overview => "1 Overview",
            Self::Pools => "2 Pools",
            Self::Backends => "3 Backends",
            Self::Decisions => "4 Decisions",
            Self::Charts => "5 Charts",
        }
    }
}

/// Events from the gateway.
pub(super) enum Update {
    /// A new state.
    State(Box<State>),
    /// The gateway cannot be reached: reason, and age of the shown state in seconds.
    Gone(String, Option<f64>),
    /// A requested decision, or the reason why there is none.
    Decision(Result<Box<Line>, String>),
    /// Figures over time, or the reason why there are none.
    History(Result<Value, String>),
}

/// Actions of a key that the main loop performs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Quit,
    /// Fetch the decision of this request.
    Open(String),
    /// Fetch the figures over time.
    History,
}

/// State of the display.
#[derive(Default)]
pub(super) struct App {
    pub admin: String,
    pub screen: Screen,
    pub state: Option<State>,
    /// Reason why the gateway cannot be reached, and age of the shown state in seconds.
    pub gone: Option<(String, Option<f64>)>,
    pub help: bool,
    pub detail: Option<Result<Box<Line>, String>>,
    /// Lines scrolled past the top.
    pub scrolled: u16,
    /// Figures over time, or the reason why there are none.
    pub history: Option<Result<Value, String>>,
    /// Words that rows have to contain; being typed, or in force.
    pub search: String,
    pub typing: bool,
    /// Pools whose backends are one row.
    folded: BTreeSet<String>,
    /// Index of the range of time.
    range: usize,
    /// Selected row by index; for decisions by id, since new ones are inserted above.
    row: usize,
    chosen: Option<String>,
}

impl App {
    pub(super) fn of(admin: &str) -> Self {
        Self { admin: admin.to_owned(), ..Self::default() }
    }

    pub(super) fn update(&mut self, update: Update) {
        match update {
            Update::State(state) => (self.state, self.gone) = (Some(*state), None),
            Update::Gone(why, age) => self.gone = Some((why, age)),
            Update::Decision(decision) => (self.detail, self.scrolled) = (Some(decision), 0),
            Update::History(history) => self.history = Some(history),
        }
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Action {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Action::Quit;
        }
        if self.help {
            self.help = false;
            return Action::Nothing;
        }
        if self.typing {
            self.write(key.code);
            return Action::Nothing;
        }
        match key.code {
            KeyCode::Char('?') => self.help = true,
            KeyCode::Esc | KeyCode::Char('q') | KeyCode::Enter if self.detail.is_some() => self.detail = None,
            KeyCode::Esc if !self.search.is_empty() => self.search.clear(),
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::PageDown => self.move_by(10),
            KeyCode::PageUp => self.move_by(-10),
            KeyCode::Home | KeyCode::Char('g') => self.move_by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.move_by(isize::MAX),
            _ if self.detail.is_some() => {}
            KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => self.turn(1),
            KeyCode::BackTab | KeyCode::Left | KeyCode::Char('h') => self.turn(Screen::ALL.len() - 1),
            KeyCode::Char('/') => (self.typing, self.row, self.chosen) = (true, 0, None),
            KeyCode::Char('r') if self.screen == Screen::Charts => {
                self.range = (self.range + 1) % RANGES.len();
                return Action::History;
            }
            KeyCode::Char(' ') => self.fold(),
            KeyCode::Char('z') => self.fold_all(),
            KeyCode::Char(digit @ '1'..='5') => self.show(Screen::ALL[digit as usize - '1' as usize]),
            KeyCode::Enter if self.screen == Screen::Backends => self.fold(),
            KeyCode::Enter => return self.open(),
            _ => {}
        }
        Action::Nothing
    }

    /// Index of the selected row.
    pub(super) fn row(&self) -> usize {
        let Some(state) = &self.state else { return 0 };
        let by_id = self
            .chosen
            .as_ref()
            .and_then(|id| self.decisions(state).into_iter().position(|at| *state.decisions[at].id == **id));
        by_id.unwrap_or(self.row).min(self.rows().saturating_sub(1))
    }

    fn open(&self) -> Action {
        let decision = self.state.as_ref().and_then(|state| self.decision(state, self.row()));
        match (self.screen, decision) {
            (Screen::Overview | Screen::Decisions, Some(decision)) => Action::Open(decision.id.to_string()),
            _ => Action::Nothing,
        }
    }

    fn turn(&mut self, by: usize) {
        self.show(Screen::ALL[(self.screen as usize + by) % Screen::ALL.len()]);
    }

    fn show(&mut self, screen: Screen) {
        (self.screen, self.row, self.chosen) = (screen, 0, None);
    }

    fn rows(&self) -> usize {
        let Some(state) = &self.state else { return 0 };
        match self.screen {
            Screen::Pools => state.pools.len(),
            Screen::Backends => self.backends(state).len(),
            Screen::Overview | Screen::Decisions => self.decisions(state).len(),
            Screen::Charts => 0,
        }
    }

    fn move_by(&mut self, by: isize) {
        if self.detail.is_some() || self.screen == Screen::Charts {
            let lines = i32::try_from(by).unwrap_or(if by < 0 { i32::MIN } else { 0 });
            self.scrolled = u16::try_from(i32::from(self.scrolled).saturating_add(lines).clamp(0, 500)).unwrap_or(0);
            return;
        }
        self.row = self.row().saturating_add_signed(by).min(self.rows().saturating_sub(1));
        let listed = matches!(self.screen, Screen::Overview | Screen::Decisions);
        let decision = self.state.as_ref().filter(|_| listed).and_then(|state| self.decision(state, self.row));
        // The first row stays selected when a newer one arrives.
        let chosen = decision.filter(|_| self.row > 0).map(|it| it.id.to_string());
        self.chosen = chosen;
    }

    /// Words of the search, in lower case.
    pub(super) fn words(&self) -> Vec<String> {
        self.search.split_whitespace().map(str::to_lowercase).collect()
    }

    /// Range of the charts.
    pub(super) fn range(&self) -> &'static str {
        RANGES[self.range]
    }

    /// Indices of the decisions that match the search.
    pub(super) fn decisions(&self, state: &State) -> Vec<usize> {
        matching(&tables::decisions(state), &self.words())
    }

    /// Rows of backends that match the search, with folded pools as one row.
    pub(super) fn backends(&self, state: &State) -> Vec<BackendRow> {
        let words = self.words();
        // A search looks into folded pools too.
        let folded = |pool: &str| words.is_empty() && self.folded.contains(pool);
        let rows = backend_rows(state, &folded).into_iter();
        rows.filter(|row| has_all(&row.cells, &words)).collect()
    }

    fn decision<'s>(&self, state: &'s State, row: usize) -> Option<&'s super::state::DecisionState> {
        self.decisions(state).get(row).and_then(|at| state.decisions.get(*at))
    }

    fn write(&mut self, key: KeyCode) {
        match key {
            KeyCode::Esc => (self.search, self.typing) = (String::new(), false),
            KeyCode::Enter | KeyCode::Tab => self.typing = false,
            KeyCode::Backspace => drop(self.search.pop()),
            KeyCode::Char(char) if self.search.chars().count() < LONGEST_SEARCH => self.search.push(char),
            _ => {}
        }
        (self.row, self.chosen) = (0, None);
    }

    /// Folds the pool of the selected backend, or unfolds it.
    fn fold(&mut self) {
        let Some(state) = self.state.as_ref().filter(|_| self.screen == Screen::Backends) else { return };
        let Some(pool) = self.backends(state).get(self.row()).map(|row| row.pool.clone()) else { return };
        if !self.folded.remove(&pool) {
            self.folded.insert(pool.clone());
        }
        let first = self.state.as_ref().and_then(|state| self.backends(state).iter().position(|row| row.pool == pool));
        self.row = first.unwrap_or(0);
    }

    /// Folds every pool, or unfolds all where one is folded.
    fn fold_all(&mut self) {
        let Some(state) = self.state.as_ref().filter(|_| self.screen == Screen::Backends) else { return };
        let all = state.pools.iter().map(|pool| pool.name.to_string()).collect();
        self.folded = if self.folded.is_empty() { all } else { BTreeSet::new() };
        self.row = 0;
    }
}

/// Indices of the rows that have all `words`.
fn matching<const N: usize>(sheet: &Sheet<N>, words: &[String]) -> Vec<usize> {
    (0..sheet.rows.len()).filter(|at| has_all(&sheet.rows[*at].0, words)).collect()
}

fn has_all(cells: &[String], words: &[String]) -> bool {
    let text = cells.join(" ").to_lowercase();
    words.iter().all(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::{
        super::state::{DecisionState, all_backends, leaving_backends},
        *,
    };

    fn press(app: &mut App, code: KeyCode) -> Action {
        app.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn decided(ids: &[&str]) -> Update {
        let decision = |id: &&str| DecisionState { id: (*id).into(), ..DecisionState::default() };
        Update::State(Box::new(State { decisions: ids.iter().map(decision).collect(), ..State::default() }))
    }

    #[test]
    fn a_chosen_decision_stays_chosen_while_others_come() {
        let mut app = App::of("");
        assert_eq!(press(&mut app, KeyCode::Enter), Action::Nothing, "there is none");
        app.update(decided(&["c", "b", "a"]));
        press(&mut app, KeyCode::Char('j'));
        app.update(decided(&["e", "d", "c", "b"]));
        assert_eq!(press(&mut app, KeyCode::Enter), Action::Open("b".to_owned()));
        app.update(decided(&["f"]));
        assert_eq!(app.row(), 0, "it is gone");
        press(&mut app, KeyCode::Home);
        app.update(decided(&["g", "f"]));
        assert_eq!(press(&mut app, KeyCode::Enter), Action::Open("g".to_owned()), "the newest stays the newest");
    }

    #[test]
    fn keys_close_what_is_open_before_they_end_it() {
        let mut app = App::of("");
        app.update(Update::Decision(Ok(Box::default())));
        assert_eq!(press(&mut app, KeyCode::Char('q')), Action::Nothing);
        assert!(app.detail.is_none());
        press(&mut app, KeyCode::Char('?'));
        assert_eq!(press(&mut app, KeyCode::Char('q')), Action::Nothing);
        assert_eq!(press(&mut app, KeyCode::Char('q')), Action::Quit);
        app.help = true;
        assert_eq!(app.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Action::Quit);
    }

    #[test]
    fn tab_goes_round() {
        let mut app = App::of("");
        for screen in [Screen::Pools, Screen::Backends, Screen::Decisions, Screen::Charts, Screen::Overview] {
            press(&mut app, KeyCode::Tab);
            assert_eq!(app.screen, screen);
        }
        press(&mut app, KeyCode::BackTab);
        assert_eq!(app.screen, Screen::Charts);
        press(&mut app, KeyCode::Char('3'));
        assert_eq!(app.screen, Screen::Backends);
    }

    #[test]
    fn a_search_narrows_rows_and_pools_fold() {
        let mut app = App::of("");
        let state: State = serde_json::from_str(include_str!("../../../tests/top/state.json")).unwrap();
        let (pools, backends) = (state.pools.len(), all_backends(&state).count() + leaving_backends(&state).count());
        let name = all_backends(&state).next().unwrap().1.name.to_string();
        app.update(Update::State(Box::new(state)));
        press(&mut app, KeyCode::Char('3'));
        assert_eq!(app.rows(), backends);
        press(&mut app, KeyCode::Char('z'));
        assert_eq!(app.rows(), pools);
        press(&mut app, KeyCode::Enter);
        assert!(app.rows() > pools, "the selected pool is open");
        for key in format!("/{name}").chars() {
            press(&mut app, KeyCode::Char(key));
        }
        press(&mut app, KeyCode::Enter);
        assert!(app.rows() >= 1 && app.rows() < backends, "{} rows", app.rows());
        press(&mut app, KeyCode::Esc);
        assert_eq!(app.search, "");
        press(&mut app, KeyCode::Char('5'));
        assert_eq!((press(&mut app, KeyCode::Char('r')), app.range()), (Action::History, "1h"));
    }
}
