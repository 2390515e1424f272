//! The chapters of the guide, and how a terminal shows them: laid out to its width, in a pager.

use std::convert::Infallible;
use std::ffi::CString;
use std::io::{self, IsTerminal, Seek, SeekFrom, Write};
use std::process::ExitCode;

use nix::unistd::execvp;
use unicode_width::UnicodeWidthStr;

use super::failure::Failure;
use crate::face::terminal_size;

// The chapters of the guide, which are compiled into the program.

/// A chapter: its name, a one-line description, and its text.
pub(super) struct Chapter {
    pub name: &'static str,
    pub about: &'static str,
    pub text: &'static str,
}

macro_rules! chapters {
    ($($name:literal: $about:literal,)*) => {
        &[$(Chapter {
            name: $name,
            about: $about,
            text: include_str!(concat!("../guide/", $name, ".md")),
        },)*]
    };
}

/// The chapters in reading order; `src/guide/mod.rs` lists the same chapters.
pub(super) const CHAPTERS: &[Chapter] = chapters! {
    "watching": "show tmux panes, and run commands at their events",
    "streaming": "stream or poll: how panes are observed",
    "tui": "the terminal UI: views, keys, answers",
    "page": "the web page, also on a phone, and the API over TCP",
    "mcp": "MCP and the skill: agents that supervise agents",
    "waiting": "wait for a line, an end, silence or a signal",
    "running": "run a command and keep what it prints",
    "kernels": "run code on Jupyter kernels, and listen to them",
    "loops": "repeat an agent until a check passes",
    "agents": "agents in panes, background agents, states, hooks",
    "configuration": "the file that gives options their values",
    "notifications": "be told where you are: tmux, desktop, phone, programs",
    "reports": "what everything did last night, and what still needs you",
    "hosts": "other hosts: ssh for ten, Redis for a thousand, log engines",
    "history": "runs: read, search, replay, export, prune",
    "events": "the types of events and their fields",
    "secrets": "what is redacted, and your own rules",
    "limits": "what is not guaranteed, and the cargo features",
    "library": "use td-observe in a Rust program",
    "performance": "what is measured, and how to reproduce it",
};

pub(super) fn chapter_names() -> impl Iterator<Item = &'static str> {
    CHAPTERS.iter().map(|chapter| chapter.name)
}

/// Returns the names and texts of the chapters.
#[cfg(test)]
pub(super) fn texts() -> impl Iterator<Item = (&'static str, &'static str)> {
    CHAPTERS.iter().map(|chapter| (chapter.name, chapter.text))
}

// Lays out a chapter of the guide for a terminal: fills paragraphs to the width, aligns tables (pure).

/// The blanks between two columns of a table.
const GUTTER: &str = "  ";

/// Minimum width to which a column is cut. A table that is still too wide is shown as records.
const COLUMN_MIN: usize = 18;

/// Lays out a text for a terminal of this width. Supports the elements that the guide uses: headings,
/// paragraphs, lists, tables and code.
pub(super) fn laid_out(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            for code in lines.by_ref().take_while(|line| !line.starts_with("```")) {
                push(&mut out, &format!("    {code}"));
            }
        } else if line.starts_with('|') {
            let mut rows = vec![cells(line)];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(cells(row));
            }
            table(&mut out, &rows, width);
        } else if line.is_empty() || line.starts_with('#') {
            push(&mut out, line);
        } else {
            let mut paragraph = line.to_owned();
            while let Some(more) = lines.next_if(|line| continues_paragraph(line)) {
                paragraph.push(' ');
                paragraph.push_str(more.trim_start());
            }
            let indent = if line.starts_with("- ") { "  " } else { "" };
            for (number, filled) in fill(&paragraph, width, indent.len()).iter().enumerate() {
                let before = if number == 0 { "" } else { indent };
                push(&mut out, &format!("{before}{filled}"));
            }
        }
    }
    out
}

/// Returns true if a line continues the paragraph before it.
fn continues_paragraph(line: &str) -> bool {
    !line.is_empty()
        && !["#", "|", "```", "- "]
            .iter()
            .any(|start| line.starts_with(start))
}

fn push(out: &mut String, line: &str) {
    out.push_str(line.trim_end());
    out.push('\n');
}

/// Splits a row into its cells; `\|` is a bar within a cell.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|');
    let row = row.strip_suffix('|').unwrap_or(row).replace("\\|", "\u{1}");
    let cells = row.split('|');
    cells
        .map(|cell| cell.trim().replace('\u{1}', "|"))
        .collect()
}

/// Breaks a text into lines of at most this width. All lines except the first leave room for the indent.
fn fill(text: &str, width: usize, indent: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let room = if lines.len() == 1 {
            width
        } else {
            width - indent.min(width)
        };
        let Some(line) = lines.last_mut() else {
            continue;
        };
        if line.is_empty() {
            line.push_str(word);
        } else if line.width() + 1 + word.width() <= room {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

fn table(out: &mut String, rows: &[Vec<String>], width: usize) {
    // The second row is the rule of dashes.
    let (head, body) = match rows {
        [head, _, body @ ..] => (head, body),
        _ => return,
    };
    let all = || std::iter::once(head).chain(body);
    let count = head.len();
    let widest = |column: usize, of: fn(&str) -> usize| {
        let cells = all().filter_map(|row| row.get(column));
        cells.map(|cell| of(cell)).max().unwrap_or(0)
    };
    let word = |cell: &str| {
        cell.split(' ')
            .map(UnicodeWidthStr::width)
            .max()
            .unwrap_or(0)
    };
    let natural: Vec<usize> = (0..count)
        .map(|column| widest(column, |cell| cell.width()))
        .collect();
    let least: Vec<usize> = (0..count).map(|column| widest(column, word)).collect();
    match columns(&natural, &least, width) {
        Some(widths) => {
            // A table without a head begins with its first row.
            if head.iter().any(|cell| !cell.is_empty()) {
                push_row(out, head, &widths);
                let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                push_row(out, &rule, &widths);
            }
            // Rows of several lines are separated by a blank line.
            let is_cut = widths != natural;
            for (number, row) in body.iter().enumerate() {
                if is_cut && number > 0 {
                    push(out, "");
                }
                push_row(out, row, &widths);
            }
        }
        None => {
            for row in body {
                push_record(out, head, row, width);
            }
        }
    }
}

/// Returns the widths of the columns; the widest columns are cut until the table fits. `None` if a column would
/// become narrower than its longest word or than [`COLUMN_MIN`].
fn columns(natural: &[usize], least: &[usize], width: usize) -> Option<Vec<usize>> {
    let room = width.checked_sub(GUTTER.len() * natural.len().saturating_sub(1))?;
    let mut widths = natural.to_vec();
    while widths.iter().sum::<usize>() > room {
        let cuttable = widths.iter_mut().zip(least);
        let widest = cuttable
            .filter(|(width, least)| **width > COLUMN_MIN.max(**least))
            .map(|(width, _)| width)
            .max()?;
        *widest -= 1;
    }
    Some(widths)
}

fn push_row(out: &mut String, row: &[String], widths: &[usize]) {
    let cells = row.iter().zip(widths);
    let filled: Vec<Vec<String>> = cells.map(|(cell, width)| fill(cell, *width, 0)).collect();
    let height = filled.iter().map(Vec::len).max().unwrap_or(0);
    for number in 0..height {
        let mut line = String::new();
        for (cell, width) in filled.iter().zip(widths) {
            let text = cell.get(number).map_or("", String::as_str);
            line.push_str(text);
            line.push_str(&" ".repeat(width.saturating_sub(text.width())));
            line.push_str(GUTTER);
        }
        push(out, &line);
    }
}

/// Appends a row as a record: its first cell, then the other cells with the names of their columns.
fn push_record(out: &mut String, head: &[String], row: &[String], width: usize) {
    for (column, (name, cell)) in head.iter().zip(row).enumerate() {
        let text = match column {
            0 => cell.clone(),
            _ if cell.is_empty() => continue,
            _ => format!("{name}: {cell}"),
        };
        let indent = if column == 0 { 0 } else { 4 };
        for line in fill(&text, width - indent.min(width), 0) {
            push(out, &format!("{}{line}", " ".repeat(indent)));
        }
    }
}

// Shows long text on a terminal: this process becomes `$PAGER`, or `less -FR`.

/// The default pager. With these options, it ends at once if the text fits on the screen, and shows colours.
const PAGER: &str = "less -FR";

/// Returns the width of text in columns; `None` if standard output is not a terminal.
pub(super) fn terminal_width() -> Option<usize> {
    let (columns, _) = io::stdout().is_terminal().then(terminal_size)?;
    // Longer lines are hard to read, and narrower text cannot be laid out.
    Some(columns.clamp(20, 100))
}

/// Prints the text, through a pager if standard output is a terminal.
pub(super) fn page(text: &str) -> Result<ExitCode, Failure> {
    if io::stdout().is_terminal() {
        let pager = std::env::var("PAGER").unwrap_or_else(|_| PAGER.to_owned());
        // An empty variable disables the pager, as for man and git.
        let words = shlex::split(&pager).unwrap_or_default();
        if !words.is_empty() {
            // If the pager cannot be started, the text is printed.
            let Err(error) = become_pager(&words, text);
            log::info!("cannot start the pager {pager:?}: {error}");
        }
    }
    super::output::print(text)
}

/// Replaces this process with the pager, which thereby owns the terminal and sets the exit code.
fn become_pager(words: &[String], text: &str) -> io::Result<Infallible> {
    let words = words.iter().map(|word| CString::new(word.as_str()));
    let words = words.collect::<Result<Vec<CString>, _>>()?;
    let Some(program) = words.first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // The file has no name, so it disappears with the pager.
    let mut file = tempfile::tempfile()?;
    file.write_all(text.as_bytes())?;
    file.seek(SeekFrom::Start(0))?;
    let kept = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    rustix::stdio::dup2_stdin(&file)?;
    let failed = execvp(program, &words);
    // The pager was not started: restores standard input.
    rustix::stdio::dup2_stdin(&kept)?;
    match failed {
        Ok(never) => match never {},
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    mod markdown {

        use super::super::*;

        #[test]
        fn paragraphs_lists_and_code() {
            let text = "# Title\n\none two\nthree four\n\n- a long item of\n  a list\n- b\n\n```sh\ncargo  test\n```\n";
            assert_eq!(
                laid_out(text, 14),
                "# Title\n\none two three\nfour\n\n- a long item\n  of a list\n- b\n\n    cargo  test\n"
            );
        }

        #[test]
        fn a_table_is_cut_in_columns_or_shown_as_records() {
            let text = "| option | meaning |\n| --- | --- |\n| `-a\\|b` | one two three four five six seven |\n";
            assert_eq!(
                laid_out(text, 30),
                "option  meaning\n\
             ------  ----------------------\n\
             `-a|b`  one two three four\n        five six seven\n"
            );
            assert_eq!(
                laid_out(text, 20),
                "`-a|b`\n    meaning: one two\n    three four five\n    six seven\n"
            );
        }

        #[test]
        fn all_chapters_fit_except_code_and_long_words() {
            for (name, text) in super::super::texts() {
                for width in [60, 80, 100] {
                    for line in laid_out(text, width).lines() {
                        let is_code = line.starts_with("    ");
                        let is_one_word = !line.trim().contains(' ') || line.contains("](");
                        assert!(
                            line.width() <= width || is_code || is_one_word,
                            "{name} {width}: {line}"
                        );
                    }
                }
            }
        }
    }
}
