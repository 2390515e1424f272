//! Words: many short texts in one (pure).

/// Texts in order, in two allocations however many they are: the built-in rules have thousands.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    text: String,
    /// The end of each word in the text.
    ends: Vec<u32>,
}

impl Words {
    pub(super) fn push(&mut self, word: &str) {
        self.text.push_str(word);
        self.end_word();
    }

    /// Adds a word for each last character.
    pub(super) fn push_each(&mut self, head: &str, last: &str) {
        for c in last.chars() {
            self.text.push_str(head);
            self.text.push(c);
            self.end_word();
        }
    }

    fn end_word(&mut self) {
        // The words of all rules have far fewer bytes.
        self.ends.push(self.text.len() as u32);
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let mut from = 0;
        self.ends.iter().map(move |end| {
            let to = *end as usize;
            &self.text[std::mem::replace(&mut from, to)..to]
        })
    }
}

impl<T: AsRef<str>> FromIterator<T> for Words {
    fn from_iter<I: IntoIterator<Item = T>>(words: I) -> Self {
        let mut all = Self::default();
        for word in words {
            all.push(word.as_ref());
        }
        all
    }
}
