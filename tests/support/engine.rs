//! Real llama.cpp engines with tiny models, if a folder of such models is present.

use std::{path::PathBuf, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use super::{client, package_dir, sdk, within};

/// Model of an engine.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Model {
    /// Chat, completions, tools, JSON schema.
    Chat,
    /// Embeddings.
    Embed,
}

/// A running llama.cpp server, ended on drop.
pub struct Engine {
    base: String,
    _child: Child,
}

impl Engine {
    /// Starts a server with `slots` slots and a context that they share. `None`, with a message, if there are no models.
    pub async fn start(model: Model, slots: u32, context: u32) -> Option<Self> {
        let folder =
            std::env::var_os("SIGNALBOX_ENGINE").map_or_else(|| package_dir().join("../shared/engine"), PathBuf::from);
        let file = folder.join(match model {
            Model::Chat => "tiny.gguf",
            Model::Embed => "tiny-embed.gguf",
        });
        if !file.is_file() {
            eprintln!("no real engine: {} is missing (set SIGNALBOX_ENGINE to a folder that has it)", file.display());
            return None;
        }
        let requirements = include_str!("../sdk/engine-requirements.txt");
        let python = sdk::venv("engine", requirements).await.join("bin/python");
        let mut child = Command::new(python)
            .arg(package_dir().join("tests/sdk/llama_server.py"))
            .arg(&file)
            .args([slots.to_string(), context.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("the engine's interpreter runs");
        let mut lines = BufReader::new(child.stdout.take().expect("a piped stdout")).lines();
        let base = within("llama.cpp to say where it listens", async {
            while let Some(line) = lines.next_line().await.expect("its stdout is text") {
                if let Some(address) = line.strip_prefix("listening ") {
                    return address.to_owned();
                }
            }
            panic!("llama.cpp ended before it was ready");
        })
        .await;
        let engine = Self { base, _child: child };
        engine.wait_healthy().await;
        Some(engine)
    }

    /// Base address for a policy: `http://127.0.0.1:PORT/v1`.
    pub fn url(&self) -> String {
        format!("{}/v1", self.base)
    }

    /// Address of a path outside the API, such as `/metrics` or `/slots`.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    async fn wait_healthy(&self) {
        within("llama.cpp to be healthy", async {
            let mut tick = tokio::time::interval(Duration::from_millis(50));
            loop {
                tick.tick().await;
                if client::get(&self.at("/health")).await.status.is_success() {
                    return;
                }
            }
        })
        .await;
    }
}
