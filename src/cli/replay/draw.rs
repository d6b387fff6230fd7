//! Charts of TTFT and TPOT distributions, before and after: as SVG, or as an HTML page with the report.

use std::path::Path;

use plotters::chart::SeriesLabelPosition;

use super::{report, results::Results};
use crate::cli::plot::{self, Axis, Line, Panel};
use signalbox_journal_replay::Tally;

/// Draws `results` into `file`.
pub(super) fn write(results: &Results, file: &Path) -> Result<(), String> {
    let svg = draw(results).map_err(|error| format!("the figures cannot be drawn: {error}"))?;
    let page = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("html"));
    let text = if page { html(results, &svg) } else { svg };
    std::fs::write(file, text).map_err(|error| format!("{} cannot be written: {error}", file.display()))
}

fn draw(results: &Results) -> Result<String, Box<dyn std::error::Error>> {
    let ttft = panel(results, "Time to first token", "TTFT (s)", |tally| &tally.ttfts, 1.0);
    let tpot = panel(results, "Time per further token", "TPOT (ms)", |tally| &tally.tpots, 1e3);
    plot::draw(&[ttft, tpot])
}

fn panel<'a>(results: &'a Results, title: &str, across: &'a str, of: fn(&Tally) -> &Vec<f64>, scale: f64) -> Panel<'a> {
    let scaled = |values: Vec<f64>| {
        let mut values: Vec<f64> = values.into_iter().map(|value| value * scale).collect();
        values.sort_by(f64::total_cmp);
        plot::distribution(&values)
    };
    let mut lines: Vec<Line<'a>> = vec![("happened", scaled(of(&results.happened).clone()))];
    for column in &results.columns {
        lines.push((column.name, scaled(column.tallies.iter().flat_map(|tally| of(tally).iter().copied()).collect())));
    }
    let values = lines.iter().flat_map(|(_, points)| points).map(|(value, _)| *value);
    Panel {
        title: title.to_owned(),
        across: (across, Axis::decades(values)),
        up: ("answers by then (%)", Axis::even(0.0..100.0)),
        lines,
        level: None,
        dots: false,
        legend: SeriesLabelPosition::LowerRight,
    }
}

/// A self-contained page.
fn html(results: &Results, svg: &str) -> String {
    let text = report::text(results).replace('&', "&amp;").replace('<', "&lt;");
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>signalbox replay</title>\n<style>body {{ font: 14px sans-serif; \
         margin: 2em }} pre {{ overflow-x: auto }} svg {{ max-width: 100%; height: auto }}</style>\n<h1>signalbox replay</h1>\n{svg}\n<pre>{text}</pre>\n</html>\n"
    )
}
