//! Remembers recent ids, so that repeated records count once (pure).

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The number of ids to remember, which exceeds the number of tools in any session. Copies of a
/// record are close to it or in a resumed file.
const IDS_MAX: usize = 65_536;

/// The hashes of recent ids, which take at most half a megabyte for ids of any length.
#[derive(Debug, Default)]
pub(super) struct RecentIds {
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

/// Returns the hash that represents an id.
pub(super) fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

impl RecentIds {
    /// Adds an id; returns true if it is new.
    pub fn insert(&mut self, id: &str) -> bool {
        let id = hash(id);
        if !self.known.insert(id) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > IDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }

    pub fn contains(&self, id: &str) -> bool {
        self.known.contains(&hash(id))
    }

    pub fn clear(&mut self) {
        self.known.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut recent = RecentIds::default();
        for number in 0..=IDS_MAX {
            assert!(recent.insert(&number.to_string()));
        }
        assert!(!recent.insert("1"));
        assert!(!recent.contains("0"));
        assert_eq!(recent.known.len(), IDS_MAX);
    }
}
