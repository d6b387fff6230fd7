//! A real Redis on a free port, if one is installed: it can be killed, paused and restarted.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
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
    args: Vec<String>,
    /// `:PASSWORD@`, or nothing.
    login: String,
}

impl Redis {
    /// Starts a server. `None`, with a message, if Redis is not installed.
    pub async fn start() -> Option<Self> {
        Self::start_with(|_| Vec::new()).await
    }

    /// Starts a server with further options, which may depend on its port.
    pub async fn start_with(options: impl Fn(u16) -> Vec<String>) -> Option<Self> {
        Self::serve(|address, _| {
            let plain =
                ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &address.port().to_string()];
            plain.map(str::to_owned).into_iter().chain(options(address.port())).collect()
        })
        .await
    }

    /// Starts a Sentinel, which requires the password `sentinels`, for the group `main` of this server.
    pub async fn watched_by_sentinel(&self) -> Option<Self> {
        let (main, password) = (self.address.port(), self.login.trim_matches([':', '@']));
        let mut sentinel = Self::serve(|address, dir| {
            let text = format!(
                "bind 127.0.0.1\nport {}\nrequirepass sentinels\nsentinel monitor main 127.0.0.1 {main} 1\n\
                 sentinel auth-pass main {password}\nsentinel down-after-milliseconds main 300\n\
                 sentinel failover-timeout main 1000\n",
                address.port()
            );
            let config = dir.join("sentinel.conf");
            std::fs::write(&config, text).expect("the configuration is written");
            vec![config.display().to_string(), "--sentinel".to_owned()]
        })
        .await?;
        ":sentinels@".clone_into(&mut sentinel.login);
        Some(sentinel)
    }

    async fn serve(args: impl Fn(SocketAddr, &Path) -> Vec<String>) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        // Another process may take the port first.
        for _ in 0..5 {
            let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
            let args = args(address, dir.path());
            let mut child = match serve(&args, &dir) {
                Ok(child) => child,
                Err(error) => {
                    untried(&format!(
                        "redis-server cannot be started here ({error}): sharing is not tried; `apt-get install redis-server` brings it"
                    ));
                    return None;
                }
            };
            if listens(address, &mut child).await {
                let password = args.iter().skip_while(|arg| *arg != "--requirepass").nth(1);
                let login = password.map_or_else(String::new, |password| format!(":{password}@"));
                return Some(Self { child, address, dir, args, login });
            }
        }
        panic!("redis-server found no port");
    }

    /// Address for a policy.
    pub fn url(&self) -> String {
        format!("redis://{}{}", self.login, self.address)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Kills the server; its data is lost.
    pub async fn kill(&mut self) {
        self.child.start_kill().expect("SIGKILL is sent");
        within("Redis to end", self.child.wait()).await.expect("its exit status");
    }

    /// Restarts it at the same address, empty.
    pub async fn again(&mut self) {
        let (address, dir, args) = (self.address, &self.dir, &self.args);
        until("Redis to be back", async || {
            self.child = serve(args, dir).expect("it ran before");
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
        self.try_ask(question).expect("an answer")
    }

    /// Runs a command on a server that may close the connection, as one does whose role changes.
    pub fn try_ask<T: FromRedisValue>(&self, question: &Cmd) -> redis::RedisResult<T> {
        let mut connection: Connection = redis::Client::open(self.url())?.get_connection()?;
        question.query(&mut connection)
    }

    /// Lists its keys of one kind: `x` for answers, `s` for the stream.
    pub fn names(&self, kind: &str) -> Vec<String> {
        self.ask(cmd("KEYS").arg(format!("signalbox:*:{kind}*")))
    }
}

fn serve(args: &[String], dir: &TempDir) -> std::io::Result<Child> {
    Command::new("redis-server")
        .args(args)
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
