//! The report as Markdown (pure).

use super::model::{Report, RowReport, Source};
use super::text::Text;
use super::words::{
    Words, figures, kind_of, name_of, nothing, still_written, told_together, tools_by_name, totals,
};
use crate::face::LocalTime;
use crate::face::sanitize::one_line;

/// The most tools that are named.
const TOOLS_MAX: usize = 12;

/// Returns the report as Markdown. What programs print is text in it, never markup.
pub(crate) fn markdown(report: &Report, local: LocalTime) -> String {
    let mut words = Words::new(report, local);
    let mut out = String::new();
    if report.is_empty() {
        out.push_str(&escaped(&nothing(report, &mut words)));
        out.push('\n');
        return out;
    }
    let span = words.span(report);
    out.push_str(&format!("# Report of {}\n\n", escaped(&span)));
    out.push_str(&format!("{}\n", escaped(&totals(report).join(" · "))));
    let shown = || report.rows.iter().filter(|row| !row.told_elsewhere);
    if !report.needs_you.is_empty() {
        out.push_str("\n## Needs you\n\n");
    }
    for row in shown().filter(|row| row.needs_you) {
        let mut line = format!("{}: {}", name_of(row), words.end(row));
        if let Some(detail) = &row.end.detail {
            line.push_str(&format!(": {}", detail.as_str()));
        }
        out.push_str(&format!("- {}\n", escaped(&line)));
    }
    for row in shown() {
        push_row(&mut out, row, &mut words);
    }
    let runs: Vec<_> = (report.runs.iter())
        .filter(|run| run.is_worth_a_word())
        .collect();
    let told = told_together(&runs).into_iter();
    let mut lines: Vec<String> = told
        .map(|(who, what, _)| format!("{who}: {what}"))
        .collect();
    lines.extend(report.problems.iter().map(|text| text.as_str().to_owned()));
    lines.extend(still_written(report));
    if !lines.is_empty() {
        out.push_str("\n## Histories\n\n");
    }
    for line in lines {
        out.push_str(&format!("- {}\n", escaped(&line)));
    }
    out
}

fn push_row(out: &mut String, row: &RowReport, words: &mut Words) {
    let heading = format!("{} ({})", name_of(row), kind_of(row));
    out.push_str(&format!("\n## {}\n\n", escaped(&heading)));
    let mut end = words.end(row);
    if let Some(detail) = &row.end.detail {
        end.push_str(&format!(": {}", detail.as_str()));
    }
    out.push_str(&format!("{}\n", escaped(&end)));
    for line in &row.end.lines {
        out.push_str(&format!("\n> {}\n", escaped(line.as_str())));
    }
    let figures = figures(row);
    if !figures.is_empty() {
        out.push_str(&format!("\n{}\n", escaped(&figures.join(" · "))));
    }
    if let Some(tools) = tools_by_name(row, TOOLS_MAX) {
        out.push_str(&format!("\nTools: {}\n", escaped(&tools)));
    }
    for said in &row.summaries {
        let by = match said.source {
            Source::Log => "Summary",
            Source::Transcript => "Its own summary",
        };
        out.push_str(&format!("\n{by}: {}\n", escaped(said.text.as_str())));
    }
    let mut section = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            out.push_str(&format!("\n### {title}\n\n"));
        }
        for line in lines {
            out.push_str(&format!("- {}\n", escaped(&line)));
        }
    };
    let text = |text: &Option<Text>| text.as_ref().map_or("", Text::as_str).to_owned();
    let questions = row.questions.items.iter();
    let questions = questions.map(|of| format!("{}: {}", words.question(of), text(&of.asks)));
    section("Questions", questions.collect());
    let turns = row.turns.items.iter();
    let turns = turns.map(|of| format!("{}: {}", words.turn(of), text(&of.summary)));
    section("Turns", turns.collect());
    let outcomes = row.checks.outcomes.iter().map(|of| words.outcome(of));
    let outcomes = outcomes.map(|(when, what)| format!("{when}: {what}"));
    section("Iterations", outcomes.collect());
    let mut failures = Vec::new();
    let line = |(when, what): (String, String)| format!("{when} {what}");
    for job in &row.jobs.items {
        failures.push(line(words.job(job)));
        failures.extend(job.lines.iter().map(|line| format!("… {}", line.as_str())));
    }
    failures.extend(row.errors.items.iter().map(|of| line(words.error(of))));
    failures.extend(row.gaps.items.iter().map(|of| line(words.gap(of))));
    section("Failures", failures);
}

/// Returns a text as Markdown that shows it as it is, without links.
fn escaped(text: &str) -> String {
    let text = one_line(text);
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let is_markup = "\\`*_{}[]<>#|!&~$@".contains(c);
        // What GitHub's Markdown makes a link.
        let is_link = text[at..].starts_with("://") || c == '.' && matches!(before, 'w' | 'W');
        if is_markup || is_link {
            out.push('\\');
        }
        out.push(c);
        before = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_text_is_text() {
        for (text, expected) in [
            (
                "<script>alert(1)</script>",
                r"\<script\>alert(1)\</script\>",
            ),
            ("[a](https://b.c) **d**", r"\[a\](https\://b.c) \*\*d\*\*"),
            ("www.a.b `c` x@y.z", r"www\.a.b \`c\` x\@y.z"),
            ("a\n# b", r"a \# b"),
        ] {
            assert_eq!(escaped(text), expected);
        }
    }
}
