//! Runs a series through a proxy and counts the outcomes.

use std::{collections::BTreeMap, io, time::Duration};

use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until},
};

use crate::{
    caller::{self, Reply, Request},
    judge::Outcome,
    peer::{Access, Peer},
    provider::prompt,
    script::BACKUP,
    series::{Aim, CONSTANT, Engines, FOR_EACH, Play, Series, key},
    worker::{Processes, SHORT},
};

const PATIENCE: Duration = Duration::from_mins(2);
/// Tokens of an answer in most series, and of the long streams during which engines are killed.
const TOKENS: usize = 10;
const LONG: usize = 60;
/// Limit in seconds on the first token beside an engine that hangs.
const LATE: f64 = 15.0;

/// Outcomes of a series.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(crate) struct Tally {
    pub(crate) name: String,
    pub(crate) requests: usize,
    /// No answer, or an error in its place.
    pub(crate) failed: usize,
    /// An answer that broke off.
    pub(crate) broken: usize,
    /// Cut, doubled or mixed text as a success.
    pub(crate) wrong: usize,
    /// Complete answers whose usage differs from the tokens received.
    pub(crate) miscounted: usize,
    /// Seconds to the first token, sorted.
    #[serde(skip)]
    pub(crate) first: Vec<f64>,
    #[serde(skip)]
    pub(crate) took: Vec<f64>,
    pub(crate) attempts: usize,
    pub(crate) holds: bool,
    pub(crate) reasons: BTreeMap<String, usize>,
    pub(crate) note: String,
}

/// Requests by name, with the tokens expected, and their responses.
struct Replies(Vec<(String, usize, Reply)>);

/// Runs a series.
pub(crate) async fn play(series: Series, peer: &Peer) -> io::Result<Tally> {
    let access = peer.open(&series.topology).await?;
    let client = caller::client().map_err(io::Error::other)?;
    // Time for the proxy to probe its engines.
    sleep(Duration::from_secs(if matches!(series.engines, Engines::Processes(_)) { 4 } else { 1 })).await;
    let stage = Stage { series: &series, access: &access, client };
    let mut tally = match series.play {
        Play::Steady { count, rate, stream, aim } => stage.steady(count, rate, stream, aim).await,
        Play::Callers { count, rate } => stage.callers(count, rate).await,
        Play::Kill { open, killed } => stage.kill(open, killed).await?,
        Play::Hung { count, warm, stream } => stage.hung(count, warm, stream).await?,
    };
    tally.name.clone_from(&series.name);
    if tally.attempts == 0 {
        tally.attempts = series.engines.log().all().len();
    }
    Ok(tally)
}

#[derive(Clone)]
struct Stage<'a> {
    series: &'a Series,
    access: &'a Access,
    client: reqwest::Client,
}

impl Stage<'_> {
    fn request(&self, case: String, tokens: usize, stream: bool) -> Request {
        let (url, model) = (self.access.url.clone(), self.access.model.clone());
        let key = key(self.access, 1);
        Request { url, model, key, case, tokens, stream, most: None, more: json!({}), patience: PATIENCE }
    }

    /// Sends the requests that `request` makes of each number, at a fixed rate.
    async fn paced(&self, count: usize, rate: f64, request: impl Fn(usize) -> Request) -> Replies {
        let mut pace = interval(Duration::from_secs_f64(1.0 / rate));
        pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut asking = JoinSet::new();
        for number in 0..count {
            pace.tick().await;
            self.spawn(&mut asking, request(number));
        }
        Replies(asking.join_all().await)
    }

    fn spawn(&self, asking: &mut JoinSet<(String, usize, Reply)>, request: Request) {
        let client = self.client.clone();
        asking.spawn(async move {
            let reply = caller::ask(&client, &request).await;
            (request.case.clone(), request.most.unwrap_or(request.tokens), reply)
        });
    }

    async fn steady(&self, count: usize, rate: f64, stream: bool, aim: Aim) -> Tally {
        let replies = self.paced(count, rate, |number| self.request(number.to_string(), TOKENS, stream)).await;
        let mut tally = replies.tally();
        if aim == Aim::FewAttempts {
            let attempts = self.series.engines.log().all().len() as f64;
            tally.holds = attempts <= FOR_EACH * count as f64 + CONSTANT && tally.wrong == 0;
            tally.note = format!("aim: at most {FOR_EACH} × requests + {CONSTANT} attempts");
        }
        tally
    }

    async fn callers(&self, count: usize, rate: f64) -> Tally {
        let faulty = |number: usize| {
            let mut request = self.request(format!("a{number}"), TOKENS, false);
            request.key = key(self.access, 0);
            let content = prompt(&request.case, TOKENS);
            request.more = if number.is_multiple_of(2) {
                json!({ "messages": [{ "content": content }] })
            } else {
                json!({ "input": content, "messages": Value::Null })
            };
            request
        };
        let sound = |number: usize| self.request(format!("b{number}"), TOKENS, number.is_multiple_of(2));
        let (a, b) = tokio::join!(self.paced(count, rate, faulty), self.paced(count, rate, sound));
        let mut tally = b.tally();
        let refused = a.0.iter().filter(|(_, _, reply)| {
            reply.status.is_some_and(|status| status >= 400)
                && reply.error.as_ref().is_some_and(|error| !error.message.is_empty())
        });
        let log = self.series.engines.log().all();
        tally.attempts = log.iter().filter(|attempt| attempt.case.starts_with('b')).count();
        let attempts = (log.len() - tally.attempts) as f64 / a.0.len() as f64;
        let answered = a.0.iter().filter(|(_, _, reply)| reply.status == Some(200) && reply.error.is_none()).count();
        let elsewhere = b.0.iter().filter(|(_, _, reply)| reply.text.starts_with(BACKUP)).count();
        tally.note = format!(
            "B's, {elsewhere} of them answered by the fallback; of A's {} requests {} got a clear error and {answered} an answer, {attempts:.2} attempts each",
            a.0.len(),
            refused.count()
        );
        tally
    }

    async fn kill(&self, open: usize, killed: usize) -> io::Result<Tally> {
        let Engines::Processes(processes) = &self.series.engines else {
            return Err(io::Error::other("no engines to kill"));
        };
        let began = Instant::now();
        let mut long = JoinSet::new();
        let streams = open * processes.workers.len();
        for number in 0..streams {
            sleep_until(began + Duration::from_millis(1_500) * number as u32 / streams as u32).await;
            let mut request = self.request(format!("long{number}"), LONG, true);
            if number % 2 == 1 {
                // The limit cuts the model short: tokens from before the break count towards it.
                (request.tokens, request.most) = (4 * LONG, Some(LONG));
            }
            self.spawn(&mut long, request);
        }
        let short = self.paced(75, 5.0, |number| self.request(format!("{SHORT}{number}"), TOKENS, true));
        let killing = async {
            sleep_until(began + Duration::from_secs(4)).await;
            self.kill_busiest(processes, killed).await
        };
        let (mut short, notes) = tokio::join!(short, killing);
        let mut replies = Replies(long.join_all().await);
        let streams = replies.tally();
        replies.0.append(&mut short.0);
        let mut tally = replies.tally();
        let cut = streams.failed + streams.broken + streams.wrong;
        tally.note = format!("{}; {cut} of {} long streams lost", notes?, streams.requests);
        Ok(tally)
    }

    /// Kills the engines with the most streams, a second apart, and reports the streams of each.
    async fn kill_busiest(&self, processes: &Processes, killed: usize) -> io::Result<String> {
        let mut streams = Vec::new();
        let mut alive: Vec<_> = processes.workers.iter().collect();
        for _ in 0..killed {
            let mut running = Vec::new();
            for worker in &alive {
                running.push(worker.running(&self.client).await);
            }
            let busiest = (0..running.len()).max_by_key(|at| running[*at]).unwrap_or_default();
            alive.remove(busiest).kill()?;
            streams.push(format!("{} streams", running[busiest]));
            sleep(Duration::from_secs(1)).await;
        }
        Ok(format!("on the killed: {}", streams.join(", ")))
    }

    async fn hung(&self, count: usize, warm: usize, stream: bool) -> io::Result<Tally> {
        let warmed = self.paced(warm, 10.0, |number| self.request(format!("{SHORT}-warm{number}"), TOKENS, true)).await;
        let before = self.series.engines.log().all().len();
        if let Engines::Processes(processes) = &self.series.engines {
            processes.workers[0].stop()?;
        }
        let mut asking = JoinSet::new();
        for number in 0..count {
            self.spawn(&mut asking, self.request(format!("{SHORT}{number}"), TOKENS, stream));
        }
        let mut tally = Replies(asking.join_all().await).tally();
        let late = tally.first.iter().filter(|first| **first > LATE).count();
        tally.holds &= late == 0;
        let cold = warmed.tally();
        let lost = cold.failed + cold.broken + cold.wrong;
        tally.note = format!("{late} first tokens later than {LATE} s; {lost} of {warm} lost before");
        tally.attempts = self.series.engines.log().all().len() - before;
        Ok(tally)
    }
}

impl Replies {
    fn tally(&self) -> Tally {
        let mut tally = Tally { requests: self.0.len(), ..Tally::default() };
        for (case, tokens, reply) in &self.0 {
            tally.first.extend(reply.first.map(|first| first.as_secs_f64()));
            let outcome = reply.outcome(case, *tokens);
            let (count, why) = match outcome {
                Outcome::Whole(_) => {
                    tally.took.push(reply.took.as_secs_f64());
                    if reply.usage.is_none_or(|usage| usage.1 != *tokens as u64) {
                        tally.miscounted += 1;
                        let used = reply.usage.map(|usage| usage.1);
                        *tally
                            .reasons
                            .entry(format!(
                                "a usage of {} where {tokens} came",
                                used.map_or("nothing".to_owned(), |used| used.to_string())
                            ))
                            .or_default() += 1;
                    }
                    continue;
                }
                Outcome::Refused(why) | Outcome::Lost(why) => (&mut tally.failed, why),
                Outcome::Broken { why, .. } => (&mut tally.broken, why),
                Outcome::Wrong(why) => (&mut tally.wrong, why),
            };
            *count += 1;
            *tally.reasons.entry(why.split(": ").next().unwrap_or_default().to_owned()).or_default() += 1;
        }
        tally.first.sort_by(f64::total_cmp);
        tally.took.sort_by(f64::total_cmp);
        tally.holds = tally.failed + tally.broken + tally.wrong + tally.miscounted == 0;
        tally
    }
}

/// The quantile of sorted values.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let at = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(at.max(1) - 1).copied()
}
