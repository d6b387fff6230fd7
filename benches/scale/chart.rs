//! A chart of each dimension: processor time of a request, relative to the lowest point.

use std::error::Error;

use plotters::{
    chart::ChartBuilder,
    coord::combinators::IntoLogRange,
    drawing::IntoDrawingArea,
    element::Circle,
    prelude::SVGBackend,
    series::LineSeries,
    style::{RGBColor, ShapeStyle, WHITE},
};

use crate::report::Table;

/// Size of the chart of a dimension in pixels, and dimensions in a row.
const PANEL: (u32, u32) = (330, 250);
const IN_A_ROW: usize = 3;
/// Top of the scale, unless a dimension goes beyond it.
const TOP: f64 = 4.0;
const INK: RGBColor = RGBColor(60, 60, 60);
const FAINT: RGBColor = RGBColor(225, 225, 225);
const OURS: RGBColor = RGBColor(0, 114, 178);

/// Draws the tables as SVG.
pub(crate) fn draw(tables: &[Table]) -> Result<String, Box<dyn Error>> {
    let drawn: Vec<&Table> = tables.iter().filter(|table| table.rows.len() > 2).collect();
    let rows = drawn.len().div_ceil(IN_A_ROW).max(1);
    let mut svg = String::new();
    {
        let size = (PANEL.0 * IN_A_ROW as u32, PANEL.1 * rows as u32);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        for (area, table) in root.split_evenly((rows, IN_A_ROW)).iter().zip(drawn) {
            // A logarithm needs more than 0.
            let across = |value: u64| value.max(1) as f64;
            let base = table.rows[0].cpu.as_secs_f64().max(f64::MIN_POSITIVE);
            let points: Vec<(f64, f64)> =
                table.rows.iter().map(|row| (across(row.value), row.cpu.as_secs_f64() / base)).collect();
            let most = points.iter().map(|point| point.1).fold(TOP, f64::max) * 1.05;
            let last = points.last().map_or(10.0, |point| point.0);
            let mut chart = ChartBuilder::on(area)
                .caption(table.name, ("sans-serif", 17))
                .margin(10)
                .x_label_area_size(28)
                .y_label_area_size(34)
                .build_cartesian_2d((points[0].0..last).log_scale(), 0.0..most)?;
            let mut mesh = chart.configure_mesh();
            mesh.light_line_style(WHITE).bold_line_style(FAINT).axis_style(INK).label_style(("sans-serif", 13));
            mesh.x_labels(5).y_labels(5).x_label_formatter(&|value| short(*value));
            mesh.y_label_formatter(&|times| format!("{times:.0} ×")).draw()?;
            chart.draw_series(LineSeries::new(points.iter().copied(), ShapeStyle::from(OURS).stroke_width(2)))?;
            chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, ShapeStyle::from(OURS).filled())))?;
        }
        root.present()?;
    }
    Ok(svg)
}

fn short(value: f64) -> String {
    match value {
        millions if millions >= 1e6 => format!("{:.0}M", value / 1e6),
        thousands if thousands >= 1e3 => format!("{:.0}k", value / 1e3),
        _ => format!("{value:.0}"),
    }
}
