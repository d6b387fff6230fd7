//! A real Redis on a free port, where one is installed: it can be killed, stopped in its tracks and started again.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    process::Stdio,
};

use redis::{Cmd, Connection, FromRedisValue, cmd};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::{until, untried, within};

/// A running server; it ends when dropped.
pub struct Redis {
    child: Child,
    address: SocketAddr,
    dir: TempDir,
}

impl Redis {
    /// Starts one; `None`, with a message, where it is not installed.
    pub async fn start() -> Option<Self> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        // Somebody else may take the port before it does.
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

    /// Its address, as policies have it.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Ends it at once; all that it held is gone.
    pub async fn kill(&mut self) {
        self.child.start_kill().expect("SIGKILL is sent");
        within("Redis to end", self.child.wait()).await.expect("its exit status");
    }

    /// Starts it again where it was, empty.
    pub async fn again(&mut self) {
        let (address, dir) = (self.address, &self.dir);
        until("Redis to be back", async || {
            self.child = serve(address, dir).expect("it ran before");
            listens(address, &mut self.child).await
        })
        .await;
    }

    /// Stops it in its tracks (`STOP`), or lets it go on (`CONT`).
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().expect("Redis runs");
        let sent = std::process::Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
        assert!(sent.is_ok_and(|status| status.success()), "SIG{name} could not be sent");
    }

    /// Asks it something.
    pub fn ask<T: FromRedisValue>(&self, question: &Cmd) -> T {
        let client = redis::Client::open(self.url()).expect("its address");
        let mut connection: Connection = client.get_connection().expect("a connection");
        question.query(&mut connection).expect("an answer")
    }

    /// The names of all that it holds and that begin with what one of ours ends with: `x` for answers, `s` for the stream.
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

/// Whether it comes to listen; not if it ends.
async fn listens(address: SocketAddr, child: &mut Child) -> bool {
    let mut alive = true;
    until("Redis to listen", async || {
        alive = child.try_wait().is_ok_and(|ended| ended.is_none());
        !alive || TcpStream::connect(address).is_ok()
    })
    .await;
    alive
}
