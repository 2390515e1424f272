//! Panes: lines, revisions and rows, and keys that are broken at the pane's edge.

use proptest::prelude::*;

use super::super::{Redactor, Rules};
use super::{ALNUM, Case, assert_redacted, case};
use crate::event::{Cursor, Link, Links, ScreenRow, Style, Styles, TdEvent};

pub(super) fn open(width: u32) -> Redactor {
    let mut redactor = Redactor::new(Rules::builtin());
    redactor.event(&mut TdEvent::PaneOpened {
        execution_id: "e".into(),
        pane: "%1".into(),
        width,
        height: 24,
        command: "sh".into(),
        is_new: None,
    });
    redactor
}

pub(super) fn settled(redactor: &mut Redactor, first_line: i64, chunk: &str) -> String {
    let mut event = TdEvent::OutputUpdate {
        execution_id: "e".into(),
        pane: "%1".into(),
        first_line,
        chunk: chunk.into(),
        is_complete: false,
        reason: None,
        exit_status: None,
        styles: Default::default(),
        links: Default::default(),
    };
    let found = redactor.event(&mut event);
    let TdEvent::OutputUpdate { chunk: shown, .. } = event else {
        unreachable!()
    };
    assert_eq!(found, shown != chunk);
    assert_eq!(shown.matches('\n').count(), chunk.matches('\n').count());
    shown
}

fn revised(redactor: &mut Redactor, line: i64, text: &str) -> String {
    let mut event = TdEvent::OutputRevised {
        execution_id: "e".into(),
        pane: "%1".into(),
        line,
        text: text.into(),
        styles: Default::default(),
    };
    redactor.event(&mut event);
    let TdEvent::OutputRevised { text, .. } = event else {
        unreachable!()
    };
    text
}

fn screen(redactor: &mut Redactor, width: u32, rows: &[(u32, String)]) -> Vec<String> {
    let rows = rows.iter().map(|(row, text)| ScreenRow {
        row: *row,
        text: text.clone(),
    });
    let mut event = TdEvent::ScreenUpdate {
        execution_id: "e".into(),
        pane: "%1".into(),
        width,
        height: 24,
        cursor: Cursor { x: 0, y: 0 },
        rows: rows.collect(),
    };
    redactor.event(&mut event);
    let TdEvent::ScreenUpdate { rows, .. } = event else {
        unreachable!()
    };
    rows.into_iter().map(|row| row.text).collect()
}

/// Breaks a text at the pane's edge as a program does, with decoration on both sides.
fn broken(text: &str, width: u32, left: &str, right: &str) -> Vec<String> {
    let room = width as usize - left.chars().count() - right.chars().count();
    let chars: Vec<char> = text.chars().collect();
    chars
        .chunks(room)
        .map(|part| {
            let text: String = part.iter().collect();
            let blank = if right.is_empty() {
                0
            } else {
                room - part.len()
            };
            format!("{left}{text}{}{right}", " ".repeat(blank))
        })
        .collect()
}

fn frames() -> impl Strategy<Value = (&'static str, &'static str)> {
    proptest::sample::select(vec![
        ("", ""),
        ("  ", ""),
        ("│ ", " │"),
        ("  ⎿  ", ""),
        ("> ", ""),
        ("┃ ", ""),
        ("| ", " |"),
    ])
}

/// Selects keys without blanks, because decoration cannot be distinguished from blanks.
fn solid(form: &super::Form) -> bool {
    !form.more.contains(' ')
}

fn pem(prefix: &str) -> (Vec<String>, Case) {
    let key: String = ALNUM.chars().cycle().step_by(7).take(300).collect();
    let mut lines = vec![format!("{prefix}-----BEGIN PRIVATE {}-----", "KEY")];
    for part in key.as_bytes().chunks(64) {
        lines.push(format!("{prefix}{}", std::str::from_utf8(part).unwrap()));
    }
    lines.push(format!("{prefix}-----END PRIVATE KEY-----"));
    let case = Case {
        kind: "private-key",
        text: lines.join("\n"),
        key,
        at: 0,
    };
    (lines, case)
}

#[test]
fn a_block_is_redacted_across_events_and_repetitions() {
    for prefix in ["", "   ", "│ ", "+", "  12 "] {
        let (lines, case) = pem(prefix);
        let mut redactor = open(80);
        let mut shown = String::new();
        for (number, line) in (1..).zip(&lines) {
            // The line grows under the cursor, settles, and is emitted once more.
            for end in (0..=line.len()).filter(|end| line.is_char_boundary(*end)) {
                shown.push_str(&revised(&mut redactor, number, &line[..end]));
                shown.push('\n');
            }
            shown.push_str(&settled(&mut redactor, number, &format!("{line}\n")));
        }
        for (number, line) in (1..).zip(&lines) {
            shown.push_str(&revised(&mut redactor, number, line));
            shown.push('\n');
        }
        assert_redacted(&case, &shown);
        assert_eq!(settled(&mut redactor, 8, "that was it\n"), "that was it\n");
        // In one event, and as a full screen.
        assert_redacted(
            &case,
            &settled(&mut open(80), 1, &(lines.join("\n") + "\n")),
        );
        let rows: Vec<_> = (0..).zip(lines).collect();
        assert_redacted(&case, &screen(&mut open(80), 80, &rows).join("\n"));
    }
}

#[test]
fn a_check_prints_a_block_line_by_line() {
    let (lines, case) = pem("");
    let mut redactor = Redactor::new(Rules::builtin());
    for line in &lines {
        let mut event = TdEvent::ValidationOutput {
            execution_id: "e".into(),
            iteration: 1,
            line: line.clone(),
            is_stderr: true,
        };
        redactor.event(&mut event);
        assert_redacted(&case, &format!("{event:?}"));
    }
}

#[test]
fn rows_and_lines_that_are_full_but_clean_stay() {
    let mut redactor = open(40);
    let full = "│ the quick brown fox jumps over it, │";
    for line in 0..100 {
        let chunk = format!("{full}\n{full}\n");
        assert_eq!(settled(&mut redactor, line * 2, &chunk), chunk);
        assert_eq!(revised(&mut redactor, line, full), full);
        let rows = [(0, full.to_owned()), (1, full.to_owned())];
        assert_eq!(screen(&mut redactor, 40, &rows), [full, full]);
    }
}

#[test]
fn a_secret_that_ends_within_a_line_does_not_affect_the_next() {
    let mut redactor = open(200);
    let secret = ["glpat-", "abcDEF012345ghiJKL67"].concat();
    let chunk = format!("token is {secret}\nnext line follows\n");
    let shown = settled(&mut redactor, 1, &chunk);
    assert_eq!(
        shown,
        "token is [redacted:gitlab-token]\nnext line follows\n"
    );
}

proptest! {
    #[test]
    fn a_key_is_redacted_while_its_line_grows(case in case(|_| true)) {
        let mut redactor = open(500);
        for end in 0..=case.text.len() {
            if case.text.is_char_boundary(end) {
                assert_redacted(&case, &revised(&mut redactor, 1, &case.text[..end]));
            }
        }
        assert_redacted(&case, &settled(&mut redactor, 1, &format!("{}\n", case.text)));
    }

    #[test]
    fn a_key_broken_at_the_edge_is_redacted(
        case in case(solid), width in 30_u32..120, (left, right) in frames(), split in any::<bool>(),
    ) {
        let lines = broken(&case.text, width, left, right);
        // The surrounding words may also be broken; the key is searched in text without decoration.
        let bare = |shown: &str| -> String {
            shown.lines().map(|line| line.trim_start_matches(left).trim_end_matches(right).trim_end()).collect()
        };
        let mut redactor = open(width);
        let shown = if split {
            (1..).zip(&lines).map(|(number, line)| settled(&mut redactor, number, &format!("{line}\n"))).collect()
        } else {
            settled(&mut redactor, 1, &(lines.join("\n") + "\n"))
        };
        assert_redacted(&case, &shown);
        assert_redacted(&case, &bare(&shown));

        let mut redactor = open(width);
        let mut last = vec![String::new(); lines.len()];
        for (number, line) in (0..).zip(&lines) {
            for end in (0..=line.len()).filter(|end| line.is_char_boundary(*end)) {
                last[number] = revised(&mut redactor, number as i64, &line[..end]);
                assert_redacted(&case, &last[number]);
            }
        }
        assert_redacted(&case, &bare(&last.join("\n")));

        let rows: Vec<_> = (3..).zip(lines).collect();
        let mut redactor = open(width);
        let mut shown = screen(&mut redactor, width, &rows);
        assert_redacted(&case, &bare(&shown.join("\n")));
        // One row is repeated.
        for (index, row) in rows.iter().enumerate() {
            shown[index] = screen(&mut redactor, width, std::slice::from_ref(row)).remove(0);
            assert_redacted(&case, &bare(&shown.join("\n")));
        }
    }

    #[test]
    fn any_lines_are_accepted(chunk in "(([a-z│ =:\"/-]|sk-ant-|password=|token: |-----BEGIN PRIVATE KEY-----|é){0,20}\n){0,8}", width in 0_u32..60, line in any::<i64>()) {
        let mut redactor = open(width);
        settled(&mut redactor, line, &chunk);
        revised(&mut redactor, line, &chunk);
        settled(&mut redactor, i64::MAX, &chunk);
        settled(&mut redactor, i64::MIN, &chunk);
        let rows: Vec<_> = chunk.lines().map(|line| (line.len() as u32, line.to_owned())).collect();
        screen(&mut redactor, width, &rows);
    }
}

/// When a program switches to the alternate screen, tmux splits a line that it wrapped: the rows in the
/// history and the rows on the screen become two lines.
#[test]
fn the_rest_of_a_wrapped_line_that_tmux_splits_is_redacted() {
    let key: String = "a1B2c3D4e5".repeat(6);
    let line = format!("Authorization: Bearer {key}");
    for (width, rows) in [(30, 1), (30, 2), (50, 1), (20, 3)] {
        let (first, rest) = line.split_at(width * rows);
        let mut redactor = open(width as u32);
        let first = settled(&mut redactor, 7, &format!("{first}\n"));
        let rest = settled(&mut redactor, 8, &format!("{rest}\nnext\n"));
        for shown in [&first, &rest] {
            assert!(
                key.as_bytes()
                    .windows(12)
                    .all(|part| { !shown.contains(std::str::from_utf8(part).unwrap()) }),
                "{width} {rows}: {first}{rest}"
            );
        }
        assert!(rest.ends_with("\nnext\n"), "{rest}");
    }
}

/// A line that ends with a key at the pane's edge does not affect the secret in the next line: its lead is
/// not mistaken for the rest of the key.
#[test]
fn a_key_at_the_edge_does_not_hide_the_next_lead() {
    let github = ["ghp", "_Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"].concat();
    let first = format!("{} {github}", "x".repeat(39));
    for (name, secret) in [
        ("password=", "Hunter2Secret99xyz"),
        ("sk-ant-", "api03-AAAAbbbb1111CCCCdddd2222EEEE"),
        ("xoxb", "-123456789012-AbCdEfGhIjKlMnOp"),
        ("glpat", "-QqWwEeRrTt1122334455"),
        (
            "aws_secret_access_key=",
            "Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hI7j",
        ),
        ("innocent words follow ", ""),
    ] {
        let lines = format!("{first}\n{name}{secret}\nplain\n");
        let chunk = settled(&mut open(80), 1, &lines);
        for key in [github.as_str(), secret] {
            let shown = key
                .as_bytes()
                .windows(12)
                .any(|part| chunk.contains(std::str::from_utf8(part).unwrap()));
            assert!(!shown, "{chunk}");
        }
        if secret.is_empty() {
            assert!(
                chunk.ends_with("\ninnocent words follow \nplain\n"),
                "{chunk}"
            );
        }
    }
}

/// An address is redacted as text. Links of redacted text are removed, because their positions would not match.
#[test]
fn addresses_of_links_are_redacted() {
    let key = format!("ghp_{}", &ALNUM[..36]);
    let link = |line, url: &str| Link {
        line,
        start: 0,
        end: 3,
        url: url.to_owned(),
    };
    let plain = "https://x/1";
    let secret = format!("https://x/?token={key}");
    for (text, stay) in [
        ("one\ntwo\n".to_owned(), true),
        (format!("one\ntoken={key}\n"), false),
    ] {
        let mut event = TdEvent::output_update("e", &"%1".into(), 1, &text);
        if let TdEvent::OutputUpdate { links, .. } = &mut event {
            *links = Links::new(vec![link(1, plain), link(2, &secret)]);
        }
        assert!(Redactor::new(Rules::builtin()).event(&mut event));
        let TdEvent::OutputUpdate { links, .. } = &event else {
            unreachable!()
        };
        assert!(!format!("{links:?}").contains(&key), "{links:?}");
        let urls: Vec<&str> = links.as_slice().iter().map(|link| &*link.url).collect();
        let redacted = Rules::builtin().text(&secret).into_owned();
        let expected = [plain, &redacted];
        assert_eq!(urls, if stay { &expected[..] } else { &[] });
        // What is written is read again.
        let json = serde_json::to_string(links).unwrap();
        assert_eq!(serde_json::from_str::<Links>(&json).unwrap(), *links);
    }
}

/// Styles are cleared when their text is redacted, and cannot contain a secret.
#[test]
fn styles_of_redacted_text_are_cleared() {
    let style = |line, sgr: &str| Style::new(line, 0, 3, sgr);
    let key = format!("ghp_{}", &ALNUM[..36]);
    let secret = format!("plain\ntoken={key}\n");
    let title = format!("31m\x1b]0;{key}");
    let cases = [
        ("plain\nred\n", "31", true),
        (&secret, "31", false),
        // Parameters other than SGR are cleared.
        ("plain\nred\n", &title, false),
        ("plain\nred\n", &key, false),
    ];
    for (chunk, sgr, stay) in cases {
        let styles = Styles::new(vec![style(0, "1"), style(1, sgr)]);
        let update = TdEvent::OutputUpdate {
            execution_id: "e".into(),
            pane: "%1".into(),
            first_line: 1,
            chunk: chunk.into(),
            is_complete: false,
            reason: None,
            exit_status: None,
            styles: styles.clone(),
            links: Default::default(),
        };
        let revised = TdEvent::OutputRevised {
            execution_id: "e".into(),
            pane: "%1".into(),
            line: 9,
            text: chunk.lines().last().unwrap_or_default().into(),
            styles: styles.clone(),
        };
        for mut event in [update, revised] {
            Redactor::new(Rules::builtin()).event(&mut event);
            let (TdEvent::OutputUpdate { styles: shown, .. }
            | TdEvent::OutputRevised { styles: shown, .. }) = &event
            else {
                unreachable!()
            };
            let expected = if stay {
                styles.clone()
            } else {
                Styles::default()
            };
            assert_eq!(*shown, expected, "{event:?}");
        }
    }
}

#[test]
fn a_secret_over_two_rows_of_a_snapshot_is_hidden() {
    // Assembled at run time, so that this file contains no key.
    let key = ["gh", "p_", "R7kQ2mZx9LpW4vTn8YcB3dFs6HjG1aUe5oKi"].concat();
    let mut redactor = Redactor::new(Rules::builtin());
    for cut in 4..key.len() - 4 {
        for (left, right) in [("", ""), ("│ ", " │")] {
            let (head, tail) = key.split_at(cut);
            let room = 60 - left.chars().count() - right.chars().count();
            let first = format!("{left}{head:>room$}{right}");
            let second = format!("{left}{tail:room$}{right}");
            let rows = [(0, "plain"), (4, &first), (5, &second)];
            let mut event = TdEvent::ScreenSnapshot {
                execution_id: "e".into(),
                pane: "%1".into(),
                width: 60,
                height: 24,
                rows: rows
                    .map(|(row, text)| ScreenRow {
                        row,
                        text: text.into(),
                    })
                    .into(),
            };
            assert!(redactor.event(&mut event), "{cut}");
            let TdEvent::ScreenSnapshot { rows, .. } = event else {
                unreachable!()
            };
            assert_eq!((rows.len(), rows[0].text.as_str()), (3, "plain"));
            assert_eq!((rows[1].row, rows[2].row), (4, 5));
            for part in [head, tail].iter().filter(|part| part.len() > 11) {
                let is_there = rows.iter().any(|row| row.text.contains(&part[..12]));
                assert!(!is_there, "{cut}: {rows:?}");
            }
        }
    }
}

#[test]
fn a_pane_remembers_the_lines_of_its_screen() {
    let mut redactor = Redactor::new(Rules::builtin());
    let opened = |height| TdEvent::PaneResized {
        execution_id: "e".into(),
        pane: "%1".into(),
        width: 80,
        height,
    };
    redactor.event(&mut opened(24));
    // Each line fills the pane, so a secret may continue in the next line.
    for line in 0..2_000 {
        settled(&mut redactor, line, &format!("{line:080}\n"));
    }
    assert_eq!(redactor.remembered_lines("e"), 24 + 64);
    redactor.event(&mut opened(2_000));
    for line in 2_000..4_000 {
        settled(&mut redactor, line, &format!("{line:080}\n"));
    }
    assert_eq!(redactor.remembered_lines("e"), 512);
}

/// Pairs of a name and a value over two lines of a pane.
#[test]
fn pairs_over_two_lines_are_redacted_as_in_a_stream() {
    for lines in [
        [
            "  <key>DB_PASSWORD</key>",
            "  <string>kT9vQ2mZx7Lw</string>",
        ],
        ["<name>client_secret</name>", "<value>kT9vQ2mZx7Lw</value>"],
        ["- name: DB_PASSWORD", "  value: kT9vQ2mZx7Lw"],
        [
            "    \"name\": \"DB_PASSWORD\",",
            "    \"value\": \"kT9vQ2mZx7Lw\"",
        ],
        ["mysql --password \\", "    kT9vQ2mZx7Lw db"],
        ["DB_PASSWORD:", "  value: kT9vQ2mZx7Lw"],
    ] {
        let mut redactor = open(80);
        let first = settled(&mut redactor, 1, &format!("{}\n", lines[0]));
        assert_eq!(first, format!("{}\n", lines[0]));
        let second = settled(&mut redactor, 2, &format!("{}\n", lines[1]));
        let expected = lines[1].replace("kT9vQ2mZx7Lw", "[redacted:password]");
        let expected = if lines[0].contains("client_secret") {
            expected.replace("password", "secret")
        } else {
            expected
        };
        assert_eq!(second, format!("{expected}\n"));
    }
}
