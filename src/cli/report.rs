//! Prints the problems in the report of an engine, one line for each.

use crate::engine::Report;

/// Prints the problems on standard error; returns true if there are any.
pub(super) fn print(report: &Report) -> bool {
    let lines = lines(report);
    for line in &lines {
        super::output::print_message(line);
    }
    !lines.is_empty()
}

/// Prints the number of lines beyond `--max-lines`, if there are any.
pub(super) fn print_lost_lines(lines: u64) {
    let lines = match lines {
        0 => return,
        1 => "1 more line was".to_owned(),
        more => format!("{more} more lines were"),
    };
    message!("{lines} neither shown nor kept: see --max-lines");
}

fn lines(report: &Report) -> Vec<String> {
    let mut lines: Vec<String> = report.panicked.iter().map(ToString::to_string).collect();
    lines.extend(
        report
            .left
            .iter()
            .map(|name| format!("the thread {name} did not end in time")),
    );
    for lost in report.raw.iter().flat_map(|raw| &raw.lost) {
        lines.push(format!(
            "the raw recording of {} in {} is incomplete: {}",
            lost.pane,
            lost.path.display(),
            lost.cause
        ));
    }
    let Some(log) = &report.log else { return lines };
    for lost in &log.lost {
        lines.push(format!(
            "events {} to {} of {} are not in the log {}: {}",
            lost.first_seq,
            lost.last_seq,
            lost.execution_id,
            lost.path.display(),
            lost.cause
        ));
    }
    if log.not_kept > 0 {
        lines.push(format!(
            "{} events belong to no run and were not kept",
            log.not_kept
        ));
    }
    lines.extend(log.problems.iter().map(|notice| notice.message.clone()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{LogReport, LostRun};
    use crate::recording::{LostRecording, RecordingReport};

    #[test]
    fn a_quiet_end_prints_nothing() {
        assert_eq!(lines(&Report::default()), Vec::<String>::new());
    }

    #[test]
    fn losses_are_reported() {
        let lost = LostRun {
            execution_id: "job@1".into(),
            path: "/data/runs/job@1".into(),
            first_seq: 5,
            last_seq: 9,
            cause: "no space left on device".into(),
        };
        let log = LogReport {
            lost: vec![lost],
            ..LogReport::default()
        };
        let recording = LostRecording {
            execution_id: "job@1".into(),
            pane: "%3".into(),
            path: "/data/runs/job@1/raw".into(),
            cause: "no space left on device".to_owned(),
        };
        let raw = RecordingReport {
            lost: vec![recording],
            ..RecordingReport::default()
        };
        let report = Report {
            log: Some(log),
            raw: Some(raw),
            left: vec!["td-coordinator".into()],
            ..Report::default()
        };
        assert_eq!(
            lines(&report),
            [
                "the thread td-coordinator did not end in time",
                "the raw recording of %3 in /data/runs/job@1/raw is incomplete: no space left on device",
                "events 5 to 9 of job@1 are not in the log /data/runs/job@1: no space left on device",
            ]
        );
    }
}
