//! The files of `examples/observability`: metrics exist, rules load, alerts fire, dashboards are valid for Grafana.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use regex::Regex;
use serde_json::Value;
use signalbox::telemetry::{ALL, Def, Kind};

use crate::{
    keys::pool,
    support::{
        client::{self, http},
        gateway::Gateway,
        mock::{Mock, polite},
        package_dir, untried,
    },
};

/// Labels that Prometheus itself adds to series.
const ADDED: [&str; 3] = ["job", "instance", "le"];

fn folder() -> PathBuf {
    package_dir().join("examples/observability")
}

/// All files below a folder, with their texts.
fn texts(folder: &Path) -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { texts(&path) } else { vec![(path.clone(), read(&path))] }).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The metric of a series.
fn metric(series: &str) -> Option<&'static Def> {
    let named = |name: &str, histogram: bool| {
        ALL.iter().copied().find(|def| def.name == name && (def.kind == Kind::Histogram) == histogram)
    };
    let mut parts = ["_bucket", "_sum", "_count"].into_iter().filter_map(|part| series.strip_suffix(part));
    named(series, false).or_else(|| parts.find_map(|stem| named(stem, true)))
}

#[test]
fn only_metrics_that_exist_are_asked_for() {
    let name = Regex::new(r"(?:([a-z_]+):)?(signalbox_[a-z0-9_]+)(?:(:)|\\?\{([^}]*)\})?").expect("a pattern");
    let label = Regex::new(r#"([a-z_]+)\s*(?:=~|!~|!=|=)\s*\\?""#).expect("a pattern");
    let mut seen = BTreeSet::new();
    for (path, text) in texts(&folder()) {
        for found in name.captures_iter(&text) {
            let (place, series) = (path.display(), &found[2]);
            // The middle of a recorded name (`pool:signalbox_ttft_seconds:p99_5m`), and prose, name a metric; queries its series.
            let whole = ALL.iter().copied().find(|def| def.name == series);
            let recorded = found.get(1).is_some() || found.get(3).is_some();
            // A counter's ending is left out of recorded names.
            let rate = ALL.iter().copied().find(|def| def.name.strip_suffix("_total") == Some(series));
            let def = metric(series).or(whole).or(rate.filter(|_| recorded));
            let def = def.unwrap_or_else(|| panic!("{place}: there is no metric `{series}`"));
            seen.insert(def.name);
            for matcher in found.get(4).iter().flat_map(|labels| label.captures_iter(labels.as_str())) {
                let there = def.labels.contains(&&matcher[1]) || ADDED.contains(&&matcher[1]);
                assert!(there, "{place}: `{series}` has no label `{}`, only {:?}", &matcher[1], def.labels);
            }
        }
    }
    for wanted in
        ["signalbox_ttft_seconds", "signalbox_tpot_seconds", "signalbox_queue_depth", "signalbox_tokens_total"]
    {
        assert!(seen.contains(wanted), "{wanted} is shown nowhere");
    }
}

/// Output of promtool, and whether it succeeded; `None`, with a message, if it is not installed.
fn promtool(arguments: &[&str], files: &[&Path]) -> Option<(bool, String)> {
    let mut command = Command::new("promtool");
    match command.args(arguments).args(files).current_dir(folder()).output() {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
        }
        Err(error) => {
            untried(&format!("no promtool: {error} (Debian: the package prometheus); its test is left out"));
            None
        }
    }
}

#[test]
fn prometheus_takes_the_configuration_and_the_rules() {
    let rules = folder().join("rules");
    let all = ["recording.yml", "alerts.yml", "objectives.yml"].map(|file| rules.join(file));
    let tests = ["alerts.test.yml", "trends.test.yml", "objectives.test.yml"].map(|file| rules.join(file));
    for (arguments, files) in [
        (&["check", "config"][..], vec![folder().join("prometheus.yml")]),
        (&["check", "rules"], all.to_vec()),
        (&["test", "rules"], tests.to_vec()),
    ] {
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        let Some((well, said)) = promtool(arguments, &files) else { return };
        assert!(well, "promtool {arguments:?}:\n{said}");
    }
}

#[test]
fn every_alert_is_tested() {
    let rules = folder().join("rules");
    let all = |files: &[&str]| files.iter().map(|file| read(&rules.join(file))).collect::<String>();
    let tests = all(&["alerts.test.yml", "trends.test.yml", "objectives.test.yml"]);
    let fired = Regex::new(r"alertname: (\w+)\n\s+exp_alerts:\n\s+- exp_labels").expect("a pattern");
    let fired: BTreeSet<String> = fired.captures_iter(&tests).map(|found| found[1].to_owned()).collect();
    let named = Regex::new(r"- alert: (\w+)").expect("a pattern");
    let rules = all(&["alerts.yml", "objectives.yml"]);
    let alerts: BTreeSet<String> = named.captures_iter(&rules).map(|found| found[1].to_owned()).collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    assert_eq!(alerts, fired, "each alert is seen to fire in a test");
}

/// All dashboards, with their files' names.
fn dashboards() -> Vec<(String, Value)> {
    let texts = texts(&folder().join("grafana/dashboards"));
    let read = |(path, text): (PathBuf, String)| {
        let name = path.display().to_string();
        let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, value)
    };
    texts.into_iter().map(read).collect()
}

#[test]
fn dashboards_have_what_grafana_needs() {
    let dashboards = dashboards();
    assert!(!dashboards.is_empty());
    for (name, board) in dashboards {
        for field in ["title", "uid"] {
            assert!(board[field].as_str().is_some_and(|text| !text.is_empty()), "{name}: no {field}");
        }
        assert!(board["schemaVersion"].as_u64().is_some_and(|version| version >= 36), "{name}: no schemaVersion");
        assert!(board["time"]["from"].is_string() && board["time"]["to"].is_string(), "{name}: no time range");
        let variables: Vec<_> = board["templating"]["list"].as_array().expect("variables").iter().collect();
        let variable = |wanted: &str| variables.iter().any(|variable| variable["name"] == wanted);
        assert!(variable("datasource") && variable("pool"), "{name}: a data source is chosen where it is imported");
        let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
        for panel in board["panels"].as_array().expect("panels") {
            let title = panel["title"].as_str().unwrap_or_default();
            assert!(!title.is_empty() && ids.insert(panel["id"].as_u64()), "{name}: {panel:#}");
            let cell =
                |key: &str| panel["gridPos"][key].as_u64().unwrap_or_else(|| panic!("{name}: {title}: no {key}"));
            assert!(cell("x") + cell("w") <= 24, "{name}: {title} is wider than the grid");
            for x in cell("x")..cell("x") + cell("w") {
                for y in cell("y")..cell("y") + cell("h") {
                    assert!(taken.insert((x, y)), "{name}: {title} lies on another panel");
                }
            }
            if panel["type"] == "row" {
                continue;
            }
            assert!(
                ["timeseries", "stat", "state-timeline"].iter().any(|kind| panel["type"] == *kind),
                "{name}: {title}"
            );
            assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{name}: {title} has no unit");
            let targets = panel["targets"].as_array().expect("targets");
            assert!(!targets.is_empty(), "{name}: {title} shows nothing");
            let letters: BTreeSet<_> = targets.iter().map(|target| target["refId"].as_str()).collect();
            assert!(letters.len() == targets.len() && !letters.contains(&None), "{name}: {title}: {letters:?}");
            for source in targets.iter().map(|target| &target["datasource"]).chain([&panel["datasource"]]) {
                assert_eq!((&source["type"], &source["uid"]), (&"prometheus".into(), &"${datasource}".into()));
            }
        }
    }
}

#[test]
fn prometheus_understands_the_queries_of_dashboards() {
    let mut rules = "groups:\n  - name: queries\n    rules:\n".to_owned();
    for (_, board) in dashboards() {
        let panels = board["panels"].as_array().expect("panels").iter();
        let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
        let notes = board["annotations"]["list"].as_array().into_iter().flatten();
        for (number, target) in targets.chain(notes).enumerate() {
            let query = target["expr"].as_str().expect("a query");
            let query = query.replace("$__rate_interval", "1m").replace("$pool", ".*");
            writeln!(rules, "      - record: query{number}\n        expr: {}", Value::String(query)).expect("a line");
        }
    }
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("queries.yml");
    std::fs::write(&file, rules).expect("a file");
    let Some((well, said)) = promtool(&["check", "rules"], &[&file]) else { return };
    assert!(well, "{said}");
}

#[test]
fn the_collectors_pipelines_use_what_is_defined() {
    let text = read(&folder().join("otel-collector.yaml"));
    let config: Value = serde_saphyr::from_str(&text).expect("YAML");
    assert!(config["receivers"]["prometheus"]["config"]["scrape_configs"][0]["job_name"].is_string());
    for (name, pipeline) in config["service"]["pipelines"].as_object().expect("pipelines") {
        for part in ["receivers", "processors", "exporters"] {
            for used in pipeline[part].as_array().expect("a list").iter().filter_map(Value::as_str) {
                assert!(config[part].get(used).is_some(), "{name}: no {used} in {part}");
            }
        }
    }
}

#[test]
fn mounted_files_exist() {
    let compose: Value = serde_saphyr::from_str(&read(&folder().join("compose.yaml"))).expect("YAML");
    for (name, service) in compose["services"].as_object().expect("services") {
        assert!(
            service["image"].as_str().is_some_and(|image| image.contains(':')),
            "{name}: an image with its version"
        );
        for volume in service["volumes"].as_array().expect("volumes").iter().filter_map(Value::as_str) {
            let (here, _) = volume.split_once(':').expect("a mount");
            let named = compose["volumes"].get(here).is_some();
            assert!(named || folder().join(here).exists(), "{name}: there is no {here}");
        }
    }
}

#[tokio::test]
async fn the_page_of_metrics_is_compressed_for_those_who_ask() {
    use std::io::Read as _;

    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&pool(&mock, "")).await;
    for url in [gateway.at("/metrics"), gateway.admin("/metrics")] {
        for (accepted, compressed) in [("gzip", true), ("br;q=1.0, gzip;q=0.8, *;q=0.1", true), ("gzip;q=0", false)] {
            let scrape = http().get(&url).header("accept-encoding", accepted);
            let answer = client::answer(scrape).await;
            assert_eq!(answer.header("content-encoding") == "gzip", compressed, "{accepted}");
            assert!(answer.header("vary").contains("accept-encoding"));
            let mut page = String::new();
            if compressed {
                flate2::read::GzDecoder::new(&*answer.body).read_to_string(&mut page).expect("gzip");
            } else {
                page = answer.text();
            }
            assert!(page.contains("signalbox_queue_depth{pool=\"main\"} 0"), "{page}");
        }
    }
}
