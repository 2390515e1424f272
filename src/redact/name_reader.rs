//! Reads from a name to its value: quotes, operators, pairs, cells and prose (pure).
//!
//! A name may be a value itself: `{"name": "DB_PASSWORD", "value": …}`, XML elements, form fields.

use super::edges::{LEAK_BYTES, is_escaped_end};

/// Maximum number of blanks between a name and its value, because table cells are padded.
pub(super) const BLANKS: usize = 48;

/// Bytes after a name that are examined for prose.
pub(super) const PROSE: usize = 96;

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
    /// A few words of prose, or the edge of a table cell.
    Gap,
    /// Only blanks.
    Blank,
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

pub(super) const OPERATORS: [Operator; 4] = [
    Operator::Assign,
    Operator::Colon,
    Operator::Gap,
    Operator::Blank,
];

/// A value that may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValueStart {
    /// The beginning of the name's word.
    pub(super) start: usize,
    pub(super) from: usize,
    pub(super) quote: Quote,
    pub(super) operator: Operator,
}

/// The result of reading a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameMatch {
    No,
    /// The value may be in the next line, which has not arrived yet.
    NextLine,
    Value(ValueStart),
}

impl Quote {
    /// Returns the bytes that the value may contain.
    pub(super) fn body(self) -> Box<[bool; 256]> {
        let not: &[u8] = match self {
            Self::Double => b"\"",
            Self::Escaped => b"\"\\",
            Self::Single => b"'",
            Self::Backtick => b"`",
            Self::Element => b"<",
            Self::Unquoted => b" \t\x0b\x0c\"'`<>()[]{},;|&\\",
            Self::Shell => b" \t\x0b\x0c\"'`<>;|&\\",
        };
        let mut bytes = Box::new([true; 256]);
        for byte in not.iter().chain(b"\r\n") {
            bytes[usize::from(*byte)] = false;
        }
        bytes
    }
}

/// The properties of a name that determine where its value may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameKind {
    /// True for an option of a program.
    pub(super) is_flag: bool,
    /// True if the name may belong to a function.
    pub(super) is_call: bool,
    /// True for the form of an environment variable.
    pub(super) is_variable: bool,
}

/// Reads from a name to its value.
pub(super) struct Reader<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
}

impl Reader<'_> {
    pub(super) fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    pub(super) fn rest(&self) -> &[u8] {
        &self.text[self.at.min(self.text.len())..]
    }

    pub(super) fn take(&mut self, part: &str) -> bool {
        let fits = self
            .rest()
            .get(..part.len())
            .is_some_and(|rest| rest.eq_ignore_ascii_case(part.as_bytes()));
        if fits {
            self.at += part.len();
        }
        fits
    }

    /// Skips bytes of a kind, which does not include NUL.
    pub(super) fn skip(&mut self, is_of_kind: impl Fn(u8) -> bool) {
        while is_of_kind(self.peek()) {
            self.at += 1;
        }
    }

    pub(super) fn blanks(&mut self) -> usize {
        let from = self.at;
        while self.at - from < BLANKS && matches!(self.peek(), b' ' | b'\t') {
            self.at += 1;
        }
        self.at - from
    }

    /// Skips a mark of an editor's or a table's frame, and the newline within a pair over two lines.
    pub(super) fn line(&mut self) -> Option<bool> {
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

    /// Finds the value of the name that begins at `first` and ends at the current position.
    pub(super) fn value(mut self, kind: NameKind, first: usize) -> NameMatch {
        let NameKind {
            is_flag,
            is_call,
            is_variable,
        } = kind;
        let mut is_quoted = false;
        for _ in 0..8 {
            match self.peek() {
                b'"' | b'\'' | b'`' => is_quoted = true,
                b'\\' if self.rest().get(1) != Some(&b'n') => {}
                b']' | b')' | b'*' => {}
                b'&' if self.take("&quot;") => {
                    is_quoted = true;
                    continue;
                }
                b'%' if self.take("%22") || self.take("%27") || self.take("%5D") => {
                    is_quoted = true;
                    continue;
                }
                _ => break,
            }
            self.at += 1;
        }
        let is_value = is_quoted && self.is_value_of_a_pair(first);
        let blanks = self.blanks();
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
                    b'*' => {
                        self.skip(|b| b == b'*');
                        Operator::Colon
                    }
                    _ => self.annotation(),
                }
            }
            b'%' if self.take("%3D") => Operator::Assign,
            b'%' if self.take("%3A") => Operator::Colon,
            b'>' if is_value || self.is_element(first) => {
                self.at += 1;
                self.take("<![CDATA[");
                return self.found(Quote::Element, Operator::Colon);
            }
            b'<' => return self.element(),
            b'|' | b'\t' => {
                self.at += 1;
                self.blanks();
                self.take("|");
                Operator::Gap
            }
            0xe2 if self.frame() => Operator::Gap,
            b',' if is_quoted => return self.pair(is_value),
            b'(' if is_call => {
                self.at += 1;
                if !matches!(self.peek(), b'"' | b'\'' | b'`') && blanks == 0 {
                    return NameMatch::No;
                }
                Operator::Blank
            }
            b'-' if self.take("->") => Operator::Gap,
            // The argument of an option is in the next line.
            b'\\' if is_flag && blanks > 0 && is_escaped_end(self.text, self.at) => {
                self.at += 1;
                match self.line() {
                    Some(true) => return NameMatch::NextLine,
                    _ => Operator::Colon,
                }
            }
            // A row in CSV.
            b',' if is_variable && self.begins_line(first) => {
                self.at += 1;
                Operator::Gap
            }
            b'\r' | b'\n' if self.is_form_field(first) => return self.form_field(),
            // A Terraform block.
            b'{' if is_value => {
                self.at += 1;
                return self.pair(true);
            }
            b'}' if is_value && let Some(found) = self.value_before(first) => return found,
            b'\r' | b'\n' | b'\\' | 0 if is_value || self.is_value_of_a_pair(first) => {
                return self.pair(true);
            }
            _ if blanks == 0 => return NameMatch::No,
            b'v' if is_quoted => return self.pair(true),
            b't' | b'i' | b'c' | b'p' if is_value && self.attributes() => return self.pair(true),
            _ if self.is_element(first) && self.skip_to_content() => {
                self.take("<![CDATA[");
                return self.found(Quote::Element, Operator::Colon);
            }
            b'-' if self.take("--body ")
                || self.take("-b ")
                || self.take("--value ")
                || self.take("--secret-string ") =>
            {
                Operator::Colon
            }
            // Options are described more often than they are used.
            _ if is_flag => Operator::Colon,
            _ if self.text[self.at - blanks..self.at].contains(&b'\t') => Operator::Gap,
            _ => self.prose(blanks),
        };
        let more = self.blanks();
        if !is_quoted && self.ends_text(first) {
            return NameMatch::No;
        }
        // `password = value`: in code, the value is often a name, and nothing distinguishes a password from
        // it.
        let is_loose = operator == Operator::Assign && (is_flag || blanks + more > 0);
        let is_quote = matches!(self.peek(), b'"' | b'\'' | b'`' | b'\\');
        match is_loose && !is_quote {
            true => self.opened(Operator::Colon),
            false => self.opened(operator),
        }
    }

    /// Returns true if only a quote precedes the name on its line.
    fn begins_line(&self, first: usize) -> bool {
        let before = self.text[..first]
            .strip_suffix(b"\"")
            .unwrap_or(&self.text[..first]);
        before.last().is_none_or(|b| *b == b'\n')
    }

    /// Returns true if the quote at the current position ends the text that contains the name:
    /// `getpass('Password: ', x)`.
    fn ends_text(&self, first: usize) -> bool {
        let quote = self.peek();
        if !matches!(quote, b'"' | b'\'') {
            return false;
        }
        let near = &self.text[first.saturating_sub(PROSE)..first];
        let line = near.rsplit(|b| *b == b'\n').next().unwrap_or_default();
        // An apostrophe is not a quote.
        let is_quote = |at: &usize| {
            let in_word = |at: Option<usize>| {
                at.and_then(|at| line.get(at))
                    .is_some_and(u8::is_ascii_alphabetic)
            };
            line[*at] == quote && !(in_word(at.checked_sub(1)) && in_word(Some(at + 1)))
        };
        (0..line.len()).filter(is_quote).count() % 2 == 1
    }

    /// Skips a type: `const token: string = "…"`.
    fn annotation(&mut self) -> Operator {
        let from = self.at;
        for at in from..(from + 28).min(self.text.len()) {
            match self.text[at] {
                b'=' if at > from + 1 => {
                    self.at = at + 1;
                    self.blanks();
                    if matches!(self.peek(), b'"' | b'\'' | b'`') {
                        return Operator::Assign;
                    }
                    break;
                }
                b if b.is_ascii_alphanumeric()
                    || matches!(
                        b,
                        b' ' | b'&' | b'\'' | b'<' | b'>' | b'?' | b'|' | b'_' | b'.'
                    ) => {}
                _ => break,
            }
        }
        self.at = from;
        Operator::Colon
    }

    /// Skips the frame of a table or an arrow, which are characters of three bytes.
    fn frame(&mut self) -> bool {
        let is_frame = matches!(
            self.rest(),
            [0xe2, 0x94, 0x82 | 0x83, ..]
                | [0xe2, 0x95, 0x91, ..]
                | [0xe2, 0x86, 0x92, ..]
                | [0xe2, 0x80, 0x94 | 0x93, ..]
        );
        if is_frame {
            self.at += 3;
        }
        is_frame
    }

    /// Skips the words of prose between a name and its value.
    fn prose(&mut self, blanks: usize) -> Operator {
        let from = self.at;
        // A value after prose has a digit, or a mark that does not occur in words.
        let near = &self.rest()[..self.rest().len().min(PROSE)];
        if !near
            .iter()
            .take_while(|b| **b != b'\n')
            .any(|b| b.is_ascii_digit() || b"!@#%^*?~&$".contains(b))
        {
            return Operator::Blank;
        }
        for _ in 0..3 {
            for word in [
                "is ", "was ", "set ", "to ", "be ", "now ", "are ", "as ", "for ", "of ",
                "value ", "is: ", "the ", "it's ", "- ", "(", "becomes ", "using ", "with ",
                "here: ", "here ", "below: ", "used: ", "it is ",
            ] {
                if self.take(word) {
                    self.blanks();
                }
            }
        }
        match self.at > from || blanks > 1 {
            true => Operator::Gap,
            false => Operator::Blank,
        }
    }

    /// Skips quotes; returns their kind.
    pub(super) fn quotes(&mut self) -> Option<Quote> {
        let from = self.at;
        while self.peek() == b'\\'
            && self.at - from < 3
            && matches!(self.rest().get(1), Some(b'\\' | b'"' | b'\''))
        {
            self.at += 1;
        }
        let quote = match (self.peek(), self.at > from) {
            (b'"', false) => Some(Quote::Double),
            (b'"', true) => Some(Quote::Escaped),
            (b'\'', false) => Some(Quote::Single),
            (b'\'', true) => Some(Quote::Escaped),
            (b'`', _) => Some(Quote::Backtick),
            (b'&', _) if self.rest().starts_with(b"&quot;") => {
                self.at += 6;
                return Some(Quote::Unquoted);
            }
            (b'%', _) if self.rest().starts_with(b"%22") => {
                self.at += 3;
                return Some(Quote::Unquoted);
            }
            _ => None,
        };
        self.at = match quote {
            Some(_) => self.at + 1,
            None => from,
        };
        quote
    }

    /// Reads the beginning of a value.
    pub(super) fn opened(mut self, operator: Operator) -> NameMatch {
        self.skip(|b| b == b'*' || (b == b'>' && operator == Operator::Assign));
        self.blanks();
        for word in [
            "String::from(",
            "SecretString::new(",
            "Secret::new(",
            "new String(",
            "Some(",
            "str(",
            "b64decode(",
            "!!str ",
            "!!binary ",
            "<![CDATA[",
            "[",
        ] {
            if self.take(word) {
                break;
            }
        }
        if matches!(
            self.peek(),
            b'b' | b'r' | b'f' | b'u' | b'R' | b'L' | b'@' | b'$'
        ) && matches!(self.rest().get(1), Some(b'"' | b'\''))
        {
            self.at += 1;
        }
        // A YAML block or a prompt: the value is in the next line.
        if operator == Operator::Colon && matches!(self.peek(), b'|' | b'>' | b'\r' | b'\n' | 0) {
            self.skip(|b| matches!(b, b'|' | b'>' | b'-' | b'+'));
            match self.line() {
                Some(true) => return NameMatch::NextLine,
                Some(false) if self.at - 1 < self.text.len() => {
                    self.skip(|b| matches!(b, b'|' | b'+' | b' '));
                    if self.take("value:") || self.take("default:") {
                        self.blanks();
                        let quote = self.quotes().unwrap_or(Quote::Unquoted);
                        return self.found(quote, Operator::Colon);
                    }
                    self.quotes();
                    return self.found(Quote::Unquoted, Operator::Gap);
                }
                _ => return NameMatch::No,
            }
        }
        let quote = self.quotes();
        for word in ["Bearer ", "Basic ", "Token ", "ApiKey ", "SSWS ", "Bot "] {
            if self.take(word) {
                break;
            }
        }
        self.found(quote.unwrap_or(Quote::Unquoted), operator)
    }

    pub(super) fn found(self, quote: Quote, operator: Operator) -> NameMatch {
        NameMatch::Value(ValueStart {
            start: 0,
            from: self.at,
            quote,
            operator,
        })
    }
}

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
