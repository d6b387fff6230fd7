//! Generates the reference of metrics from their table.

use signalbox_telemetry as telemetry;

use super::markdown::table;

/// The generated part of its page.
pub(super) fn text() -> String {
    let rows = telemetry::ALL.iter().map(|def| {
        let kind = match def.kind {
            telemetry::Kind::Counter => "counter",
            telemetry::Kind::Gauge => "gauge",
            telemetry::Kind::Histogram => "histogram",
        };
        let labels: Vec<_> = def.labels.iter().map(|label| format!("`{label}`")).collect();
        [format!("`{}`", def.name), kind.to_owned(), def.unit.to_owned(), labels.join(", "), def.help.to_owned()]
    });
    table(["Metric", "Type", "Unit", "Labels", "Meaning"], rows)
}
