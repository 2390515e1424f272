//! Prepares the lines of one stream for display (pure).

use unicode_width::UnicodeWidthStr;

use super::lexer::Lexer;
use super::sgr::{Attributes, RESET, is_reset};
use crate::face::sanitize::{is_printable, push_sanitized_at};

/// Paints the lines of one stream in their order, with bounded memory.
#[derive(Clone, Debug, Default)]
pub(in crate::face) struct Painter {
    lexer: Lexer,
    active: Attributes,
}

impl Painter {
    /// Appends a line, or the next part of a line, for display. Appends nothing for a line without visible
    /// text.
    pub fn push(&mut self, out: &mut String, text: &str, coloured: bool) {
        if self.passes_unchanged() && is_printable(text) {
            return out.push_str(text);
        }
        let start = out.len();
        let (mut is_empty, mut is_set) = (true, false);
        if coloured && !self.active.is_empty() {
            self.active.push(out);
            is_set = true;
        }
        // Only tabs depend on the column.
        let has_tabs = text.contains('\t');
        let (mut column, mut rest) = (0, text);
        while !rest.is_empty() {
            let token = self.lexer.next(rest);
            if !token.text.is_empty() {
                let before = out.len();
                push_sanitized_at(out, token.text, column);
                is_empty = false;
                if has_tabs {
                    column += out[before..].width();
                }
            }
            if token.is_sgr && coloured {
                let params = self.lexer.params();
                for part in ["\x1b[", params, "m"] {
                    out.push_str(part);
                }
                is_set = !is_reset(params);
                self.active.apply(params);
            }
            rest = token.rest;
        }
        if is_empty {
            out.truncate(start);
        } else if is_set {
            out.push_str(RESET);
        }
    }

    /// Returns true if printable text passes unchanged: no colour is active, and no sequence is open.
    pub fn passes_unchanged(&self) -> bool {
        self.active.is_empty() && self.lexer.is_in_text()
    }

    /// Applies the colour changes of text that is not shown.
    pub fn absorb(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let token = self.lexer.next(rest);
            if token.is_sgr {
                self.active.apply(self.lexer.params());
            }
            rest = token.rest;
        }
    }

    /// Ends the line, and drops an open sequence, so that it hides nothing beyond its line.
    pub fn end_line(&mut self) {
        self.lexer.reset();
    }

    #[cfg(test)]
    pub(super) fn attributes(&self) -> usize {
        self.active.len()
    }
}
