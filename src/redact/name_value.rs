//! Values of names: their quotes and the operators before them (pure).

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
