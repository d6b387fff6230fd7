//! Compares every index with brute force, over random histories.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Adaptive, Flat, Near, VectorIndex};

const DIMENSIONS: usize = 24;

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, Vec<f32>),
    Remove(u64),
    /// For the adaptive index: a complete rebuild, with changes between plan and adoption.
    Rebuild(Vec<Step>),
}

fn vector() -> impl Strategy<Value = Vec<f32>> {
    prop_oneof![
        8 => prop::collection::vec(-1.0_f32..1.0, DIMENSIONS),
        // Some values repeat, and some are invalid.
        2 => (0_u8..3).prop_map(|which| (0..DIMENSIONS).map(|at| f32::from(which) - at as f32).collect()),
        1 => Just(vec![0.0; DIMENSIONS]),
        1 => Just(vec![f32::MIN_POSITIVE; DIMENSIONS]),
        1 => prop::collection::vec(any::<f32>(), DIMENSIONS),
        1 => prop::collection::vec(-1.0_f32..1.0, 0..DIMENSIONS),
    ]
}

fn change() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_u64..40, vector()).prop_map(|(number, vector)| Step::Insert(number, vector)),
        1 => (0_u64..40).prop_map(Step::Remove),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![12 => change(), 1 => prop::collection::vec(change(), 0..12).prop_map(Step::Rebuild)]
}

fn cosine(one: &[f32], other: &[f32]) -> f32 {
    let finite = |value: &f32| if value.is_finite() { f64::from(*value) } else { 0.0 };
    let dot = |one: &[f32], other: &[f32]| one.iter().zip(other).map(|(a, b)| finite(a) * finite(b)).sum::<f64>();
    let length = (dot(one, one) * dot(other, other)).sqrt();
    if length > 0.0 { (dot(one, other) / length) as f32 } else { 0.0 }
}

type Model = BTreeMap<u64, Vec<f32>>;

fn change_both<I: VectorIndex>(index: &mut I, model: &mut Model, step: &Step) {
    match step {
        Step::Insert(number, vector) => {
            index.insert(*number, vector);
            model.remove(number);
            if vector.len() == DIMENSIONS {
                model.insert(*number, vector.clone());
            }
        }
        Step::Remove(number) => assert_eq!(index.remove(*number), model.remove(number).is_some()),
        Step::Rebuild(steps) => steps.iter().for_each(|step| change_both(index, model, step)),
    }
}

/// Results exist, have the stated similarity, and no more similar vector is missing.
fn compare<I: VectorIndex>(index: &I, model: &Model, query: &[f32]) {
    let mut near = vec![Near { number: 999, similarity: 1.0 }];
    index.search(query, 5, &mut near);
    assert_eq!(index.len(), model.len());
    if query.len() != DIMENSIONS {
        assert!(near.is_empty());
        return;
    }
    assert_eq!(near.len(), model.len().min(5), "all are looked at");
    let mut exact: Vec<f32> = model.values().map(|vector| cosine(query, vector)).collect();
    exact.sort_by(|one, other| other.total_cmp(one));
    for (found, best) in near.iter().zip(&exact) {
        let similarity = cosine(query, &model[&found.number]);
        assert!((found.similarity - similarity).abs() < 0.02, "{found:?} is {similarity}");
        assert!(found.similarity > best - 0.02, "{found:?}, but there is one of {best}");
    }
    assert!(near.is_sorted_by(|one, other| one.similarity >= other.similarity));
    let numbers: std::collections::BTreeSet<u64> = near.iter().map(|near| near.number).collect();
    assert_eq!(numbers.len(), near.len(), "none twice");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn flat_indexes_agree_with_brute_force(steps in prop::collection::vec(step(), 1..120), query in vector()) {
        for mut index in [Flat::new(DIMENSIONS).scanned(), Flat::new(DIMENSIONS).sifted(64)] {
            let mut model = Model::new();
            for step in &steps {
                change_both(&mut index, &mut model, step);
            }
            compare(&index, &model, &query);
        }
    }

    #[test]
    fn a_graph_beside_a_flat_index_agrees_with_brute_force(steps in prop::collection::vec(step(), 1..120), query in vector()) {
        let mut index = Adaptive::new(DIMENSIONS).sealed_from(4);
        let mut model = Model::new();
        for step in &steps {
            if let Step::Rebuild(between) = step {
                let stale = index.plan();
                let plan = index.plan();
                for step in between {
                    change_both(&mut index, &mut model, step);
                }
                drop(index.adopt(stale.run()));
                drop(index.adopt(plan.run()));
            } else {
                change_both(&mut index, &mut model, step);
            }
            assert_eq!(index.len(), model.len());
        }
        // A graph of so few points may leave some unlinked, so only its results and the unsealed vectors are checked.
        let mut near = Vec::new();
        index.search(&query, 100, &mut near);
        for found in &near {
            let similarity = cosine(&query, &model[&found.number]);
            assert!((found.similarity - similarity).abs() < 0.02, "{found:?} is {similarity}");
        }
        let numbers: std::collections::BTreeSet<u64> = near.iter().map(|near| near.number).collect();
        assert_eq!(numbers.len(), near.len(), "none twice");
    }
}

#[test]
fn an_inserted_vector_is_its_own_nearest_at_any_size() {
    let mut dice = fastrand::Rng::with_seed(7);
    let vectors: Vec<Vec<f32>> = (0..3_000).map(|_| (0..70).map(|_| dice.f32() - 0.5).collect()).collect();
    let mut index = Flat::new(70);
    for (number, vector) in (0..).zip(&vectors) {
        index.insert(number, vector);
    }
    let mut near = Vec::new();
    for (number, vector) in (0_u64..).zip(&vectors).step_by(37) {
        index.search(vector, 1, &mut near);
        assert_eq!(near[0].number, number);
        assert!(near[0].similarity > 0.999);
        assert!(index.remove(number));
        index.search(vector, 1, &mut near);
        assert_ne!(near[0].number, number);
    }
}

#[test]
fn many_identical_vectors_can_be_sealed() {
    let mut index = Adaptive::new(4).sealed_from(10);
    for number in 0..50 {
        index.insert(number, &[0.5; 4]);
    }
    assert!(index.needs_rebuild());
    let plan = index.plan();
    index.remove(3);
    index.insert(4, &[0.5, 0.5, 0.5, -0.5]);
    drop(index.adopt(plan.run()));
    assert_eq!(index.len(), 49);
    assert!(!index.needs_rebuild());
    let mut near = Vec::new();
    index.search(&[0.5; 4], 8, &mut near);
    assert_eq!(near.len(), 8);
    assert!(near.iter().all(|near| near.number != 3 && near.number != 4 && near.similarity > 0.999));
    for number in 5..30 {
        index.remove(number);
    }
    assert!(index.needs_rebuild(), "more than 30 % are dead");
    let plan = index.plan();
    drop(index.adopt(plan.run()));
    assert!(!index.needs_rebuild());
    assert_eq!(index.len(), 24);
}

#[test]
fn a_graph_becomes_flat_again() {
    let mut dice = fastrand::Rng::with_seed(3);
    let vectors: Vec<Vec<f32>> = (0..60).map(|_| (0..70).map(|_| dice.f32() - 0.5).collect()).collect();
    let mut index = Adaptive::new(70).sealed_from(40);
    for (number, vector) in (0..).zip(&vectors[..50]) {
        index.insert(number, vector);
    }
    let plan = index.plan();
    drop(index.adopt(plan.run()));
    assert!(index.graph_bytes() > 0 && !index.needs_rebuild());
    index.seal_from(usize::MAX);
    assert!(index.needs_rebuild());
    let plan = index.plan();
    index.remove(7);
    index.insert(8, &vectors[58]);
    index.insert(59, &vectors[59]);
    drop(index.adopt(plan.run()));
    assert!(index.graph_bytes() == 0 && !index.needs_rebuild());
    assert_eq!(index.len(), 50);
    let mut near = Vec::new();
    for number in (0_u64..50).filter(|number| ![7, 8].contains(number)).chain([59]) {
        index.search(&vectors[number as usize], 1, &mut near);
        assert!(near[0].number == number && near[0].similarity > 0.999);
    }
    index.search(&vectors[58], 1, &mut near);
    assert_eq!(near[0].number, 8);
}
