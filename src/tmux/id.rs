//! The names that tmux gives and never changes: `$3`, `@2`, `%7`.

use std::fmt;

macro_rules! numbered_id {
    ($(#[$doc:meta])* $name:ident, $sign:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// Reads it as tmux writes it; anything else is none.
            pub fn parse(text: &str) -> Option<Self> {
                number_after($sign, text).map(Self)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $sign, self.0)
            }
        }
    };
}

numbered_id! {
    /// A session, whatever it is called now.
    SessionId, '$'
}
numbered_id! {
    /// A window, wherever it is linked.
    WindowId, '@'
}

/// The number in `%7`, by which panes are ordered.
pub(super) fn pane_number(text: &str) -> Option<u32> {
    number_after('%', text)
}

fn number_after(sign: char, text: &str) -> Option<u32> {
    let digits = text.strip_prefix(sign)?;
    // `parse` alone would also take `+7`.
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_tmux_writes_is_an_id() {
        assert_eq!(
            SessionId::parse("$3").map(|id| id.to_string()).as_deref(),
            Some("$3")
        );
        for text in ["", "$", "$x", "$+3", "3", "@3", "$3 ", "$99999999999"] {
            assert_eq!(SessionId::parse(text), None, "{text:?}");
        }
        assert_eq!(pane_number("%12"), Some(12));
    }
}
