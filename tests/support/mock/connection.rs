//! Carries out plans on the mock's connections and detects clients that leave.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream, tcp::OwnedWriteHalf},
    task::JoinSet,
};

use super::{
    Shared, State, answers,
    plan::{Ending, Framing, Plan, Step},
    request::{Fate, Reader, Seen},
};

/// Accepts connections until it is aborted; aborting ends the connections.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (mut number, mut dropped) = (0, false);
        shared.state.send_modify(|state| {
            number = state.connections;
            state.connections += 1;
            dropped = state.drops > 0;
            state.drops = state.drops.saturating_sub(1);
        });
        if !dropped {
            connections.spawn(serve(stream, number, Arc::clone(&shared)));
        }
        while connections.try_join_next().is_some() {}
    }
}

/// State of a connection after a request.
type Keep = bool;

/// The client left.
struct Gone;

impl From<std::io::Error> for Gone {
    fn from(_: std::io::Error) -> Self {
        Self
    }
}

async fn serve(stream: TcpStream, number: usize, shared: Arc<Shared>) {
    stream.set_nodelay(true).ok();
    let (read, write) = stream.into_split();
    let mut line = Line { reader: Reader::new(read), write, shared, reset: false };
    while let Some(seen) = line.reader.request(number).await {
        let asked_to_close = seen.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let kept = match built_in(&seen, &line.shared) {
            Some(plan) => {
                line.shared.state.send_modify(|state| state.probes.push(seen));
                line.carry_out(plan).await.unwrap_or(false)
            }
            None => line.answer(seen).await,
        };
        if !kept || asked_to_close {
            break;
        }
    }
    if line.reset {
        line.write.forget(); // otherwise dropping it would send an orderly end first
    }
}

/// Returns the mock's default answer to a probe.
fn built_in(seen: &Seen, shared: &Shared) -> Option<Plan> {
    let state = shared.state.borrow();
    if seen.method == "POST" && *seen.body == *b"[]" {
        let serves = state.apis.contains(&seen.path);
        return Some(if serves { Plan::error(400, "not an object") } else { Plan::error(404, "Not Found") });
    }
    if seen.method != "GET" {
        return None;
    }
    if let Some(plan) = state.probe.as_ref().and_then(|probe| probe(seen)) {
        return Some(plan);
    }
    let path = seen.path.split('?').next()?;
    match path.rsplit('/').next()? {
        "models" => Some(Plan::json(200, &answers::models_list(&state.models))),
        "health" => Some(Plan::text(state.health, "application/json", r#"{"status":"mock"}"#)),
        "metrics" if state.metrics.is_empty() => Some(Plan::error(404, "no metrics")),
        "ps" | "running" => Some(Plan::error(404, "models are not loaded on demand")),
        "metrics" => Some(Plan::text(200, "text/plain; version=0.0.4", state.metrics.clone())),
        _ => None,
    }
}

/// One connection.
struct Line {
    reader: Reader,
    write: OwnedWriteHalf,
    shared: Arc<Shared>,
    /// True if the connection ends with a reset.
    reset: bool,
}

impl Line {
    /// Records the request, carries out its plan, and records its fate.
    async fn answer(&mut self, mut seen: Seen) -> Keep {
        let mut number = 0;
        self.shared.state.send_modify(|state| {
            number = state.seen.len();
            seen.number = number;
            state.seen.push(seen.clone());
        });
        let settle = Settle { shared: Arc::clone(&self.shared), number };
        let plan = (self.shared.decide)(&seen);
        let end = self.carry_out(plan).await;
        settle.to(if end.is_ok() { Fate::Done } else { Fate::ClientGone });
        end.unwrap_or(false)
    }

    async fn carry_out(&mut self, plan: Plan) -> Result<Keep, Gone> {
        let steps = plan.finished();
        let length: usize = steps.iter().map(|step| if let Step::Body(bytes) = step { bytes.len() } else { 0 }).sum();
        let mut framing = Framing::Length;
        for step in steps {
            match step {
                Step::Head { status, headers, framing: how } => {
                    framing = how;
                    self.write(&head(status, &headers, framing, length)).await?;
                }
                Step::Body(bytes) if framing == Framing::Chunked => self.write(&chunk(&bytes)).await?,
                Step::Body(bytes) | Step::Raw(bytes) => self.write(&bytes).await?,
                Step::Gate(number) => self.gate(number).await?,
                Step::Pause(time) => self.pause(time).await?,
                Step::Ending(ending) => return self.end(ending, framing).await,
            }
        }
        Ok(true)
    }

    async fn end(&mut self, ending: Ending, framing: Framing) -> Result<Keep, Gone> {
        match ending {
            Ending::Complete | Ending::CompleteAndClose => {
                if framing == Framing::Chunked {
                    self.write(b"0\r\n\r\n").await?;
                }
                Ok(ending == Ending::Complete)
            }
            Ending::Cut => Ok(false),
            Ending::Reset => {
                self.write.as_ref().set_zero_linger()?;
                self.reset = true;
                Ok(false)
            }
            Ending::Hang => {
                self.reader.closed().await;
                Err(Gone)
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        tokio::select! {
            biased;
            () = self.reader.closed() => Err(Gone),
            written = self.write.write_all(bytes) => Ok(written?),
        }
    }

    async fn gate(&mut self, number: usize) -> Result<(), Gone> {
        let mut changes = self.shared.state.subscribe();
        tokio::select! {
            biased;
            () = self.reader.closed() => Err(Gone),
            _ = changes.wait_for(|state: &State| state.gates.contains(&number)) => Ok(()),
        }
    }

    async fn pause(&mut self, time: Duration) -> Result<(), Gone> {
        tokio::select! {
            biased;
            () = self.reader.closed() => Err(Gone),
            () = tokio::time::sleep(time) => Ok(()),
        }
    }
}

/// Records a request's fate; if dropped before that (the mock was stopped) it counts as done.
struct Settle {
    shared: Arc<Shared>,
    number: usize,
}

impl Settle {
    fn to(self, fate: Fate) {
        self.shared.state.send_modify(|state| state.seen[self.number].fate = fate);
    }
}

impl Drop for Settle {
    fn drop(&mut self) {
        self.shared.state.send_if_modified(|state| {
            let fate = &mut state.seen[self.number].fate;
            *fate == Fate::Open && {
                *fate = Fate::Done;
                true
            }
        });
    }
}

fn head(status: u16, headers: &[(String, String)], framing: Framing, length: usize) -> Vec<u8> {
    let reason = http::StatusCode::from_u16(status).ok().and_then(|code| code.canonical_reason()).unwrap_or("Unknown");
    let headers: String = headers.iter().fold(String::new(), |text, (name, value)| text + name + ": " + value + "\r\n");
    let framing = match framing {
        Framing::Length => format!("content-length: {length}"),
        Framing::Chunked => "transfer-encoding: chunked".to_owned(),
    };
    format!("HTTP/1.1 {status} {reason}\r\n{headers}{framing}\r\n\r\n").into_bytes()
}

fn chunk(bytes: &Bytes) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}
