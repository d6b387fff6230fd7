//! Description of the machine.

use std::{fs, process::Command, thread};

use serde_json::{Value, json};

/// Reads processor, kernel, compiler and load.
pub(crate) fn read() -> Value {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    json!({
        "cpus": thread::available_parallelism().map_or(0, usize::from),
        "model": model.map_or("unknown", |(_, name)| name),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
        "rustc": output("rustc", "--version"),
        "nginx": output("nginx", "-v"),
        "load": load.split_whitespace().next(),
    })
}

/// Formats processor, kernel and compiler in one line.
pub(crate) fn line(machine: &Value) -> String {
    let text = |key: &str| machine[key].as_str().unwrap_or("unknown").to_owned();
    format!("{} vCPU ({}), Linux {}, {}", machine["cpus"], text("model"), text("kernel"), text("rustc"))
}

fn output(program: &str, arg: &str) -> Option<String> {
    let output = Command::new(program).arg(arg).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&text).trim().to_owned())
}
