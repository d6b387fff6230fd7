//! What is looked at, and what keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::state::{Line, State};

/// What is shown.
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

/// What was heard from the gateway.
pub(super) enum News {
    /// It is there.
    State(Box<State>),
    /// It is not, with the reason, and the age of what is shown in seconds.
    Gone(String, Option<f64>),
    /// A decision that was asked for, or why it is not to be had.
    Decision(Result<Box<Line>, String>),
}

/// What a key asks for that the keeper of the terminal has to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    Quit,
    /// The decision on this request.
    Open(String),
}

/// All that is shown.
#[derive(Default)]
pub(super) struct App {
    pub admin: String,
    pub screen: Screen,
    pub state: Option<State>,
    /// Why the gateway cannot be reached, and the age of what is shown in seconds.
    pub gone: Option<(String, Option<f64>)>,
    pub help: bool,
    pub detail: Option<Result<Box<Line>, String>>,
    /// Lines of it that are scrolled out at the top.
    pub scrolled: u16,
    /// The row that is chosen, by its place; a decision by its id, since others come above it.
    row: usize,
    chosen: Option<String>,
}

impl App {
    pub(super) fn of(admin: &str) -> Self {
        Self { admin: admin.to_owned(), ..Self::default() }
    }

    pub(super) fn hear(&mut self, news: News) {
        match news {
            News::State(state) => (self.state, self.gone) = (Some(*state), None),
            News::Gone(why, age) => self.gone = Some((why, age)),
            News::Decision(decision) => (self.detail, self.scrolled) = (Some(decision), 0),
        }
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Wish {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Wish::Quit;
        }
        if self.help {
            self.help = false;
            return Wish::Nothing;
        }
        match key.code {
            KeyCode::Char('?') => self.help = true,
            KeyCode::Esc | KeyCode::Char('q') | KeyCode::Enter if self.detail.is_some() => self.detail = None,
            KeyCode::Char('q') => return Wish::Quit,
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
        Wish::Nothing
    }

    /// The row that is chosen.
    pub(super) fn row(&self) -> usize {
        let Some(state) = &self.state else { return 0 };
        let by_id = self.chosen.as_ref().and_then(|id| state.decisions.iter().position(|it| *it.id == **id));
        by_id.unwrap_or(self.row).min(self.rows().saturating_sub(1))
    }

    fn open(&self) -> Wish {
        let decision = self.state.as_ref().and_then(|state| state.decisions.get(self.row()));
        match (self.screen, decision) {
            (Screen::Overview | Screen::Decisions, Some(decision)) => Wish::Open(decision.id.to_string()),
            _ => Wish::Nothing,
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
            Screen::Backends => state.backends().count(),
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
        // The newest stays the newest.
        self.chosen = decision.filter(|_| self.row > 0).map(|it| it.id.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::{super::state::DecisionState, *};

    fn press(app: &mut App, code: KeyCode) -> Wish {
        app.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn decided(ids: &[&str]) -> News {
        let decision = |id: &&str| DecisionState { id: (*id).into(), ..DecisionState::default() };
        News::State(Box::new(State { decisions: ids.iter().map(decision).collect(), ..State::default() }))
    }

    #[test]
    fn a_chosen_decision_stays_chosen_while_others_come() {
        let mut app = App::of("");
        assert_eq!(press(&mut app, KeyCode::Enter), Wish::Nothing, "there is none");
        app.hear(decided(&["c", "b", "a"]));
        press(&mut app, KeyCode::Char('j'));
        app.hear(decided(&["e", "d", "c", "b"]));
        assert_eq!(press(&mut app, KeyCode::Enter), Wish::Open("b".to_owned()));
        app.hear(decided(&["f"]));
        assert_eq!(app.row(), 0, "it is gone");
        press(&mut app, KeyCode::Home);
        app.hear(decided(&["g", "f"]));
        assert_eq!(press(&mut app, KeyCode::Enter), Wish::Open("g".to_owned()), "the newest stays the newest");
    }

    #[test]
    fn keys_close_what_is_open_before_they_end_it() {
        let mut app = App::of("");
        app.hear(News::Decision(Ok(Box::default())));
        assert_eq!(press(&mut app, KeyCode::Char('q')), Wish::Nothing);
        assert!(app.detail.is_none());
        press(&mut app, KeyCode::Char('?'));
        assert_eq!(press(&mut app, KeyCode::Char('q')), Wish::Nothing);
        assert_eq!(press(&mut app, KeyCode::Char('q')), Wish::Quit);
        app.help = true;
        assert_eq!(app.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Wish::Quit);
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
