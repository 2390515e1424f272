//! The report as one page that needs no other file: no script, no request, text only as text (pure).

use super::model::{Report, RowReport, Source};
use super::text::Text;
use super::words::{
    Words, figures, kind_of, name_of, nothing, still_written, told_together, tools_by_name, totals,
};
use crate::board::bands::{Band, BandSpan};
use crate::face::LocalTime;
use crate::face::sanitize::one_line;
use crate::timestamp::Timestamp;

const STYLE: &str = include_str!("report.css");

/// The units of a picture's width, which the browser scales to the page.
const WIDTH: f64 = 1000.0;

/// The height of a band, in the same units as its pixels.
const HEIGHT: f64 = 22.0;

/// The width of the narrowest band that is drawn, so that a short state is seen.
const BAND_MIN: f64 = 1.5;

/// The most tools that are named.
const TOOLS_MAX: usize = 12;

/// Returns the report as a page.
pub(crate) fn html(report: &Report, local: LocalTime) -> String {
    let mut page = Page {
        out: String::new(),
        words: Words::new(report, local),
    };
    page.document(report);
    page.out
}

struct Page {
    out: String,
    words: Words,
}

impl Page {
    fn document(&mut self, report: &Report) {
        let span = self.words.span(report);
        self.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        self.raw(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n",
        );
        self.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        self.raw("<meta name=\"referrer\" content=\"no-referrer\">\n<title>td-observe: ");
        self.text(&span);
        self.raw("</title>\n<style>\n");
        self.raw(STYLE);
        self.raw("</style>\n</head>\n<body>\n<main>\n<h1>What they did</h1>\n<p class=\"quiet\">");
        self.text(&span);
        self.raw("</p>\n");
        if report.is_empty() {
            let line = nothing(report, &mut self.words);
            self.paragraph(&line);
        } else {
            self.list("facts", &totals(report));
            let shown: Vec<&RowReport> = (report.rows.iter())
                .filter(|row| !row.told_elsewhere)
                .collect();
            self.needs_you(&shown);
            self.timeline(report, &shown);
            for (number, row) in shown.iter().enumerate() {
                self.row(number, row);
            }
            self.histories(report);
        }
        self.raw("</main>\n</body>\n</html>\n");
    }

    fn needs_you(&mut self, rows: &[&RowReport]) {
        if !rows.iter().any(|row| row.needs_you) {
            return;
        }
        self.raw("<section class=\"needs\">\n<h2>Needs you</h2>\n<ul class=\"items\">\n");
        for (number, row) in rows.iter().enumerate().filter(|(_, row)| row.needs_you) {
            self.raw(&format!("<li><a href=\"#row-{number}\">"));
            self.isolated(&name_of(row));
            self.raw("</a>: ");
            let end = self.words.end(row);
            self.text(&end);
            if let Some(detail) = &row.end.detail {
                self.raw("<br>");
                self.isolated(detail.as_str());
            }
            self.raw("</li>\n");
        }
        self.raw("</ul>\n</section>\n");
    }

    fn timeline(&mut self, report: &Report, rows: &[&RowReport]) {
        if rows.is_empty() {
            return;
        }
        self.raw("<section>\n<h2>States</h2>\n");
        self.scale(report);
        let mut used = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            self.raw(&format!("<div class=\"band\"><a href=\"#row-{number}\">"));
            self.isolated(&name_of(row));
            self.raw(&format!(
                "</a><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\""
            ));
            let label = format!("States of {}: {}", name_of(row), figures(row).join(", "));
            self.text(&label);
            self.raw("\">");
            for span in &row.bands {
                used.push(span.band);
                self.band(report, span);
            }
            self.raw("</svg><span>");
            let end = self.words.end(row);
            self.text(&end);
            self.raw("</span></div>\n");
        }
        self.raw("<ul class=\"legend\">");
        for band in Band::ALL.into_iter().filter(|band| used.contains(band)) {
            self.raw("<li><svg viewBox=\"0 0 22 12\" aria-hidden=\"true\">");
            self.shape(band, 0.0, 22.0, 12.0);
            self.raw("</svg>");
            self.text(band.word());
            self.raw("</li>");
        }
        self.raw("</ul>\n</section>\n");
    }

    fn scale(&mut self, report: &Report) {
        self.raw("<div class=\"band scale\" aria-hidden=\"true\"><span></span><svg>");
        const MARKS: i64 = 4;
        let span = report.until.micros().saturating_sub(report.since.micros());
        for mark in 0..=MARKS {
            let micros = report.since.micros().saturating_add(span / MARKS * mark);
            let time = self.words.clock(Timestamp::from_micros(micros));
            let (x, anchor) = match mark {
                0 => (0, "start"),
                MARKS => (100, "end"),
                mark => (100 / MARKS * mark, "middle"),
            };
            self.raw(&format!(
                "<text x=\"{x}%\" y=\"12\" text-anchor=\"{anchor}\">"
            ));
            self.text(&time);
            self.raw("</text>");
        }
        self.raw("</svg><span></span></div>\n");
    }

    fn band(&mut self, report: &Report, span: &BandSpan) {
        let micros = |at: Timestamp| at.micros().saturating_sub(report.since.micros()) as f64;
        let length = micros(report.until).max(1.0);
        let x = micros(span.from) / length * WIDTH;
        let width = (micros(span.until) / length * WIDTH - x).max(BAND_MIN);
        self.raw("<g><title>");
        let (from, until) = (self.words.time(span.from), self.words.time(span.until));
        self.text(&format!("{}, {from} to {until}", span.band.word()));
        self.raw("</title>");
        self.shape(span.band, x, width, HEIGHT);
        self.raw("</g>");
    }

    /// Draws a band. What needs the user has marks, so that hue is not the only difference.
    fn shape(&mut self, band: Band, x: f64, width: f64, height: f64) {
        let name = band.as_str();
        self.raw(&format!(
            "<rect class=\"w-{name}\" x=\"{x:.2}\" y=\"0\" width=\"{width:.2}\" height=\"{height}\"/>"
        ));
        let lines: &[f64] = match band {
            Band::Waiting => &[0.42],
            Band::Error => &[0.22, 0.62],
            Band::Limited => &[0.1, 0.42, 0.74],
            _ => &[],
        };
        for top in lines {
            let (y, thickness) = (top * height, height * 0.16);
            self.raw(&format!(
                "<rect class=\"mark\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{thickness:.2}\"/>"
            ));
        }
    }

    fn row(&mut self, number: usize, row: &RowReport) {
        self.raw(&format!(
            "<section class=\"row\" id=\"row-{number}\">\n<h2>"
        ));
        self.isolated(&name_of(row));
        self.raw(" <span>");
        self.isolated(&kind_of(row));
        self.raw("</span></h2>\n");
        let end = self.words.end(row);
        self.raw(if row.needs_you {
            "<p class=\"alarm\">"
        } else {
            "<p>"
        });
        self.text(&end);
        if let Some(detail) = &row.end.detail {
            self.raw(": ");
            self.isolated(detail.as_str());
        }
        self.raw("</p>\n");
        self.lines(&row.end.lines);
        self.list("facts", &figures(row));
        if let Some(tools) = tools_by_name(row, TOOLS_MAX) {
            self.paragraph(&format!("Tools: {tools}"));
        }
        for said in &row.summaries {
            let by = match said.source {
                Source::Log => "Summary",
                Source::Transcript => "Its own summary",
            };
            self.paragraph(&format!("{by}: {}", said.text.as_str()));
        }
        let text = |text: &Option<Text>| text.as_ref().map_or("", Text::as_str).to_owned();
        let questions: Vec<(String, String)> = (row.questions.items.iter())
            .map(|of| (self.words.question(of), text(&of.asks)))
            .collect();
        self.items("Questions", &questions);
        let turns: Vec<(String, String)> = (row.turns.items.iter())
            .map(|of| (self.words.turn(of), text(&of.summary)))
            .collect();
        self.items("Turns", &turns);
        let outcomes: Vec<(String, String)> = (row.checks.outcomes.iter())
            .map(|of| self.words.outcome(of))
            .collect();
        self.items("Iterations", &outcomes);
        self.failures(row);
        self.raw("</section>\n");
    }

    fn failures(&mut self, row: &RowReport) {
        let count = row.jobs.items.len() + row.errors.items.len() + row.gaps.items.len();
        if count == 0 {
            return;
        }
        self.raw("<h3>Failures</h3>\n<ul class=\"items\">\n");
        for job in &row.jobs.items {
            let (when, what) = self.words.job(job);
            self.item(&when, &what);
            self.lines(&job.lines);
        }
        let errors = row.errors.items.iter().map(|of| self.words.error(of));
        let mut others: Vec<(String, String)> = errors.collect();
        others.extend(row.gaps.items.iter().map(|of| self.words.gap(of)));
        for (when, what) in others {
            self.item(&when, &what);
        }
        self.raw("</ul>\n");
    }

    fn lines(&mut self, lines: &[Text]) {
        if !lines.is_empty() {
            let lines: Vec<String> = lines.iter().map(|line| line.as_str().to_owned()).collect();
            self.list("lines", &lines);
        }
    }

    fn histories(&mut self, report: &Report) {
        let runs: Vec<_> = (report.runs.iter())
            .filter(|run| run.is_worth_a_word())
            .collect();
        let told = told_together(&runs).into_iter();
        let mut lines: Vec<(String, String)> = told.map(|(who, what, _)| (who, what)).collect();
        let problems = report.problems.iter();
        lines.extend(problems.map(|text| ("unreadable".to_owned(), text.as_str().to_owned())));
        lines.extend(still_written(report).map(|words| (String::new(), words)));
        if lines.is_empty() {
            return;
        }
        self.raw("<section class=\"row\">\n<h2>Histories</h2>\n");
        self.items("", &lines);
        self.raw("</section>\n");
    }

    fn items(&mut self, title: &str, items: &[(String, String)]) {
        if items.is_empty() {
            return;
        }
        if !title.is_empty() {
            self.raw("<h3>");
            self.text(title);
            self.raw("</h3>\n");
        }
        self.raw("<ul class=\"items\">\n");
        for (when, what) in items {
            self.item(when, what);
        }
        self.raw("</ul>\n");
    }

    fn item(&mut self, when: &str, what: &str) {
        self.raw("<li><span class=\"quiet\">");
        self.isolated(when);
        self.raw("</span> ");
        self.isolated(what);
        self.raw("</li>\n");
    }

    fn list(&mut self, class: &str, items: &[String]) {
        self.raw(&format!("<ul class=\"{class}\">"));
        for item in items {
            self.raw("<li>");
            self.isolated(item);
            self.raw("</li>");
        }
        self.raw("</ul>\n");
    }

    fn paragraph(&mut self, text: &str) {
        self.raw("<p>");
        self.isolated(text);
        self.raw("</p>\n");
    }

    /// Writes a text that does not change the direction of what is around it.
    fn isolated(&mut self, text: &str) {
        self.raw("<bdi>");
        self.text(text);
        self.raw("</bdi>");
    }

    /// Writes markup.
    fn raw(&mut self, markup: &str) {
        self.out.push_str(markup);
    }

    /// Writes text, also in an attribute.
    fn text(&mut self, text: &str) {
        for c in one_line(text).chars() {
            match c {
                '&' => self.out.push_str("&amp;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                '"' => self.out.push_str("&quot;"),
                '\'' => self.out.push_str("&#39;"),
                c => self.out.push(c),
            }
        }
    }
}
