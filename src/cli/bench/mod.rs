//! `signalbox bench`: load-tests a running server.

mod args;
mod report;

use std::{
    fmt::Write as _,
    io::{self, IsTerminal},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

pub(super) use self::args::Args;
use self::report::{Compared, Results};
use super::{output, simulate::recorded};
use signalbox_config::Problems;
use signalbox_loadgen::{
    Figures, Gateway, Http, Limits, Load, MOST_REQUESTS, Plan, Progress, SetUp, Shape, first_model, run, trial,
};
use signalbox_upstream::Client;

/// Default duration.
const USUAL_DURATION: Duration = Duration::from_secs(30);
/// Time limit for connecting.
const CONNECT: Duration = Duration::from_secs(10);
/// Descriptors in addition to those of connections.
const SPARE: u64 = 64;
/// Steps of the progress bar.
const STEPS: u64 = 1_000;

/// Reason for which the run could not start.
enum Problem {
    /// In the trace.
    Trace(Problems),
    /// Elsewhere.
    Other(String),
}

pub(super) fn bench(args: &Args) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match runtime.block_on(measure(args)) {
        Ok(results) => {
            if args.json {
                output::json(&report::json(&results))?;
            } else {
                output::print(&report::text(&results))?;
            }
            Ok(verdict(&results.figures, args.max_failed))
        }
        Err(Problem::Trace(problems)) => {
            output::complain(&output::report(&problems));
            Ok(ExitCode::FAILURE)
        }
        Err(Problem::Other(problem)) => {
            output::complain(&format!("signalbox: {problem}\n"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The exit code, with its reason on standard error: a run in CI must not pass where nothing was measured.
fn verdict(figures: &Figures, max_failed: Option<f64>) -> ExitCode {
    let (failed, all) = (figures.failed, figures.requests);
    let problem = match max_failed {
        _ if failed == all => format!("none of {all} requests was answered"),
        Some(most) if figures.failed_share() > most => {
            format!("{failed} of {all} requests failed, more than {} %", most * 100.0)
        }
        _ => return ExitCode::SUCCESS,
    };
    output::complain(&format!("signalbox: {problem}\n"));
    ExitCode::FAILURE
}

async fn measure(args: &Args) -> Result<Results, Problem> {
    let other = |error: &dyn std::fmt::Display| Problem::Other(error.to_string());
    let (base, root) = args.addresses().map_err(Problem::Other)?;
    let (plan, planned, load) = planned(args)?;
    let at_once = args.concurrency.unwrap_or(args.connections);
    let descriptors = rlimit::increase_nofile_limit(u64::from(at_once) + SPARE).unwrap_or(u64::MAX);
    if descriptors < u64::from(at_once) + SPARE {
        let most = descriptors.saturating_sub(SPARE);
        return Err(Problem::Other(format!(
            "this process may open {descriptors} files, too few for {at_once} connections: raise the limit (`ulimit -n`), or use at \
             most {most} (`--connections`, `--concurrency`)"
        )));
    }
    let client = Client::new(CONNECT).map_err(|error| other(&error))?;
    let key = args.key();
    let model = match &args.model {
        Some(model) => model.clone(),
        None => first_model(&client, &base, key.as_deref()).await.map_err(|error| other(&error))?,
    };
    let set_up = SetUp {
        base: base.clone(),
        key: key.clone(),
        model: model.clone(),
        headers: args.header.clone(),
        body: args.body.0.clone(),
        seed: args.seed,
    };
    let http = Http::new(client.clone(), set_up).map_err(|error| other(&error))?;
    let whole = args.form().unwrap_or(false);
    let mut gateway = Gateway::find(&client, &root, key.clone()).await;
    let tried = trial(&client, &http, &base, key.as_deref(), &model, whole, args.timeout).await;
    let tried = tried.map_err(|error| other(&error))?;
    if let Some(gateway) = &mut gateway {
        gateway.leave_out(&tried).await;
    }
    let bar = Bar::new(&plan, planned);
    let work = Load { plan, at_once: at_once as usize, timeout: args.timeout };
    let mut is_stopped = false;
    let stop = async {
        stopped().await;
        is_stopped = true;
    };
    let tally = run(Arc::new(http), work, |progress| bar.update(progress), stop).await;
    bar.0.finish_and_clear();
    if is_stopped {
        output::complain("signalbox: stopped by a signal: these are the figures up to here\n");
    }
    let compared = match gateway {
        None => None,
        Some(gateway) => {
            let theirs = gateway.since(&tally.counted).await;
            theirs.map(|theirs| Compared { ours: tally.counted, theirs, round_trip: gateway.round_trip })
        }
    };
    let form = match args.form() {
        Some(true) => "whole answers",
        None if args.trace.is_some() => "streams, unless the trace says otherwise",
        _ => "streams",
    };
    let open = args.concurrency.is_none();
    Ok(Results { target: base, model, load, form, open, figures: Figures::of(tally, args.slo()), compared })
}

/// Waits for SIGINT or SIGTERM. Without signal handling the run goes on to its end.
async fn stopped() {
    let interrupted = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut terminate) = signal(SignalKind::terminate()) else { return interrupted.await };
        tokio::select! {
            () = interrupted => {}
            _ = terminate.recv() => {}
        }
    }
    #[cfg(not(unix))]
    interrupted.await;
}

/// The plan, its number of requests (if known), and its description.
fn planned(args: &Args) -> Result<(Plan, Option<u64>, String), Problem> {
    let lengths = || format!("prompts of {} tokens, answers of {}", args.prompt_tokens, args.output_tokens);
    let usual = || (args.requests.is_none()).then_some(USUAL_DURATION);
    let (prompt, output) = (args.prompt_tokens, args.output_tokens);
    let limits = |duration| Limits { warmup: args.warmup.unwrap_or_default(), duration, requests: args.requests };
    let (shape, limits, known, mut said) = if let Some(file) = &args.trace {
        let (named, recording) = recorded(file, args.trace_format).map_err(Problem::Trace)?;
        let limits = limits(args.duration);
        let in_time = |at: Duration| at.as_secs_f64() / args.speed < limits.end().as_secs_f64();
        let count = recording.arrivals.iter().take_while(|arrival| in_time(arrival.at)).count() as u64;
        let name = named.map_or_else(|| "MADE-UP arrivals like Azure's".to_owned(), |file| file.display().to_string());
        let said = format!("open loop, {name} ({}), {} × as fast", recording.format.name(), args.speed);
        let block_tokens = recording.format.block_tokens();
        let shape = Shape::Trace { arrivals: recording.arrivals.into(), speed: args.speed, block_tokens };
        (shape, limits, Some(count), said)
    } else if let Some(per_second) = args.rate {
        let limits = limits(args.duration.or_else(usual));
        let seconds = limits.duration.map(|duration| (duration + limits.warmup).as_secs_f64());
        let known = seconds.map(|seconds| (per_second * seconds) as u64);
        let said = format!("open loop, {per_second} requests/s ({}), {}", args.arrivals.name(), lengths());
        (Shape::Rate { per_second, arrivals: args.arrivals.arrivals(), prompt, output }, limits, known, said)
    } else {
        let at_once = args.concurrency.unwrap_or(1);
        let said = format!("closed loop, {at_once} at once, {}", lengths());
        (Shape::Closed { prompt, output }, limits(args.duration.or_else(usual)), None, said)
    };
    let known = match (known, limits.requests) {
        (Some(known), Some(most)) => Some(known.min(most)),
        (known, most) => known.or(most),
    };
    if known.is_some_and(|count| count > MOST_REQUESTS) {
        return Err(Problem::Other(format!(
            "that would be more than {MOST_REQUESTS} requests, the most that are supported: limit them with `--duration` or `--requests`"
        )));
    }
    if let Some(duration) = limits.duration {
        let _ = write!(said, ", for {duration:?}");
    }
    if !limits.warmup.is_zero() {
        let _ = write!(said, " after {:?} of warm-up", limits.warmup);
    }
    Ok((Plan::new(shape, limits, args.form(), args.seed), known, said))
}

/// Progress bar on standard error.
struct Bar(ProgressBar, Duration, Option<u64>);

impl Bar {
    fn new(plan: &Plan, planned: Option<u64>) -> Self {
        let end = plan.limits().end();
        if !io::stderr().is_terminal() {
            return Self(ProgressBar::hidden(), end, planned);
        }
        let style = ProgressStyle::with_template("{bar:30} {elapsed} {msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(ProgressBar::new(STEPS).with_style(style), end, planned)
    }

    /// Shows the further of time and requests.
    fn update(&self, progress: Progress) {
        let Self(bar, end, planned) = self;
        let by_time = progress.elapsed.as_secs_f64() / end.as_secs_f64();
        let by_count = planned.map_or(0.0, |planned| progress.ended as f64 / planned.max(1) as f64);
        bar.set_position((by_time.max(by_count).min(1.0) * STEPS as f64) as u64);
        bar.set_message(format!("{} ended, {} failed, {} in progress", progress.ended, progress.failed, progress.open));
    }
}
