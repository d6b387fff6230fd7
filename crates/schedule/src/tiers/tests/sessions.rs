//! Sessions move at most once, and shares are held all the same.

use std::{collections::HashMap, sync::Arc};

use super::{
    super::{Context, Decision, Reason, aim::Plan, decision::Request, sessions::SessionState, state::State},
    LARGE, Play, SMALL, mean_error, settled,
};
use signalbox_types::{Aim, Complexity, Moment};

/// Turns of concurrent sessions: the scores of a session vary around its own, and some are agents. Sessions that begin
/// in the second half have other turns and are harder by `harder`; returns how many went above in it.
fn sessions(play: &mut Play, count: usize, turns: [f64; 2], harder: f64) -> (usize, HashMap<u64, Vec<(usize, bool)>>) {
    let mut open: Vec<(u64, f64, bool)> = Vec::new();
    let mut seen: HashMap<u64, Vec<(usize, bool)>> = HashMap::new();
    let mut above = 0;
    for n in 0..count {
        let late = usize::from(n >= count / 2);
        if open.len() < 40 {
            let easiest = 0.2 + harder * late as f64;
            open.push((play.dice.u64(..), easiest + 0.5 * play.dice.f64(), play.dice.f64() < 0.3));
        }
        let place = play.dice.usize(..open.len());
        let (session, difficulty, agent) = open[place];
        let turn = seen.entry(session).or_default();
        let tool_loop = agent && !turn.is_empty();
        let score = (difficulty + 0.2 * play.dice.f64()).min(1.0);
        let decision = play.ask(score, Some(session), tool_loop);
        turn.push((decision.tier, tool_loop));
        above += late * usize::from(decision.tier > 0);
        if play.dice.f64() < 1.0 / turns[late] {
            open.swap_remove(place);
        }
    }
    (above, seen)
}

#[test]
fn sessions_move_once_at_most_and_the_share_is_held_all_the_same() {
    for turns in [3.0, 8.0] {
        let error = mean_error(2_000.0, 500.0, |seed| {
            let mut play = Play::shares(&[0.75, 0.25], seed);
            let (above, seen) = sessions(&mut play, 4_000, [turns; 2], 0.2);
            for turns in seen.values() {
                let moves = turns.windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
                assert!(moves <= 1, "{turns:?}");
                assert!(turns.windows(2).all(|pair| !pair[1].1 || pair[1].0 >= pair[0].0), "fell in a loop: {turns:?}");
            }
            let standing = play.tierings.standing(play.now);
            assert!(standing.flips <= standing.sessions && standing.sessions >= seen.len() as u64);
            above
        });
        assert!(error < 1.0, "{turns} turns: {error} points");
    }
}

#[test]
fn a_share_is_held_when_sessions_end_for_good_and_when_they_begin() {
    for turns in [[8.0, 1.0], [1.0, 8.0]] {
        let error =
            mean_error(2_000.0, 500.0, |seed| sessions(&mut Play::shares(&[0.75, 0.25], seed), 4_000, turns, 0.0).0);
        assert!(error < 1.5, "{turns:?} turns: {error} points");
    }
    for (shares, above) in [([1.0, 0.0], 0), ([0.0, 1.0], 500)] {
        assert_eq!(sessions(&mut Play::shares(&shares, 1), 1_000, [5.0; 2], 0.2).0, above, "all and nothing, exactly");
    }
}

#[test]
fn a_session_rises_beyond_the_dead_band_and_falls_when_cold_or_on_evidence() {
    let mut play = settled();
    let seen = |decision: Decision| (decision.tier, decision.reason);
    assert_eq!(seen(play.ask(0.2, Some(1), false)), (0, Reason::Score));
    let bar = play.tierings.standing(play.now).bars[0];
    assert_eq!(seen(play.ask(bar + 0.02, Some(1), false)), (0, Reason::DeadBand));
    assert_eq!(seen(play.ask(0.95, Some(1), false)), (1, Reason::Score));
    for _ in 0..20 {
        assert_eq!(seen(play.ask(0.1, Some(1), false)), (1, Reason::Session), "one that rose stays");
    }
    play.idle(9);
    assert_eq!(seen(play.ask(0.1, Some(1), true)), (1, Reason::ToolLoop));
    play.idle(30);
    assert_eq!(seen(play.ask(0.1, Some(1), true)), (1, Reason::ToolLoop), "a tool may take its time");
    play.idle(11);
    assert_eq!(seen(play.ask(0.1, Some(1), false)), (0, Reason::Score), "cold");

    let mut play = settled();
    assert_eq!(seen(play.ask(0.95, Some(2), false)), (1, Reason::Score));
    for _ in 0..7 {
        assert_eq!(seen(play.ask(0.1, Some(2), false)), (1, Reason::Session));
    }
    assert_eq!(seen(play.ask(0.6, Some(2), false)), (1, Reason::Session), "below, and not clearly");
    for _ in 0..7 {
        assert_eq!(seen(play.ask(0.1, Some(2), false)), (1, Reason::Session));
    }
    assert_eq!(seen(play.ask(0.1, Some(2), false)), (0, Reason::Score), "the eighth in a row");
    assert_eq!(seen(play.ask(0.99, Some(2), false)), (0, Reason::Session), "one that fell stays");
}

#[test]
fn a_session_is_ranked_by_its_highest_score_until_it_falls() {
    let state = State::new(Arc::new(Plan::new(&Aim::Shares(vec![0.75, 0.25]), 2)));
    let complexity = Complexity { score: 0.6, ..Complexity::default() };
    let context = Context { key: 1, session: Some(1), continues: None, tool_loop: false, chance: 0.5 };
    let request = Request::new(&complexity, &context, &[SMALL, LARGE], 2);
    for (fallen, before, after) in [(false, 0.3, 0.6), (false, 0.8, 0.8), (true, 0.3, 0.3)] {
        let session_state = SessionState { fallen, peak: before, ..SessionState::default() };
        let peak = state.decide(&request, Some(session_state), None, Moment::default()).session_state.peak;
        assert!((peak - after).abs() < 1e-9, "{before} became {peak}, fallen: {fallen}");
    }
}

#[test]
fn a_conversation_with_another_hash_each_turn_is_one_session() {
    let play = settled();
    let before = play.tierings.standing(play.now).sessions;
    for turn in 0..5 {
        let complexity = Complexity { score: if turn == 0 { 0.99 } else { 0.1 }, ..Complexity::default() };
        let continues = (turn > 0).then(|| 900 + turn - 1);
        let context = Context { key: 7, session: Some(900 + turn), continues, tool_loop: false, chance: 0.5 };
        let decision = play.tierings.decide(&complexity, &context, &play.tiers, play.now);
        assert_eq!(decision.tier, 1, "it stays where it began");
    }
    assert_eq!(play.tierings.standing(play.now).sessions, before + 1);
}
