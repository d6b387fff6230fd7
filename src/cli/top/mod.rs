//! `signalbox top`: a running gateway in a terminal, or one look at it in a pipe.

mod app;
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

use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event},
};
use serde::de::DeserializeOwned;
use tokio::{sync::mpsc, time::MissedTickBehavior};

use self::{
    app::{App, News, Wish},
    sheet::Said,
    state::{Line, State},
};
use super::{operator, output};
use crate::upstream::{Client, client::FetchError};

/// Time between two looks at the gateway.
const EVERY: Duration = Duration::from_secs(1);
/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Most bytes of an answer.
const MOST: usize = 16 << 20;
/// Width of what goes into a pipe.
const WIDTH: usize = 160;
/// Decisions of which it tells.
const DECISIONS: usize = 10;

/// What the command line says.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    gateway: operator::Gateway,
    /// A key, where something before the gateway asks for one [default: `SIGNALBOX_KEY`]
    #[arg(long)]
    key: Option<String>,
    /// Print how things stand, and end
    #[arg(long)]
    once: bool,
}

pub(super) fn top(args: Args) -> io::Result<ExitCode> {
    let key =
        args.gateway.token().or(args.key).or_else(|| std::env::var("SIGNALBOX_KEY").ok()).filter(|key| !key.is_empty());
    let client = Client::new(PATIENCE).map_err(io::Error::other)?;
    let source = Source { client, admin: args.gateway.base().to_owned(), key };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if args.once {
        return runtime.block_on(once(&source));
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        output::complain("signalbox: this is no terminal: `signalbox top --once` prints how things stand\n");
        return Ok(ExitCode::FAILURE);
    }
    // It restores the terminal when something panics.
    let mut terminal = ratatui::try_init()?;
    let ended = runtime.block_on(watch(source, &mut terminal));
    ratatui::try_restore()?;
    ended.map(|()| ExitCode::SUCCESS)
}

/// Where the gateway is asked.
#[derive(Clone)]
struct Source {
    client: Client,
    admin: String,
    key: Option<String>,
}

impl Source {
    async fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<Box<T>, String> {
        let url = format!("{}{path}", self.admin);
        let fetched = self.client.fetch(&url, self.key.as_deref(), PATIENCE, MOST).await;
        let body = fetched.map_err(|problem: FetchError| problem.to_string())?.body;
        serde_json::from_slice(&body)
            .map(Box::new)
            .map_err(|_| "what answers there is no gateway's admin listener".to_owned())
    }
}

async fn once(source: &Source) -> io::Result<ExitCode> {
    let state: Box<State> = match source.ask("/admin/state").await {
        Ok(state) => state,
        Err(why) => {
            let admin = &source.admin;
            output::complain(&format!("signalbox: no gateway at {admin}: {why} (another address: --admin URL)\n"));
            return Ok(ExitCode::FAILURE);
        }
    };
    let decisions = tables::decisions(&state).lines(WIDTH);
    let blocks = [
        tables::verdict(&state),
        tables::facts(&state, WIDTH),
        tables::pools(&state).lines(WIDTH),
        (0..state.pools.len()).flat_map(|at| tables::pool_words(&state, at)).collect(),
        tables::backends(&state).lines(WIDTH),
        tables::objectives(&state, usize::MAX).lines(WIDTH),
        decisions.into_iter().take(DECISIONS + 1).collect(),
    ];
    let text = |block: Vec<Said>| block.into_iter().map(|said| said.text + "\n").collect::<String>();
    let shown: Vec<_> = blocks.into_iter().filter(|block| !block.is_empty()).map(text).collect();
    let simulated = if state.simulated { ", SIMULATED" } else { "" };
    let head = format!("Signalbox {}{simulated}, policy {}\n\n", state.version, state.hash);
    output::print(&(head + &shown.join("\n"))).map(|()| ExitCode::SUCCESS)
}

async fn watch(source: Source, terminal: &mut DefaultTerminal) -> io::Result<()> {
    let mut app = App::of(&source.admin);
    let (keys, mut pressed) = mpsc::channel(64);
    // It waits for the next key when all else is over, and ends with the process.
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if keys.blocking_send(event).is_err() {
                return;
            }
        }
    });
    let (news, mut heard) = mpsc::channel(4);
    tokio::spawn(listen(source.clone(), news.clone()));
    let mut ended = std::pin::pin!(ended());
    loop {
        terminal.draw(|frame| view::draw(frame, &app))?;
        tokio::select! {
            event = pressed.recv() => match event {
                None => return Ok(()),
                Some(Event::Key(key)) if key.is_press() => match app.press(key) {
                    Wish::Quit => return Ok(()),
                    Wish::Nothing => {}
                    Wish::Open(id) => {
                        tokio::spawn(open(source.clone(), id, news.clone()));
                    }
                },
                // Another size, perhaps: it is drawn anew.
                Some(_) => {}
            },
            Some(news) = heard.recv() => app.hear(news),
            () = &mut ended => return Ok(()),
        }
    }
}

/// Asks for the state again and again, for as long as anybody listens.
async fn listen(source: Source, news: mpsc::Sender<News>) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen: Option<Instant> = None;
    loop {
        ticks.tick().await;
        let told = match source.ask::<State>("/admin/state").await {
            Ok(state) => {
                seen = Some(Instant::now());
                News::State(state)
            }
            Err(why) => News::Gone(why, seen.map(|seen| seen.elapsed().as_secs_f64())),
        };
        if news.send(told).await.is_err() {
            return;
        }
    }
}

async fn open(source: Source, id: String, news: mpsc::Sender<News>) {
    let line = source.ask::<Line>(&format!("/admin/decisions/{}", operator::encoded(&id))).await;
    // Who has ended does not want it any more.
    let _ = news.send(News::Decision(line)).await;
}

/// Somebody else ends the process: Ctrl-C is a key here, a signal is not.
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
