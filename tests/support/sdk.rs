//! The official OpenAI SDKs and a browser automation library, installed once under cargo's target folder and run against a gateway.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
};

use tokio::process::Command;

use super::{package_dir, target_dir};

/// Runs `tests/sdk/openai_python.py` against `base_url` (`http://host:port/v1`); fails the test with its output.
pub async fn python(base_url: &str) {
    let venv = venv("py", &fs::read_to_string(scripts().join("requirements.txt")).expect("the requirements")).await;
    run(Command::new(venv.join("bin/python")).arg(scripts().join("openai_python.py")), base_url).await;
}

/// Runs `tests/sdk/openai_node.mjs` against `base_url`; fails the test with its output.
pub async fn node(base_url: &str) {
    let script = script("node", "package.json", "openai_node.mjs").await;
    run(Command::new("node").arg(script), base_url).await;
}

/// Input of the browser test.
pub struct Browse {
    /// The browser's binary.
    pub chromium: PathBuf,
    /// The page of a gateway with traffic.
    pub page: String,
    /// The page of another gateway.
    pub failing: String,
    /// A connection to this port ends one of its engines.
    pub killer: u16,
    /// Its API.
    pub api: String,
    /// Its policy file.
    pub policy: PathBuf,
}

/// Runs `tests/page/check.mjs`; with a folder in `SIGNALBOX_SHOTS` it leaves screenshots there.
pub async fn page(browse: &Browse) {
    let script = script("page", "../page/package.json", "../page/check.mjs").await;
    fs::copy(scripts().join("../page/looks.mjs"), script.with_file_name("looks.mjs")).expect("its part is copied");
    let mut command = Command::new("node");
    command.arg(script).env("CHROMIUM", &browse.chromium);
    command
        .env("PAGE", &browse.page)
        .env("FAILING", &browse.failing)
        .env("KILLER", browse.killer.to_string())
        .env("API", &browse.api)
        .env("POLICY", &browse.policy);
    if let Some(shots) = env::var_os("SIGNALBOX_SHOTS") {
        command.env("SHOTS", shots);
    }
    run(&mut command, &browse.page).await;
}

/// Copies a script of `tests/sdk` to `target/sdk/{name}`, where the dependencies of `package` are installed.
async fn script(name: &str, package: &str, script: &str) -> PathBuf {
    let package = fs::read_to_string(scripts().join(package)).expect("the package file");
    let home = installed(name, package.clone(), async move |home| {
        fs::create_dir_all(home).map_err(|error| error.to_string())?;
        fs::write(home.join("package.json"), package).map_err(|error| error.to_string())?;
        let install = ["install", "--no-audit", "--no-fund", "--no-package-lock"];
        output(Command::new("npm").args(install).current_dir(home), "npm (Node.js 20 or later) must be installed").await
    })
    .await;
    // Modules are resolved relative to the script, so it has to be beside them.
    let copy = home.join("script.mjs");
    fs::copy(scripts().join(script), &copy).expect("the script is copied");
    copy
}

/// Installs a Python environment with these requirements in `target/sdk/{name}`.
pub async fn venv(name: &str, requirements: &str) -> PathBuf {
    let text = requirements.to_owned();
    installed(name, text.clone(), async move |home| {
        let need = "python3 with its venv module must be installed (Debian: python3-venv)";
        output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(home), need).await?;
        fs::write(home.join("requirements.txt"), text).map_err(|error| error.to_string())?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"];
        output(Command::new(home.join("bin/python")).args(pip).current_dir(home), "pip must reach a package index")
            .await
    })
    .await
}

/// Returns the folder `target/sdk/{name}`, filled by `install` unless it already holds this `version`.
async fn installed(name: &str, version: String, install: impl AsyncFnOnce(&Path) -> Result<(), String>) -> PathBuf {
    let root = target_dir().join("sdk");
    fs::create_dir_all(&root).expect("a folder under target");
    let lock = File::create(root.join(format!("{name}.lock"))).expect("a lock file");
    // Other tests and other runs wait here until the first has installed; the lock goes with the file.
    let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await.expect("the lock's thread");
    let _lock = lock.expect("the lock");
    let (home, stamp) = (root.join(name), root.join(format!("{name}.installed")));
    if fs::read_to_string(&stamp).is_ok_and(|done| done == version) && home.exists() {
        return home;
    }
    if let Err(problem) = install(&home).await {
        panic!("{} could not be installed: {problem}", home.display());
    }
    fs::write(&stamp, version).expect("the stamp is written");
    home
}

async fn run(command: &mut Command, base_url: &str) {
    let out = command.env("BASE_URL", base_url).kill_on_drop(true).output().await.expect("the interpreter runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "the checks failed\n{stdout}{stderr}");
    eprint!("{stdout}");
}

/// Runs an installer. The error states what is `needed` and the installer's output.
async fn output(command: &mut Command, needed: &str) -> Result<(), String> {
    match command.kill_on_drop(true).output().await {
        Ok(out) if out.status.success() => Ok(()),
        Ok(out) => {
            Err(format!("{needed}\n{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr)))
        }
        Err(error) => Err(format!("{needed} ({error})")),
    }
}

fn scripts() -> PathBuf {
    package_dir().join("tests/sdk")
}
