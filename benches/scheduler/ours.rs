//! The gateway itself, with a policy of one pool that names only its engines.

use signalbox::{
    config::Config,
    policy::compile,
    sim::{cluster::Scheduler, gateway::Gateway},
};

use crate::policies::Fleet;

pub(crate) fn ours(fleet: &Fleet<'_>) -> Box<dyn Scheduler> {
    let engines = &fleet.play.setting.engines;
    let urls: Vec<String> = (0..engines.len()).map(|engine| format!("http://engine-{engine}:8000/v1")).collect();
    let text = format!("pools: {{ main: {{ model: m, backends: [{}] }} }}", urls.join(", "));
    let policy = Config::parse("bench.yaml", &text, &|_| None, &|_| Ok(String::new()))
        .and_then(|config| compile(&config))
        .expect("the policy is valid");
    let route = policy
        .models
        .get("auto")
        .and_then(|model| model.first())
        .expect("a policy without models has the model `auto`")
        .clone();
    Box::new(Gateway::new(policy, &route, engines, fleet.seed))
}
