//! A WebSocket connection: reads the client's frames, runs its turns in lanes, and writes their frames.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use super::{
    create::{ClientFrame, Create},
    frame,
    history::{History, Past},
    turn::{FromTurn, Turn, Walk},
};
use crate::{
    body_fault::too_large,
    body_memory::{BodyMemory, Share},
    stored_responses::new_state_root,
};
use signalbox_protocol::LONG_BODY;
use signalbox_types::{Fault, wall_clock};

/// Interval at which the client is asked whether it is still there.
const PING: Duration = Duration::from_secs(30);
/// The longest that the closing handshake may take.
const CLOSING: Duration = Duration::from_secs(5);
/// The most lanes with turns under way on a connection.
const MOST_LANES: usize = 32;
/// The most turns that wait in a lane.
const MOST_WAITING: usize = 16;
/// The part of the memory of bodies that the histories of all connections may take beside it, as a divisor.
const HISTORY_PART: usize = 4;
/// Frames of all turns that wait to be written.
const WRITE_QUEUE: usize = 16;

/// Parts of a session.
pub(super) struct Session {
    pub(super) walk: Walk,
    /// Headers of each turn.
    pub(super) head: HeaderMap,
    /// Memory of bodies, to which frames that wait belong.
    pub(super) bodies: Arc<BodyMemory>,
    /// Memory of the histories of all connections: what idle ones keep must not take the room of requests.
    pub(super) histories: Arc<BodyMemory>,
    /// The most bytes of a frame.
    pub(super) most: usize,
    /// The most bytes of all bodies.
    pub(super) most_of_all: usize,
}

type Lane = Option<String>;

/// Turns of a connection.
struct Turns {
    session: Session,
    /// Turns that wait, by lanes that have one under way.
    lanes: HashMap<Lane, VecDeque<Create>>,
    running: JoinSet<()>,
    history: History,
    frames: mpsc::Sender<FromTurn>,
}

impl Session {
    /// Serves the connection until either side closes it. Once `stop` is true, it ends with the turns under way.
    pub(super) async fn run(self, upgrade: OnUpgrade, mut stop: watch::Receiver<bool>) {
        let Ok(connection) = upgrade.await else { return };
        let config = WebSocketConfig::default().max_message_size(Some(self.most)).max_frame_size(Some(self.most));
        let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(connection), Role::Server, Some(config)).await;
        let (to, mut frames) = mpsc::channel(WRITE_QUEUE);
        let history = History::new(self.histories.clone(), self.most, self.most_of_all / HISTORY_PART);
        let mut turns = Turns { session: self, lanes: HashMap::new(), running: JoinSet::new(), history, frames: to };
        let mut ping = interval_at(Instant::now() + PING, PING);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut is_alive, mut is_stopping) = (true, false);
        loop {
            let written = tokio::select! {
                message = socket.next() => match message {
                    Some(Ok(Message::Text(text))) => { is_alive = true; turns.read(text.into(), is_stopping).await }
                    Some(Ok(Message::Binary(bytes))) => { is_alive = true; turns.read(bytes, is_stopping).await }
                    Some(Ok(Message::Close(_))) | None => break,
                    Some(Ok(_)) => { is_alive = true; None }
                    Some(Err(Error::Capacity(_))) => return close(socket, &too_large(turns.session.most), CloseCode::Size).await,
                    Some(Err(_)) => break,
                },
                Some(frame) = frames.recv() => match frame {
                    FromTurn::Frame(frame) => Some(Message::text(frame)),
                    FromTurn::Ping => Some(Message::Ping(Bytes::new())),
                    FromTurn::Ended { lane, past } => { turns.ended(&lane, past); None }
                },
                _ = ping.tick() => {
                    if !std::mem::take(&mut is_alive) {
                        return;
                    }
                    Some(Message::Ping(Bytes::new()))
                },
                () = stopped(&mut stop), if !is_stopping => { is_stopping = true; None }
            };
            if let Some(message) = written
                && socket.send(message).await.is_err()
            {
                return;
            }
            if is_stopping && turns.lanes.is_empty() {
                return close(socket, &stopping(), CloseCode::Away).await;
            }
        }
        closed(&mut socket).await;
    }
}

impl Turns {
    /// Reads a frame of the client. Returns a frame to write, if there is one.
    async fn read(&mut self, bytes: Bytes, is_stopping: bool) -> Option<Message> {
        let error = |fault: &Fault, lane: &Lane| Some(Message::text(frame::fault(fault, lane.as_deref())));
        let mut share = Share::new(self.session.bodies.clone());
        if let Err(fault) = share.grow(bytes.len(), self.session.most_of_all) {
            return error(&fault, &None);
        }
        let bytes = share.of(bytes);
        // A turn with a long history would hold up a worker.
        let read = match bytes.len() {
            ..=LONG_BODY => ClientFrame::read(bytes),
            _ => tokio::task::spawn_blocking(|| ClientFrame::read(bytes)).await.ok()?,
        };
        match read {
            Ok(ClientFrame::Notice) => None,
            Ok(ClientFrame::Create(create)) if is_stopping => error(&stopping(), &create.lane),
            Ok(ClientFrame::Create(create)) => {
                let is_full = self.lanes.len() >= MOST_LANES;
                match self.lanes.get_mut(&create.lane) {
                    Some(waiting) if waiting.len() >= MOST_WAITING => return error(&too_many(), &create.lane),
                    Some(waiting) => waiting.push_back(create),
                    None if is_full => return error(&too_many(), &create.lane),
                    None => self.begin(create),
                }
                None
            }
            Err((lane, fault)) => error(&fault, &lane),
        }
    }

    /// Begins a turn in a lane without one.
    fn begin(&mut self, create: Create) {
        self.lanes.entry(create.lane.clone()).or_default();
        let earlier = create.previous.as_deref().and_then(|id| self.history.items(id));
        let frames = self.frames.clone();
        if create.generates {
            let (walk, headers) = (self.session.walk.clone(), self.session.head.clone());
            self.running.spawn(Turn { create, earlier, walk, headers }.run(frames));
        } else {
            self.running.spawn(announce(create, earlier, frames));
        }
    }

    /// Takes note that the turn of a lane has ended, and begins the next one.
    fn ended(&mut self, lane: &Lane, past: Option<Past>) {
        while self.running.try_join_next().is_some() {}
        if let Some(past) = past {
            self.history.add(past);
        }
        let next = self.lanes.get_mut(lane).and_then(VecDeque::pop_front);
        match next {
            Some(create) => self.begin(create),
            None => drop(self.lanes.remove(lane)),
        }
    }
}

/// A turn that generates nothing: the connection keeps its input.
async fn announce(create: Create, earlier: Option<Bytes>, frames: mpsc::Sender<FromTurn>) {
    let id = format!("resp_{}", new_state_root());
    let events = frame::announced(&id, create.model.as_deref(), wall_clock::seconds(), create.lane.as_deref());
    for event in events {
        if frames.send(FromTurn::Frame(event)).await.is_err() {
            return;
        }
    }
    let past = Past { id, items: create.items(earlier.as_ref()) };
    // The connection may be gone.
    let _ = frames.send(FromTurn::Ended { lane: create.lane, past: Some(past) }).await;
}

/// Closes the connection with an error.
async fn close(mut socket: WebSocketStream<TokioIo<Upgraded>>, fault: &Fault, code: CloseCode) {
    let reason = CloseFrame { code, reason: "".into() };
    // The client may be gone.
    if socket.send(Message::text(frame::fault(fault, None))).await.is_ok() && socket.close(Some(reason)).await.is_ok() {
        closed(&mut socket).await;
    }
}

/// Completes the closing handshake: reading sends the answer to the client's close frame, or awaits it.
async fn closed(socket: &mut WebSocketStream<TokioIo<Upgraded>>) {
    let rest = async { while let Some(Ok(_)) = socket.next().await {} };
    // A client that does not answer is left.
    let _ = timeout(CLOSING, rest).await;
}

/// Waits until the listener stops.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Without a listener, it has stopped.
    drop(stop.wait_for(|stop| *stop).await);
}

fn stopping() -> Fault {
    let message = "this gateway ends its connections: connect again to continue";
    Fault::client(StatusCode::BAD_REQUEST, "socket_closing", message).with_code("websocket_connection_limit_reached")
}

fn too_many() -> Fault {
    let message = format!(
        "too many turns wait on this connection: at most {MOST_LANES} streams with {MOST_WAITING} waiting turns each"
    );
    Fault::client(StatusCode::TOO_MANY_REQUESTS, "too_many_turns", message).with_code("rate_limit_exceeded")
}
