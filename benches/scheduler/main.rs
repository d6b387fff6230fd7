//! Placement policies side by side in the simulator.

mod baseline;
mod scenario;
mod summary;
mod workload;

use std::{collections::BTreeMap, sync::Mutex};

use baseline::{NAMES, baseline};
use scenario::{ALL, Traces, profile};
use signalbox::sim::cluster::{self, Scheduler};
use summary::{Figures, figures};

fn main() {
    let env = |name: &str| std::env::var(name).ok();
    let seeds: u64 = env("SEEDS").and_then(|text| text.parse().ok()).unwrap_or(2);
    let only = env("ONLY").unwrap_or_default();
    let policies = env("POLICIES").unwrap_or_default();
    let names: Vec<&str> = if policies.is_empty() { NAMES.to_vec() } else { policies.split('|').collect() };
    let traces = Traces::load();
    let jobs: Vec<(usize, usize, u64)> = (0..ALL.len())
        .filter(|&at| only.is_empty() || only.split('|').any(|part| ALL[at].name.contains(part)))
        .flat_map(|at| (0..names.len()).flat_map(move |name| (0..seeds).map(move |seed| (at, name, seed))))
        .collect();
    let queue = Mutex::new(jobs.into_iter());
    let results: Mutex<BTreeMap<(usize, usize), Vec<Figures>>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some((at, name, seed)) = queue.lock().unwrap().next() else { return };
                    let Some(play) = ALL[at].play(&traces, seed) else { continue };
                    let mut schedulers: Vec<Box<dyn Scheduler>> = (0..play.gateways)
                        .map(|gateway| baseline(names[name], 8, profile().kv_tokens, seed + 100 * gateway as u64))
                        .collect();
                    let mut schedulers: Vec<&mut dyn Scheduler> =
                        schedulers.iter_mut().map(|one| &mut **one as &mut dyn Scheduler).collect();
                    let outcomes = cluster::run(&play.setting, &play.requests, &mut schedulers);
                    let figures = figures(&outcomes, &profile(), 8);
                    results.lock().unwrap().entry((at, name)).or_default().push(figures);
                }
            });
        }
    });
    let results = results.into_inner().unwrap();
    if env("SHORT").is_some() {
        print!("{:30}", "");
        for name in &names {
            print!("{:>15}", name.chars().take(14).collect::<String>());
        }
        println!();
        for at in 0..ALL.len() {
            let row: Vec<_> = (0..names.len()).filter_map(|name| results.get(&(at, name))).collect();
            if row.is_empty() {
                continue;
            }
            print!("{:30}", ALL[at].name);
            for all in row {
                let mean = |pick: fn(&Figures) -> f64| all.iter().map(pick).sum::<f64>() / all.len() as f64;
                print!("   {:5.1} {:6.2}", mean(|f| f.attainment) * 100.0, mean(|f| f.ttft[2]));
            }
            println!();
        }
        print!("{:30}", "mean");
        for name in 0..names.len() {
            let all: Vec<f64> =
                results.iter().filter(|((_, n), _)| *n == name).flat_map(|(_, f)| f).map(|f| f.attainment).collect();
            print!("   {:5.1} {:6}", all.iter().sum::<f64>() / all.len() as f64 * 100.0, "");
        }
        println!();
        return;
    }
    let mut last = usize::MAX;
    for ((at, name), all) in results {
        if at != last {
            println!("\n{}", ALL[at].name);
            last = at;
        }
        let mean = |pick: fn(&Figures) -> f64| all.iter().map(pick).sum::<f64>() / all.len() as f64;
        println!(
            "  {:24} slo {:5.1}  ttft {:7.2} {:7.2} {:7.2}  tpot90 {:5.1}  hits {:4.1}  most {:4.1} refused {:.1}",
            names[name],
            mean(|f| f.attainment) * 100.0,
            mean(|f| f.ttft[0]),
            mean(|f| f.ttft[1]),
            mean(|f| f.ttft[2]),
            mean(|f| f.tpot) * 1000.0,
            mean(|f| f.hits) * 100.0,
            mean(|f| f.most) * 100.0,
            mean(|f| f.refused) * 100.0,
        );
    }
}
