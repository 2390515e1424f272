//! Tracks the colours and attributes that SGR sequences set (pure).

/// Resets the terminal to its default colours.
pub(in crate::face) const RESET: &str = "\x1b[0m";

/// One entry for each code that ends an attribute, plus one, because bold and faint share an end code.
pub(super) const ACTIVE_MAX: usize = 13;

/// The active attributes: the code that ends each, and the parameters that set it.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes(Vec<(u16, String)>);

impl Attributes {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Appends the sequence that sets all active attributes.
    pub fn push(&self, out: &mut String) {
        out.push_str("\x1b[");
        for (at, (_, params)) in self.0.iter().enumerate() {
            if at > 0 {
                out.push(';');
            }
            out.push_str(params);
        }
        out.push('m');
    }

    /// Applies the parameters of a sequence.
    pub fn apply(&mut self, params: &str) {
        if is_reset(params) {
            return self.0.clear();
        }
        let mut parts = params.split(';');
        while let Some(part) = parts.next() {
            let first = part.split(':').next().unwrap_or_default();
            // An empty parameter is 0; a number that is too large has no meaning.
            let code = match first.is_empty() {
                true => 0,
                false => first.parse().unwrap_or(u16::MAX),
            };
            let mut whole = part.to_owned();
            if matches!(code, 38 | 48 | 58) && part == first {
                // The colour follows in separate parameters: an index, or three channels.
                let (kind, channels) = match parts.next() {
                    Some("5") => ("5", 1),
                    Some("2") => ("2", 3),
                    _ => return,
                };
                whole.push(';');
                whole.push_str(kind);
                for _ in 0..channels {
                    let Some(channel) = parts.next() else { return };
                    whole.push(';');
                    whole.push_str(channel);
                }
            }
            if code == 0 {
                self.0.clear();
            } else if is_end(code) || part == "4:0" {
                let ended = if part == "4:0" { 24 } else { code };
                self.0.retain(|(end, _)| *end != ended);
            } else if let Some(end) = end_of(code) {
                // Bold and faint are separate attributes with the same end code.
                self.0
                    .retain(|(other, old)| *other != end || end == 22 && *old != whole);
                self.0.truncate(ACTIVE_MAX - 1);
                self.0.push((end, whole));
            }
        }
    }
}

/// Returns true if a sequence only resets all attributes.
pub(super) fn is_reset(params: &str) -> bool {
    params.bytes().all(|byte| matches!(byte, b'0' | b';'))
}

fn is_end(code: u16) -> bool {
    matches!(code, 22..=25 | 27..=29 | 39 | 49 | 54 | 55 | 59)
}

/// Returns the code that ends the attribute set by `code`.
fn end_of(code: u16) -> Option<u16> {
    Some(match code {
        1 | 2 => 22,
        3 | 20 => 23,
        4 | 21 => 24,
        5 | 6 => 25,
        7..=9 => code + 20,
        30..=38 | 90..=97 => 39,
        40..=48 | 100..=107 => 49,
        51 | 52 => 54,
        53 => 55,
        58 => 59,
        _ => return None,
    })
}
