//! Lines of a terminal: a secret may run from one into the next, around what is drawn between them (pure).
//!
//! tmux joins the rows that it wrapped itself. A program that breaks its lines at the pane's edge
//! looks different: a line that nearly fills the pane, and the secret's rest in the next one,
//! behind an indentation or a frame. Lines are therefore read one by one, each with what the line
//! before leaves.

use unicode_width::UnicodeWidthStr;

use super::rule::{GIVEN_AWAY, Rule};
use super::scan::{End, Open, Set, Span};
use super::stream::{Past, Scratch, masked};
use super::value::Check;

/// How many columns a line may leave free at the pane's edge and count as broken there: a frame,
/// a margin on both sides. (In a narrow pane a quarter of it.)
const MARGIN: usize = 12;
/// A secret this long, at a line's end, may go on in the next line.
const LONG: usize = 40;

/// What a line leaves for the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The line was broken at the pane's edge, or a block goes on: the text goes on.
    More(Past),
    /// The line ended with a secret of this rule: what looks like its rest is its rest.
    Perhaps(u16),
}

/// The fewest columns of a line that may have been broken at the edge of a pane of this width; no
/// line has so many where the width is not known.
pub(super) fn enough(width: Option<u32>) -> usize {
    width.map_or(usize::MAX, |width| {
        let width = width as usize;
        width - MARGIN.min(width / 4)
    })
}

/// Whether the line may have been broken at the edge of a pane of this width.
///
/// One that is longer was wrapped by tmux, and it goes on all the same where it fills its last row:
/// a program that takes the alternate screen makes tmux forget that the last row of the history is
/// wrapped, and the rest of the line is then a line of its own.
pub(super) fn nearly_full(line: &str, width: Option<u32>) -> bool {
    let enough = enough(width);
    // A character is never wider than its bytes are many.
    line.len() >= enough
        && width.is_some_and(|width| {
            let (columns, width) = (line.width(), width as usize);
            (enough..=width).contains(&columns)
                || (columns > width && columns.checked_rem(width) == Some(0))
        })
}

/// Takes one line, without its newline; returns what it reads without secrets, and what it leaves.
///
/// `end` is [`End::Cut`] for a line that may still grow.
pub(super) fn take(
    set: &Set,
    before: Option<&After>,
    line: &str,
    end: End,
    width: Option<u32>,
    scratch: &mut Scratch,
) -> (Option<String>, Option<After>) {
    let near = nearly_full(line, width);
    let stop = line.trim_end_matches(is_drawn).len();
    let mut start = 0;
    let mut past = Past::default();
    match before {
        None => {}
        Some(After::More(more)) => {
            past.clone_from(more);
            let skip = indent(line, stop);
            match past.open {
                // A block knows frames, and keeps to lines that look like its own.
                Open::Block(..) => {}
                // The secret may as well have ended just there.
                Open::Secret(rule) if !goes_on(set, rule, &line.as_bytes()[skip..stop]) => {
                    past = Past::default();
                }
                _ => start = skip,
            }
        }
        Some(After::Perhaps(rule)) => {
            let skip = indent(line, stop);
            if looks_like(&set.rules[usize::from(*rule)], &line.as_bytes()[skip..stop]) {
                past.open = Open::Secret(*rule);
                start = skip;
            }
        }
    }
    let end = if near { End::Cut } else { end };
    let text = &line[start..stop];
    let mut spaced = between_words(set, &past);
    let is_rest = matches!(past.open, Open::Secret(_));
    let mut is_found = past.find(set, text, end, scratch);
    if is_rest {
        // What is taken for the rest of a secret may be the name of another.
        let rest = std::mem::take(scratch.spans());
        let mut fresh = Past::default();
        is_found |= fresh.find(set, text, end, scratch);
        let fresh_open = fresh.open != Open::No;
        unite(scratch.spans(), rest);
        if fresh_open {
            past = fresh;
        }
    } else if !is_found && let Some(spaced) = &mut spaced {
        is_found = spaced.find(set, text, end, scratch);
        if is_found {
            std::mem::swap(&mut past, spaced);
        }
    }
    let found = is_found.then(|| {
        let text = masked(set, text, scratch.spans(), false);
        [&line[..start], &text, &line[stop..]].concat()
    });
    past.marked = false;
    let after = match &mut past.open {
        Open::Block(_, block) => (!block.line()).then_some(After::More(past)),
        _ if near => Some(After::More(past)),
        Open::Secret(number) => {
            let rule = &set.rules[usize::from(*number)];
            let long = scratch.last_span() >= LONG;
            let goes_on = rule.max == usize::MAX && (rule.check == Check::None || long);
            goes_on.then_some(After::Perhaps(*number))
        }
        Open::No => None,
    };
    (found, after)
}

/// Whether the text can begin with the rest of a secret: all of it is, or more than may be shown.
fn goes_on(set: &Set, rule: u16, text: &[u8]) -> bool {
    let run = run(&set.rules[usize::from(rule)], text).len();
    run == text.len() || run >= GIVEN_AWAY
}

/// Adds spans to others, in order, as one where they overlap.
fn unite(spans: &mut Vec<Span>, more: Vec<Span>) {
    spans.extend(more);
    spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
    spans.dedup_by(|next, last| {
        let overlap = next.start <= last.end;
        if overlap {
            last.end = last.end.max(next.end);
        }
        overlap
    });
}

/// The same past with a blank at its end, where a keyword waits in it: a line that was broken
/// between words has lost the blank, or hides it behind the frame.
fn between_words(set: &Set, past: &Past) -> Option<Past> {
    set.finder.find(past.tail.as_bytes(), 0)?;
    let mut spaced = past.clone();
    spaced.tail.push(' ');
    spaced.is_clean = false;
    Some(spaced)
}

/// Blanks, frames, bullets: what is drawn beside text.
fn is_drawn(c: char) -> bool {
    c.is_whitespace() || matches!(c, '|' | '>') || !(c.is_ascii() || c.is_alphanumeric())
}

fn indent(line: &str, stop: usize) -> usize {
    stop - line[..stop].trim_start_matches(is_drawn).len()
}

/// Whether the text begins with what looks like the rest of a secret.
fn looks_like(rule: &Rule, text: &[u8]) -> bool {
    let run = run(rule, text);
    run.len() >= GIVEN_AWAY
        && run.iter().any(u8::is_ascii_digit)
        && run.iter().any(u8::is_ascii_alphabetic)
}

/// What the text begins with that may be of such a secret.
fn run<'a>(rule: &Rule, text: &'a [u8]) -> &'a [u8] {
    let bytes = text.iter().take_while(|b| rule.body[usize::from(**b)]);
    &text[..bytes.count()]
}
