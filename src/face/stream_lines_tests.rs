//! Tests the conversion of pieces of text to lines.

use proptest::prelude::*;

use super::*;

/// Returns the text of a line, with a mark if it is incomplete.
fn emitted(line: &StreamLine<'_>) -> String {
    let mark = match line.end {
        LineEnd::Terminated => "",
        LineEnd::Open => "$",
        LineEnd::Continues => "…",
    };
    format!(
        "{}{}{mark}",
        if line.is_continuation { "…" } else { "" },
        line.text
    )
}

fn lines(pieces: &[(&str, &str)]) -> Vec<String> {
    let (mut streams, mut lines) = (StreamLines::default(), Vec::new());
    for (stream, text) in pieces {
        streams.push("x", Origin::Child, stream, text, &mut |line| {
            lines.push(emitted(&line))
        });
    }
    streams.end(|_, _| true, &mut |line| lines.push(emitted(&line)));
    assert!(streams.live().is_none());
    lines
}

#[test]
fn pieces_become_lines() {
    for (pieces, expected) in [
        (vec!["first\nsecond\n"], vec!["first", "second"]),
        (
            vec!["Compi", "ling... done\n", "", "\n"],
            vec!["Compiling... done", ""],
        ),
        (vec!["a\r\nb\r", "\nc\r", "\r\n"], vec!["a", "b", "c"]),
        // Only text after a return replaces the line.
        (vec!["10%", "\r50%", "\r100%\n"], vec!["100%"]),
        (
            vec!["10%\r", "50%\r", "100%\r\n", "ok"],
            vec!["100%", "ok$"],
        ),
        (vec!["a\nlong line\rb\rc\nd\r"], vec!["a", "c", "d$"]),
        (vec!["a\r\r\rb\r\r\n\r\n\rc\n"], vec!["b", "", "c"]),
        (vec!["\r"], vec![]),
        (vec!["\u{1b}[?25h"], vec!["\u{1b}[?25h$"]),
    ] {
        let pieces: Vec<_> = pieces.into_iter().map(|text| ("stdout", text)).collect();
        assert_eq!(lines(&pieces), expected, "{pieces:?}");
    }
}

#[test]
fn streams_are_separate() {
    let pieces = [
        ("stdout", "a"),
        ("stderr", "b\nc"),
        ("stdout", "d\r"),
        ("stderr", "e\n"),
        ("log", "f"),
        ("stdout", "\n"),
    ];
    assert_eq!(lines(&pieces), ["b", "ce", "ad", "f$"]);
    let (mut streams, mut lines) = (StreamLines::default(), Vec::new());
    let mut push = |id: &str, origin, text: &str| {
        streams.push(id, origin, "stdout", text, &mut |line| {
            lines.push(emitted(&line))
        });
    };
    push("a", Origin::Child, "one");
    push("b", Origin::Child, "two");
    push("a", Origin::Check, "three");
    push("a", Origin::Child, "!");
    let live = streams.live().unwrap();
    assert_eq!(
        (live.execution_id.as_str(), live.name.as_str()),
        ("a", "stdout")
    );
    let is_over = |id: &str, origin| id == "a" && origin == Origin::Child;
    streams.end(is_over, &mut |line| lines.push(emitted(&line)));
    assert_eq!(lines, ["one!$"]);
    let mut shown = String::new();
    streams.live().unwrap().push_open(&mut shown, true);
    assert_eq!(shown, "three");
}

#[test]
fn memory_is_bounded_and_no_text_is_lost() {
    let piece = "漢".repeat(20_000);
    let mut pieces = vec![("stdout", piece.as_str()); 100];
    pieces.push(("stdout", "end\nnext\n"));
    let lines = lines(&pieces);
    assert_eq!(lines.last().unwrap(), "next");
    let text = lines.concat().replace('…', "");
    assert_eq!(text.len(), 6_000_000 + "endnext".len());
    assert!(
        lines
            .iter()
            .all(|line| line.len() <= OPEN_BYTES_MAX + 2 * "…".len())
    );
    // An emitted part cannot be replaced.
    let long = "x".repeat(OPEN_BYTES_MAX + 1);
    let replaced = self::lines(&[("stdout", &long), ("stdout", "\rnew\n")]);
    assert_eq!(
        (replaced[0].len(), &replaced[1..]),
        (OPEN_BYTES_MAX + 3, &["…".into(), "new".into()][..])
    );
    // The number of streams is bounded as well.
    let names: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    let pieces: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), name.as_str()))
        .collect();
    let lines: Vec<String> = self::lines(&pieces);
    assert_eq!(
        lines,
        names
            .iter()
            .map(|name| format!("{name}$"))
            .collect::<Vec<_>>()
    );
}

#[test]
fn a_return_ends_an_open_sequence() {
    let text = "\u{1b}\r\r[1m\ra\n";
    for cut in 0..text.len() {
        let mut shown = String::new();
        let mut streams = StreamLines::default();
        for piece in [&text[..cut], &text[cut..]] {
            streams.push("x", Origin::Child, "stdout", piece, &mut |mut line| {
                line.push(&mut shown, true);
            });
        }
        assert_eq!(shown, "a", "{cut}");
    }
}

proptest! {
    /// The lines and their colours do not depend on how the text is split.
    #[test]
    fn splitting_text_changes_nothing(
        parts in prop::collection::vec(prop::sample::select(vec![
            "a", "bc", "漢", " ", "\n", "\n", "\r", "\r\n", "\u{1b}[31m", "\u{1b}[0m", "\u{1b}]0;", "\u{7}", "\u{1b}", "[1m",
        ]), 0..30),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let text = parts.concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| first_bytes(&text, cut.index(text.len() + 1)).len()).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let shown = |pieces: &[&str]| {
            let (mut streams, mut shown) = (StreamLines::default(), String::new());
            let mut emit = |mut line: StreamLine<'_>| {
                line.push(&mut shown, true);
                shown.push_str(if line.end == LineEnd::Open { "$" } else { "\n" });
            };
            for piece in pieces {
                streams.push("x", Origin::Child, "stdout", piece, &mut emit);
            }
            streams.end(|_, _| true, &mut emit);
            shown
        };
        let pieces: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
        prop_assert_eq!(shown(&pieces), shown(&[&text]));
    }
}
