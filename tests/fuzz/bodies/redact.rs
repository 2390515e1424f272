//! Any text, in any pieces: redaction is idempotent, keeps the number of lines, and lets no key through.
//!
//! The first byte selects the division into pieces, the second the width of the pane, the third the place of
//! a key in the text.

use td_observe::TdEvent;
use td_observe::event::ScreenRow;
use td_observe::internals::redact::{Redactor, TerminalStream};
use td_observe::redact::Rules;

/// Its characters do not occur in this order in any other text.
const KEY: &str = "qX7zJ2vK9wQ4yB8mT5nR3dL6hG1fC0sPaVeUiOoZ";

pub fn run(bytes: &[u8]) {
    let Some((&[cuts, width, place], text)) = bytes.split_first_chunk() else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    whole(&text);
    stream(&text, cuts);
    pane(&text, cuts, width);
    with_key(&text, cuts, place);
}

fn lines(text: &str) -> usize {
    text.matches('\n').count()
}

fn whole(text: &str) {
    let rules = Rules::builtin();
    let once = rules.text(text);
    assert_eq!(lines(&once), lines(text));
    if !has_half_marker(text) {
        assert_eq!(rules.text(&once), once, "masked twice");
    }
}

/// Returns true if the text has an incomplete marker. The text after it counts as its name, so a second pass
/// may end a secret there at another position.
fn has_half_marker(text: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut after = text.split("[redacted:").skip(1);
    after.any(|rest| !rest.trim_start_matches(is_name).starts_with(']'))
}

/// Returns the text in pieces of random length; `cuts` is the seed.
fn pieces(text: &str, cuts: u8) -> Vec<&str> {
    let (mut state, mut rest, mut pieces) = (u32::from(cuts), text, Vec::new());
    while !rest.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let most = 1 + usize::from(cuts % 32);
        let mut at = (1 + (state >> 16) as usize % most).min(rest.len());
        while !rest.is_char_boundary(at) {
            at += 1;
        }
        let (piece, more) = rest.split_at(at);
        pieces.push(piece);
        rest = more;
    }
    pieces
}

fn stream(text: &str, cuts: u8) -> String {
    let mut stream = TerminalStream::new(Rules::builtin());
    let mut redactor = Redactor::new(Rules::builtin());
    let mut shown = String::new();
    for piece in pieces(text, cuts) {
        let masked = stream.push(piece);
        assert_eq!(lines(&masked), lines(piece));
        let mut event = TdEvent::execution_output("a", "stdout", piece);
        let found = redactor.event(&mut event);
        let TdEvent::ExecutionOutput { text, .. } = event else {
            panic!("another event");
        };
        assert_eq!(text, masked, "events are read as text is");
        assert!(found || text == piece);
        shown.push_str(&masked);
    }
    shown
}

/// Redacts the text as settled lines, as revisions of a line, and as rows of a screen.
fn pane(text: &str, cuts: u8, width: u8) {
    let mut redactor = Redactor::new(Rules::builtin());
    redactor.event(&mut TdEvent::pane_opened(
        "a",
        &"%1".into(),
        width.into(),
        24,
        text,
    ));
    let mut line = i64::from(width) - 128;
    for piece in pieces(text, cuts) {
        let mut event = TdEvent::output_update("a", &"%1".into(), line, &format!("{piece}\n"));
        redactor.event(&mut event);
        let TdEvent::OutputUpdate { chunk, .. } = event else {
            panic!("another event");
        };
        assert!(chunk.ends_with('\n'));
        assert_eq!(lines(&chunk), lines(piece) + 1);
        line += lines(&chunk) as i64;
        let mut event = TdEvent::output_revised("a", &"%1".into(), line, &piece.replace('\n', " "));
        redactor.event(&mut event);
    }
    let rows = text.lines().zip((0..).step_by(1 + usize::from(cuts % 3)));
    let rows = rows.map(|(line, row)| ScreenRow {
        row,
        text: line.to_owned(),
    });
    redactor.event(&mut TdEvent::screen_update(
        "a",
        &"%1".into(),
        width.into(),
        24,
        td_observe::event::Cursor { x: 0, y: 0 },
        rows.collect(),
    ));
}

/// Checks that no twelve consecutive bytes of a key are shown, whatever surrounds it.
fn with_key(text: &str, cuts: u8, place: u8) {
    let mut at = text.len() * usize::from(place) / 256;
    while !text.is_char_boundary(at) {
        at += 1;
    }
    // As a separate word, because within another secret it would be part of that secret.
    let text = [&text[..at], " sk-ant-", "api03-", KEY, " ", &text[at..]].concat();
    for shown in [
        Rules::builtin().text(&text).into_owned(),
        stream(&text, cuts),
    ] {
        for start in 0..=KEY.len() - 12 {
            let part = &KEY[start..start + 12];
            assert!(!shown.contains(part), "{text:?} is shown as {shown:?}");
        }
    }
}
