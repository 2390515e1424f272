//! Names the rows of the board so that no two names are equal, also where a table cuts them.

use std::collections::{HashMap, HashSet};

use super::LocalTime;
use super::sanitize::{one_line, with_ellipsis};
use super::server_ends::{origins, server_ends};
use crate::board::{ExecutionKind, Row};
use crate::event::{ExecutionId, PaneId};
use crate::timestamp::Timestamp;
use crate::track::cut;
use unicode_width::UnicodeWidthStr;

/// The columns of the longest name in a table.
pub(crate) const NAME_WIDTH: usize = 24;

/// The columns that names have on the narrowest terminal.
const NAME_WIDTH_MIN: usize = 10;

/// The columns below which the middle of a name is not cut out.
const TWO_PARTS_MIN: usize = 8;

/// Returns the columns that a table of this width has for names beside cells of `others` columns, so that at least 45 %
/// of it, 36 columns of 80, is what each row says.
pub(super) fn name_width(width: usize, others: usize) -> usize {
    let room = width.saturating_sub(width * 9 / 20 + others);
    room.clamp(NAME_WIDTH_MIN, NAME_WIDTH)
}

/// Returns the display name of each row, at most `width` columns wide. No two are equal: a row has the name of its
/// session, command, loop, agent or kernel, after its host, and its tmux server if there are several; panes that share a session
/// also have their labels. Where names do not fit and no other session has labels, the label stands alone, or the name of
/// the session if all labels are equal. A name that is not unique within the width gets its pane, or else the time at
/// which its execution began.
pub(crate) fn row_names(rows: &[Row], width: usize) -> Vec<String> {
    let mut panes_of: HashMap<&ExecutionId, usize> = HashMap::new();
    for row in rows {
        *panes_of.entry(&row.execution_id).or_default() += 1;
    }
    let shares = |row: &&Row| panes_of.get(&row.execution_id) != Some(&1);
    let is_labelled = |row: &&Row| row.kind != ExecutionKind::Agent && row.label.is_some();
    let labelled = || rows.iter().filter(shares).filter(is_labelled);
    let sessions: HashSet<&ExecutionId> = labelled().map(|row| &row.execution_id).collect();
    let labels: HashSet<&Option<String>> = labelled().map(|row| &row.label).collect();
    let origins = origins(rows);
    let named = |has_session: bool| -> Vec<String> {
        let named = rows.iter().zip(&origins).map(|(row, origin)| {
            let is_agent = row.kind == ExecutionKind::Agent;
            let label = row.label.as_deref();
            let name = match label.filter(|_| is_agent || shares(&row)) {
                Some(label) if is_agent => label.to_owned(),
                Some(label) if has_session => format!("{}:{label}", row.name),
                Some(label) if labels.len() > 1 => label.to_owned(),
                _ => row.name.clone(),
            };
            one_line(&format!("{origin}{name}"))
        });
        named.collect()
    };
    let mut names = named(true);
    if sessions.len() == 1 && names.iter().any(|name| name.width() > width) {
        names = named(false);
    }
    let shared = shared_beginnings(&names);
    let mut local = LocalTime::of_system();
    // What is appended to the name of each row so far.
    let mut levels = vec![0; rows.len()];
    loop {
        let named = names.iter().zip(&shared);
        let shown = (rows.iter().zip(named).zip(&levels))
            .map(|((row, name), level)| told_apart(row, name, *level, width, &mut local));
        let shown: Vec<String> = shown.collect();
        let mut equal: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, name) in shown.iter().enumerate() {
            equal.entry(name).or_default().push(index);
        }
        let mut is_unique = true;
        for indexes in equal.into_values().filter(|indexes| indexes.len() > 1) {
            // The only row that has not ended keeps its name.
            let mut live = indexes.iter().filter(|index| !rows[**index].has_ended());
            let only_live = live.next().filter(|_| live.next().is_none()).copied();
            for index in indexes
                .into_iter()
                .filter(|index| Some(*index) != only_live)
            {
                is_unique &= levels[index] >= LEVEL_MAX;
                levels[index] = (levels[index] + 1).min(LEVEL_MAX);
            }
        }
        if is_unique {
            return shown;
        }
    }
}

/// Returns true if a table may show this name as `shown`, because it is cut there.
#[cfg(feature = "cli")]
pub(crate) fn is_cut_of(shown: &str, name: &str) -> bool {
    let mut pieces = shown.split('…');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for piece in pieces {
        let Some(at) = rest.find(piece) else {
            return false;
        };
        rest = &rest[at + piece.len()..];
        last = Some(piece);
    }
    last.is_some_and(|last| name.width() > shown.width() && name.ends_with(last))
}

/// Returns for each name how many of its bytes also begin another name.
fn shared_beginnings(names: &[String]) -> Vec<usize> {
    let mut sorted: Vec<usize> = (0..names.len()).collect();
    sorted.sort_by_key(|index| &names[*index]);
    let mut shared = vec![0; names.len()];
    for pair in sorted.windows(2) {
        let (one, other) = (&names[pair[0]], &names[pair[1]]);
        let equal = one.chars().zip(other.chars()).take_while(|(a, b)| a == b);
        let bytes: usize = equal.map(|(c, _)| c.len_utf8()).sum();
        for index in pair {
            shared[*index] = bytes.max(shared[*index]);
        }
    }
    shared
}

/// Cuts a name to a width: its end, or its middle if what tells it from others is not in the first half, which is the
/// word in which it differs from them.
fn shortened(name: &str, shared: usize, width: usize) -> String {
    let is_end = |c: char| !c.is_alphanumeric() && c != '%';
    let (before, _) = name.split_at(shared);
    let word = before.rfind(is_end);
    let word = word.map_or(0, |at| {
        at + before[at..].chars().next().map_or(0, char::len_utf8)
    });
    let (before, word) = name.split_at(word);
    if name.width() <= width || width < TWO_PARTS_MIN || before.width() < width / 2 {
        return with_ellipsis(name, width);
    }
    let room = width.saturating_sub(1);
    let word = with_ellipsis(word, room - room / 3);
    format!("{}…{word}", cut(before, room - word.width()))
}

/// The last way to tell a row apart: its whole id.
const LEVEL_MAX: usize = 4;

/// Returns the name of a row with what tells it apart, cut to a width.
fn told_apart(
    row: &Row,
    (name, shared): (&String, &usize),
    level: usize,
    width: usize,
    local: &mut LocalTime,
) -> String {
    if level == 0 {
        return shortened(name, *shared, width);
    }
    let pane = row.pane.as_ref().map(PaneId::as_str).map(one_line);
    let clock = time_of(&row.execution_id).map(|at| {
        // `2026-11-23 13:14:05`
        let second = local.second(at);
        let clock = |to| second.get(11..to).unwrap_or(second).to_owned();
        [clock(16), clock(19)]
    });
    let mut marks = Vec::from_iter(pane.clone());
    let clocks = clock.into_iter().flatten();
    marks.extend(clocks.map(|clock| match &pane {
        Some(pane) => format!("{pane} {clock}"),
        None => clock,
    }));
    let mark = marks.get(level - 1).filter(|mark| mark.width() <= width);
    let Some(mark) = mark.filter(|_| level < LEVEL_MAX) else {
        // The end of an id differs, not its beginning.
        let id = one_line(&row.key().to_string());
        let surplus = id.chars().count().saturating_sub(width.max(1));
        return id.chars().skip(surplus).collect();
    };
    let room = width.saturating_sub(mark.width() + 1);
    let name = shortened(name, *shared, room);
    if name.is_empty() {
        mark.clone()
    } else {
        format!("{name} {mark}")
    }
}

/// Returns when an execution began whose id was made of its label and its time: `make@1795303463-2`.
fn time_of(id: &ExecutionId) -> Option<Timestamp> {
    let (_, time) = id.as_str().rsplit_once('@')?;
    let seconds: i64 = time.split('-').next()?.parse().ok()?;
    Some(Timestamp::from_micros(seconds.checked_mul(1_000_000)?))
}

/// Returns true if a target is one of these names, also as a table cuts it.
pub(crate) fn is_among(names: &[String], target: &str) -> bool {
    let mut names = names.iter();
    names.any(|name| name == target || is_cut_of(target, name))
}

/// Returns the names by which each row can be selected: as faces show it in full, and its label; that of its session,
/// also with its pane; and its pane; if there are several servers or hosts, these also with them as a prefix, and the host
/// alone; the id of
/// its execution; and the end of its server, if it ended with that.
pub(crate) fn names_of(rows: &[Row]) -> Vec<Vec<String>> {
    let all = rows.iter().zip(row_names(rows, usize::MAX));
    let all = all.zip(origins(rows));
    let names = all.map(|((row, full), origin)| {
        let pane = row.pane.as_ref().map(|pane| pane.as_str().to_owned());
        let with_pane = pane.as_ref().map(|pane| format!("{} {pane}", row.name));
        let own = std::iter::once(row.name.clone()).chain(with_pane);
        // A narrow table shows the label alone, and the pane behind one that is not unique.
        let on_server = full.strip_prefix(&origin);
        let session = format!("{}:", row.name);
        let after_session = on_server.unwrap_or(&full).strip_prefix(&session);
        let label = after_session.map(str::to_owned);
        let own: Vec<String> = own.chain(pane).chain(label).collect();
        let names_there = own.iter().filter(|_| !origin.is_empty());
        let mut prefixed: Vec<String> = names_there.map(|name| format!("{origin}{name}")).collect();
        // The host itself stands for all that it has.
        prefixed.extend(row.host.clone());
        let id = row.execution_id.to_string();
        let mut names = vec![full];
        names.extend(own.into_iter().chain(prefixed).chain([id]));
        names
    });
    let mut names: Vec<Vec<String>> = names.collect();
    for end in server_ends(rows) {
        for index in &end.members {
            names[*index].push(end.name());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{RowKey, RowState};

    fn row(id: &str, pane: Option<&str>, label: Option<&str>, has_ended: bool) -> Row {
        let key = RowKey {
            execution_id: id.into(),
            part: pane.map(str::to_owned),
        };
        let name = id.split('@').next().unwrap_or(id).to_owned();
        let kind = match pane {
            Some(_) => ExecutionKind::Pane,
            None => ExecutionKind::Command,
        };
        let mut row = Row::new(&key, name, kind, Timestamp::from_micros(0));
        row.label = label.map(str::to_owned);
        if has_ended {
            row.state = RowState::Exited;
        }
        row
    }

    fn clock(second: i64) -> String {
        let at = Timestamp::from_micros(second * 1_000_000);
        LocalTime::of_system().second(at)[11..].to_owned()
    }

    #[test]
    fn a_pane_has_the_name_of_its_session_and_a_label_beside_others_in_it() {
        let rows = [
            row("docs@1", Some("%1"), Some("docs (main)"), false),
            row("work@2", Some("%2"), Some("tests"), false),
            row("work@2", Some("%3"), Some("api (main)"), false),
            row("work@2", Some("%4"), Some("api (main)"), false),
            row("work@2", Some("%5"), None, false),
            row("make@3", None, None, false),
            row("make@4", None, None, false),
        ];
        let names = [
            "docs",
            "work:tests",
            "work:api (main) %3",
            "work:api (main) %4",
            "work",
            &format!("make {}", clock(3)),
            &format!("make {}", clock(4)),
        ];
        assert_eq!(row_names(&rows, NAME_WIDTH), names);
    }

    #[test]
    fn the_live_row_of_a_name_keeps_it_and_ended_ones_are_told_apart() {
        let rows = [
            row("build@1", Some("%0"), None, true),
            row("build@2", Some("%0"), None, true),
            row("build@3", Some("%0"), None, false),
            row("chosen", None, None, false),
        ];
        let names = [
            &format!("build %0 {}", clock(1)),
            &format!("build %0 {}", clock(2)),
            "build",
            "chosen",
        ];
        assert_eq!(row_names(&rows, NAME_WIDTH), names);
    }

    #[test]
    fn names_that_are_cut_differ_at_any_width() {
        let mut rows: Vec<Row> = (0..121)
            .map(|pane| {
                let label = format!("Implement the same feature {}", pane / 2);
                row(
                    "big@1795303463",
                    Some(&format!("%{pane}")),
                    Some(&label),
                    false,
                )
            })
            .collect();
        rows.extend((2..5).map(|number| row(&format!("big@{number}"), Some("%7"), None, true)));
        for width in 6..60 {
            let names = row_names(&rows, width);
            let unique: std::collections::BTreeSet<&String> = names.iter().collect();
            assert_eq!(unique.len(), names.len(), "{width} {names:?}");
            assert!(names.iter().all(|name| name.width() <= width), "{names:?}");
        }
    }

    #[test]
    fn names_that_do_not_fit_leave_out_the_session_that_all_have_and_keep_what_differs() {
        let mut rows = vec![
            row("home@1", Some("%0"), None, false),
            row("work@2", Some("%1"), Some("work-claude (master)"), false),
            row("work@2", Some("%2"), Some("work-codex (master)"), false),
            row("work@2", Some("%3"), Some("GitHub Copilot"), false),
            row("work@2", Some("%4"), Some("proj"), false),
        ];
        let names = [
            "home",
            "work-claude (…",
            "work-codex (m…",
            "GitHub Copilot",
            "proj",
        ];
        assert_eq!(row_names(&rows, 14), names);
        let same = ["%1", "%2"].map(|pane| row("web@2", Some(pane), Some("my-repo (main)"), false));
        assert_eq!(row_names(&same, 10), ["web %1", "web %2"]);
        // Another session has labels, too.
        rows.push(row("play@3", Some("%5"), Some("proj"), false));
        rows.push(row("play@3", Some("%6"), Some("make"), false));
        let names = row_names(&rows, 14);
        assert_eq!(names[4..], ["work:proj", "play:proj", "play:make"]);
        let services = ["backend", "frontend"].map(|end| {
            let name = format!("a-very-long-project-name-for-the-{end}-service");
            row(&name, None, None, false)
        });
        for (width, names) in [
            (24, ["a-very-l…backend-service", "a-very-…frontend-service"]),
            (16, ["a-ver…backend-s…", "a-ver…frontend-…"]),
        ] {
            let shown = row_names(&services, width);
            assert_eq!(shown, names);
            for (cut, row) in shown.iter().zip(&services) {
                assert!(is_cut_of(cut, &row.name), "{cut}");
            }
            assert!(!is_cut_of(&shown[0], &services[1].name));
        }
        assert!(!is_cut_of("make", "make") && !is_cut_of("ma…", "mak"));
    }
}
