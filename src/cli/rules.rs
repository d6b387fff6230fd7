//! `signalbox rules`: prints the rules for Prometheus that follow from the objectives of a policy.

use std::{fmt::Write as _, io, path::Path, process::ExitCode, time::Duration};

use super::{loaded_texts::LoadedTexts, output};
use signalbox_measure::{BurnRule, BurnRules, window_name};
use signalbox_policy::{Objectives, Policy};
use signalbox_server::PolicyText;

/// The labels of an objective.
const BY: &str = "by (pool, route, objective)";
const HEAD: &str = "\
# Error budgets of the objectives of pools and routes, over all gateways, computed from their counters as each gateway does for itself
# (signalbox_slo_burn_rate, signalbox_slo_state). Written by `signalbox rules`, with the windows and rates of `error_budgets` in the policy.
";
const OWNER: &str = "{{ if $labels.pool }}The pool {{ $labels.pool }}{{ else }}The route {{ $labels.route }}{{ end }}";

pub(super) fn print(file: &Path) -> io::Result<ExitCode> {
    let policy = match LoadedTexts::default().load(file, PolicyText::File) {
        Ok(policy) => policy,
        Err(problems) => {
            output::complain(&problems);
            return Ok(ExitCode::FAILURE);
        }
    };
    let objectives = list(&policy);
    if objectives.is_empty() {
        output::complain(
            "signalbox: the policy has no objectives yet: the rules are silent until a pool or a route has some\n",
        );
    }
    output::print(&format!("{HEAD}{objectives}\n{}", rules(&policy.error_budgets))).map(|()| ExitCode::SUCCESS)
}

/// The objectives of a policy, as comments.
fn list(policy: &Policy) -> String {
    let pools = policy.pools.iter().map(|pool| ("pool", &pool.name, &pool.objectives));
    let routes = policy.models.rules().flat_map(|rule| rule.way.routes());
    let routes = routes.map(|route| ("route", &route.name, &route.objectives));
    let line = |(kind, name, all): (&str, &signalbox_types::Name, &Objectives)| {
        let all: Vec<_> = all.iter().map(|it| format!("{} ({} %)", it.name, (it.target * 1e7).round() / 1e5)).collect();
        (!all.is_empty()).then(|| format!("# {kind} {name}: {}\n", all.join(", ")))
    };
    let mut lines: Vec<_> = pools.chain(routes).filter_map(line).collect();
    // The routes of several tiers share a name.
    lines.dedup();
    lines.concat()
}

/// The group of rules.
fn rules(of: &BurnRules) -> String {
    let mut text = "groups:\n  - name: signalbox-objectives\n    rules:\n".to_owned();
    text +=
        "      # Burn rate: missed requests relative to the allowed ones. At 1 the budget lasts exactly its period.\n";
    let [(fast, fast_way), (slow, slow_way)] = of.burning();
    let rates = [fast.short(), slow.short(), fast.over, slow.over, of.missing.over, of.window];
    for window in names(&rates) {
        let counted = |counter: &str| format!("sum {BY} (increase(signalbox_slo_{counter}_total[{window}]))");
        let share = format!("(1 - {} / {})", counted("good"), counted("requests"));
        let allowed = format!("(1 - max {BY} (signalbox_slo_target_ratio))");
        record(&mut text, &format!("burn_rate:{window}"), &[&share, &format!("/ {allowed}")]);
    }
    text += "      # A single bad request in an idle hour can be any rate, so a minimum number is required.\n";
    for window in names(&[fast.over, slow.over, of.missing.over]) {
        let counted = |counter: &str| format!("sum {BY} (increase(signalbox_slo_{counter}_total[{window}]))");
        record(
            &mut text,
            &format!("requests:missed_{window}"),
            &[&counted("requests"), &format!("- {}", counted("good"))],
        );
    }
    text += "      # Rate from which a budget burns: as in Google's Site Reliability Workbook (chapter 5), each only while it still does over a\n      \
             # twelfth of the window. Of loose objectives that may be more than all requests could miss: there, three quarters and three tenths\n      \
             # of the way from what may to what can be missed.\n";
    for (name, rule, way) in [("fast", fast, fast_way), ("slow", slow, slow_way)] {
        let target = format!("max {BY} (signalbox_slo_target_ratio)");
        let most = format!("clamp_max(1 + {way} * ({target} / (1 - {target})), {})", rule.rate);
        record(&mut text, &format!("target_ratio:{name}"), &[&most]);
    }
    text += "\n      # In the same group, because these read what the rules above have just computed.\n";
    let fast = burning(fast, "fast");
    alert(
        &mut text,
        "BudgetBurnsFast",
        &fast,
        "critical",
        "misses {{ $labels.objective }} {{ $value | printf \"%.1f\" }} times as often as it may",
    );
    let slow = burning(slow, "slow");
    alert(
        &mut text,
        "BudgetBurnsSlowly",
        &slow,
        "warning",
        "keeps missing {{ $labels.objective }}, {{ $value | printf \"%.1f\" }} times as often as it may",
    );
    text += "      # A ticket, not a page: the budget will not last, but lasts for now.\n";
    let BurnRule { over, rate } = of.missing;
    let window = window_name(over);
    let missing = [
        format!("objective:signalbox_slo_burn_rate:{window} > {rate}"),
        format!("and objective:signalbox_slo_requests:missed_{window} >= 5"),
    ];
    let words = format!(
        "missed {{{{ $labels.objective }}}} {{{{ $value | printf \"%.1f\" }}}} times as often as it may over {window}"
    );
    alert_for(&mut text, "ObjectiveMissed", &missing, Some("5m"), "info", &words);
    let left = [format!("avg {BY} (signalbox_slo_budget_left_ratio) <= 0")];
    let words = format!("has missed {{{{ $labels.objective }}}} more often than {} allow", period(of.window));
    alert_for(&mut text, "BudgetUsedUp", &left, Some("5m"), "warning", &words);
    text
}

fn burning(rule: BurnRule, name: &str) -> [String; 3] {
    let [long, short] = [rule.over, rule.short()].map(window_name);
    [
        format!("objective:signalbox_slo_burn_rate:{long} >= objective:signalbox_slo_target_ratio:{name}"),
        format!("and objective:signalbox_slo_burn_rate:{short} >= objective:signalbox_slo_target_ratio:{name}"),
        format!("and objective:signalbox_slo_requests:missed_{long} >= 5"),
    ]
}

/// The names of `windows`, each once, the shortest first.
fn names(windows: &[Duration]) -> Vec<String> {
    let mut windows = windows.to_vec();
    windows.sort_unstable();
    windows.dedup();
    windows.into_iter().map(window_name).collect()
}

/// A window in words, as far as numbers have words here.
fn period(window: Duration) -> String {
    match window.as_secs() {
        259_200 => "three days".to_owned(),
        seconds if seconds % 86_400 == 0 && seconds > 86_400 => format!("{} days", seconds / 86_400),
        _ => window_name(window),
    }
}

fn record(text: &mut String, name: &str, lines: &[&str]) {
    let _ = writeln!(text, "      - record: objective:signalbox_slo_{name}");
    expression(text, lines);
}

fn alert(text: &mut String, name: &str, lines: &[String], severity: &str, words: &str) {
    alert_for(text, name, lines, None, severity, words);
}

fn alert_for(text: &mut String, name: &str, lines: &[String], lasting: Option<&str>, severity: &str, words: &str) {
    let _ = writeln!(text, "      - alert: Signalbox{name}");
    expression(text, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    if let Some(lasting) = lasting {
        let _ = writeln!(text, "        for: {lasting}");
    }
    let _ = writeln!(
        text,
        "        labels: {{ severity: {severity} }}\n        annotations:\n          summary: '{OWNER} {words}'"
    );
}

fn expression(text: &mut String, lines: &[&str]) {
    if let [line] = lines {
        let _ = writeln!(text, "        expr: {line}");
        return;
    }
    *text += "        expr: >-\n";
    for line in lines {
        let _ = writeln!(text, "          {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_rules_are_those_of_a_policy_without_settings() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/observability/rules/objectives.yml");
        let wanted = format!("{HEAD}\n{}", rules(&BurnRules::default()));
        if std::env::var_os("SIGNALBOX_UPDATE").is_some() {
            std::fs::write(&path, &wanted).expect("a file that can be written");
        }
        let shipped = std::fs::read_to_string(&path).expect("the rules");
        assert!(shipped == wanted, "not current: SIGNALBOX_UPDATE=1 cargo test --lib rules");
    }

    #[test]
    fn each_window_is_recorded_once() {
        let of = BurnRules { window: Duration::from_hours(30 * 24), ..BurnRules::default() };
        let text = rules(&of);
        assert_eq!(text.matches("- record: objective:signalbox_slo_burn_rate:").count(), 5, "{text}");
        assert!(text.contains("burn_rate:30d\n") && text.contains("more often than 30 days allow"), "{text}");
    }
}
