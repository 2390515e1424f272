//! Ids that were seen, as many as fit: what comes again is not counted again (pure).

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Ids that are remembered. Copies of records stand near each other, or in a file that was resumed:
/// this is more than any session has tools.
const IDS_MAX: usize = 65_536;

/// The ids seen last, by hash: half a megabyte at most, whatever they are.
#[derive(Debug, Default)]
pub(super) struct RecentIds {
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

/// An id of bounded size, for one of any.
pub(super) fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

impl RecentIds {
    /// Whether the id is new; it is known from then on.
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
