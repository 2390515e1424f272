//! Reads from a name to its value: quotes, operators, pairs and table cells (pure).
//!
//! A name may be a value itself: `{"name": "DB_PASSWORD", "value": …}`, XML elements, form fields.

use super::edges::is_escaped_end;

/// Maximum distance from the name of a pair to its value, and of a quote before a name.
const PAIR: usize = 160;

/// The quotes of a value, which determine where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quote {
    Double,
    /// Double quotes in a text that is itself quoted.
    Escaped,
    Single,
    Backtick,
    /// The text content of an XML element.
    Element,
    Unquoted,
    /// Assigned in a shell, where the value may contain more characters.
    Shell,
}

/// The text between a name and its value. The weaker it is, the stricter the check of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Assign,
    Colon,
    /// The edge of a table cell, or a line of its own.
    Gap,
}

/// In the order of their declaration, which numbers the rules of values.
pub(super) const QUOTES: [Quote; 7] = [
    Quote::Double,
    Quote::Escaped,
    Quote::Single,
    Quote::Backtick,
    Quote::Element,
    Quote::Unquoted,
    Quote::Shell,
];

pub(super) const OPERATORS: [Operator; 3] = [Operator::Assign, Operator::Colon, Operator::Gap];

/// The result of reading a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameMatch {
    No,
    /// The value may be in the next line, which has not arrived yet.
    NextLine,
    /// A value that may be a secret begins at this position.
    Value(usize, Quote, Operator),
}

impl Quote {
    /// Returns the bytes that the value may contain.
    pub(super) fn body(self) -> [bool; 256] {
        let not: &[u8] = match self {
            Self::Double => b"\"",
            Self::Escaped => b"\"\\",
            Self::Single => b"'",
            Self::Backtick => b"`",
            Self::Element => b"<",
            Self::Unquoted => b" \t\x0b\x0c\"'`<>()[]{},;|&\\",
            Self::Shell => b" \t\x0b\x0c\"'`<>;|&\\",
        };
        let mut bytes = [true; 256];
        for byte in not.iter().chain(b"\r\n") {
            bytes[usize::from(*byte)] = false;
        }
        bytes
    }
}

/// Reads from a name to its value.
pub(super) struct Reader<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn rest(&self) -> &[u8] {
        &self.text[self.at.min(self.text.len())..]
    }

    fn take(&mut self, part: &str) -> bool {
        let rest = self.rest().get(..part.len());
        let fits = rest.is_some_and(|rest| rest.eq_ignore_ascii_case(part.as_bytes()));
        if fits {
            self.at += part.len();
        }
        fits
    }

    /// Skips bytes of a kind, which does not include NUL.
    fn skip(&mut self, is_of_kind: impl Fn(u8) -> bool) {
        while is_of_kind(self.peek()) {
            self.at += 1;
        }
    }

    fn blanks(&mut self) -> usize {
        let from = self.at;
        // Maximum number of blanks between a name and its value, because table cells are padded.
        while self.at - from < 48 && matches!(self.peek(), b' ' | b'\t') {
            self.at += 1;
        }
        self.at - from
    }

    /// Skips the newline within a pair over two lines. Returns true if the text ends there.
    fn line(&mut self) -> Option<bool> {
        let from = self.at;
        self.blanks();
        self.take("\r");
        if self.at >= self.text.len() {
            return Some(true);
        }
        if self.take("\n") || self.take("\\n") {
            self.blanks();
            return Some(self.at >= self.text.len());
        }
        self.at = from;
        None
    }

    /// Finds the value of the name that begins at `first` and ends at the current position. `is_flag` for an
    /// option of a program.
    pub(super) fn value(mut self, is_flag: bool, first: usize) -> NameMatch {
        let mut is_quoted = false;
        for _ in 0..8 {
            match self.peek() {
                b'"' | b'\'' | b'`' => is_quoted = true,
                b'\\' if self.rest().get(1) != Some(&b'n') => {}
                b']' | b')' | b'*' => {}
                _ => break,
            }
            self.at += 1;
        }
        let blanks = self.blanks();
        let is_value = self.is_value_of_a_pair(first);
        let operator = match self.peek() {
            b'=' => {
                self.at += 1;
                match self.peek() {
                    b'=' | b'~' => return NameMatch::No,
                    b'>' => self.at += 1,
                    _ => {}
                }
                Operator::Assign
            }
            b'|' if self.take("||=") => Operator::Assign,
            b'?' | b'+' if self.rest().get(1) == Some(&b'=') => {
                self.at += 2;
                Operator::Assign
            }
            b':' => {
                self.at += 1;
                match self.peek() {
                    b':' => return NameMatch::No,
                    b'=' => {
                        self.at += 1;
                        Operator::Assign
                    }
                    _ => self.annotation(),
                }
            }
            b'>' if is_quoted && is_value || self.is_element(first) => {
                return NameMatch::Value(self.at + 1, Quote::Element, Operator::Colon);
            }
            b'<' => return self.element(),
            b'|' | b'\t' => {
                self.at += 1;
                Operator::Gap
            }
            0xe2 if self.frame() => Operator::Gap,
            // The argument of an option is in the next line.
            b'\\' if is_flag && blanks > 0 && is_escaped_end(self.text, self.at) => {
                self.at += 1;
                match self.line() {
                    Some(true) => return NameMatch::NextLine,
                    _ => Operator::Colon,
                }
            }
            b'\r' | b'\n' if self.text[..first].ends_with(b"form-data; name=\"") => {
                return self.form_field();
            }
            byte if is_value && (is_quoted || matches!(byte, b'\r' | b'\n' | b'\\' | 0)) => {
                return self.pair();
            }
            _ if blanks == 0 => return NameMatch::No,
            _ if self.is_element(first) && self.skip_to_content() => {
                return NameMatch::Value(self.at, Quote::Element, Operator::Colon);
            }
            // Options are described more often than they are used.
            _ if is_flag => Operator::Colon,
            _ if self.text[self.at - blanks..self.at].contains(&b'\t') => Operator::Gap,
            _ => return NameMatch::No,
        };
        let more = self.blanks();
        if !is_quoted && self.ends_text(first) {
            return NameMatch::No;
        }
        // `password = value`: in code, the value is often a name, and nothing distinguishes a password from
        // it.
        let is_loose = operator == Operator::Assign && (is_flag || blanks + more > 0);
        let is_quote = matches!(self.peek(), b'"' | b'\'' | b'`' | b'\\');
        if is_loose && !is_quote {
            self.opened(Operator::Colon)
        } else {
            self.opened(operator)
        }
    }

    /// Returns true if the quote at the current position ends the text that contains the name:
    /// `getpass('Password: ', x)`.
    fn ends_text(&self, first: usize) -> bool {
        let quote = self.peek();
        if !matches!(quote, b'"' | b'\'') {
            return false;
        }
        let near = &self.text[first.saturating_sub(PAIR)..first];
        let line = near.rsplit(|b| *b == b'\n').next().unwrap_or_default();
        let is_letter = |at: Option<usize>| {
            at.and_then(|at| line.get(at))
                .is_some_and(u8::is_ascii_alphabetic)
        };
        // An apostrophe is not a quote.
        let is_quote = |at: &usize| {
            line[*at] == quote && !(is_letter(at.checked_sub(1)) && is_letter(Some(at + 1)))
        };
        (0..line.len()).filter(is_quote).count() % 2 == 1
    }

    /// Skips a type: `const token: string = "…"`.
    fn annotation(&mut self) -> Operator {
        let from = self.at;
        self.skip(|b| b.is_ascii_alphanumeric() || b" &'<>?|_.".contains(&b));
        if self.peek() == b'=' && (2..28).contains(&(self.at - from)) {
            self.at += 1;
            self.blanks();
            if matches!(self.peek(), b'"' | b'\'' | b'`') {
                return Operator::Assign;
            }
        }
        self.at = from;
        Operator::Colon
    }

    /// Skips the frame of a table, a character of three bytes.
    fn frame(&mut self) -> bool {
        let is_frame = matches!(
            self.rest(),
            [0xe2, 0x94, 0x82 | 0x83, ..] | [0xe2, 0x95, 0x91, ..]
        );
        if is_frame {
            self.at += 3;
        }
        is_frame
    }

    /// Skips quotes; returns their kind.
    fn quotes(&mut self) -> Option<Quote> {
        let from = self.at;
        while self.peek() == b'\\'
            && self.at - from < 3
            && matches!(self.rest().get(1), Some(b'\\' | b'"' | b'\''))
        {
            self.at += 1;
        }
        let quote = match (self.peek(), self.at > from) {
            (b'"', false) => Quote::Double,
            (b'\'', false) => Quote::Single,
            (b'"' | b'\'', true) => Quote::Escaped,
            (b'`', _) => Quote::Backtick,
            _ => {
                self.at = from;
                return None;
            }
        };
        self.at += 1;
        Some(quote)
    }

    /// Reads the beginning of a value.
    fn opened(mut self, operator: Operator) -> NameMatch {
        self.skip(|b| b == b'*' || (b == b'>' && operator == Operator::Assign));
        self.blanks();
        if operator == Operator::Colon && matches!(self.peek(), b'\r' | b'\n' | 0) {
            return self.pair();
        }
        let quote = self.quotes().unwrap_or(Quote::Unquoted);
        NameMatch::Value(self.at, quote, operator)
    }

    /// Returns true if the name is itself a value: `name: DB_PASSWORD`, `key="password"`. It may end a path:
    /// `"Name": "/prod/DB_PASSWORD"`.
    fn is_value_of_a_pair(&self, first: usize) -> bool {
        let before = &self.text[first.saturating_sub(PAIR / 2)..first];
        let is_path = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'-' | b'.');
        let path = if before.last() == Some(&b'/') {
            before.iter().rev().take_while(|b| is_path(b)).count()
        } else {
            0
        };
        let before = &before[..before.len() - path];
        let end = before.iter().rposition(|b| !b" \"'\\=:\t".contains(b));
        let lower = before[..end.map_or(0, |end| end + 1)].to_ascii_lowercase();
        lower.len() < before.len()
            && "name key variable env field property param header label title"
                .split(' ')
                .any(|word| lower.ends_with(word.as_bytes()))
    }

    /// Finds the value of a pair after its name, also after other members and in a later line:
    /// `, "value": "…"`, `value="…"`.
    fn pair(mut self) -> NameMatch {
        let end = self.text.len().min(self.at + PAIR);
        let mut lines = 0;
        self.take("{");
        while self.at < end {
            let before = self.text[self.at - 1];
            match self.peek() {
                b'}' | b'<' | b'>' => return NameMatch::No,
                b'\n' => {
                    lines += 1;
                    // Maximum number of lines from the name of a pair to its value.
                    if lines == 4 {
                        return NameMatch::No;
                    }
                }
                byte if byte.is_ascii_alphabetic() && !before.is_ascii_alphanumeric() => {
                    let from = self.at;
                    let mut words =
                        "value val default content plaintext text secretvalue data".split(' ');
                    if words.any(|word| self.take(word)) {
                        self.quotes();
                        self.blanks();
                        if self.take(":") || self.take("=>") || self.take("=") {
                            return self.opened(Operator::Colon);
                        }
                    }
                    self.at = from;
                }
                _ => {}
            }
            self.at += 1;
        }
        if end == self.text.len() {
            NameMatch::NextLine
        } else {
            NameMatch::No
        }
    }

    /// Reads the value of a field in a multipart form, which is the line after an empty one.
    fn form_field(mut self) -> NameMatch {
        for _ in 0..2 {
            match self.line() {
                Some(true) => return NameMatch::NextLine,
                Some(false) => {}
                None => return NameMatch::No,
            }
        }
        NameMatch::Value(self.at, Quote::Unquoted, Operator::Gap)
    }

    fn is_element(&self, first: usize) -> bool {
        let before = &self.text[first.saturating_sub(16)..first];
        before.iter().rposition(|b| *b == b'<').is_some_and(|at| {
            before[at + 1..]
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || *b == b':')
        })
    }

    /// Skips the attributes of an element up to its content.
    fn skip_to_content(&mut self) -> bool {
        let near = &self.rest()[..self.rest().len().min(PAIR)];
        let end = near.iter().position(|b| matches!(b, b'<' | b'>' | b'\n'));
        let end = end.filter(|end| near[*end] == b'>' && near[..*end].last() != Some(&b'/'));
        end.inspect(|end| self.at += end + 1).is_some()
    }

    /// Reads `</key>` and the element after it.
    fn element(mut self) -> NameMatch {
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
        let mut tags = ["<string>", "<value>", "<data>", "<td>", "<dd>"].into_iter();
        if tags.any(|tag| self.take(tag)) {
            return NameMatch::Value(self.at, Quote::Element, Operator::Colon);
        }
        // The text may end within the tag.
        let is_cut = self.rest().len() < 12 && !self.rest().contains(&b'\n');
        if is_cut {
            NameMatch::NextLine
        } else {
            NameMatch::No
        }
    }
}
