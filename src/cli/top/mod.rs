//! `signalbox top`: watches a running gateway in a terminal, or prints its state once.

mod app;
mod backends;
mod charts;
mod sheet;
mod state;
mod tables;
mod view;
mod words;

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use http::StatusCode;
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event},
};
use serde::de::DeserializeOwned;
use tokio::{sync::mpsc, time::MissedTickBehavior};

use self::{
    app::{Action, App, Screen, Update},
    sheet::TextLine,
    state::{Line, State},
};
use super::{operator, output};
use signalbox_upstream::{Client, EngineAccess, client::FetchError};

/// Polling interval.
const EVERY: Duration = Duration::from_secs(1);
/// Interval at which the history is asked for, while it is shown.
const HISTORY: Duration = Duration::from_secs(5);
/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Most bytes of a response.
const MAX_RESPONSE_BYTES: usize = 16 << 20;
/// Width of the output of `--once`.
const WIDTH: usize = 160;
/// Decisions in the output of `--once`.
const DECISIONS: usize = 10;

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    gateway: operator::Gateway,
    /// A key, if a proxy before the gateway requires one [default: `SIGNALBOX_KEY`]
    #[arg(long)]
    key: Option<String>,
    /// Print the state once and exit
    #[arg(long)]
    once: bool,
}

pub(super) fn top(args: Args) -> io::Result<ExitCode> {
    let key =
        args.gateway.token().or(args.key).or_else(|| std::env::var("SIGNALBOX_KEY").ok()).filter(|key| !key.is_empty());
    let client = Client::new(TIMEOUT).map_err(io::Error::other)?;
    let source = Source { client, admin: args.gateway.base()?, access: EngineAccess::with_key(key.as_deref()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if args.once {
        return runtime.block_on(once(&source));
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        output::complain("signalbox: not a terminal: use `signalbox top --once` to print the state\n");
        return Ok(ExitCode::FAILURE);
    }
    // Restores the terminal on a panic.
    let mut terminal = ratatui::try_init()?;
    let ended = runtime.block_on(watch(source, &mut terminal));
    ratatui::try_restore()?;
    ended.map(|()| ExitCode::SUCCESS)
}

/// Admin API of the gateway.
#[derive(Clone)]
struct Source {
    client: Client,
    admin: String,
    access: EngineAccess,
}

impl Source {
    async fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<Box<T>, String> {
        let url = format!("{}{path}", self.admin);
        let fetched = self.client.fetch(&url, &self.access, TIMEOUT, MAX_RESPONSE_BYTES).await;
        let body = fetched.map_err(|problem| words(&problem))?.body;
        serde_json::from_slice(&body)
            .map(Box::new)
            .map_err(|_| "the response is not from a Signalbox admin listener".to_owned())
    }
}

/// Words for a state that could not be fetched.
fn words(problem: &FetchError) -> String {
    match problem {
        FetchError::Refused(StatusCode::UNAUTHORIZED) => {
            "it answers 401 Unauthorized: operators need their token: --token or SIGNALBOX_ADMIN_TOKEN".to_owned()
        }
        FetchError::Refused(StatusCode::NOT_FOUND) => {
            "it answers 404 Not Found: this is no admin address, perhaps that of the API".to_owned()
        }
        problem => problem.to_string(),
    }
}

async fn once(source: &Source) -> io::Result<ExitCode> {
    let state: Box<State> = match source.ask("/admin/state").await {
        Ok(state) => state,
        Err(why) => {
            if why == FetchError::Unreachable.to_string() {
                return Err(operator::unreached(&source.admin, &why));
            }
            output::complain(&format!("signalbox: the gateway at {}: {why}\n", source.admin));
            return Ok(ExitCode::FAILURE);
        }
    };
    let decisions = tables::decisions(&state).lines(WIDTH);
    let blocks = [
        tables::verdict(&state),
        tables::facts(&state, WIDTH),
        tables::pools(&state).lines(WIDTH),
        (0..state.pools.len()).flat_map(|at| tables::pool_words(&state, at)).collect(),
        backends::backends(&state).lines(WIDTH),
        tables::objectives(&state, usize::MAX).lines(WIDTH),
        decisions.into_iter().take(DECISIONS + 1).collect(),
    ];
    let text = |block: Vec<TextLine>| block.into_iter().map(|line| line.text + "\n").collect::<String>();
    let shown: Vec<_> = blocks.into_iter().filter(|block| !block.is_empty()).map(text).collect();
    let simulated = if state.simulated { ", SIMULATED" } else { "" };
    let head = format!("Signalbox {}{simulated}, policy {}\n\n", state.version, state.hash);
    output::print(&(head + &shown.join("\n"))).map(|()| ExitCode::SUCCESS)
}

async fn watch(source: Source, terminal: &mut DefaultTerminal) -> io::Result<()> {
    let mut app = App::of(&source.admin);
    let (keys, mut pressed) = mpsc::channel(64);
    // It blocks on the next key press after everything else ended, and ends with the process.
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if keys.blocking_send(event).is_err() {
                return;
            }
        }
    });
    let (updates, mut received) = mpsc::channel(4);
    tokio::spawn(poll(source.clone(), updates.clone()));
    let mut ended = std::pin::pin!(ended());
    let mut asked: Option<Instant> = None;
    loop {
        if app.screen == Screen::Charts && asked.is_none_or(|asked| asked.elapsed() >= HISTORY) {
            asked = Some(Instant::now());
            tokio::spawn(history(source.clone(), app.range(), updates.clone()));
        }
        terminal.draw(|frame| view::draw(frame, &app))?;
        let action = tokio::select! {
            event = pressed.recv() => match event {
                None => return Ok(()),
                Some(Event::Key(key)) if key.is_press() => app.press(key),
                // Redraw, in case of a resize.
                Some(_) => Action::Nothing,
            },
            Some(update) = received.recv() => {
                app.update(update);
                Action::Nothing
            }
            () = &mut ended => Action::Quit,
        };
        match action {
            Action::Quit => return Ok(()),
            Action::Nothing => {}
            Action::Open(id) => drop(tokio::spawn(open(source.clone(), id, updates.clone()))),
            Action::History => asked = None,
        }
    }
}

/// Polls the state until the receiver is dropped.
async fn poll(source: Source, updates: mpsc::Sender<Update>) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen: Option<Instant> = None;
    loop {
        ticks.tick().await;
        let update = match source.ask::<State>("/admin/state").await {
            Ok(state) => {
                seen = Some(Instant::now());
                Update::State(state)
            }
            Err(why) => Update::Gone(why, seen.map(|seen| seen.elapsed().as_secs_f64())),
        };
        if updates.send(update).await.is_err() {
            return;
        }
    }
}

async fn open(source: Source, id: String, updates: mpsc::Sender<Update>) {
    let line = source.ask::<Line>(&format!("/admin/decisions/{}", operator::encoded(&id))).await;
    // The receiver may be gone.
    let _ = updates.send(Update::Decision(line)).await;
}

async fn history(source: Source, range: &'static str, updates: mpsc::Sender<Update>) {
    let history = source.ask::<serde_json::Value>(&format!("/admin/history?range={range}")).await;
    let _ = updates.send(Update::History(history.map(|history| *history))).await;
}

/// Completes on SIGTERM. Ctrl-C is a key in the terminal, but a signal outside.
async fn ended() {
    #[cfg(unix)]
    if let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        return;
    }
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
