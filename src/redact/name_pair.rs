//! Names that are values themselves: `{"name": "DB_PASSWORD", "value": …}`, XML elements, form fields (pure).

use super::name_reader::Reader;
use super::name_value::{NameMatch, Operator, Quote};
use super::rule::LEAK_BYTES;

/// Maximum distance between the value of a pair and the name after it.
const PAIR: usize = 160;

/// Maximum length of a path that ends with a name.
const PATH: usize = 64;

/// Maximum number of members from the name of a pair to its value, including the value.
const MEMBERS_BETWEEN: usize = 4;

/// Maximum length of the value of such a member.
const MEMBER_BYTES: usize = 48;

impl Reader<'_> {
    /// Returns true if the name is itself a value: `name: DB_PASSWORD`, `key="password"`.
    pub(super) fn is_value_of_a_pair(&self, first: usize) -> bool {
        // The name may end a path: `"Name": "/prod/DB_PASSWORD"`.
        let path = self.text[..first].iter().rev().take(PATH);
        let is_path = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'-' | b'.');
        let path = path.take_while(is_path).count();
        let first = match self.text[..first].last() {
            Some(b'/') => first - path,
            _ => first,
        };
        let before = &self.text[first.saturating_sub(24)..first];
        let mut lower = before.to_ascii_lowercase();
        while lower
            .last()
            .is_some_and(|b| matches!(b, b' ' | b'"' | b'\'' | b'\\' | b'=' | b':' | b'\t'))
        {
            lower.pop();
        }
        lower.len() < before.len()
            && "name key variable env field property param header label title"
                .split(' ')
                .any(|word| lower.ends_with(word.as_bytes()))
    }

    /// Finds the value of a pair before its name: `"value": "…", "name": "DB_PASSWORD"`.
    pub(super) fn value_before(&self, first: usize) -> Option<NameMatch> {
        let before = &self.text[first.saturating_sub(PAIR)..first];
        let line = before.rsplit(|b| *b == b'\n').next().unwrap_or_default();
        let lower = line.to_ascii_lowercase();
        let word = b"\"value\"";
        let at = memchr::memmem::rfind(&lower, word)?;
        let from = first - line.len() + at + word.len();
        let mut reader = Reader {
            text: self.text,
            at: from,
        };
        reader.blanks();
        if !reader.take(":") {
            return None;
        }
        reader.blanks();
        let quote = reader.quotes().filter(|quote| *quote == Quote::Double)?;
        let end = memchr::memchr(b'"', reader.rest())?;
        let between = self.text.get(reader.at + end..first)?;
        let is_pair =
            between.starts_with(b"\",") && !between.contains(&b'}') && !between.contains(&b'{');
        is_pair.then(|| reader.found(quote, Operator::Colon))
    }

    /// Returns true if the name belongs to a field in a multipart form.
    pub(super) fn is_form_field(&self, first: usize) -> bool {
        self.text[..first].ends_with(b"form-data; name=\"")
    }

    /// Reads the value of a form field, which is the line after an empty one.
    pub(super) fn form_field(mut self) -> NameMatch {
        for _ in 0..2 {
            match self.line() {
                Some(true) => return NameMatch::NextLine,
                Some(false) => {}
                None => return NameMatch::No,
            }
        }
        self.found(Quote::Unquoted, Operator::Gap)
    }

    /// Skips the attributes of an element that precede its `value`.
    pub(super) fn attributes(&mut self) -> bool {
        let rest = &self.rest()[..self.rest().len().min(80)];
        let end = rest
            .iter()
            .position(|b| matches!(b, b'<' | b'>' | b'\n'))
            .unwrap_or(rest.len());
        let found = memchr::memmem::find(&rest[..end], b" value=");
        found.inspect(|at| self.at += at + 1).is_some()
    }

    pub(super) fn is_element(&self, first: usize) -> bool {
        let before = &self.text[first.saturating_sub(16)..first];
        before.iter().rposition(|b| *b == b'<').is_some_and(|at| {
            before[at + 1..]
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || *b == b':')
        })
    }

    /// Skips the attributes of an element up to its content.
    pub(super) fn skip_to_content(&mut self) -> bool {
        let near = &self.rest()[..self.rest().len().min(PAIR)];
        let end = near.iter().position(|b| matches!(b, b'<' | b'>' | b'\n'));
        let end = end.filter(|end| near[*end] == b'>' && near[..*end].last() != Some(&b'/'));
        end.inspect(|end| self.at += end + 1).is_some()
    }

    /// Reads `</key>` and the element after it.
    pub(super) fn element(mut self) -> NameMatch {
        if !self.take("</") {
            return NameMatch::No;
        }
        self.skip(|b| b.is_ascii_alphanumeric() || matches!(b, b':' | b'_' | b'-'));
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

    /// Skips a member that describes the value: `"Type": "SecureString"`.
    fn other_member(&mut self) -> bool {
        let from = self.at;
        self.quotes();
        let is_other = "type valuefrom description sensitive issecret secret id"
            .split(' ')
            .any(|word| self.take(word));
        self.quotes();
        self.blanks();
        let is_other = is_other && (self.take(":") || self.take("="));
        if is_other {
            let near = &self.rest()[..self.rest().len().min(MEMBER_BYTES)];
            let end = near
                .iter()
                .position(|b| matches!(b, b',' | b'\n' | b'}' | b'{'));
            if let Some(end) = end.filter(|end| matches!(near[*end], b',' | b'\n')) {
                self.at += end;
                return true;
            }
        }
        self.at = from;
        false
    }

    /// Reads the text after a name that is itself a value: `, "value": "…"`, or an argument.
    pub(super) fn pair(mut self, is_value: bool) -> NameMatch {
        for _ in 0..MEMBERS_BETWEEN {
            self.take(",");
            match self.line() {
                Some(true) if is_value => return NameMatch::NextLine,
                Some(true) => return NameMatch::No,
                Some(false) | None => {}
            }
            self.blanks();
            if !(is_value && self.other_member()) {
                break;
            }
        }
        // The frame of a table or the mark of a diff.
        self.skip(|b| matches!(b, b'|' | b'+' | b'-' | b' '));
        let escapes = self.quotes();
        for word in "value val default content plaintext text secretvalue data".split(' ') {
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
