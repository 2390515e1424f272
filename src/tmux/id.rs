//! The ids that tmux assigns and never changes: `$3`, `@2`, `%7` (pure).

use std::fmt;

macro_rules! numbered_id {
    ($(#[$doc:meta])* $name:ident, $sign:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// Parses an id as tmux writes it.
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
    /// The id of a session, which a rename does not change.
    SessionId, '$'
}
numbered_id! {
    /// The id of a window, the same in all sessions that it is linked to.
    WindowId, '@'
}

/// Returns the number of a pane id such as `%7`.
pub(super) fn pane_number(text: &str) -> Option<u32> {
    number_after('%', text)
}

fn number_after(sign: char, text: &str) -> Option<u32> {
    decimal(text.strip_prefix(sign)?)
}

/// Parses a decimal number without a sign; `parse` alone would accept one.
pub(super) fn decimal(text: &str) -> Option<u32> {
    let digits_only = text.bytes().all(|byte| byte.is_ascii_digit());
    digits_only.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_parse_only_as_tmux_writes_them() {
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
