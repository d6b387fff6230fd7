//! `signalbox simulate`: plays recorded traffic under policies, on simulated engines and a virtual clock.

mod args;
mod chart;
mod overload;
mod report;
mod results;

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

pub(super) use self::args::{Args, TraceFormat, time};
use self::results::{Played, Results};
use super::{output, progress, sources};
use signalbox_config::{Config, Problem, Problems};
use signalbox_policy::{Objectives, Policy, RouteChoice, Rule, compile};
use signalbox_sim::{
    Profile,
    engines_file::EnginesFile,
    experiment::{Routing, SEARCH, Subject, Traffic, goodput, play_all},
    figures::Slo,
    recording::{Format, Recording},
    rule_router::{Undecided, undecided},
    trace::{Arrival, excerpt},
};
use signalbox_types::Name;

/// Name in place of a trace file for synthetic arrivals: their number, and their rate per second.
const EXCERPT: &str = "excerpt";
const EXCERPT_ARRIVALS: usize = 2_400;
const EXCERPT_PER_SECOND: f64 = 2.0;

pub(super) fn simulate(args: &Args) -> io::Result<ExitCode> {
    let results = match prepare(args) {
        Ok(subjects) => play(args, subjects),
        Err(problems) => {
            output::complain(&output::report(&problems));
            return Ok(ExitCode::FAILURE);
        }
    };
    if let Some(file) = &args.plot {
        let drawn = chart::draw(&results).map_err(|error| format!("the figures cannot be drawn: {error}"));
        let written = drawn.and_then(|svg| {
            std::fs::write(file, svg).map_err(|error| format!("{} cannot be written: {error}", file.display()))
        });
        if let Err(problem) = written {
            output::complain(&format!("signalbox: {problem}\n"));
            return Ok(ExitCode::FAILURE);
        }
    }
    if args.json {
        output::json(&report::json(&results))?;
    } else {
        output::print(&report::text(&results))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Loads everything that is to be played.
struct Prepared {
    trace: Option<PathBuf>,
    recording: Recording,
    subjects: Vec<Subject>,
}

fn prepare(args: &Args) -> Result<Prepared, Problems> {
    let mut policies = Vec::with_capacity(args.policies.len());
    for file in &args.policies {
        let policy = sources::simulated(&Config::load(file).and_then(|config| compile(&config))?);
        let routing = routing(file, &policy, args)?;
        policies.push((file, policy, routing));
    }
    let engines_file = match &args.engines {
        Some(file) => EnginesFile::load(file, &policies.iter().map(|(_, policy, _)| policy).collect::<Vec<_>>())?,
        None => EnginesFile::default(),
    };
    let (trace, recording) = recorded(&args.trace, args.trace_format)?;
    let mut subjects = Vec::with_capacity(policies.len());
    for (file, policy, routing) in policies {
        let profiles = engines_file.profiles(&policy, recording.format.block_tokens());
        let changes = engines_file.changes(&policy);
        let slos = slos(args, &policy, &routing);
        let subject = Subject { policy, routing, profiles, slos, changes };
        fits(args, file, &subject, &recording.arrivals)?;
        subjects.push(subject);
    }
    Ok(Prepared { trace, recording, subjects })
}

/// The recording of `trace`, with its file; synthetic arrivals have none.
pub(super) fn recorded(trace: &Path, format: TraceFormat) -> Result<(Option<PathBuf>, Recording), Problems> {
    if trace.as_os_str() != EXCERPT {
        return Ok((Some(trace.to_owned()), Recording::open(trace, format.named())?));
    }
    let arrivals = excerpt(1, EXCERPT_ARRIVALS, EXCERPT_PER_SECOND).collect();
    Ok((None, Recording { format: Format::Azure, arrivals, skipped: 0 }))
}

/// Routing of `model`, or of the policy's first model; by `route` alone if it is named.
fn routing(file: &Path, policy: &Policy, args: &Args) -> Result<Routing, Problems> {
    let first = || policy.models.names().next().and_then(|name| Some((name.clone(), policy.models.get(name)?)));
    let pattern = || policy.models.patterns().next().map(|(prefix, model)| (format!("{prefix}*").into(), model));
    let found = match args.model.as_deref() {
        Some(name) => policy.models.get(name).map(|model| (name.into(), model)),
        None => first().or_else(pattern),
    };
    let (name, model): (Name, _) = found.ok_or_else(|| no_model(file, policy, args.model.as_deref()))?;
    if let Some(wanted) = &args.route {
        let rule = model.rules.iter().find(|rule| *rule.name == **wanted);
        return rule.and_then(|rule| rule.way.routes().first()).cloned().map(Routing::Route).ok_or_else(|| {
            let names: Vec<_> = model.rules.iter().map(|rule| format!("`{}`", rule.name)).collect();
            problem(file, format!("model `{name}` has no route `{wanted}`"), format!("it has: {}", names.join(", ")))
        });
    }
    if let [Rule { when: None, way: RouteChoice::Pools(route), .. }] = &model.rules[..] {
        return Ok(Routing::Route(route.clone()));
    }
    match undecided(model) {
        None => Ok(Routing::Model(name, model.clone())),
        Some(Undecided { rule, on }) => Err(problem(
            file,
            format!("route `{rule}` of model `{name}` depends on {on}, which traces do not record"),
            format!(
                "play one route for all requests with `--route NAME` ({}), or play every rule with `signalbox replay` on a journal \
                 that was written with `facts: on`",
                model.rules.iter().map(|rule| &*rule.name).collect::<Vec<_>>().join(", ")
            ),
        )),
    }
}

fn no_model(file: &Path, policy: &Policy, model: Option<&str>) -> Problems {
    let Some(model) = model else {
        let help = "add a pool with a model, such as `pools: { main: { model: m, backends: [http://h:8000/v1] } }`";
        return problem(file, "this policy has nothing that clients could ask for".to_owned(), help.to_owned());
    };
    let names = || policy.models.names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let near = policy.models.nearest(model).map(|near| format!("did you mean `{near}`?"));
    let help = near.unwrap_or_else(|| format!("it has: {}", names()));
    problem(file, format!("this policy has no model `{model}`"), help)
}

/// SLO of each engine: from the command line, else from the first pool of the route that contains it.
fn slos(args: &Args, policy: &Policy, routing: &Routing) -> Vec<Slo> {
    let slo = |engine: usize| {
        let targets = routing.routes().flat_map(|route| &route.targets);
        let mut pools = targets.map(|target| &policy.pools[target.pool]);
        let pool = pools.find(|pool| pool.backends.iter().any(|backend| backend.engine == engine));
        let objectives = pool.map(|pool| &pool.objectives);
        Slo {
            ttft: args.slo_ttft.or(objectives.and_then(Objectives::ttft)),
            tpot: args.slo_tpot.or(objectives.and_then(Objectives::tpot)),
        }
    };
    (0..policy.engines.len()).map(slo).collect()
}

/// Checks that every request fits on an engine: one that does not is no measure of a policy.
fn fits(args: &Args, file: &Path, subject: &Subject, arrivals: &[Arrival]) -> Result<(), Problems> {
    let longest = subject.engines().into_iter().map(|engine| subject.profiles[engine].longest()).max().unwrap_or(0);
    let tokens = |arrival: &Arrival| u64::from(arrival.prompt_tokens) + u64::from(arrival.output_tokens);
    let mut long = arrivals.iter().filter(|arrival| tokens(arrival) > u64::from(longest));
    let Some(first) = long.next() else { return Ok(()) };
    let more = match long.count() {
        0 => String::new(),
        more => format!(" ({more} more are too long too)"),
    };
    let message = format!(
        "line {}: prompt and answer of {} tokens fit no engine of {}, of which the largest holds {longest}{more}",
        first.line,
        tokens(first),
        file.display(),
    );
    let help = format!(
        "give an engine more `context_tokens` and `kv_tokens` with `--engines FILE`, such as `engines: {{ default: {} }}`",
        if tokens(first) <= u64::from(Profile::h100_8b().longest()) { "h100-8b" } else { "long" }
    );
    Err(problem(&args.trace, message, help))
}

fn problem(file: &Path, message: String, help: String) -> Problems {
    Problems::new(&file.display().to_string(), "".into(), vec![Problem::whole(message).help(help)])
}

fn play(args: &Args, Prepared { trace, recording, subjects }: Prepared) -> Results {
    let rates = args.rate.0.clone();
    let traffic = Traffic { arrivals: &recording.arrivals, limit: args.limit, seeds: args.seeds };
    let plays = subjects.len() as u64 * rates.len() as u64 * args.seeds;
    let searches = if rates.len() > 1 { subjects.len() as u64 * args.seeds } else { 0 };
    let more = overload::more_plays(&subjects) * rates.len() as u64 * args.seeds;
    let progress = progress::bar(plays + more + searches * SEARCH, "plays");
    let played = play_all(&subjects, &traffic, &rates, || progress.inc(1));
    let choices = overload::choices(&subjects, &played, &traffic, &rates, || progress.inc(1));
    let carried = if searches > 0 {
        goodput(&subjects, &traffic, &rates, &played, || progress.inc(SEARCH))
    } else {
        vec![Vec::new(); subjects.len()]
    };
    progress.finish_and_clear();
    let names = names(&args.policies);
    let plays = played.into_iter().zip(carried).zip(choices);
    let policies = subjects.into_iter().zip(plays).zip(names.into_iter().zip(&args.policies));
    let policies = policies
        .map(|((subject, ((figures, carried), choices)), (name, file))| Played {
            name,
            file: file.clone(),
            subject,
            figures,
            carried,
            choices,
        })
        .collect();
    Results { trace, recording, limit: args.limit, seeds: args.seeds, rates, policies }
}

/// Names of policies: file names if they differ, else paths.
fn names(files: &[PathBuf]) -> Vec<String> {
    let stem = |file: &Path| file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = |file: &PathBuf| {
        let alike = files.iter().filter(|other| stem(other) == stem(file)).count();
        if alike > 1 { file.display().to_string() } else { stem(file) }
    };
    files.iter().map(name).collect()
}
