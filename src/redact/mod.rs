//! Redaction: removes keys and tokens from events before any lane receives them (pure).
//!
//! A rule (`rules/*.toml`) describes the lead that announces a secret and the bytes of its body, so that a
//! secret can be followed through text that arrives in pieces. **Text is never delayed** to wait for more:
//! each piece is judged on its own. Up to eleven bytes of a truncated secret may be shown before it is
//! recognized; all further bytes are redacted, wherever the text is cut. The cost is over-redaction: if a
//! secret may have begun at the end of a text, it is redacted, even if the following text would have shown
//! that it is none.

mod edges;
mod name_reader;
mod value;
mod words;

mod rule;
mod rule_file;
mod rule_table;

mod finder;

mod scan;

pub(crate) mod rules;

pub(crate) mod terminal;

pub(crate) mod redactor;

#[cfg(test)]
mod tests;

pub(crate) use edges::MARKER;
pub(crate) use redactor::Redactor;
pub use rules::Rules;
pub(crate) use terminal::TerminalStream;
