//! Embeds the gateway as a library: a policy from a string, your own runtime, and a callback when it accepts requests.
//!
//! Run `cargo run --example embed` with an engine at the address below.
#![expect(clippy::print_stdout, reason = "an example prints to its user")]

use signalbox::{
    config::Config,
    policy::compile,
    server::{Bound, Options, run},
};

const POLICY: &str = "
listen: 127.0.0.1:4100
pools:
  small: { model: qwen2.5-7b-instruct, backends: [http://127.0.0.1:8000/v1] }
models:
  auto: { to: small }
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policy = compile(&POLICY.parse::<Config>()?)?;
    let ready = Box::new(|bound: Bound| {
        println!("listening on http://{}/v1", bound.listen);
        Ok(())
    });
    // Serves until SIGTERM or Ctrl-C, then lets streams finish.
    run(Options { policy, source: None, ready }).await?;
    Ok(())
}
