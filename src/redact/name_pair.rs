//! Names that are values themselves: `{"name": "DB_PASSWORD", "value": …}`, the elements of XML (pure).

use super::name_reader::Reader;
use super::name_value::{NameMatch, Operator, Quote};
use super::rule::LEAK_BYTES;

impl Reader<'_> {
    /// Returns true if the name is a value itself: `name: DB_PASSWORD`, `key="password"`.
    pub(super) fn is_value_of_a_pair(&self, first: usize) -> bool {
        let before = &self.text[first.saturating_sub(24)..first];
        let mut lower = before.to_ascii_lowercase();
        while lower
            .last()
            .is_some_and(|b| matches!(b, b' ' | b'"' | b'\'' | b'\\' | b'=' | b':' | b'\t'))
        {
            lower.pop();
        }
        lower.len() < before.len()
            && [
                &b"name"[..],
                b"key",
                b"variable",
                b"env",
                b"field",
                b"property",
                b"param",
                b"header",
                b"label",
                b"title",
            ]
            .iter()
            .any(|word| lower.ends_with(word))
    }

    /// Skips the attributes of an element before its `value`.
    pub(super) fn attributes(&mut self) -> bool {
        let rest = &self.rest()[..self.rest().len().min(80)];
        let end = rest
            .iter()
            .position(|b| matches!(b, b'<' | b'>' | b'\n'))
            .unwrap_or(rest.len());
        match memchr::memmem::find(&rest[..end], b" value=") {
            Some(at) => {
                self.at += at + 1;
                true
            }
            None => false,
        }
    }

    pub(super) fn is_element(&self, first: usize) -> bool {
        let before = &self.text[first.saturating_sub(16)..first];
        before.iter().rposition(|b| *b == b'<').is_some_and(|at| {
            before[at + 1..]
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || *b == b':')
        })
    }

    /// Reads `</key>` and the element that follows.
    pub(super) fn element(mut self) -> NameMatch {
        if !self.take("</") {
            return NameMatch::No;
        }
        while self.peek().is_ascii_alphanumeric() || matches!(self.peek(), b':' | b'_' | b'-') {
            self.at += 1;
        }
        if !self.take(">") {
            return NameMatch::No;
        }
        if self.line() == Some(true) {
            return NameMatch::NextLine;
        }
        for tag in ["<string>", "<value>", "<Value>", "<data>", "<td>", "<dd>"] {
            if self.take(tag) {
                return self.found(Quote::Element, Operator::Colon);
            }
        }
        match self.is_cut() {
            true => NameMatch::NextLine,
            false => NameMatch::No,
        }
    }

    /// Returns true if the text ends within the word that would announce the value.
    fn is_cut(&self) -> bool {
        let rest = self.rest();
        rest.len() < LEAK_BYTES && !rest.contains(&b'\n')
    }

    /// Reads what follows a name that is a value: `, "value": "…"`, or an argument.
    pub(super) fn pair(mut self, is_value: bool) -> NameMatch {
        self.take(",");
        match self.line() {
            Some(true) if is_value => return NameMatch::NextLine,
            Some(true) => return NameMatch::No,
            Some(false) | None => {}
        }
        self.blanks();
        // The frame of a table, the mark of a diff.
        while matches!(self.peek(), b'|' | b'+' | b'-' | b' ') {
            self.at += 1;
        }
        let escapes = self.quotes();
        for word in [
            "value",
            "val",
            "default",
            "content",
            "plaintext",
            "text",
            "secretvalue",
            "data",
        ] {
            let from = self.at;
            if !self.take(word) {
                continue;
            }
            self.quotes();
            self.blanks();
            if self.take(":") || self.take("=>") || self.take("=") {
                self.blanks();
                return self.opened(Operator::Colon);
            }
            self.at = from;
        }
        if is_value && self.is_cut() {
            return NameMatch::NextLine;
        }
        match escapes {
            // An argument: `setenv("TOKEN", "…")`.
            Some(quote) => self.found(quote, Operator::Blank),
            None => NameMatch::No,
        }
    }
}
