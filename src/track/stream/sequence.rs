//! Parses the sequences that tmux supports, whose rules differ from those of `avt` (pure).

/// tmux ignores a sequence with more parameters than this.
const NUMBERS_MAX: usize = 23;
const NUMBERS_BYTES_MAX: usize = 63;

/// The bytes of a sequence that are kept: more than any sequence that tmux accepts has.
pub(super) const SEQUENCE_BYTES: usize = NUMBERS_BYTES_MAX + 4;

/// The parameters of a sequence after an `ESC`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence<'a> {
    numbers: &'a [u8],
}

impl<'a> Sequence<'a> {
    /// Parses the bytes after `ESC`, without controls. Returns `None` for sequences that tmux ignores.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() >= SEQUENCE_BYTES {
            return None;
        }
        let (last, before) = bytes.split_last()?;
        let control = before.strip_prefix(b"[");
        let mut rest = control.unwrap_or(before);
        let mut kind = None;
        if control.is_some()
            && let Some((first @ b'<'..=b'?', after)) = rest.split_first()
        {
            (kind, rest) = (Some(*first), after);
        }
        let end = rest.iter().take_while(|byte| (b'0'..=b';').contains(byte));
        let (numbers, rest) = rest.split_at(end.count());
        kind = match (rest, kind) {
            ([], kind) => kind,
            ([intermediate], None) => Some(*intermediate),
            _ => return None,
        };
        let finals: &[u8] = match (control.is_some(), kind) {
            (true, None) => b"@ABCDEFGHJKLMPSTXZ`bcdfghlmnrstu",
            (true, Some(b'?')) => b"hl",
            (true, Some(b'>')) => b"cmnq",
            (true, Some(b' ')) => b"q",
            (false, None) => b"78=>DEHM\\c",
            (false, Some(b'(' | b')')) => b"0B",
            (false, Some(b'#')) => b"8",
            _ => b"",
        };
        let sequence = Self { numbers };
        (finals.contains(last) && sequence.is_accepted()).then_some(sequence)
    }

    /// Returns true if tmux accepts the parameters.
    fn is_accepted(&self) -> bool {
        let is_accepted =
            |part: &[u8]| part.is_empty() || part.contains(&b':') || number(part).is_some();
        self.numbers.len() <= NUMBERS_BYTES_MAX
            && self.parts().count() <= NUMBERS_MAX
            && self.parts().all(is_accepted)
    }

    fn parts(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.numbers.split(|byte| *byte == b';')
    }

    fn part(&self, at: usize) -> &'a [u8] {
        self.parts().nth(at).unwrap_or_default()
    }

    /// Returns true if a parameter is not a single number, because it has subparameters.
    pub fn is_text(&self, at: usize) -> bool {
        self.part(at).contains(&b':')
    }

    /// Returns a parameter, if it is a number.
    pub fn number(&self, at: usize) -> Option<usize> {
        number(self.part(at))
    }

    /// Returns a parameter that is a count: a missing one, or zero, means one.
    pub fn count(&self, at: usize) -> usize {
        self.number(at).unwrap_or_default().max(1)
    }

    pub fn numbers(&self) -> impl Iterator<Item = usize> + use<'a> {
        self.parts().filter_map(number)
    }
}

fn number(part: &[u8]) -> Option<usize> {
    let number: i32 = std::str::from_utf8(part).ok()?.parse().ok()?;
    usize::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_tmux() {
        let sequence = Sequence::read(b"[;5;0;7:3H").unwrap();
        let numbers: Vec<_> = (0..5).map(|at| sequence.number(at)).collect();
        assert_eq!(numbers, [None, Some(5), Some(0), None, None]);
        assert!(sequence.is_text(3) && !sequence.is_text(4));
        assert_eq!((sequence.count(1), sequence.count(2)), (5, 1));
        assert_eq!(sequence.numbers().collect::<Vec<_>>(), [5, 0]);
    }

    #[test]
    fn sequences_that_tmux_ignores_are_none() {
        for bytes in [
            "[?9z",
            "##8",
            "[! p",
            "[?? h",
            "[2147483648D",
            "[a",
            "",
            "(C",
            "[3?D",
        ] {
            assert!(Sequence::read(bytes.as_bytes()).is_none(), "{bytes}");
        }
        for bytes in ["[?25h", "#8", "[2 q", "[2147483647D", "c", "(B", "7"] {
            assert!(Sequence::read(bytes.as_bytes()).is_some(), "{bytes}");
        }
        let many = |count: usize| format!("[{}H", ";".repeat(count - 1));
        assert!(Sequence::read(many(23).as_bytes()).is_some());
        assert!(Sequence::read(many(24).as_bytes()).is_none());
        let long = |count: usize| format!("[?{:0count$}h", 1);
        assert!(Sequence::read(long(63).as_bytes()).is_some());
        assert!(Sequence::read(long(64).as_bytes()).is_none());
    }
}
