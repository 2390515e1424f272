//! Tests frames: only differences are written, and no frame is torn.

use std::cell::Cell;

use proptest::prelude::*;
use ratatui::style::{Color, Style};

use super::*;

#[test]
fn a_frame_writes_what_differs() {
    let area = Rect::new(0, 0, 10, 2);
    let mut first = Frame {
        buffer: Buffer::empty(area),
        cursor: None,
    };
    first.buffer.set_string(0, 0, "hello", Style::new());
    let mut second = first.clone();
    second
        .buffer
        .set_string(2, 0, "LL", Style::new().fg(Color::Red));
    let bytes = |last: Option<&Buffer>, drawn: &Frame| {
        let mut bytes = Vec::new();
        frame(&mut bytes, last, drawn).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    assert!(bytes(None, &first).contains("hello"));
    let change = bytes(Some(&first.buffer), &second);
    assert!(
        change.contains("LL") && !change.contains("he"),
        "{change:?}"
    );
    let none = bytes(Some(&second.buffer), &second);
    assert!(
        !none.contains("LL") && !none.contains("\u{1b}[2J"),
        "{none:?}"
    );
    let larger = Frame {
        buffer: Buffer::empty(Rect::new(0, 0, 20, 2)),
        cursor: None,
    };
    assert!(bytes(Some(&second.buffer), &larger).contains("\u{1b}[2J"));
}

/// Returns a screen of two rows with a text in it.
fn screen_of(column: u16, text: &str) -> Frame {
    let mut drawn = Frame {
        buffer: Buffer::empty(Rect::new(0, 0, 20, 2)),
        cursor: None,
    };
    drawn.buffer.set_string(column, 0, text, Style::new());
    drawn
}

proptest! {
    /// A terminal that accepts only a few bytes at a time shows the last screen in the end.
    #[test]
    fn a_slow_terminal_shows_the_last_screen(
        steps in prop::collection::vec((0_u16..20, "[a-z]{1,8}", 0_usize..60, any::<bool>()), 1..20),
    ) {
        let (mut shown, mut terminal) = (Shown::default(), avt::Terminal::new(20, 2).unwrap());
        let mut waiting = None;
        let mut write_pending = |shown: &mut Shown, room: usize| {
            let left = Cell::new(room);
            let taken = std::cell::RefCell::new(Vec::new());
            shown.write_pending(|bytes| {
                let count = bytes.len().min(left.get());
                left.set(left.get() - count);
                taken.borrow_mut().extend_from_slice(&bytes[..count]);
                if count == 0 { Err(Errno::AGAIN) } else { Ok(count) }
            });
            terminal.feed(String::from_utf8_lossy(&taken.borrow()).as_ref());
        };
        for (column, text, room, fails) in &steps {
            waiting = Some(screen_of(*column, text));
            write_pending(&mut shown, *room);
            if shown.pending.is_empty() {
                shown.queue_frame(waiting.take().unwrap());
                write_pending(&mut shown, *room);
            }
            if *fails {
                shown.write_pending(|_| Err(Errno::IO));
            }
        }
        write_pending(&mut shown, usize::MAX);
        let last = waiting.or_else(|| shown.drawn.clone());
        let last = last.unwrap_or_else(|| screen_of(steps.last().unwrap().0, &steps.last().unwrap().1));
        shown.queue_frame(last.clone());
        write_pending(&mut shown, usize::MAX);
        let (column, text, ..) = steps.last().unwrap();
        prop_assert_eq!(&last, &screen_of(*column, text));
        let row = terminal.screen().line(0).unwrap().text();
        let expected: String = last.buffer.content[..20].iter().map(|cell| cell.symbol()).collect();
        prop_assert_eq!(row.trim_end(), expected.trim_end());
    }
}
