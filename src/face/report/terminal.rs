//! The report on a terminal: what needs the user, a band of states for each row, and what each row did (pure).

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

use super::model::{COLUMN, Report, RowReport, Source};
use super::text::Text;
use super::words::{
    Words, figures, kind_of, name_of, nothing, still_written, told_together, tools_by_name, totals,
};
use crate::board::bands::{Band, Timeline};
use crate::face::LocalTime;
use crate::face::sanitize::{one_line, with_ellipsis};

/// The size and the appearance of the report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TerminalReport {
    /// The columns of the terminal.
    pub width: usize,
    pub is_coloured: bool,
    /// All that the report has of each row, not only the last of its items.
    pub is_verbose: bool,
}

/// The share of a line that bands have, in percent: the rest says how each row ended.
const BANDS_PERCENT: usize = 50;

/// The most turns, questions and errors of a row that are shown, unless all are: JSON and the page have more.
const ITEMS_MAX: usize = 5;

const TOOLS_MAX: usize = 6;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const NEEDS_YOU: Style = AnsiColor::Yellow.on_default().bold();
const ALARM: Style = AnsiColor::Red.on_default();

impl TerminalReport {
    /// Returns the report as lines.
    pub fn render(self, report: &Report, local: LocalTime) -> String {
        let words = Words::new(report, local);
        let mut page = Page {
            out: String::new(),
            options: self,
            words,
        };
        page.report(report);
        page.out
    }
}

struct Page {
    out: String,
    options: TerminalReport,
    words: Words,
}

impl Page {
    fn report(&mut self, report: &Report) {
        if report.is_empty() {
            let line = nothing(report, &mut self.words);
            return self.line(&line, Style::new());
        }
        let span = self.words.span(report);
        self.line(&span, BOLD);
        self.wrapped("", &totals(report), Style::new());
        let shown: Vec<&RowReport> = (report.rows.iter())
            .filter(|row| !row.told_elsewhere)
            .collect();
        self.needs_you(&shown);
        self.bands(report, &shown);
        for row in &shown {
            self.row(row);
        }
        self.histories(report);
    }

    fn needs_you(&mut self, rows: &[&RowReport]) {
        let needs: Vec<&&RowReport> = rows.iter().filter(|row| row.needs_you).collect();
        if needs.is_empty() {
            return;
        }
        self.out.push('\n');
        self.line("NEEDS YOU", BOLD);
        for row in needs {
            let end = self.words.end(row);
            let line = format!("  {}: {end}", one_line(&name_of(row)));
            self.line(&line, NEEDS_YOU);
            if let Some(detail) = &row.end.detail {
                self.item(&format!("  {}", one_line(detail.as_str())), Style::new());
            }
        }
    }

    fn bands(&mut self, report: &Report, rows: &[&RowReport]) {
        if rows.is_empty() {
            return;
        }
        let name = |row: &RowReport| {
            let name = match &row.column {
                Some(name) => one_line(name.as_str()),
                None => one_line(&name_of(row)),
            };
            let indent = if row.host.is_some() { "  " } else { "" };
            format!("{indent}{name}")
        };
        let names = by_host(rows).into_iter().map(name);
        let names: Vec<String> = names.collect();
        let widest = names.iter().map(|name| name.width()).max().unwrap_or(0);
        let width = self.options.width;
        let name_width = widest.min(COLUMN).min(width / 4).max(4);
        let columns = (width.saturating_sub(name_width + 4) * BANDS_PERCENT / 100).max(8);
        self.out.push('\n');
        let scale = self.scale(report, columns);
        let line = format!("{}  {scale}", " ".repeat(name_width));
        self.line(&line, DIM);
        let mut used = Vec::new();
        let mut last: Option<&str> = None;
        for (row, name) in by_host(rows).into_iter().zip(names) {
            let host = row.host.as_deref();
            // The names of their columns are those on each host.
            if let Some(host) = host.filter(|_| host != last) {
                self.line(host, BOLD);
            }
            last = host;
            let name = with_ellipsis(&name, name_width);
            let blanks = " ".repeat(name_width.saturating_sub(name.width()));
            let mut timeline = Timeline::default();
            for span in &row.bands {
                timeline.push(span.from, span.band);
                timeline.push(span.until, Band::Ended);
            }
            let cells = timeline.main_cells(report.since, report.until, columns);
            used.extend(cells.iter().flatten().copied());
            let cells: Vec<Band> = cells
                .iter()
                .map(|cell| cell.unwrap_or(Band::Ended))
                .collect();
            let end = self.words.end(row);
            let room = width.saturating_sub(name_width + 4 + columns);
            let end = with_ellipsis(&one_line(&end), room);
            self.out.push_str(&format!("{name}{blanks}  "));
            self.cells(&cells);
            self.out.push_str(&format!("  {end}"));
            let kept = self.out.trim_end_matches(' ').len();
            self.out.truncate(kept);
            self.out.push('\n');
        }
        self.legend(&used);
    }

    /// Draws cells, runs of the same band in one style.
    fn cells(&mut self, cells: &[Band]) {
        for run in cells.chunk_by(|a, b| a == b) {
            let Some(band) = run.first() else { continue };
            let text = band.symbol().repeat(run.len());
            let text = self.styled(&text, style_of(*band));
            self.out.push_str(&text);
        }
    }

    /// Returns the times above the bands, as many as fit.
    fn scale(&mut self, report: &Report, columns: usize) -> String {
        let span = report.until.micros().saturating_sub(report.since.micros());
        let marks = (columns / 12).max(1);
        let mut line = String::new();
        for mark in 0..=marks {
            let column = columns * mark / marks;
            let share = i64::try_from(mark).unwrap_or(0);
            let of = i64::try_from(marks).unwrap_or(1).max(1);
            let micros = report.since.micros().saturating_add(span / of * share);
            let time = self
                .words
                .clock(crate::timestamp::Timestamp::from_micros(micros));
            let start = if mark == marks {
                columns.saturating_sub(time.len())
            } else {
                column
            };
            if start >= line.len() {
                line.push_str(&" ".repeat(start - line.len()));
                line.push_str(&time);
            }
        }
        line
    }

    fn legend(&mut self, used: &[Band]) {
        let words = Band::ALL.into_iter().filter(|band| used.contains(band));
        let words = words.filter(|band| !band.word().is_empty());
        let words: Vec<String> = words
            .map(|band| format!("{} {}", band.symbol(), band.word()))
            .collect();
        self.line(&words.join("  "), DIM);
    }

    fn row(&mut self, row: &RowReport) {
        self.out.push('\n');
        let end = self.words.end(row);
        let heading = format!("{} ({})", name_of(row), kind_of(row));
        let style = if row.needs_you { NEEDS_YOU } else { BOLD };
        self.line(&one_line(&heading), style);
        let style = if row.needs_you {
            NEEDS_YOU
        } else {
            Style::new()
        };
        self.paragraph("  ", &one_line(&end), style);
        if let Some(detail) = &row.end.detail {
            self.paragraph("  ", &one_line(detail.as_str()), Style::new());
        }
        self.lines(&row.end.lines);
        self.wrapped("  ", &figures(row), Style::new());
        if let Some(tools) = tools_by_name(row, TOOLS_MAX) {
            self.item(&format!("tools: {}", one_line(&tools)), DIM);
        }
        for said in &row.summaries {
            let mark = if said.source == Source::Transcript {
                "its own summary"
            } else {
                "summary"
            };
            self.item(
                &format!("{mark}: {}", one_line(said.text.as_str())),
                Style::new(),
            );
        }
        self.questions(row);
        self.turns(row);
        self.failures(row);
    }

    fn questions(&mut self, row: &RowReport) {
        let items = &row.questions.items;
        self.earlier(
            row.questions.count,
            items.len().min(self.items_max()),
            "question",
        );
        for question in items.iter().rev().take(self.items_max()).rev() {
            let when = self.words.question(question);
            let asks = question.asks.as_ref().map_or("", Text::as_str);
            let style = if question.answered {
                Style::new()
            } else {
                NEEDS_YOU
            };
            self.item(&format!("? {when}: {}", one_line(asks)), style);
        }
    }

    fn turns(&mut self, row: &RowReport) {
        let items = &row.turns.items;
        self.earlier(row.turns.count, items.len().min(self.items_max()), "turn");
        for turn in items.iter().rev().take(self.items_max()).rev() {
            let when = self.words.turn(turn);
            let summary = turn.summary.as_ref().map_or("", Text::as_str);
            self.item(&format!("✓ {when}: {}", one_line(summary)), Style::new());
        }
        let outcomes = &row.checks.outcomes;
        self.earlier(
            row.checks.iterations,
            outcomes.len().min(self.items_max()),
            "iteration",
        );
        for outcome in outcomes.iter().rev().take(self.items_max()).rev() {
            let (when, what) = self.words.outcome(outcome);
            self.item(&format!("· {when}: {}", one_line(&what)), Style::new());
        }
    }

    fn failures(&mut self, row: &RowReport) {
        for job in row.jobs.items.iter().rev().take(self.items_max()).rev() {
            let (when, what) = self.words.job(job);
            self.item(&format!("x {when} {}", one_line(&what)), ALARM);
            self.lines(&job.lines);
        }
        for error in row.errors.items.iter().rev().take(self.items_max()).rev() {
            let (when, what) = self.words.error(error);
            self.item(&format!("x {when} {}", one_line(&what)), ALARM);
        }
        for gap in row.gaps.items.iter().rev().take(self.items_max()).rev() {
            let (when, what) = self.words.gap(gap);
            self.item(&format!("… {when} {what}"), ALARM);
        }
    }

    fn lines(&mut self, lines: &[Text]) {
        for line in lines {
            self.item(&format!("  | {}", one_line(line.as_str())), DIM);
        }
    }

    fn items_max(&self) -> usize {
        if self.options.is_verbose {
            usize::MAX
        } else {
            ITEMS_MAX
        }
    }

    fn earlier(&mut self, all: u64, shown: usize, noun: &str) {
        let shown = u64::try_from(shown).unwrap_or(u64::MAX);
        if all > shown && shown > 0 {
            let earlier = crate::face::describe::count(all - shown, noun);
            self.item(&format!("… {earlier} before"), DIM);
        }
    }

    fn histories(&mut self, report: &Report) {
        let runs: Vec<_> = report
            .runs
            .iter()
            .filter(|run| run.is_worth_a_word())
            .collect();
        let written = still_written(report);
        if runs.is_empty() && report.problems.is_empty() && written.is_none() {
            return;
        }
        self.out.push('\n');
        self.line("HISTORIES", BOLD);
        for (who, what, is_damaged) in told_together(&runs) {
            let style = if is_damaged { ALARM } else { Style::new() };
            self.paragraph("  ", &one_line(&format!("{who}: {what}")), style);
        }
        for problem in &report.problems {
            self.paragraph("  ", &one_line(problem.as_str()), ALARM);
        }
        if let Some(written) = written {
            self.item(&written, Style::new());
        }
    }

    fn item(&mut self, text: &str, style: Style) {
        self.line(&format!("  {text}"), style);
    }

    /// Writes a text in as many lines as it needs, between its words.
    fn paragraph(&mut self, indent: &str, text: &str, style: Style) {
        let mut line = indent.to_owned();
        for word in text.split(' ') {
            if line.trim_end().len() > indent.len()
                && line.width() + word.width() + 1 > self.options.width
            {
                self.line(&line, style);
                line = indent.to_owned();
            }
            if line.len() > indent.len() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.line(&line, style);
    }

    /// Writes a line, cut to the width.
    fn line(&mut self, text: &str, style: Style) {
        let text = with_ellipsis(text.trim_end(), self.options.width);
        let text = self.styled(&text, style);
        self.out.push_str(&text);
        self.out.push('\n');
    }

    /// Writes parts with ` · ` between them, in as many lines as they need.
    fn wrapped(&mut self, indent: &str, parts: &[String], style: Style) {
        let mut line = String::new();
        for part in parts {
            let part = one_line(part);
            if !line.is_empty() && line.width() + part.width() + 3 > self.options.width {
                self.line(&line, style);
                line.clear();
            }
            line.push_str(if line.is_empty() { indent } else { " · " });
            line.push_str(&part);
        }
        if !line.is_empty() {
            self.line(&line, style);
        }
    }

    fn styled(&self, text: &str, style: Style) -> String {
        if self.options.is_coloured && style != Style::new() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}

/// Returns the rows of this host, then those of each other one together.
fn by_host<'a>(rows: &[&'a RowReport]) -> Vec<&'a RowReport> {
    let mut hosts: Vec<Option<&str>> = vec![None];
    for row in rows {
        if !hosts.contains(&row.host.as_deref()) {
            hosts.push(row.host.as_deref());
        }
    }
    let mut sorted = rows.to_vec();
    let place = |row: &RowReport| hosts.iter().position(|host| *host == row.host.as_deref());
    sorted.sort_by_key(|row| place(row));
    sorted
}

/// Returns the style of a band; its symbol shows it without colours.
fn style_of(band: Band) -> Style {
    match band {
        Band::Waiting | Band::Limited | Band::Suspended => NEEDS_YOU,
        Band::Error => ALARM,
        Band::Done => AnsiColor::Green.on_default(),
        Band::Working | Band::Running => AnsiColor::Blue.on_default(),
        Band::Unknown | Band::Idle | Band::NotObserved => DIM,
        Band::Ended => Style::new(),
    }
}
