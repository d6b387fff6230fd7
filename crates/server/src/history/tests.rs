use proptest::{prelude::*, test_runner::RngSeed};

use super::{
    interval::{Interval, Path},
    table::Table,
    *,
};
use signalbox_measure::{Sketch, Span, Window};
use signalbox_types::{Moment, Name};

const START: u32 = 1_764_072_000;

fn path(names: &[&str]) -> Path {
    names.iter().map(|name| Name::from(*name)).collect()
}

/// A sketch of these samples, in seconds.
fn sketch(samples: &[f64]) -> Sketch {
    let (window, mut sketch) = (Window::new(), Sketch::new());
    for seconds in samples {
        window.record(*seconds, Moment::default());
    }
    window.add_slot(Span::Minute, 0, &mut sketch);
    sketch
}

fn interval(requests: f64, hits: (f64, f64), samples: &[f64]) -> Interval {
    Interval {
        quotients: vec![
            (path(&["gateway", "requests_per_s"]), requests, 5.0),
            (path(&["cache", "exact", "hit_ratio"]), hits.0, hits.1),
        ],
        sketches: vec![(path(&["pools", "main", "ttft_ms"]), sketch(samples))],
    }
}

#[test]
fn an_interval_is_a_row_and_unknown_values_are_null() {
    let mut figures = Figures::new();
    figures.push(START + 5, interval(10.0, (0.0, 0.0), &[]));
    figures.push(START + 10, interval(1.0, (1.0, 4.0), &[0.2]));
    let json = Value::Object(figures.fine.json(START));
    assert_eq!(json["times"], json!([START + 5, START + 10]));
    assert_eq!(json["gateway"]["requests_per_s"], json!([2.0, 0.2]));
    assert_eq!(json["cache"]["exact"]["hit_ratio"], json!([null, 0.25]));
    let p95 = json["pools"]["main"]["ttft_ms"]["p95"][1].as_f64().unwrap();
    assert!(json["pools"]["main"]["ttft_ms"]["p95"][0].is_null() && (p95 / 200.0 - 1.0).abs() < 0.03, "{p95}");
    assert_eq!(Value::Object(figures.fine.json(START + 5))["times"], json!([START + 10]));
}

#[test]
fn a_long_interval_adds_up_counts() {
    let mut figures = Figures::new();
    // Many fast answers in one short interval, one slow answer in each of the others.
    for number in 1..=60 {
        let samples = if number == 1 { vec![0.1; 600] } else { vec![2.0] };
        figures.push(START + 5 * number, interval(10.0, (f64::from(number % 2), 1.0), &samples));
    }
    let open = Value::Object(figures.coarse().json(0));
    assert_eq!(open["times"], json!([START + 300]), "the incomplete interval is shown");
    figures.push(START + 305, interval(10.0, (0.0, 0.0), &[]));
    let json = Value::Object(figures.coarse.json(0));
    assert_eq!(json["times"], json!([START + 300]));
    assert_eq!(json["gateway"]["requests_per_s"], json!([2.0]));
    assert_eq!(json["cache"]["exact"]["hit_ratio"], json!([0.5]));
    let of = |name: &str| json["pools"]["main"]["ttft_ms"][name][0].as_f64().unwrap();
    assert!((of("p50") / 100.0 - 1.0).abs() < 0.03, "most answers were fast, whatever most intervals were");
    assert!((of("p95") / 2000.0 - 1.0).abs() < 0.03);
    assert_eq!(Value::Object(figures.coarse().json(0))["times"], json!([START + 300, START + 305]));
}

#[test]
fn a_gap_is_a_row_of_nulls_and_old_rows_leave() {
    let mut table = Table::new(5, 720);
    let row = |value: f64| vec![(path(&["gateway", "in_flight"]), value)];
    table.push(START, vec![(path(&["pools", "gone", "queue"]), 1.0)]);
    table.push(START + 100, row(1.0));
    let json = Value::Object(table.json(0));
    assert_eq!(json["times"], json!([START, START + 5, START + 100]));
    assert_eq!(json["gateway"]["in_flight"], json!([null, null, 1.0]));
    table.push(START + 3600, row(2.0));
    let json = Value::Object(table.json(0));
    assert_eq!(json["times"], json!([START + 100, START + 105, START + 3600]));
    assert!(json.get("pools").is_none(), "a pool that is gone leaves nothing behind");
    table.push(START + 200, row(3.0));
    assert_eq!(Value::Object(table.json(0))["times"][2], START + 200, "the clock was set back");
}

#[test]
fn memory_is_bounded() {
    let columns = |count: usize| (0..count).map(|at| (path(&["pools", &at.to_string()]), 1.0)).collect::<Vec<_>>();
    let mut table = Table::new(5, 720);
    for number in 0..2000 {
        table.push(START + 5 * number, columns(16));
    }
    assert!(table.bytes() <= 17 * 720 * 4, "{}", table.bytes());
    table.push(START + 10_000, columns(table::MOST_COLUMNS + 100));
    assert!(table.bytes() <= (table::MOST_COLUMNS + 1) * 720 * 4, "{}", table.bytes());
}

#[test]
fn the_file_brings_everything_back_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(file::NAME);
    assert!(Stored::read(&file).is_none());
    let mut figures = Figures::new();
    figures.push(START + 5, interval(7.0, (0.0, 0.0), &[0.3]));
    let events = Events::default();
    events.add(START.into(), Event::new(Kind::Started, "it started".into()));
    Stored::of(figures.fine.clone(), figures.coarse(), events.since(0)).write(&file).unwrap();
    let (mut read, again) = (Figures::new(), Events::default());
    Stored::read(&file).unwrap().restore(&mut read, &again);
    assert_eq!(read.fine.json(0), figures.fine.json(0));
    assert_eq!(read.coarse.json(0), figures.coarse().json(0));
    assert_eq!(again.since(0), events.since(0));
    let whole = std::fs::read_to_string(&file).unwrap();
    for broken in [&whole[..whole.len() / 2], "", "[]", &whole.replace("\"version\":1", "\"version\":2")] {
        std::fs::write(&file, broken).unwrap();
        assert!(Stored::read(&file).is_none(), "{broken}");
    }
    // A column that is shorter than the times.
    std::fs::write(&file, whole.replace("[1.4]", "[]")).unwrap();
    let mut read = Figures::new();
    Stored::read(&file).unwrap().restore(&mut read, &again);
    assert!(read.fine.last().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn merged_counts_are_the_counts_of_all(parts in prop::collection::vec(prop::collection::vec(1e-4..100.0_f64, 0..40), 1..8)) {
        let mut sum = Sketch::new();
        for part in &parts {
            sum.merge(&sketch(part));
        }
        prop_assert_eq!(sum.summary().map(|it| (it.count, it.p50, it.p95, it.p99)), sketch(&parts.concat()).summary().map(|it| (it.count, it.p50, it.p95, it.p99)));
    }
}
