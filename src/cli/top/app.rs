//! State of the display, and key bindings.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::state::{Line, State};

/// Screens.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Screen {
    #[default]
    Overview,
    Pools,
    Backends,
    Decisions,
}

impl Screen {
    pub(super) const ALL: [Self; 4] = [Self::Overview, Self::Pools, Self::Backends, Self::Decisions];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Overview => "1 Overview",
            Self::Pools => "2 Pools",
            Self::Backends => "3 Backends",
            Self::Decisions => "4 Decisions",
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
}

/// Actions of a key that the main loop performs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Quit,
    /// Fetch the decision of this request.
    Open(String),
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
        match key.code {
            KeyCode::Char('?') => self.help = true,
            KeyCode::Esc | KeyCode::Char('q') | KeyCode::Enter if self.detail.is_some() => self.detail = None,
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
            KeyCode::Char(digit @ '1'..='4') => self.show(Screen::ALL[digit as usize - '1' as usize]),
            KeyCode::Enter => return self.open(),
            _ => {}
        }
        Action::Nothing
    }

    /// Index of the selected row.
    pub(super) fn row(&self) -> usize {
        let Some(state) = &self.state else { return 0 };
        let by_id = self.chosen.as_ref().and_then(|id| state.decisions.iter().position(|it| *it.id == **id));
        by_id.unwrap_or(self.row).min(self.rows().saturating_sub(1))
    }

    fn open(&self) -> Action {
        let decision = self.state.as_ref().and_then(|state| state.decisions.get(self.row()));
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
            Screen::Backends => state.backends().count() + state.leaving().count(),
            Screen::Overview | Screen::Decisions => state.decisions.len(),
        }
    }

    fn move_by(&mut self, by: isize) {
        if self.detail.is_some() {
            let lines = i32::try_from(by).unwrap_or(if by < 0 { i32::MIN } else { 0 });
            self.scrolled = u16::try_from(i32::from(self.scrolled).saturating_add(lines).clamp(0, 500)).unwrap_or(0);
            return;
        }
        self.row = self.row().saturating_add_signed(by).min(self.rows().saturating_sub(1));
        let listed = matches!(self.screen, Screen::Overview | Screen::Decisions);
        let decision = self.state.as_ref().filter(|_| listed).and_then(|state| state.decisions.get(self.row));
        // The first row stays selected when a newer one arrives.
        self.chosen = decision.filter(|_| self.row > 0).map(|it| it.id.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::{super::state::DecisionState, *};

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
        for screen in [Screen::Pools, Screen::Backends, Screen::Decisions, Screen::Overview] {
            press(&mut app, KeyCode::Tab);
            assert_eq!(app.screen, screen);
        }
        press(&mut app, KeyCode::BackTab);
        assert_eq!(app.screen, Screen::Decisions);
        press(&mut app, KeyCode::Char('3'));
        assert_eq!(app.screen, Screen::Backends);
    }
}
