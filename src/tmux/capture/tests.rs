//! Output of captures: complete, foreign and truncated.

use super::*;
use crate::event::Cursor;

const STATE_7: &str = "%7 $3 @2 9 0 0 1 1 5 2 1 2000 2 1 0   0 0   1 0 5 0";

fn known() -> ServerIdentity {
    ServerIdentity {
        pid: 42,
        ..ServerIdentity::default()
    }
}

fn spec(pane: &str, saved: bool) -> CaptureSpec {
    CaptureSpec {
        pane: pane.into(),
        depth: 10,
        saved,
        resync: None,
    }
}

fn parse_all(output: &str, specs: &[CaptureSpec]) -> Vec<CaptureResult> {
    parse(
        &Nonce::fixed("NN"),
        &known(),
        &format!("{output}NNz\n"),
        specs,
    )
}

fn output(numbers: &str, pid: u32, rows: &str, joined: &str) -> String {
    format!("NNh{numbers}NNr{pid}\n{rows}\n{joined}\n")
}

#[test]
fn a_missing_pane_does_not_shift_the_others() {
    let missing = format!("NNh{}NNr42\n", " ".repeat(23));
    let text = missing.clone() + &output(STATE_7, 42, "12345\n67\n", "1234567\n") + &missing;
    let results = parse_all(
        &text,
        &[spec("%1", false), spec("%7", false), spec("%8", true)],
    );
    let [
        CaptureResult::Gone,
        CaptureResult::Captured(pane),
        CaptureResult::Gone,
    ] = results.as_slice()
    else {
        panic!("{results:?}")
    };
    let rows: Vec<_> = pane
        .capture
        .rows
        .iter()
        .map(|row| (&*row.text, row.wrapped))
        .collect();
    assert_eq!(rows, [("12345", true), ("67", false), ("", false)]);
    assert_eq!(pane.capture.cursor, Cursor { x: 2, y: 1 });
    assert!(pane.capture.is_complete());
}

#[test]
fn foreign_output_is_unreadable() {
    let specs = [spec("%7", false)];
    let good = output(STATE_7, 42, "a\nb\nc", "a\nb\nc");
    assert!(matches!(
        parse_all(&good, &specs)[..],
        [CaptureResult::Captured(_)]
    ));
    for bad in [
        String::new(),
        "no mark at all".into(),
        format!("x{good}"),
        output(STATE_7, 42, "a\nb", "a"),
        good.replace("%7", "%6"),
        good.replace("NNr", "NNx"),
        format!("{good}NNs\n"),
    ] {
        assert_eq!(
            parse_all(&bad, &specs),
            [CaptureResult::Unreadable],
            "{bad:?}"
        );
    }
    assert_eq!(
        parse_all(&good, &[spec("%7", true)]),
        [CaptureResult::Unreadable]
    );
    assert_eq!(
        parse_all(&good.replace("r42", "r43"), &specs),
        [CaptureResult::Gone],
        "another server"
    );
    assert_eq!(
        parse_all(&good, &[specs[0].clone(), spec("%8", false)])[1],
        CaptureResult::Unreadable
    );
    let truncated = parse(
        &Nonce::fixed("NN"),
        &known(),
        &format!("{good}{good}"),
        &[specs[0].clone(), specs[0].clone()],
    );
    assert!(
        matches!(
            truncated[..],
            [CaptureResult::Captured(_), CaptureResult::Unreadable]
        ),
        "{truncated:?}"
    );
}

#[test]
fn the_saved_screen_is_read_only_behind_the_alternate_one() {
    let saved = |alternate: &str| {
        let numbers = STATE_7.replace(" 2 1 0   ", &format!(" 2 1 {alternate} 3 4 "));
        let text = format!("NNh{numbers}NNr42\na\nb\nc\na\nb\nc\nNNs\nold\n\nNNt\nold\n\n");
        match parse_all(&text, &[spec("%7", true)]).remove(0) {
            CaptureResult::Captured(pane) => pane.capture.saved,
            other => panic!("{other:?}"),
        }
    };
    let screen = saved("1").unwrap();
    assert_eq!(screen.cursor, Cursor { x: 3, y: 4 });
    assert_eq!(screen.rows.len(), 2);
    assert_eq!(saved("0"), None);
}
