//! A real Redis on a free port, if one is installed: it can be killed, paused and restarted.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    process::Stdio,
};

use redis::{Cmd, Connection, FromRedisValue, cmd};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::{until, untried, within};

/// A running server, ended on drop.
pub struct Redis {
    child: Child,
    address: SocketAddr,
    dir: TempDir,
}

impl Redis {
    /// Starts a server. `None`, with a message, if Redis is not installed.
    pub async fn start() -> Option<Self> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        // Another process may take the port first.
        for _ in 0..5 {
            let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
            let mut child = match serve(address, &dir) {
                Ok(child) => child,
                Err(error) => {
                    untried(&format!(
                        "redis-server cannot be started here ({error}): sharing is not tried; `apt-get install redis-server` brings it"
                    ));
                    return None;
                }
            };
            if listens(address, &mut child).await {
                return Some(Self { child, address, dir });
            }
        }
        panic!("redis-server found no port");
    }

    /// Address for a policy.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Kills the server; its data is lost.
    pub async fn kill(&mut self) {
        self.child.start_kill().expect("SIGKILL is sent");
        within("Redis to end", self.child.wait()).await.expect("its exit status");
    }

    /// Restarts it at the same address, empty.
    pub async fn again(&mut self) {
        let (address, dir) = (self.address, &self.dir);
        until("Redis to be back", async || {
            self.child = serve(address, dir).expect("it ran before");
            listens(address, &mut self.child).await
        })
        .await;
    }

    /// Pauses (`STOP`) or continues (`CONT`) the process.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().expect("Redis runs");
        let sent = std::process::Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
        assert!(sent.is_ok_and(|status| status.success()), "SIG{name} could not be sent");
    }

    /// Runs a command on it.
    pub fn ask<T: FromRedisValue>(&self, question: &Cmd) -> T {
        let client = redis::Client::open(self.url()).expect("its address");
        let mut connection: Connection = client.get_connection().expect("a connection");
        question.query(&mut connection).expect("an answer")
    }

    /// Lists its keys of one kind: `x` for answers, `s` for the stream.
    pub fn names(&self, kind: &str) -> Vec<String> {
        self.ask(cmd("KEYS").arg(format!("signalbox:*:{kind}*")))
    }
}

fn serve(address: SocketAddr, dir: &TempDir) -> std::io::Result<Child> {
    Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
        .args(["--save", "", "--appendonly", "no"])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
}

/// Waits until it listens; false if it ends first.
async fn listens(address: SocketAddr, child: &mut Child) -> bool {
    let mut alive = true;
    until("Redis to listen", async || {
        alive = child.try_wait().is_ok_and(|ended| ended.is_none());
        !alive || TcpStream::connect(address).is_ok()
    })
    .await;
    alive
}
