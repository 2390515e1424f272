//! Describes all keys for the help, in groups, the most useful first (pure).

use super::wrapping::wrapped;

/// Keys and their meaning.
type Binding = (&'static str, &'static str);

/// The keys, in groups with a heading.
const GROUPS: &[(&str, &[Binding])] = &[
    (
        "Who needs you",
        &[
            ("] [", "to the next and previous row that needs you"),
            (
                "r",
                "answer a waiting agent (with --allow-input); so does a",
            ),
        ],
    ),
    (
        "Move",
        &[
            ("j k, arrows", "move down and up"),
            ("Tab", "switch between board and view"),
            (
                "Esc, Backspace",
                "back: leave help, search, filter, time, pause, view",
            ),
            ("g G", "to the first line; to the last, and follow"),
            ("p", "pause, or follow again; moving up pauses, too"),
            ("PgDn PgUp, Space b", "a page down and up"),
            ("d u", "half a page down and up"),
            (
                "h, arrows",
                "into the view, out of it; sideways, where its lines are cut",
            ),
        ],
    ),
    (
        "Views",
        &[
            ("o", "output: lines, answers and tool calls as they come"),
            ("l", "logs: checks, errors, warnings, gaps, with times"),
            ("s", "screen: the pane as it is now"),
            ("t", "timeline: the states of all rows"),
            ("e", "events: everything that was recorded"),
            ("w", "wrap long lines"),
            ("z", "zoom the view"),
        ],
    ),
    (
        "Search",
        &[
            ("/", "search in the whole history of the row"),
            ("n N", "to the next and previous match"),
            ("Up Down", "while you type: what was typed before"),
            (
                "f",
                "filter: show matching lines only; with ! before it, the others",
            ),
            ("!", "invert the filter"),
        ],
    ),
    (
        "Jump",
        &[(
            "Enter",
            "jump to the pane (prefix L or prefix d comes back); into the view on a narrow screen, and of what has ended",
        )],
    ),
    (
        "Time",
        &[
            (
                "t, < >, arrows",
                "move a cursor through time; the other views follow it",
            ),
            ("+ -", "timeline: a shorter and a longer time"),
            (":at 13:14", "go to a time; :at 10m, :at yesterday; :now"),
        ],
    ),
    (
        "Other",
        &[
            (":", "type a command; Tab shows them in turn"),
            (":open NAME", "go to a row or to an older run"),
            ("y Y", "copy the line; copy what the view shows"),
            ("?", "this help; type to search in it"),
            ("Ctrl-l", "draw the screen anew"),
            ("Ctrl-z", "suspend; fg comes back"),
            ("q, Ctrl-c", "quit; nothing that is observed stops"),
        ],
    ),
];

/// A line of the help on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HelpLine {
    pub is_heading: bool,
    /// The keys, or the heading; empty if the line continues a meaning.
    pub keys: &'static str,
    pub meaning: String,
}

/// Returns the width of the column of keys.
pub(super) fn key_columns(width: u16) -> u16 {
    if width < 60 { 10 } else { 20 }
}

/// Returns the lines of the help whose keys or meaning contain the typed text.
pub(super) fn help_lines(typed: &str, width: u16) -> Vec<HelpLine> {
    let typed = typed.to_lowercase();
    let columns = usize::from(width.saturating_sub(key_columns(width))).max(8);
    let mut lines = Vec::new();
    for (heading, bindings) in GROUPS {
        let is_match = |(keys, meaning): &&Binding| {
            let text = format!("{heading} {keys} {meaning}").to_lowercase();
            text.contains(&typed)
        };
        let mut heading = Some(heading).filter(|_| typed.is_empty());
        for (keys, meaning) in bindings.iter().filter(is_match) {
            lines.extend(heading.take().map(|heading| HelpLine {
                is_heading: true,
                keys: heading,
                meaning: String::new(),
            }));
            let rows = wrapped(meaning, columns).into_iter().enumerate();
            lines.extend(rows.map(|(part, meaning)| HelpLine {
                is_heading: false,
                // A long meaning continues on the lines below.
                keys: if part == 0 { keys } else { "" },
                meaning,
            }));
        }
    }
    lines
}

/// Returns the number of lines of the help on a screen of this height: below the title, above the bottom
/// line.
pub(super) fn help_rows(height: u16) -> usize {
    usize::from(height.saturating_sub(2))
}
