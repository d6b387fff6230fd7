//! The owner of each object at a provider: the key that created it. Bounded; the least recently used goes first.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;

use serde::{Deserialize, Serialize};

use signalbox_types::{Name, object::ObjectKind};

/// The most objects that are remembered: about 20 MB.
pub const MOST_OBJECTS: usize = 200_000;

/// The owners of objects, by object id.
#[derive(Default)]
pub struct Owners(Mutex<Held>);

/// An object and its owner, as stored on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owned {
    /// Hash of the object's id, in hex.
    id: String,
    /// Id of the owning key.
    key: Name,
    /// The object's kind.
    kind: String,
    /// The provider account that stores it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    account: Option<Name>,
}

/// The hash of an id, so that ids of any length take the same space.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
struct ObjectId(u128);

#[derive(Default)]
struct Held {
    places: HashMap<ObjectId, Place>,
    /// The objects of each owner and kind, least recently used first. Eviction takes from the longest list, so that one
    /// caller's objects do not push out another's, nor responses files.
    lists: HashMap<(Name, ObjectKind), BTreeMap<u64, ObjectId>>,
    /// Counts uses.
    turn: u64,
    /// Objects that are not stored yet.
    new: Vec<Owned>,
}

struct Place {
    list: (Name, ObjectKind),
    turn: u64,
    account: Option<Name>,
}

impl ObjectId {
    /// Hashes the id in lower case: a provider may ignore case.
    fn of(id: &str) -> Self {
        let hash = blake3::hash(id.to_ascii_lowercase().as_bytes());
        let (first, _) = hash.as_bytes().split_at(16);
        Self(first.iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte)))
    }
}

impl Owners {
    /// Records that `owner` created the object `id` through a provider `account`. An existing owner is kept.
    pub fn note(&self, id: &str, kind: ObjectKind, owner: &Name, account: Option<Name>) {
        let id = ObjectId::of(id);
        let mut held = self.0.lock();
        if held.add(id, (owner.clone(), kind), account.clone(), MOST_OBJECTS) {
            let (id, key, kind) = (format!("{:032x}", id.0), owner.clone(), kind.name().to_owned());
            held.new.push(Owned { id, key, kind, account });
        }
    }

    /// The provider account that stores the object `id`, if known.
    pub fn account(&self, id: &str) -> Option<Name> {
        self.0.lock().places.get(&ObjectId::of(id))?.account.clone()
    }

    /// The owner of the object `id`, if known.
    pub fn owner(&self, id: &str) -> Option<Name> {
        self.0.lock().used(ObjectId::of(id))
    }

    /// Takes the objects recorded since the last call.
    pub fn take_new(&self) -> Vec<Owned> {
        std::mem::take(&mut self.0.lock().new)
    }

    /// All objects, least recently used first.
    pub fn all(&self) -> Vec<Owned> {
        let held = self.0.lock();
        let mut all: Vec<_> = held.places.iter().collect();
        all.sort_by_key(|(_, place)| place.turn);
        let written = |(id, place): (&ObjectId, &Place)| {
            let (key, kind) = &place.list;
            let account = place.account.clone();
            Owned { id: format!("{:032x}", id.0), key: key.clone(), kind: kind.name().to_owned(), account }
        };
        all.into_iter().map(written).collect()
    }

    /// Restores stored objects.
    pub fn restore(&self, all: Vec<Owned>) {
        let mut held = self.0.lock();
        for Owned { id, key, kind, account } in all {
            if let (Ok(id), Some(kind)) = (u128::from_str_radix(&id, 16), ObjectKind::of_name(&kind)) {
                held.add(ObjectId(id), (key, kind), account, MOST_OBJECTS);
            }
        }
    }
}

impl Held {
    /// Returns true if the object was new.
    fn add(&mut self, id: ObjectId, list: (Name, ObjectKind), account: Option<Name>, most: usize) -> bool {
        if self.used(id).is_some() {
            return false;
        }
        if self.places.len() >= most {
            self.forget_one();
        }
        self.turn += 1;
        self.lists.entry(list.clone()).or_default().insert(self.turn, id);
        self.places.insert(id, Place { list, turn: self.turn, account });
        true
    }

    fn used(&mut self, id: ObjectId) -> Option<Name> {
        let place = self.places.get_mut(&id)?;
        self.turn += 1;
        let list = self.lists.get_mut(&place.list)?;
        list.remove(&place.turn);
        list.insert(self.turn, id);
        place.turn = self.turn;
        Some(place.list.0.clone())
    }

    fn forget_one(&mut self) {
        let Some((name, list)) = self.lists.iter_mut().max_by_key(|(_, list)| list.len()) else { return };
        let gone = list.pop_first();
        let empty = list.is_empty().then(|| name.clone());
        if let Some((_, id)) = gone {
            self.places.remove(&id);
        }
        if let Some(name) = empty {
            self.lists.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.into()
    }

    #[test]
    fn an_object_belongs_to_its_creator() {
        let owners = Owners::default();
        owners.note("file-1", ObjectKind::File, &name("a"), Some(name("account x")));
        owners.note("file-1", ObjectKind::File, &name("b"), None);
        assert_eq!(owners.owner("file-1"), Some(name("a")));
        assert_eq!(owners.owner("FILE-1"), Some(name("a")), "in any case");
        assert_eq!(owners.owner("file-2"), None);
        assert_eq!((owners.take_new().len(), owners.take_new().len()), (1, 0));
    }

    #[test]
    fn stored_owners_are_restored() {
        let owners = Owners::default();
        owners.note("file-1", ObjectKind::File, &name("a"), Some(name("account x")));
        owners.note("resp_1", ObjectKind::Response, &name("b"), None);
        let text = serde_json::to_string(&owners.all()).unwrap();
        let again = Owners::default();
        again.restore(serde_json::from_str(&text).unwrap());
        assert_eq!((again.owner("file-1"), again.owner("resp_1")), (Some(name("a")), Some(name("b"))));
        assert_eq!((again.account("file-1"), again.account("resp_1")), (Some(name("account x")), None));
        assert!(again.take_new().is_empty(), "it is written already");
    }

    #[test]
    fn eviction_never_takes_another_owner_s_objects() {
        let mut held = Held::default();
        let mut add = |id: u128, owner: &str, kind| held.add(ObjectId(id), (name(owner), kind), None, 10);
        add(1, "a", ObjectKind::File);
        add(2, "b", ObjectKind::File);
        for id in 100..200 {
            add(id, "b", ObjectKind::Response);
        }
        assert_eq!(held.places.len(), 10);
        assert!(held.used(ObjectId(1)).is_some() && held.used(ObjectId(2)).is_some());
        assert!(held.used(ObjectId(199)).is_some() && held.used(ObjectId(100)).is_none());
        // A recent use protects an object.
        let oldest = ObjectId(192);
        assert!(held.used(oldest).is_some());
        for id in 200..205 {
            held.add(ObjectId(id), (name("b"), ObjectKind::Response), None, 10);
        }
        assert!(held.used(oldest).is_some() && held.used(ObjectId(193)).is_none());
        assert_eq!(held.lists.values().map(BTreeMap::len).sum::<usize>(), held.places.len());
    }
}
