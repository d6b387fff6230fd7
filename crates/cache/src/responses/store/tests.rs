use super::*;

const TTL: Duration = Duration::from_secs(100);

fn at(seconds: u64) -> Moment {
    Moment::default().plus(Duration::from_secs(seconds))
}

fn id(number: u8) -> String {
    format!("resp_{}", StateId::new_root([number; 15]))
}

fn response(number: u8, input: &[&str], output: &str) -> NewResponse {
    let object = format!(r#"{{"id":"{}","output":[{{"id":"{}","text":"{output}"}}]}}"#, id(number), item_id(number));
    NewResponse::read(&object, input.iter().map(|text| Item::new(text)).collect()).unwrap()
}

fn item_id(number: u8) -> String {
    format!("msg_{}00", StateId::new_root([number; 15]))
}

fn owners() -> (Owner, Owner) {
    (Some("a".into()), Some("b".into()))
}

fn store(bytes: usize) -> ResponseStore {
    let store = ResponseStore::default();
    store.configure(bytes, TTL);
    store
}

#[test]
fn a_response_is_found_by_its_owner_alone() {
    let store = store(1 << 20);
    let (mine, theirs) = owners();
    assert!(store.put(&mine, &response(1, &["{\"in\":1}"], "out"), at(0)));
    let found = store.response(&mine, &id(1), at(1)).unwrap();
    assert_eq!((found.input[0].text(), found.output().len()), ("{\"in\":1}", 1));
    assert!(found.object().contains(r#""text":"out""#));
    assert!(store.item(&mine, &item_id(1), at(1)).unwrap().text().contains("out"));
    let input = format!("msg_{}i0", StateId::new_root([1; 15]));
    assert_eq!(store.item(&mine, &input, at(1)).unwrap().text(), "{\"in\":1}");
    for other in [theirs, None] {
        assert!(store.response(&other, &id(1), at(1)).is_none());
        assert!(store.item(&other, &item_id(1), at(1)).is_none());
        assert!(store.conversation(&other, &id(1), at(1)).is_none());
        assert!(!store.remove(&other, &id(1), at(1)));
    }
    assert!(store.remove(&mine, &id(1), at(1)) && !store.remove(&mine, &id(1), at(1)));
    assert_eq!((store.bytes(), store.len(), store.evicted(Evicted::Deleted)), (0, 0, 1));
}

#[test]
fn earlier_items_are_kept_once_and_outlive_their_response() {
    let store = store(1 << 20);
    let long = format!("{{\"in\":\"{}\"}}", "x".repeat(10_000));
    store.put(&None, &response(1, &[&long], "a"), at(0));
    let one = store.bytes();
    store.put(&None, &response(2, &[&long, "{}"], "b"), at(0));
    assert!(store.bytes() < one + 2_000, "{} {one}", store.bytes());
    store.remove(&None, &id(1), at(0));
    assert_eq!(store.response(&None, &id(2), at(0)).unwrap().input[0].text(), long);
    store.remove(&None, &id(2), at(0));
    assert_eq!(store.bytes(), 0);
}

#[test]
fn unused_state_expires() {
    let store = store(1 << 20);
    store.put(&None, &response(1, &[], "a"), at(0));
    store.put(&None, &response(2, &[], "b"), at(0));
    assert!(store.response(&None, &id(1), at(99)).is_some(), "used");
    assert!(store.response(&None, &id(2), at(100)).is_none(), "expired");
    assert!(store.response(&None, &id(1), at(198)).is_some());
    store.sweep(at(298));
    assert_eq!((store.bytes(), store.evicted(Evicted::Expired)), (0, 2));
}

#[test]
fn the_largest_owner_loses_its_oldest_state() {
    let text = "x".repeat(1_000);
    let store = store(20_000);
    let (small, large) = owners();
    store.put(&small, &response(0, &[], &text), at(0));
    for number in 1..100 {
        assert!(store.put(&large, &response(number, &[], &format!("{number}{text}")), at(1)));
        assert!(store.bytes() <= 20_000);
    }
    assert!(store.response(&small, &id(0), at(2)).is_some());
    assert!(store.response(&large, &id(1), at(2)).is_none() && store.response(&large, &id(99), at(2)).is_some());
    assert!(store.evicted(Evicted::Space) > 50);
    assert!(!store.put(&large, &response(100, &[], &"y".repeat(30_000)), at(3)), "larger than the limit");
    assert!(store.response(&small, &id(0), at(3)).is_some());
}

#[test]
fn a_store_that_is_off_is_empty() {
    let store = ResponseStore::default();
    assert!(!store.is_on() && !store.put(&None, &response(1, &[], "a"), at(0)));
    store.configure(1 << 20, TTL);
    assert!(store.is_on() && store.put(&None, &response(1, &[], "a"), at(0)));
    store.put(&owners().0, &response(2, &[], "b"), at(0));
    assert_eq!((store.purge(Some(&owners().0)), store.purge(Some(&owners().0)), store.len()), (1, 0, 1));
    store.configure(0, TTL);
    assert_eq!((store.len(), store.bytes(), store.is_on()), (0, 0, false));
}

#[test]
fn conversations_grow_and_shrink() {
    let store = store(1 << 20);
    let root = StateId::new_root([9; 15]);
    let first = Conversation {
        created: 5,
        metadata: "{}".into(),
        items: vec![("x".into(), Item::new(r#"{"role":"user","content":"a"}"#))],
    };
    let id = store.create(&None, &root, &first, at(0));
    assert_eq!(*id, format!("conv_{root}"));
    let call = Item::new(r#"{"type":"function_call","call_id":"c"}"#);
    let ids = store.extend(&None, &id, vec![(None, call), (Some("own".into()), Item::new("{}"))], at(0)).unwrap();
    assert_eq!(ids.iter().map(|id| &**id).collect::<Vec<_>>(), [&format!("fc_{root}i1"), "own"]);
    assert!(store.item(&None, &ids[0], at(0)).unwrap().text().contains("call_id"));
    assert!(store.set_metadata(&None, &id, r#"{"a":"b"}"#.into(), at(0)));
    assert!(store.remove_item(&None, &id, &ids[0], at(0)) && !store.remove_item(&None, &id, &ids[0], at(0)));
    let found = store.conversation(&None, &id, at(0)).unwrap();
    assert_eq!((found.created, &*found.metadata, found.items.len()), (5, r#"{"a":"b"}"#, 2));
    assert_eq!(found.items[0].0, format!("msg_{root}i0").into());
    assert!(store.extend(&None, "conv_x", Vec::new(), at(0)).is_none());
    assert!(store.response(&None, &id, at(0)).is_none() && store.extend(&owners().0, &id, Vec::new(), at(0)).is_none());
    assert!(store.remove(&None, &id, at(0)));
    assert_eq!(store.bytes(), 0);
}
