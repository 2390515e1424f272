//! The last items of a list, whose number is counted elsewhere (pure).

use std::collections::VecDeque;

/// The most items of a list that a report keeps; the counts are those of all.
pub(super) const ITEMS_MAX: usize = 200;

/// The last items, at most `MAX`.
#[derive(Clone, Debug)]
pub(super) struct Recent<T, const MAX: usize = ITEMS_MAX>(VecDeque<T>);

impl<T, const MAX: usize> Default for Recent<T, MAX> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T, const MAX: usize> Recent<T, MAX> {
    pub fn push(&mut self, item: T) {
        if self.0.len() >= MAX {
            self.0.pop_front();
        }
        self.0.push_back(item);
    }

    pub fn into_vec(self) -> Vec<T> {
        self.0.into()
    }
}
