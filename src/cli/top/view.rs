//! Rendering in a terminal.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Margin, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph, Wrap},
};

use super::{
    app::{App, Screen},
    backends::backend_sheet,
    charts::charts,
    sheet::{TextLine, Tone},
    state::State,
    tables,
    words::ago,
};

/// Objectives on the overview.
const OBJECTIVES: usize = 4;
const KEYS: &str = " Tab, 1-5: screen   ↑↓ jk: row   Enter: open   /: search   ?: help   q: quit";
const HELP: [&str; 14] = [
    "Tab, ← →, 1 to 5    another screen",
    "↑ ↓, j k            another row; PgUp PgDn by ten, g G to the ends",
    "Enter               a decision's candidates; folds a backend's pool",
    "Space, z            fold or open a pool, or all of them",
    "/                   search: rows with all these words; Esc ends it",
    "r                   another range of the charts",
    "Esc, q              close it",
    "q, Ctrl-C           end",
    "",
    "TTFT  time to the first token      TPOT  time per output token after it",
    "Percentiles are of the last minute. Shares of pools are of its answers.",
    "Burn: how many times as fast as it may last an error budget is used up.",
    "Candidates: the lowest cost is chosen, among those that keep the limits;",
    "compute and cached are prompt tokens, busy the time that prompts take.",
];

/// Draws the display.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App) {
    let [head, tabs, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(title(app, head.width), head);
    frame.render_widget(screens(app), tabs);
    let keys = match (app.typing, &*app.search) {
        (true, search) => format!(" /{search}▏  Enter: keep   Esc: end"),
        (false, "") => KEYS.to_owned(),
        (false, search) => format!(" /{search}   Esc: all rows again   /: another search   ?: help   q: quit"),
    };
    frame.render_widget(Paragraph::new(keys).style(Style::new().add_modifier(Modifier::REVERSED)), foot);
    match &app.state {
        None => {
            frame.render_widget(Paragraph::new(waiting(app)).wrap(Wrap { trim: false }), body.inner(Margin::new(1, 1)));
        }
        Some(state) => {
            let lines = screen(app, state, body);
            let dim = if app.gone.is_some() { Style::new().add_modifier(Modifier::DIM) } else { Style::new() };
            frame.render_widget(Paragraph::new(lines).style(dim), body);
        }
    }
    if let Some(detail) = &app.detail {
        let area = body;
        let (name, lines) = match detail {
            Ok(line) => {
                (format!(" Request {} ", line.id), tables::decision(line, usize::from(area.width.saturating_sub(2))))
            }
            Err(why) => (" No decision ".to_owned(), vec![TextLine::new(why.clone(), Tone::Bad)]),
        };
        let most = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_sub(area.height.saturating_sub(2));
        let text = Paragraph::new(lines.into_iter().map(line).collect::<Vec<_>>()).scroll((app.scrolled.min(most), 0));
        over(frame, area, &name, text);
    }
    if app.help {
        let area = body.inner(Margin::new(2, 1));
        over(
            frame,
            Rect { height: area.height.min(HELP.len() as u16 + 2), ..area },
            " Keys ",
            Paragraph::new(HELP.map(Line::from).to_vec()),
        );
    }
}

/// Draws a framed text over the screen.
fn over(frame: &mut Frame<'_>, area: Rect, name: &str, text: Paragraph<'_>) {
    frame.render_widget(Clear, area);
    frame.render_widget(text.block(Block::bordered().title(name.to_owned())), area);
}

fn title(app: &App, width: u16) -> Line<'static> {
    let (word, tone) = match &app.gone {
        Some((_, Some(age))) => (format!("GATEWAY GONE, {} old ", ago(*age)), Tone::Bad),
        Some((_, None)) => ("NO GATEWAY ".to_owned(), Tone::Bad),
        None if app.state.is_some() => ("live ".to_owned(), Tone::Good),
        None => ("connecting ".to_owned(), Tone::Warn),
    };
    let mut left = vec![Span::styled(" Signalbox", Style::new().add_modifier(Modifier::BOLD))];
    if let Some(state) = &app.state {
        left.push(Span::raw(format!(" {}", state.version)));
        for (said, sign) in [(state.simulated, " SIMULATED"), (state.draining, " DRAINING")] {
            if said {
                left.push(Span::styled(sign, style(Tone::Warn)));
            }
        }
        let policy = format!("  policy {}, loaded {} ago", state.hash, ago(state.loaded_s));
        let taken: usize = left.iter().map(Span::width).sum();
        if taken + policy.len() + word.len() < usize::from(width) {
            left.push(Span::styled(policy, style(Tone::Soft)));
        }
    }
    let taken: usize = left.iter().map(Span::width).sum();
    let room = usize::from(width).saturating_sub(taken + word.chars().count());
    left.push(Span::raw(" ".repeat(room)));
    left.push(Span::styled(word, style(tone)));
    Line::from(left)
}

fn screens(app: &App) -> Line<'static> {
    let tab = |screen: Screen| {
        let chosen = if screen == app.screen { Modifier::REVERSED | Modifier::BOLD } else { Modifier::empty() };
        [Span::raw(" "), Span::styled(format!(" {} ", screen.name()), Style::new().add_modifier(chosen))]
    };
    Screen::ALL.into_iter().flat_map(tab).collect()
}

fn waiting(app: &App) -> Vec<Line<'static>> {
    match &app.gone {
        None => vec![line(TextLine::new(format!("Asking {} …", app.admin), Tone::Soft))],
        Some((why, _)) => vec![
            line(TextLine::new(format!("No gateway at {}: {why}.", app.admin), Tone::Bad)),
            Line::default(),
            Line::from(
                "Is `signalbox serve` running, and are its operators to connect there (`admin` in the policy)? Another address: --admin URL",
            ),
            line(TextLine::new("Trying again every second.", Tone::Soft)),
        ],
    }
}

fn screen(app: &App, state: &State, area: Rect) -> Vec<Line<'static>> {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let mut lines = Vec::new();
    if let Some((why, _)) = &app.gone {
        lines.push(line(TextLine::new(format!("No answer ({why}): what you see is old; trying again."), Tone::Bad)));
    }
    match app.screen {
        Screen::Overview => {
            let above = [
                tables::verdict(state),
                tables::facts(state, width),
                tables::pools(state).lines(width),
                tables::objectives(state, OBJECTIVES).lines(width),
            ];
            for block in above.into_iter().filter(|block| !block.is_empty()) {
                lines.extend(block.into_iter().map(line));
                lines.push(Line::default());
            }
            list(&mut lines, decisions(app, state, width), app.row(), height);
        }
        Screen::Pools => {
            let words: Vec<_> = (0..state.pools.len()).flat_map(|at| tables::pool_words(state, at)).collect();
            let objectives = tables::objectives(state, usize::MAX).lines(width);
            let rest = height.saturating_sub(words.len() + objectives.len() + 2).max(3);
            list(&mut lines, tables::pools(state).lines(width), app.row(), rest);
            for block in [words, objectives] {
                lines.push(Line::default());
                lines.extend(block.into_iter().map(line));
            }
        }
        Screen::Backends => {
            let table = backend_sheet(app.backends(state)).lines(width);
            list(&mut lines, or_none(table, app), app.row(), height);
        }
        Screen::Decisions => list(&mut lines, decisions(app, state, width), app.row(), height),
        Screen::Charts => {
            let drawn = match &app.history {
                None => vec![TextLine::new("Asking for the history …", Tone::Soft)],
                Some(Err(why)) => vec![TextLine::new(format!("No history: {why}"), Tone::Bad)],
                Some(Ok(history)) => charts(history, app.range(), &app.words(), width),
            };
            let past = usize::from(app.scrolled).min(drawn.len().saturating_sub(height));
            lines.extend(drawn.into_iter().skip(past).map(line));
        }
    }
    lines
}

fn decisions(app: &App, state: &State, width: usize) -> Vec<TextLine> {
    let mut table = tables::decisions(state);
    if table.rows.is_empty() {
        return vec![TextLine::new("No requests yet.", Tone::Soft)];
    }
    table.rows = app.decisions(state).into_iter().map(|at| table.rows[at].clone()).collect();
    or_none(table.lines(width), app)
}

fn or_none(lines: Vec<TextLine>, app: &App) -> Vec<TextLine> {
    if lines.is_empty() { vec![TextLine::new(format!("Nothing has '{}'.", app.search), Tone::Soft)] } else { lines }
}

/// Head of a table and as many rows as fit into `height` lines, including the selected one.
fn list(lines: &mut Vec<Line<'static>>, table: Vec<TextLine>, chosen: usize, height: usize) {
    let mut table = table.into_iter();
    lines.extend(table.next().map(line));
    let room = height.saturating_sub(lines.len()).max(1);
    let first = (chosen + 1).saturating_sub(room);
    for (at, said) in table.enumerate().skip(first).take(room) {
        let row = line(said);
        lines.push(if at == chosen { row.patch_style(Style::new().add_modifier(Modifier::REVERSED)) } else { row });
    }
}

fn line(said: TextLine) -> Line<'static> {
    Line::styled(said.text, style(said.tone))
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Soft => Style::new().add_modifier(Modifier::DIM),
        Tone::Head => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        Tone::Good => Style::new().fg(Color::Green),
        Tone::Warn => Style::new().fg(Color::Yellow),
        Tone::Bad => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use super::{super::app::Update, *};

    /// Recorded state of a gateway with traffic.
    const STATE: &str = include_str!("../../../tests/top/state.json");
    const HISTORY: &str = include_str!("../../../tests/top/history.json");
    const DECISION: &str = include_str!("../../../tests/top/decision.json");

    fn app(screen: Screen) -> App {
        let mut app = App::of("http://127.0.0.1:4101");
        app.screen = screen;
        app.update(Update::State(Box::new(serde_json::from_str(STATE).unwrap())));
        app.update(Update::History(Ok(serde_json::from_str(HISTORY).unwrap())));
        app
    }

    fn shown(app: &App, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, app)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn every_screen_fits_small_and_large_terminals() {
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("../../../tests/top/snapshots");
        settings.set_prepend_module_to_snapshot(false);
        settings.bind(|| {
            for (width, height) in [(80, 24), (120, 40)] {
                for (name, screen) in
                    ["overview", "pools", "backends", "decisions", "charts"].into_iter().zip(Screen::ALL)
                {
                    insta::assert_snapshot!(format!("{name}-{width}"), shown(&app(screen), width, height));
                }
                let mut open = app(Screen::Decisions);
                open.update(Update::Decision(Ok(Box::new(serde_json::from_str(DECISION).unwrap()))));
                insta::assert_snapshot!(format!("decision-{width}"), shown(&open, width, height));
            }
            let mut lost = App::of("http://127.0.0.1:4101");
            lost.update(Update::Gone("nobody answers there".to_owned(), None));
            insta::assert_snapshot!("nobody-80", shown(&lost, 80, 24));
            let mut gone = app(Screen::Overview);
            gone.update(Update::Gone("nobody answers there".to_owned(), Some(3.2)));
            gone.help = true;
            insta::assert_snapshot!("gone-80", shown(&gone, 80, 24));
        });
    }

    #[test]
    fn no_size_is_too_small() {
        for (width, height) in [(1, 1), (3, 2), (10, 3), (20, 6), (40, 10), (300, 3)] {
            for screen in Screen::ALL {
                let mut app = app(screen);
                shown(&app, width, height);
                app.update(Update::Decision(Ok(Box::default())));
                app.help = true;
                shown(&app, width, height);
            }
        }
    }
}
