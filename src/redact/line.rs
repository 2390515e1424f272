//! Lines of a terminal: finds secrets that continue in the next line, across frames and indentation (pure).
//!
//! tmux joins the rows that it wrapped itself. A program that breaks its lines at the pane's edge leaves a
//! line that nearly fills the pane, and the rest of the secret in the next line, after an indentation or a
//! frame. Lines are therefore scanned one by one, each with the state of the previous line.

use unicode_width::UnicodeWidthStr;

use super::edges::unite;
use super::rule::{LEAK_BYTES, Rule};
use super::scan::{Continuation, RuleSet, redact_spans};
use super::span::TextEnd;
use super::stream::{Scratch, StreamState};
use super::value::ValueCheck;

/// Maximum number of free columns at the pane's edge after a broken line: a frame, and a margin on both
/// sides. In a narrow pane, the limit is a quarter of its width.
const MARGIN: usize = 12;
/// Minimum length of a secret at the end of a line that may continue in the next line.
const LONG: usize = 40;

/// The state that a line leaves for the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LineState {
    /// The line was broken at the pane's edge, or a block continues.
    Continues(StreamState),
    /// The line ended with a secret of this rule; the next line may begin with its rest.
    EndsWithSecret(u16),
}

/// Returns the minimum number of columns of a line that may have been broken at the edge of a pane with this
/// width. If the width is unknown, no line is long enough.
pub(super) fn full_columns_min(width: Option<u32>) -> usize {
    width.map_or(usize::MAX, |width| {
        let width = width as usize;
        width - MARGIN.min(width / 4)
    })
}

/// Returns true if the line may have been broken at the edge of a pane with this width.
///
/// A longer line was wrapped by tmux. It may also continue if it fills its last row: when a program switches
/// to the alternate screen, tmux forgets that the last row of the history is wrapped, and the rest of the
/// line becomes a line of its own.
pub(super) fn nearly_full(line: &str, width: Option<u32>) -> bool {
    let columns_min = full_columns_min(width);
    // A character never has more columns than bytes.
    line.len() >= columns_min
        && width.is_some_and(|width| {
            let (columns, width) = (line.width(), width as usize);
            (columns_min..=width).contains(&columns)
                || (columns > width && columns.checked_rem(width) == Some(0))
        })
}

/// Redacts a line without its newline; returns the redacted text, if it differs, and the state for
/// the next line.
///
/// `end` is [`TextEnd::Cut`] for a line that may still grow.
pub(super) fn redact_line(
    set: &RuleSet,
    before: Option<&LineState>,
    line: &str,
    end: TextEnd,
    width: Option<u32>,
    scratch: &mut Scratch,
) -> (Option<String>, Option<LineState>) {
    let is_full = nearly_full(line, width);
    // The end of an XML element is not a frame.
    let stop = line
        .trim_end_matches(|c| c != '>' && is_decoration(c))
        .len();
    let mut start = 0;
    let mut state = StreamState::default();
    match before {
        None => {}
        Some(LineState::Continues(more)) => {
            state.clone_from(more);
            let skip = indent(line, stop);
            match state.open {
                // A block handles frames itself, and accepts only lines in its own format.
                Continuation::Block(..) => {}
                // The secret may have ended at the end of the line.
                Continuation::Secret(rule)
                    if !may_continue(set, rule, &line.as_bytes()[skip..stop]) =>
                {
                    state = StreamState::default();
                }
                _ => start = skip,
            }
        }
        Some(LineState::EndsWithSecret(rule)) => {
            let skip = indent(line, stop);
            if is_likely_rest(&set.rules[usize::from(*rule)], &line.as_bytes()[skip..stop]) {
                state.open = Continuation::Secret(*rule);
                start = skip;
            }
        }
    }
    let end = if is_full { TextEnd::Cut } else { end };
    let text = &line[start..stop];
    // The newline marks the end of the line, after which a secret may continue.
    let ended = (end == TextEnd::Complete).then(|| format!("{text}\n"));
    let scanned = ended.as_deref().unwrap_or(text);
    let mut spaced = with_blank(set, &state);
    let is_rest = matches!(
        state.open,
        Continuation::Secret(_) | Continuation::Escaped(_)
    );
    let mut is_found = state.find(set, scanned, end, scratch);
    if is_rest {
        // The apparent rest of a secret may be the name of another secret.
        let rest = std::mem::take(&mut scratch.spans);
        let mut fresh = StreamState::default();
        is_found |= fresh.find(set, scanned, end, scratch);
        let fresh_open = fresh.open != Continuation::None;
        scratch.spans.extend(rest);
        unite(&mut scratch.spans);
        if fresh_open {
            state = fresh;
        }
    } else if !is_found && let Some(spaced) = &mut spaced {
        is_found = spaced.find(set, scanned, end, scratch);
        if is_found {
            std::mem::swap(&mut state, spaced);
        }
    }
    let found = is_found.then(|| {
        let text = redact_spans(set, text, &scratch.spans, false);
        [&line[..start], &text, &line[stop..]].concat()
    });
    state.is_marked = false;
    let after = match &mut state.open {
        // The added newline has ended the block's line.
        Continuation::Block(..) if ended.is_some() => Some(LineState::Continues(state)),
        Continuation::Block(_, block) => (!block.end_line()).then_some(LineState::Continues(state)),
        _ if is_full => Some(LineState::Continues(state)),
        Continuation::Secret(_) if line[..stop].ends_with('\\') => {
            Some(LineState::Continues(state))
        }
        Continuation::Secret(number) => {
            let rule = &set.rules[usize::from(*number)];
            let last = scratch.spans.last();
            let is_long = last.is_some_and(|span| span.end - span.start >= LONG);
            let may_continue =
                rule.max == usize::MAX && (rule.check == ValueCheck::None || is_long);
            may_continue.then_some(LineState::EndsWithSecret(*number))
        }
        Continuation::Escaped(_) => Some(LineState::Continues(state)),
        Continuation::Ended(number) => Some(LineState::EndsWithSecret(*number)),
        Continuation::None if state.is_pending => Some(LineState::Continues(state)),
        Continuation::None => None,
    };
    (found, after)
}

/// Returns true if the text may begin with the rest of a secret: it consists of body bytes, or begins with
/// more of them than may be shown.
fn may_continue(set: &RuleSet, rule: u16, text: &[u8]) -> bool {
    let run = run(&set.rules[usize::from(rule)], text).len();
    run == text.len() || run >= LEAK_BYTES
}

/// Returns the state with a blank at its end if it contains a keyword: a line that was broken between words
/// has lost its blank, or has it behind the frame.
fn with_blank(set: &RuleSet, state: &StreamState) -> Option<StreamState> {
    if !set.finder.finds(state.tail.as_bytes(), 0) {
        return None;
    }
    let mut spaced = state.clone();
    spaced.tail.push(' ');
    spaced.is_clean = false;
    Some(spaced)
}

/// Returns true for blanks, frames and bullets.
fn is_decoration(c: char) -> bool {
    c.is_whitespace() || matches!(c, '|' | '>') || !(c.is_ascii() || c.is_alphanumeric())
}

fn indent(line: &str, stop: usize) -> usize {
    stop - line[..stop].trim_start_matches(is_decoration).len()
}

/// Returns true if the text begins with a likely rest of a secret.
fn is_likely_rest(rule: &Rule, text: &[u8]) -> bool {
    let run = run(rule, text);
    run.len() >= LEAK_BYTES
        && run.iter().any(u8::is_ascii_digit)
        && run.iter().any(u8::is_ascii_alphabetic)
}

/// Returns the body bytes of the rule at the beginning of the text.
fn run<'a>(rule: &Rule, text: &'a [u8]) -> &'a [u8] {
    let bytes = text.iter().take_while(|b| rule.body[usize::from(**b)]);
    &text[..bytes.count()]
}
