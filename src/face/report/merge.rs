//! Makes one report of those of several hosts (pure).

use std::collections::HashSet;

use super::build::complete;
use super::end::time_of_day;
use super::model::{COLUMN, Reason, Report, ReportedHost, RowReport, SCHEMA, Totals};
use super::pass::ReportQuery;
use super::text::Text;
use crate::board::bands::Band;
use crate::board::{ExecutionKind, Row, RowKey, RowState};
use crate::face::{LocalTime, row_names};

/// The separator between a host and an id of it.
const SEPARATOR: char = '/';

/// The name of this host among others.
const LOCAL: &str = "local";

/// What became of the report of a host.
#[derive(Debug)]
pub(crate) struct HostReport {
    /// The name of another host; `None` for this one.
    pub host: Option<String>,
    /// The report, or why there is none.
    pub report: Result<Report, String>,
}

/// Returns the reports of several hosts as one, in which what belongs to another host bears its name.
pub(crate) fn merged(hosts: Vec<HostReport>, query: &ReportQuery, mut local: LocalTime) -> Report {
    let is_left_out = query.texts.is_left_out();
    let mut all = Report {
        schema: SCHEMA,
        since: query.since,
        until: query.until,
        metadata_only: is_left_out,
        needs_you: Vec::new(),
        totals: Totals::default(),
        rows: Vec::new(),
        runs: Vec::new(),
        problems: Vec::new(),
        hosts: Vec::new(),
    };
    for (number, HostReport { host, report }) in (1..).zip(hosts) {
        // A name is a text, too.
        let shown = |name: String| {
            if is_left_out {
                number.to_string()
            } else {
                name
            }
        };
        let host = host.map(shown);
        let name = host.clone().unwrap_or_else(|| LOCAL.to_owned());
        let said = |problem: &str| query.texts.take(&format!("{name}: {problem}"));
        all.hosts.push(ReportedHost {
            name: name.clone(),
            is_read: report.is_ok(),
        });
        let mut report = match report {
            Ok(report) => report,
            Err(why) => {
                all.problems.extend(said(&why));
                continue;
            }
        };
        if let Some(host) = &host {
            add_host(&mut report, host, query, &mut local);
        }
        let problems = report.problems.iter();
        all.problems
            .extend(problems.filter_map(|of| said(of.as_str())));
        all.rows.append(&mut report.rows);
        all.runs.append(&mut report.runs);
    }
    // The most urgent first, and otherwise in the order of the hosts.
    let urgency = |row: &RowReport| row.needs_you.then_some(row.state);
    all.rows
        .sort_by_key(|row| (!row.needs_you, row.told_elsewhere, urgency(row)));
    complete(&mut all);
    all
}

/// Names the host in its report, and the rows for people.
fn add_host(report: &mut Report, host: &str, query: &ReportQuery, local: &mut LocalTime) {
    let rows: Vec<Row> = report.rows.iter().map(row_of).collect();
    let titles = row_names(&rows, usize::MAX);
    let columns = row_names(&rows, COLUMN);
    let take = |text: &str| query.texts.take(text);
    let names = titles.iter().zip(&columns);
    for (row, (title, column)) in report.rows.iter_mut().zip(names) {
        if row.name.is_some() {
            row.title = take(&format!("{host}{SEPARATOR}{title}"));
            row.column = take(column);
        }
        name_host(host, &mut row.host, &mut row.execution_id);
        row.id.insert_str(0, &format!("{host}{SEPARATOR}"));
        // The host wrote the time of its own zone.
        let end = &mut row.end;
        if let Some(until) = end.limit_until.filter(|_| end.reason == Reason::Limited) {
            let until = time_of_day(local, until, query.until);
            end.words = format!("limit reached until {until}");
        }
    }
    let is_pane = |row: &&RowReport| row.kind == ExecutionKind::Pane.as_str();
    let panes = report.rows.iter().filter(is_pane);
    let panes: HashSet<String> = panes.map(|row| row.execution_id.clone()).collect();
    for run in &mut report.runs {
        name_host(host, &mut run.host, &mut run.execution_id);
        run.is_observed = panes.contains(&run.execution_id);
    }
}

fn name_host(host: &str, of: &mut Option<String>, id: &mut String) {
    *of = Some(host.to_owned());
    id.insert_str(0, &format!("{host}{SEPARATOR}"));
}

/// Returns a row of the board that has the same name.
fn row_of(row: &RowReport) -> Row {
    let text = |text: &Option<Text>| text.as_ref().map(|text| text.as_str().to_owned());
    let key = RowKey {
        execution_id: row.execution_id.as_str().into(),
        part: text(&row.pane),
    };
    let mut kinds = ExecutionKind::ALL.into_iter();
    let kind = kinds.find(|kind| kind.as_str() == row.kind);
    let kind = kind.unwrap_or(ExecutionKind::Command);
    let mut of = Row::new(&key, text(&row.name).unwrap_or_default(), kind, row.from);
    of.label = text(&row.label);
    if row.state == Band::Ended {
        of.state = RowState::Exited;
    }
    of
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::face::report::{TerminalReport, Texts, arrived, html, markdown};
    use crate::redact::Rules;
    use crate::timestamp::Timestamp;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn query(is_left_out: bool) -> ReportQuery {
        ReportQuery {
            since: at(0),
            until: at(100),
            texts: Texts::new(Rules::builtin(), is_left_out),
        }
    }

    /// Returns the report of a host with one row, as it prints it.
    fn printed(name: &str, needs_you: bool) -> Value {
        let time = |second| at(second).to_string();
        json!({
            "schema": 1, "since": time(0), "until": time(100), "metadata_only": false, "needs_you": ["a", "b"],
            "totals": {"rows": u64::MAX}, "problems": ["cannot read it"], "later": 1,
            "rows": [{
                "id": format!("{name}@1:%0"), "execution_id": format!("{name}@1"), "name": name, "label": null,
                "pane": "%0", "kind": "pane", "agent": "claude", "state": "waiting", "needs_you": needs_you,
                "told_elsewhere": false, "from": time(0), "until": time(100),
                "end": {
                    "reason": "waiting", "words": "waits for an answer", "detail": "Go on?", "at": time(40),
                    "exit_status": null, "limit_until": null, "lines": [],
                },
                "bands": [
                    {"state": "working", "from": time(0), "until": time(40)},
                    {"state": "thinking", "from": time(30), "until": time(50)},
                    {"state": "waiting", "from": time(40), "until": time(100)},
                ],
                "times_ms": {
                    "waiting": 60_000, "error": 0, "limited": 0, "suspended": 0, "done": 0, "working": u64::MAX,
                    "running": 40_000, "unknown": 0, "idle": 0, "not_observed": 0,
                },
                "questions": {"count": 1, "unanswered": 1, "longest_wait_ms": 60_000, "items": []},
                "turns": {"count": u64::MAX, "prompts": 2, "items": []},
                "tools": {"calls": 0, "failed": 0, "by_name": []}, "tokens": null, "cost_usd": 1e300,
                "summaries": [], "checks": {"passed": u64::MAX, "failed": 1, "iterations": 0, "outcomes": []},
                "jobs": {"count": 0, "failed": 0, "items": []}, "errors": {"count": 0, "items": []},
                "gaps": {"count": 0, "possible": 0, "lost_lines": 0, "items": []}, "transcript": null,
            }],
            "runs": [{
                "execution_id": format!("{name}@1"), "state": "running", "foreign": false, "started": time(0),
                "last_event": time(90), "restarts": 1, "dropped_events": 0, "missing_events": 0, "damaged_lines": 0,
                "torn_files": 0, "problems": [],
            }],
        })
    }

    fn read(printed: &Value, is_left_out: bool) -> Result<Report, String> {
        arrived(
            printed.to_string().as_bytes(),
            (at(0), at(100)),
            is_left_out,
        )
    }

    fn of_hosts(is_left_out: bool) -> Report {
        let web = read(&printed("build", false), is_left_out);
        let db = read(&printed("build", true), is_left_out);
        let lost = Err("ssh: no route".to_owned());
        let reports = [("web", web), ("db", db), ("lost", lost)];
        let hosts = reports.map(|(host, report)| HostReport {
            host: Some(host.to_owned()),
            report,
        });
        merged(hosts.into(), &query(is_left_out), LocalTime::of_system())
    }

    #[test]
    fn what_hosts_report_bears_their_names_and_its_figures_are_sums() {
        let report = of_hosts(false);
        let ids: Vec<&str> = report.rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids, ["db/build@1:%0", "web/build@1:%0"]);
        assert_eq!(report.needs_you, ["db/build@1:%0"]);
        assert_eq!(report.runs[0].execution_id, "web/build@1");
        assert_eq!((report.totals.rows, report.totals.needs_you), (2, 1));
        assert_eq!(report.totals.questions, 2);
        let row = &report.rows[0];
        assert_eq!(row.host.as_deref(), Some("db"));
        // A band of a later version, or one that overlaps, is none that this one draws.
        assert_eq!(row.bands.len(), 2);
        assert_eq!(row.cost_usd, None);
        let problems: Vec<&str> = report.problems.iter().map(Text::as_str).collect();
        let expected = [
            "web: cannot read it",
            "db: cannot read it",
            "lost: ssh: no route",
        ];
        assert_eq!(problems, expected);
        let terminal = TerminalReport {
            width: 80,
            is_coloured: false,
            is_verbose: false,
        };
        let shown = terminal.render(&report, LocalTime::of_system());
        for line in [
            "3 hosts, 1 not read · 2 rows",
            "\ndb\n  build ",
            "\nweb\n  build ",
            "\ndb/build (pane, claude)",
        ] {
            assert!(shown.contains(line), "{line:?}: {shown}");
        }
        assert!(shown.contains("its observer was restarted once"), "{shown}");
        let longest = shown.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(80), "{shown}");
        let local = LocalTime::of_system;
        assert!(markdown(&report, local()).contains("## db/build (pane, claude)"));
        assert!(html(&report, local()).contains("<bdi>web/build</bdi>"));
    }

    #[test]
    fn without_texts_a_host_is_a_number_and_what_it_says_is_removed() {
        let report = of_hosts(true);
        let json = serde_json::to_string(&report).unwrap();
        for text in ["web", "Go on?", "claude", "cannot read", "no route"] {
            assert!(!json.contains(text), "{text}: {json}");
        }
        assert_eq!(report.rows[0].host.as_deref(), Some("2"));
        assert!(!report.hosts[2].is_read && !report.is_empty());
    }

    #[test]
    fn what_is_hostile_is_bounded_redacted_and_harmless() {
        let key = format!("ghp_{}", "0123456789".repeat(4));
        let mut foreign = printed(&format!("x\u{1b}[31m{key}"), true);
        let row = foreign["rows"][0].clone();
        foreign["rows"] = vec![row; 10_050].into();
        foreign["rows"][0]["end"]["words"] = "a\nb".repeat(100_000).into();
        foreign["rows"][0]["end"]["lines"] = vec!["x"; 1_000].into();
        foreign["rows"][0]["kind"] = "nonsense".into();
        foreign["rows"][0]["end"]["reason"] = "nonsense".into();
        let report = read(&foreign, false).unwrap();
        assert_eq!(report.rows.len(), 10_000);
        let first = &report.rows[0];
        assert!(first.end.words.len() < 1_000 && !first.end.words.contains('\n'));
        assert_eq!(first.end.lines.len(), 200);
        assert_eq!(first.kind, "command");
        let json = serde_json::to_string(&report).unwrap();
        assert!(!json.contains("0123456789") && !json.contains("\\u001b"));
        let refused = |json: Value| read(&json, false).unwrap_err();
        assert!(refused(json!({"schema": 2})).contains("its format is 2"));
        assert!(refused(json!([])).contains("expected"));
        assert!(refused(json!({"schema": 1})).contains("missing field"));
        let motd = arrived(b"Welcome to web\n{}", (at(0), at(100)), false);
        assert!(motd.unwrap_err().contains("line 1"));
    }
}
