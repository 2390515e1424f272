//! Which lines come of which pieces.

use proptest::prelude::*;

use super::*;

/// What was said: the text, and a mark where it is no line that ended.
fn said(line: &Line<'_>) -> String {
    let mark = match line.end {
        End::Ended => "",
        End::Open => "$",
        End::GoesOn => "…",
    };
    format!("{}{}{mark}", if line.is_rest { "…" } else { "" }, line.text)
}

fn lines(pieces: &[(&str, &str)]) -> Vec<String> {
    let (mut open, mut lines) = (OpenLines::default(), Vec::new());
    for (stream, text) in pieces {
        open.push("x", Origin::Child, stream, text, &mut |line| {
            lines.push(said(&line))
        });
    }
    open.end(|_, _| true, &mut |line| lines.push(said(&line)));
    assert!(open.live().is_none());
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
        // What follows a return replaces the line, and nothing else does.
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
fn streams_are_apart() {
    let pieces = [
        ("stdout", "a"),
        ("stderr", "b\nc"),
        ("stdout", "d\r"),
        ("stderr", "e\n"),
        ("log", "f"),
        ("stdout", "\n"),
    ];
    assert_eq!(lines(&pieces), ["b", "ce", "ad", "f$"]);
    let (mut open, mut lines) = (OpenLines::default(), Vec::new());
    let mut push = |id: &str, origin, text: &str| {
        open.push(id, origin, "stdout", text, &mut |line| {
            lines.push(said(&line))
        });
    };
    push("a", Origin::Child, "one");
    push("b", Origin::Child, "two");
    push("a", Origin::Check, "three");
    push("a", Origin::Child, "!");
    let live = open.live().unwrap();
    assert_eq!((live.execution_id(), live.stream()), ("a", "stdout"));
    let is_over = |id: &str, origin| id == "a" && origin == Origin::Child;
    open.end(is_over, &mut |line| lines.push(said(&line)));
    assert_eq!(lines, ["one!$"]);
    let mut shown = String::new();
    open.live().unwrap().push(&mut shown, true);
    assert_eq!(shown, "three");
}

#[test]
fn what_is_held_is_bounded_and_nothing_is_lost() {
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
    // A part cannot be taken back.
    let long = "x".repeat(OPEN_BYTES_MAX + 1);
    let replaced = self::lines(&[("stdout", &long), ("stdout", "\rnew\n")]);
    assert_eq!(
        (replaced[0].len(), &replaced[1..]),
        (OPEN_BYTES_MAX + 3, &["…".into(), "new".into()][..])
    );
    // Nor can anybody have as many streams as they like.
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
fn a_return_ends_a_sequence_that_is_open() {
    let text = "\u{1b}\r\r[1m\ra\n";
    for cut in 0..text.len() {
        let mut shown = String::new();
        let mut open = OpenLines::default();
        for piece in [&text[..cut], &text[cut..]] {
            open.push("x", Origin::Child, "stdout", piece, &mut |mut line| {
                line.push(&mut shown, true);
            });
        }
        assert_eq!(shown, "a", "{cut}");
    }
}

proptest! {
    /// However the text is cut, the same lines come out, in the same colours.
    #[test]
    fn cuts_change_nothing(
        parts in prop::collection::vec(prop::sample::select(vec![
            "a", "bc", "漢", " ", "\n", "\n", "\r", "\r\n", "\u{1b}[31m", "\u{1b}[0m", "\u{1b}]0;", "\u{7}", "\u{1b}", "[1m",
        ]), 0..30),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let text = parts.concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| boundary(&text, cut.index(text.len() + 1))).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let shown = |pieces: &[&str]| {
            let (mut open, mut shown) = (OpenLines::default(), String::new());
            let mut say = |mut line: Line<'_>| {
                line.push(&mut shown, true);
                shown.push_str(if line.end == End::Open { "$" } else { "\n" });
            };
            for piece in pieces {
                open.push("x", Origin::Child, "stdout", piece, &mut say);
            }
            open.end(|_, _| true, &mut say);
            shown
        };
        let pieces: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
        prop_assert_eq!(shown(&pieces), shown(&[&text]));
    }
}
